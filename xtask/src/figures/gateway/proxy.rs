//! What a request costs in a proxy: kvroute against nginx, both pinned to one core, before replicas that answer at
//! once. The two take turns in short rounds and each round gives one comparison, of which the median counts, because
//! what else runs on a machine comes and goes.

mod events;
mod pair;
mod rounds;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use self::pair::{Pair, Proxy};
use self::rounds::Rounds;
use super::super::figure::{Bar, Figure, Footing, Reading, Source};
use super::super::http::free_addresses;
use super::super::process::Bench;
use super::programs::{self, Cores};
use crate::workspace::Workspace;

const REPLICAS: &str = include_str!("proxy/nginx-replicas.conf");
const CHAT: &str = "xtask/src/figures/gateway/proxy/chat.lua";

const ROUNDS: usize = 7;
const SECONDS: &str = "2s";
const CONNECTIONS: u32 = 32;

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 3] = [
    Figure {
        name: "proxy_cpu",
        group: "gateway",
        unit: "x nginx",
        bar: Some(Bar::AtMost(1.25)),
        footing: Footing::Machine,
        how: "CPU time a request of prefix_aware against nginx: chat bodies of 32 KB, 32 connections, four replicas",
    },
    Figure {
        name: "proxy_added_latency",
        group: "gateway",
        unit: "us",
        bar: Some(Bar::AtMost(30.0)),
        footing: Footing::Machine,
        how: "median time of the same requests on one connection, less nginx's",
    },
    Figure {
        name: "proxy_stream",
        group: "gateway",
        unit: "x nginx",
        bar: Some(Bar::AtMost(1.3)),
        footing: Footing::Machine,
        how: "median time to the end of a stream of 32 events, each written by itself, against nginx with \
              proxy_buffering off",
    },
];

/// What `chat.lua` prints at its end.
#[derive(Debug, Deserialize)]
struct Load {
    requests: u32,
    failed: u32,
    p50_us: f64,
}

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let wrk = programs::find("wrk", "wrk")?;
    let nginx = programs::find("nginx", "nginx-light")?;
    let binary = workspace.release_binary()?;
    let cores = Cores::take()?;
    let mut bench = Bench::new(workspace.target.join("xtask/proxy"))?;
    let stream = events::measure(&mut bench, &nginx, &binary, cores.proxy)?;

    let replicas = free_addresses::<4>()?;
    let listen: String = replicas.iter().map(|address| format!("listen {address};\n")).collect();
    bench.core = Some(cores.around);
    let config = bench.write("nginx-replicas.conf", &REPLICAS.replace("LISTEN", &listen))?;
    let mut upstream = pair::nginx(&bench, "nginx-replicas", &nginx, &config)?;
    upstream.wait_until_ready(replicas[0], "/")?;
    bench.core = Some(cores.proxy);
    let pair = Pair::start(&bench, &nginx, &binary, &replicas, "on")?;
    let load = |proxy: &Proxy, connections| load(&wrk, &workspace.root, proxy, connections);

    let cpu = Rounds::run(ROUNDS, &pair, |proxy| {
        let before = programs::cpu_ns(proxy.process.id())?;
        let requests = load(proxy, CONNECTIONS)?.requests;
        // A thread that ended took its time with it.
        let spent_ns = programs::cpu_ns(proxy.process.id())?.saturating_sub(before);
        Ok(spent_ns as f64 / 1e3 / f64::from(requests))
    })?;
    let latency = Rounds::run(ROUNDS, &pair, |proxy| Ok(load(proxy, 1)?.p50_us))?;
    Ok(vec![
        Reading::new("proxy_cpu", cpu.ratio(), cpu.detail()),
        Reading::new("proxy_added_latency", latency.difference(), latency.detail()),
        Reading::new("proxy_stream", stream.ratio(), stream.detail()),
    ])
}

/// Lets wrk ask a proxy for a while, from the core that this program is on.
fn load(wrk: &Path, root: &Path, proxy: &Proxy, connections: u32) -> Result<Load> {
    let mut command = Command::new(wrk);
    command.args(["-t1", "-c"]).arg(connections.to_string()).args(["-d", SECONDS, "-s"]).arg(root.join(CHAT));
    let output = command.arg(format!("http://{}", proxy.address)).output().context("cannot start wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let Some(line) = text.lines().find(|line| line.starts_with('{')) else {
        bail!("wrk says {:?}", String::from_utf8_lossy(&output.stderr).trim())
    };
    let load: Load = serde_json::from_str(line).context("cannot read what wrk counted")?;
    ensure!(
        load.failed == 0 && load.requests > 0,
        "{}: {} of {} requests failed",
        proxy.name,
        load.failed,
        load.requests
    );
    Ok(load)
}
