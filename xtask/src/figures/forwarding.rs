//! Does a body reach the replica byte for byte? A running `kvroute serve` between a client that writes bytes and a
//! replica that records them, both plain sockets, so that no HTTP library tidies up on either side.

mod cases;
mod recorder;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::cases::Case;
use self::recorder::Recorder;
use super::figure::{Bar, Figure, Footing, Reading, Source};
use crate::say::note;
use crate::workspace::Workspace;

/// How long anything on loopback may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 1] = [Figure {
    name: "unknown_fields_byte_for_byte",
    group: "slice",
    unit: "%",
    bar: Some(Bar::AtLeast(100.0)),
    footing: Footing::Exact,
    how: "bodies with unknown members at every depth, odd white space, escapes, numbers and duplicate keys that a \
          replica received exactly as the client sent them",
}];

/// A gateway in a process of its own, ended with this value.
struct Gateway {
    child: Child,
    address: SocketAddr,
}

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let binary = workspace.release_binary()?;
    let recorder = Recorder::start()?;
    let gateway = Gateway::start(&binary, &workspace.target.join("xtask"), recorder.address)?;
    let cases = cases::all();
    let mut identical = 0;
    for case in &cases {
        match carry(case, &gateway, &recorder) {
            Ok(received) if received == case.body.as_bytes() => identical += 1,
            Ok(_) => note!("    {}, {}: changed on the way", case.path, case.what),
            Err(error) => note!("    {}, {}: {error:#}", case.path, case.what),
        }
    }
    let value = f64::from(identical) / cases.len() as f64 * 100.0;
    Ok(vec![Reading::new("unknown_fields_byte_for_byte", value, format!("{identical} of {} bodies", cases.len()))])
}

/// Sends a body through the gateway; gives what the replica received.
fn carry(case: &Case, gateway: &Gateway, recorder: &Recorder) -> Result<Vec<u8>> {
    recorder.forget();
    let answer = exchange(gateway.address, "POST", case.path, &case.body)?;
    if !is_ok(&answer) {
        bail!("answered {:?}", answer.lines().next().unwrap_or_default());
    }
    recorder.body(PATIENCE)
}

impl Gateway {
    fn start(binary: &Path, folder: &Path, replica: SocketAddr) -> Result<Self> {
        let (address, admin) = (free_address()?, free_address()?);
        let config = folder.join("forwarding.yaml");
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&config, format!("listen: {address}\nadmin: {admin}\nreplicas: ['http://{replica}']\n"))
            .with_context(|| format!("cannot write {}", config.display()))?;
        let log = fs::File::create(folder.join("forwarding.log")).context("cannot write the gateway's log")?;
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(config).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("cannot start the gateway")?;
        let mut gateway = Self { child, address };
        gateway.wait_ready(admin)?;
        Ok(gateway)
    }

    fn wait_ready(&mut self, admin: SocketAddr) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !exchange(admin, "GET", "/readyz", "").is_ok_and(|answer| is_ok(&answer)) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the gateway ended before it was ready ({status})");
            }
            if Instant::now() > deadline {
                bail!("the gateway was not ready after {PATIENCE:?}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on, to be taken at once.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on loopback")?;
    Ok(listener.local_addr()?)
}

/// One request on a connection of its own; gives the whole answer.
fn exchange(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut connection = TcpStream::connect_timeout(&address, PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes())?;
    connection.write_all(body.as_bytes())?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn is_ok(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ")
}
