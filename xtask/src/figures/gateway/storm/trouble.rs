//! What happens to the fleet during the storm.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kvroute_core::moment::Entropy;

use super::super::super::http::{exchange, is_ok};
use super::super::super::process::{Bench, Process};
use super::super::engines::Engines;
use super::ledger::Ledger;

const SEED: u64 = 1;
const PAUSE_MS: u32 = 300;
const PAUSE_MS_MORE: u32 = 400;

/// What is needed to make trouble.
#[derive(Debug)]
pub(super) struct Trouble<'a> {
    pub(super) bench: &'a Bench,
    pub(super) engines: &'a Engines,
    pub(super) admin: SocketAddr,
    pub(super) ledger: &'a Ledger,
}

/// The death of an engine.
#[derive(Debug)]
pub(super) struct Kill {
    /// The replica's id.
    pub(super) replica: String,
    /// When.
    pub(super) at: Instant,
}

impl Trouble<'_> {
    /// Round after round until it is over, each of which leaves everything up and ready. Gives the kills.
    pub(super) fn make(&self, started: &mut [(SocketAddr, Process)], is_over: &AtomicBool) -> Result<Vec<Kill>> {
        let mut entropy = Entropy::new(SEED);
        let mut kills = Vec::new();
        while !is_over.load(Ordering::Acquire) {
            // In turn, so that each has come back to its work when it is killed again.
            let killed = kills.len() % started.len();
            kills.push(self.round(started, killed, &mut entropy)?);
        }
        Ok(kills)
    }

    /// Drains one replica; while it is drained, kills the engine of another and starts it again.
    fn round(&self, started: &mut [(SocketAddr, Process)], killed: usize, entropy: &mut Entropy) -> Result<Kill> {
        let others = started.len() - 1;
        let drained = (killed + 1 + entropy.below(others as u32) as usize) % started.len();
        let drained = started[drained].0;
        let mut pause = || {
            let ms = PAUSE_MS + entropy.below(PAUSE_MS_MORE);
            thread::sleep(Duration::from_millis(ms.into()));
        };
        self.set_duty(drained, "drain")?;
        pause();
        let (address, process) = &mut started[killed];
        self.ledger.add(*address)?;
        let kill = Kill { replica: address.to_string(), at: Instant::now() };
        process.kill();
        pause();
        *process = self.engines.start(self.bench, *address)?;
        pause();
        self.set_duty(drained, "ready")?;
        pause();
        Ok(kill)
    }

    fn set_duty(&self, replica: SocketAddr, duty: &str) -> Result<()> {
        let answer = exchange(self.admin, "POST", &format!("/api/v1/replicas/{replica}/{duty}"), "");
        let answer = answer.context("cannot ask the admin port")?;
        ensure!(is_ok(&answer), "{replica} cannot be set to {duty}: {answer}");
        Ok(())
    }
}
