//! Ten thousand requests of which a third of the clients leave, while engines are killed and started again and
//! replicas drained and brought back: no counter may be left, nothing generated twice, nothing lost that need not be.

mod client;
mod ledger;
mod trouble;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use self::client::{Ended, Ending};
use self::ledger::Ledger;
use self::trouble::{Kill, Trouble};
use super::super::answer::sum_of;
use super::super::figure::{Bar, Figure, Footing, Reading, Source, count};
use super::super::http::{PATIENCE, exchange};
use super::super::process::Bench;
use super::engines::{self, Engines};
use crate::say::note;
use crate::workspace::Workspace;

const REQUESTS: u32 = 10_000;
const CLIENTS: usize = 64;
/// Enough that some are always there: an engine whose requests failed gets none for five seconds or more.
const ENGINES: usize = 8;
/// An engine that is killed resets its connections within this time, and its requests end.
const KILL_SLACK: Duration = Duration::from_millis(250);
/// Small enough that homes are left, checks often enough that engines are back in time to be killed again.
const SETTINGS: &str = "routing: {concurrency_threshold: 8}\nhealth: {interval_ms: 500}\n";

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 3] = [
    figure("storm_in_flight_left", "counts", "requests in flight and tokens of pending prefill that are left after it"),
    figure(
        "storm_answered_twice",
        "requests",
        "10,000 requests over eight engines, a third of the clients leave, engines are killed and replicas drained: \
         requests that reached more than one engine",
    ),
    figure(
        "storm_lost",
        "requests",
        "of clients that stayed, those without a whole answer though the engine that they were on was not killed",
    ),
];

const fn figure(name: &'static str, unit: &'static str, how: &'static str) -> Figure {
    Figure { name, group: "gateway", unit, bar: Some(Bar::AtMost(0.0)), footing: Footing::Simulated, how }
}

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let engines = Engines { binary: workspace.release_binary()?, speed: "5" };
    let bench = Bench::new(workspace.target.join("xtask/storm"))?;
    let mut started = engines.start_all::<ENGINES>(&bench)?;
    let settings = format!("{SETTINGS}{}", engines::replicas(started.iter().map(|(address, _)| address)));
    let gateway = bench.gateway(&engines.binary, "gateway", &settings)?;
    let is_over = AtomicBool::new(false);
    let ledger = Ledger::default();
    let trouble = Trouble { bench: &bench, engines: &engines, admin: gateway.admin, ledger: &ledger };

    let (ended, kills) = thread::scope(|scope| {
        let trouble = scope.spawn(|| trouble.make(&mut started, &is_over));
        let ended = requests(gateway.address);
        is_over.store(true, Ordering::Release);
        (ended, trouble.join().expect("does not panic"))
    });
    let kills = kills?;
    let left = left(gateway.admin)?;
    for (address, _) in &started {
        ledger.add(*address)?;
    }
    Ok(readings(&ended, &kills, left, &ledger))
}

/// All requests; gives how they ended.
fn requests(gateway: SocketAddr) -> Vec<Ended> {
    let next = AtomicU32::new(0);
    let numbers = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < REQUESTS);
    thread::scope(|scope| {
        let client = || std::iter::from_fn(numbers).map(|number| client::play(gateway, number)).collect::<Vec<_>>();
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("does not panic")).collect()
    })
}

/// What the counters of all replicas add up to, once they do not fall any more or are zero.
fn left(admin: SocketAddr) -> Result<f64> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let page = exchange(admin, "GET", "/metrics", "").context("cannot read the gateway's metrics")?;
        let left = ["kvroute_replica_in_flight_requests", "kvroute_replica_pending_prefill_tokens"]
            .map(|metric| sum_of(&page, metric));
        let left = left[0] + left[1];
        if left == 0.0 || Instant::now() > deadline {
            return Ok(left);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn readings(ended: &[Ended], kills: &[Kill], left: f64, ledger: &Ledger) -> Vec<Reading> {
    let how_many = |ending| ended.iter().filter(|ended| ended.ending == ending).count();
    let lost: Vec<&Ended> = ended.iter().filter(|ended| is_lost(ended, kills)).collect();
    for lost in lost.iter().take(10) {
        note!("    lost: request {}, {lost:?}", lost.number);
    }
    let twice = ledger.more_than_once();
    for id in twice.iter().take(10) {
        note!("    more than once: request {id}");
    }
    let of = |number: usize| count(number as u64);
    let summary = format!(
        "{} answered, {} left, {} failed with one of {} killed engines",
        of(how_many(Ending::Answered)),
        of(how_many(Ending::Left)),
        of(how_many(Ending::Failed) - lost.len().min(how_many(Ending::Failed))),
        of(kills.len())
    );
    vec![
        Reading::new("storm_in_flight_left", left, String::new()),
        Reading::new("storm_answered_twice", twice.len() as f64, format!("{} were seen", of(ledger.requests()))),
        Reading::new("storm_lost", lost.len() as f64, summary),
    ]
}

/// Whether a request failed though nothing happened to its engine; to any engine, where it is not said which it was.
fn is_lost(ended: &Ended, kills: &[Kill]) -> bool {
    let may_have_hit = |kill: &Kill| {
        let is_there = ended.replica.as_ref().is_none_or(|replica| *replica == kill.replica);
        is_there && kill.at + KILL_SLACK >= ended.begun && kill.at <= ended.at
    };
    match ended.ending {
        Ending::Answered | Ending::Left => false,
        Ending::Failed => !kills.iter().any(may_have_hit),
        Ending::Silent => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_excused_only_by_a_kill_of_its_own_engine_while_it_was_there() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let kills = [Kill { replica: "a".to_owned(), at: at(5_000) }];
        let failed = |replica: Option<&str>, begun, ended| Ended {
            number: 1,
            begun: at(begun),
            at: at(ended),
            replica: replica.map(str::to_owned),
            ending: Ending::Failed,
        };
        let cases = [
            (failed(Some("a"), 4_900, 5_100), false),
            (failed(None, 4_900, 5_100), false),
            (failed(Some("b"), 4_900, 5_100), true),
            (failed(Some("a"), 4_000, 4_900), true),
            (failed(Some("a"), 6_000, 6_100), true),
            (Ended { ending: Ending::Silent, ..failed(Some("a"), 4_900, 5_100) }, true),
            (Ended { ending: Ending::Left, ..failed(Some("b"), 1, 2) }, false),
        ];
        for (ended, expected) in cases {
            assert_eq!(is_lost(&ended, &kills), expected, "{ended:?}");
        }
    }
}
