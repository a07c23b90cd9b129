//! Programs that a measurement runs beside itself, each ended with its value.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::http::{PATIENCE, exchange, free_addresses, is_ok};

const POLL: Duration = Duration::from_millis(20);

/// Starts programs; what they print goes to a folder.
#[derive(Debug)]
pub(crate) struct Bench {
    /// Where configurations and logs are.
    pub(crate) folder: PathBuf,
    /// The core that programs are pinned to; any where absent.
    pub(crate) core: Option<usize>,
}

/// A program that runs.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
}

/// A gateway in a process of its own.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// What runs it.
    pub(crate) process: Process,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    /// Where metrics and duties are.
    pub(crate) admin: SocketAddr,
}

impl Bench {
    /// One with a folder, made if need be, and no core.
    pub(crate) fn new(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder, core: None })
    }

    /// Writes a file that a program reads.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    /// Starts a program. `name` is for its log and for messages.
    pub(crate) fn start(&self, name: &str, program: &Path, arguments: &[&OsStr]) -> Result<Process> {
        let mut command = match self.core {
            Some(core) => {
                let mut command = Command::new("taskset");
                command.arg("-c").arg(core.to_string()).arg(program);
                command
            }
            None => Command::new(program),
        };
        let log = File::create(self.folder.join(format!("{name}.log"))).context("cannot write a log")?;
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        Ok(Process { name: name.to_owned(), child })
    }

    /// Starts `kvroute serve` and waits until it is ready. `settings` is all of its file but the two addresses.
    pub(crate) fn gateway(&self, binary: &Path, name: &str, settings: &str) -> Result<Gateway> {
        let [address, admin] = free_addresses()?;
        let config = self.write(&format!("{name}.yaml"), &format!("listen: {address}\nadmin: {admin}\n{settings}"))?;
        let mut process = self.start(name, binary, &["serve".as_ref(), "--config".as_ref(), config.as_ref()])?;
        process.wait_until_ready(admin, "/readyz")?;
        Ok(Gateway { process, address, admin })
    }
}

impl Process {
    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it answers a GET of `path` with 200.
    pub(crate) fn wait_until_ready(&mut self, address: SocketAddr, path: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !exchange(address, "GET", path, "").is_ok_and(|answer| is_ok(&answer)) {
            let name = &self.name;
            if let Some(status) = self.child.try_wait()? {
                bail!("{name} ended before it was ready ({status})");
            }
            if Instant::now() > deadline {
                bail!("{name} was not ready after {PATIENCE:?}");
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Kills it, with no time to end well.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
