//! A replica that answers every request and keeps the body bytes of each POST.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::super::http::read_request;

const ANSWER: &str = r#"{"object": "chat.completion", "choices": []}"#;
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
    let Some((method, body)) = read_request(&mut BufReader::new(connection))? else { return Ok(()) };
    if method == "POST" {
        // The receiver is gone when the measurement is over.
        let _ = bodies.send(body);
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        ANSWER.len()
    );
    connection.write_all(format!("{head}{ANSWER}").as_bytes())
}
