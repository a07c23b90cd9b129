//! Streams of 32 events, one after the other on one connection. The replica writes each event by itself and as fast
//! as it can, so what passes at once and what waits is up to the proxy.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::super::super::http::{connect, read_request, request};
use super::super::super::process::Bench;
use super::pair::{Pair, Proxy};
use super::rounds::{Rounds, median};

const ROUNDS: usize = 11;
const STREAMS: usize = 300;
const EVENTS: usize = 32;
const PROMPT_BYTES: usize = 2 << 10;
/// Ends the answer, and nothing before it does.
const END: &[u8] = b"\r\n0\r\n\r\n";

/// Compares the medians of times to the end of a stream, in microseconds.
pub(super) fn measure(bench: &mut Bench, nginx: &Path, kvroute: &Path, core: usize) -> Result<Rounds> {
    let replica = start_replica()?;
    bench.core = Some(core);
    let pair = Pair::start(bench, nginx, kvroute, &[replica], "off")?;
    Rounds::run(ROUNDS, &pair, streams)
}

fn streams(proxy: &Proxy) -> Result<f64> {
    let prompt = "a prompt ".repeat(PROMPT_BYTES / 9);
    let body = format!(r#"{{"model": "m", "stream": true, "messages": [{{"role": "user", "content": "{prompt}"}}]}}"#);
    let request = request(proxy.address, "POST", "/v1/chat/completions", "", &body);
    let mut connection = connect(proxy.address).with_context(|| format!("cannot connect to {}", proxy.name))?;
    let mut times_us = Vec::with_capacity(STREAMS);
    let mut answer = Vec::new();
    for _ in 0..STREAMS {
        let asked = Instant::now();
        read_stream(&mut connection, &request, &mut answer).with_context(|| format!("a stream of {}", proxy.name))?;
        times_us.push(asked.elapsed().as_secs_f64() * 1e6);
        let events = answer.windows(6).filter(|bytes| bytes == b"data: ").count();
        ensure!(events == EVENTS, "{} passed {events} events of {EVENTS}", proxy.name);
    }
    Ok(median(times_us))
}

fn read_stream(connection: &mut TcpStream, request: &[u8], answer: &mut Vec<u8>) -> io::Result<()> {
    connection.write_all(request)?;
    answer.clear();
    let mut piece = [0; 16 << 10];
    while !answer.ends_with(END) {
        match connection.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => answer.extend_from_slice(&piece[..bytes]),
        }
    }
    Ok(())
}

/// A replica whose threads end with this program.
fn start_replica() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // A connection that breaks shows as a stream that does not end.
            thread::spawn(move || serve(&connection));
        }
    });
    Ok(address)
}

/// Answers a POST with a stream and anything else with nothing, until the other side closes.
fn serve(mut connection: &TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    let event = |data: &str| format!("{:x}\r\ndata: {data}\n\n\r\n", data.len() + 8);
    let content = r#"{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m", "choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": null}]}"#;
    let (content, done) = (event(content), event("[DONE]"));
    loop {
        let Some((method, _)) = read_request(&mut reader)? else { return Ok(()) };
        if method != "POST" {
            connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        }
        connection
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
        for _ in 1..EVENTS {
            connection.write_all(content.as_bytes())?;
        }
        connection.write_all(done.as_bytes())?;
        connection.write_all(b"0\r\n\r\n")?;
    }
}
