//! A replica that answers every request and keeps the body bytes of each POST.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

const ANSWER: &str = r#"{"object": "chat.completion", "choices": []}"#;
/// Above every case; a head that declares more is a fault of the gateway.
const BODY_BYTES_MAX: usize = 1 << 20;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A replica on loopback. Its threads end with this program.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    bodies: Receiver<Vec<u8>>,
}

impl Recorder {
    /// Starts to listen.
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
        let address = listener.local_addr()?;
        let (sender, bodies) = mpsc::channel();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let sender = sender.clone();
                // A connection that breaks shows as a body that never came.
                thread::spawn(move || serve(&connection, &sender));
            }
        });
        Ok(Self { address, bodies })
    }

    /// Forgets what has arrived so far.
    pub(crate) fn forget(&self) {
        while self.bodies.try_recv().is_ok() {}
    }

    /// The next body that arrives.
    pub(crate) fn body(&self, patience: Duration) -> Result<Vec<u8>> {
        self.bodies.recv_timeout(patience).context("no body reached the replica")
    }
}

/// Answers one request and closes, so that each connection carries one body.
fn serve(mut connection: &TcpStream, bodies: &Sender<Vec<u8>>) -> io::Result<()> {
    connection.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let is_post = line.starts_with("POST ");
    let mut body_bytes = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            body_bytes = value.trim().parse().unwrap_or(0).min(BODY_BYTES_MAX);
        }
    }
    let mut body = vec![0; body_bytes];
    reader.read_exact(&mut body)?;
    if is_post {
        // The receiver is gone when the measurement is over.
        let _ = bodies.send(body);
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        ANSWER.len()
    );
    connection.write_all(format!("{head}{ANSWER}").as_bytes())
}
