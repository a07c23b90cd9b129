//! Simulated engines, each in a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::super::http::free_addresses;
use super::super::process::{Bench, Process};

/// How engines are started.
#[derive(Debug)]
pub(super) struct Engines {
    /// The binary.
    pub(super) binary: PathBuf,
    /// Virtual seconds a real second.
    pub(super) speed: &'static str,
}

impl Engines {
    /// Starts one at this address, and waits until it is ready.
    pub(super) fn start(&self, bench: &Bench, address: SocketAddr) -> Result<Process> {
        let (listen, binary): (_, &Path) = (address.to_string(), &self.binary);
        let arguments = ["engine", "--model", "m", "--allow-injection", "--speed", self.speed, "--listen", &listen];
        let mut process = bench.start(&format!("engine-{}", address.port()), binary, &arguments.map(str::as_ref))?;
        process.wait_until_ready(address, "/health")?;
        Ok(process)
    }

    /// Starts several.
    pub(super) fn start_all<const N: usize>(&self, bench: &Bench) -> Result<[(SocketAddr, Process); N]> {
        let addresses = free_addresses::<N>()?;
        let started = addresses.iter().map(|&address| Ok((address, self.start(bench, address)?)));
        let started: Vec<_> = started.collect::<Result<_>>()?;
        Ok(started.try_into().expect("as many as addresses"))
    }
}

/// The line of a configuration that lists them.
pub(super) fn replicas<'a>(addresses: impl IntoIterator<Item = &'a SocketAddr>) -> String {
    let urls: Vec<String> = addresses.into_iter().map(|address| format!("'http://{address}'")).collect();
    format!("replicas: [{}]\n", urls.join(", "))
}
