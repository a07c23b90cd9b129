//! The two proxies that are compared.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use super::super::super::http::free_addresses;
use super::super::super::process::{Bench, Process};
use super::super::engines;

const NGINX: &str = include_str!("nginx.conf");

/// A running proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    /// For messages.
    pub(super) name: &'static str,
    /// Where it listens.
    pub(super) address: SocketAddr,
    /// What runs it.
    pub(super) process: Process,
}

/// nginx and kvroute before the same replicas.
#[derive(Debug)]
pub(super) struct Pair {
    /// The yardstick.
    pub(super) nginx: Proxy,
    /// Ours.
    pub(super) kvroute: Proxy,
}

impl Pair {
    /// Starts both on the core of `bench`. `buffering` is nginx's, `on` or `off`.
    pub(super) fn start(
        bench: &Bench,
        nginx_program: &Path,
        kvroute: &Path,
        replicas: &[SocketAddr],
        buffering: &str,
    ) -> Result<Self> {
        let [address] = free_addresses()?;
        let servers: String = replicas.iter().map(|replica| format!("server {replica};\n")).collect();
        let text = NGINX.replace("REPLICAS", &servers).replace("LISTEN", &address.to_string());
        let config = bench.write("nginx.conf", &text.replace("BUFFERING", buffering))?;
        let mut process = nginx(bench, "nginx", nginx_program, &config)?;
        process.wait_until_ready(address, "/health")?;
        let nginx = Proxy { name: "nginx", address, process };

        let gateway = bench.gateway(kvroute, "kvroute", &engines::replicas(replicas))?;
        let kvroute = Proxy { name: "kvroute", address: gateway.address, process: gateway.process };
        Ok(Self { nginx, kvroute })
    }
}

/// Starts nginx with a configuration; its files go to the folder of `bench`.
pub(super) fn nginx(bench: &Bench, name: &str, program: &Path, config: &Path) -> Result<Process> {
    bench.start(name, program, &["-p".as_ref(), bench.folder.as_ref(), "-c".as_ref(), config.as_ref()])
}
