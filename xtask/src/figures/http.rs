//! Plain requests over plain sockets, for measurements that must not depend on what an HTTP library tidies up.

use std::io::{self, BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

/// How long anything on loopback may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Above every body that is sent here; a head that declares more is a fault of the gateway.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Ports that nobody listens on, no two alike.
pub(crate) fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let listeners: [_; N] = std::array::from_fn(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for (address, listener) in addresses.iter_mut().zip(listeners) {
        *address = listener.context("no free port on loopback")?.local_addr()?;
    }
    Ok(addresses)
}

/// A connection on which nothing takes longer than [`PATIENCE`].
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let connection = TcpStream::connect_timeout(&address, PATIENCE)?;
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// The bytes of a request with a JSON body and any more header lines, each ended by `\r\n`.
pub(crate) fn request(address: SocketAddr, method: &str, path: &str, more: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{more}\r\n{body}"
    )
    .into_bytes()
}

/// One request on a connection of its own; gives the whole answer.
pub(crate) fn exchange(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut connection = connect(address)?;
    connection.write_all(&request(address, method, path, "connection: close\r\n", body))?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Reads a request to its end; gives its method and its body. `None` once there are no more.
pub(crate) fn read_request(reader: &mut impl BufRead) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let method = line.split(' ').next().unwrap_or_default().to_owned();
    let mut body_bytes = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            body_bytes = value.trim().parse().unwrap_or(0).min(BODY_BYTES_MAX);
        }
    }
    let mut body = Vec::new();
    reader.take(body_bytes).read_to_end(&mut body)?;
    if (body.len() as u64) < body_bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((method, body)))
}

/// Whether an answer's status is 200.
pub(crate) fn is_ok(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ")
}
