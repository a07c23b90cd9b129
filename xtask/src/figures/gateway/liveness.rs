//! How soon the gateway says that it lives while two thousand streams are open: an orchestrator that has to wait for
//! it kills the process, and every stream with it.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::super::answer::sum_of;
use super::super::figure::{Bar, Figure, Footing, Reading, Source, count};
use super::super::http::{connect, exchange, is_ok, request};
use super::super::process::Bench;
use super::engines::{self, Engines};
use crate::workspace::Workspace;

const STREAMS: usize = 2_000;
/// Each runs 256 requests at a time.
const ENGINES: usize = 8;
const PROBES: usize = 1_000;
const PROBE_PAUSE: Duration = Duration::from_millis(5);
/// How often streams are read; what comes meanwhile is kept by the system.
const READ_PAUSE: Duration = Duration::from_millis(50);
/// Until all have begun: the engines are slow, so that they do not take the machine for themselves.
const BEGIN_TIME_MAX: Duration = Duration::from_secs(60);
/// Sockets of this program, or of the gateway: one for each client and one for each replica's side, and some more.
const OPEN_FILES_MIN: u64 = 2 * STREAMS as u64 + 500;
const SETTINGS: &str = "routing: {strategy: least_outstanding}\n";

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 1] = [Figure {
    name: "livez_p99",
    group: "gateway",
    unit: "ms",
    bar: Some(Bar::AtMost(50.0)),
    footing: Footing::Machine,
    how: "99th percentile of GET /livez, each on a connection of its own, with 2,000 open streams of simulated engines",
}];

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    ensure_open_files()?;
    let engines = Engines { binary: workspace.release_binary()?, speed: "0.05" };
    let bench = Bench::new(workspace.target.join("xtask/liveness"))?;
    let started = engines.start_all::<ENGINES>(&bench)?;
    let settings = format!("{SETTINGS}{}", engines::replicas(started.iter().map(|(address, _)| address)));
    let gateway = bench.gateway(&engines.binary, "gateway", &settings)?;

    let mut streams = open(gateway.address)?;
    let is_over = AtomicBool::new(false);
    let (times_ms, in_flight) = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                streams.iter_mut().for_each(|stream| _ = read_some(stream));
                thread::sleep(READ_PAUSE);
            }
        });
        let measured = probe(gateway.address).and_then(|times_ms| Ok((times_ms, in_flight(gateway.admin)?)));
        is_over.store(true, Ordering::Release);
        measured
    })?;
    ensure!(in_flight == STREAMS as f64, "{in_flight} of {STREAMS} streams are open at the end");
    let detail = format!("median {:.2} ms, {} probes", percentile(&times_ms, 50), count(PROBES as u64));
    Ok(vec![Reading::new("livez_p99", percentile(&times_ms, 99), detail)])
}

/// Opens all streams, and waits until each has begun.
fn open(gateway: SocketAddr) -> Result<Vec<TcpStream>> {
    let body = r#"{"model": "m", "stream": true, "max_tokens": 4000, "ignore_eos": true, "messages": [{"role": "user", "content": "Hello."}]}"#;
    let request = request(gateway, "POST", "/v1/chat/completions", "", body);
    let mut waiting = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        let mut stream = connect(gateway).context("cannot open a stream")?;
        stream.write_all(&request)?;
        stream.set_nonblocking(true)?;
        waiting.push(stream);
    }
    let deadline = Instant::now() + BEGIN_TIME_MAX;
    let mut begun = Vec::with_capacity(STREAMS);
    while !waiting.is_empty() {
        ensure!(Instant::now() < deadline, "{} of {STREAMS} streams have begun in time", begun.len());
        let (has_begun, others) = waiting.into_iter().partition(|mut stream| read_some(&mut stream) > 0);
        waiting = others;
        begun.extend(has_begun);
        thread::sleep(READ_PAUSE);
    }
    Ok(begun)
}

/// Takes what has come, at most a few events; gives how many bytes that were.
fn read_some(mut stream: impl Read) -> usize {
    // Nothing there yet, or an end that the gateway's own count will show.
    stream.read(&mut [0; 4 << 10]).unwrap_or(0)
}

/// Times to the whole answer, ascending.
fn probe(gateway: SocketAddr) -> Result<Vec<f64>> {
    let mut times_ms = Vec::with_capacity(PROBES);
    for _ in 0..PROBES {
        let asked = Instant::now();
        let answer: io::Result<String> = exchange(gateway, "GET", "/livez", "");
        times_ms.push(asked.elapsed().as_secs_f64() * 1e3);
        ensure!(answer.is_ok_and(|answer| is_ok(&answer)), "the gateway did not say that it lives");
        thread::sleep(PROBE_PAUSE);
    }
    times_ms.sort_by(f64::total_cmp);
    Ok(times_ms)
}

fn percentile(ascending: &[f64], percent: usize) -> f64 {
    ascending[(ascending.len() * percent / 100).min(ascending.len() - 1)]
}

fn in_flight(admin: SocketAddr) -> Result<f64> {
    let page = exchange(admin, "GET", "/metrics", "").context("cannot read the gateway's metrics")?;
    Ok(sum_of(&page, "kvroute_replica_in_flight_requests"))
}

fn ensure_open_files() -> Result<()> {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    // A system that does not tell may do.
    let Some(limit) = open_files(&limits) else { return Ok(()) };
    ensure!(
        limit >= OPEN_FILES_MIN,
        "{OPEN_FILES_MIN} files must be open at a time and {limit} may: raise it with ulimit -n"
    );
    Ok(())
}

/// The limit in force; `None` where there is none.
fn open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_open_files_is_read() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024         524288       files\n";
        assert_eq!(open_files(limits), Some(1024));
        assert_eq!(open_files("Max open files   unlimited   unlimited   files"), None);
        assert_eq!(open_files(""), None);
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let ascending: Vec<f64> = (0..500).map(f64::from).collect();
        assert_eq!(percentile(&ascending, 50), 250.0);
        assert_eq!(percentile(&ascending, 99), 495.0);
        assert_eq!(percentile(&[7.0], 99), 7.0);
    }
}
