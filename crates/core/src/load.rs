//! In-flight and pending-prefill counters, and the guard that releases them exactly once.
//!
//! A request counts from the decision that places it (so that a burst sees its own beginning) until its
//! [`Reservation`] is dropped, by whichever comes first of end of body, client disconnect, upstream error, retry or
//! panic. Nothing else lowers a counter: no timer, no health check, no reload.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::breaker::{Failure, Ticket};
use crate::live::Live;
use crate::prompt::PrefixChain;

/// Counters of one replica or copy.
#[derive(Debug, Default)]
pub struct Load {
    in_flight: AtomicU32,
    pending_prefill_tokens: AtomicU64,
    routed: AtomicU64,
    /// round_robin's credit, the bits of an `f64`; read and written under the variant's lock only.
    turn_credit: AtomicU64,
}

impl Load {
    /// Requests placed here and not yet ended.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Estimated uncached prompt tokens of requests placed here that have not had their first content.
    pub fn pending_prefill_tokens(&self) -> u64 {
        self.pending_prefill_tokens.load(Ordering::Relaxed)
    }

    /// Requests ever placed here.
    pub fn routed(&self) -> u64 {
        self.routed.load(Ordering::Relaxed)
    }

    /// What round_robin has saved up for it.
    pub(crate) fn turn_credit(&self) -> f64 {
        f64::from_bits(self.turn_credit.load(Ordering::Relaxed))
    }

    pub(crate) fn set_turn_credit(&self, credit: f64) {
        self.turn_credit.store(credit.to_bits(), Ordering::Relaxed);
    }

    fn add(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.routed.fetch_add(1, Ordering::Relaxed);
    }

    fn add_pending(&self, pending: u64) {
        self.pending_prefill_tokens.fetch_add(pending, Ordering::Relaxed);
    }

    fn remove(&self) {
        let before = self.in_flight.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "in flight goes below zero");
    }

    fn remove_pending(&self, pending: u64) {
        let before = self.pending_prefill_tokens.fetch_sub(pending, Ordering::Relaxed);
        debug_assert!(before >= pending, "pending prefill goes below zero");
    }
}

/// One request's place on a replica, and on a copy where it goes to a component.
#[derive(Debug)]
#[must_use = "dropping the reservation ends the request's place"]
pub struct Reservation {
    replica: Arc<Live>,
    copy: Option<Arc<Live>>,
    /// Whether the copy is an engine of its own.
    is_own_engine: bool,
    pending_prefill_tokens: u64,
    matched_blocks: usize,
    ticket: Ticket,
    /// It has been said how the request went.
    is_judged: bool,
}

impl Reservation {
    /// Takes a place: on the replica, and on a copy if there is one, which may be an engine of its own.
    pub(crate) fn take(replica: Arc<Live>, copy: Option<(Arc<Live>, bool)>, now_us: u64) -> Self {
        replica.load.add();
        let is_own_engine = copy.as_ref().is_some_and(|(_, own)| *own);
        let copy = copy.map(|(copy, _)| copy);
        if let Some(copy) = &copy {
            copy.load.add();
        }
        let engine = copy.as_ref().filter(|_| is_own_engine).unwrap_or(&replica);
        let ticket = engine.breaker.admit(now_us);
        let (pending_prefill_tokens, matched_blocks) = (0, 0);
        Self { replica, copy, is_own_engine, pending_prefill_tokens, matched_blocks, ticket, is_judged: false }
    }

    /// What lives at the address that gets the request: the copy where it is an engine of its own, else the replica.
    pub fn engine(&self) -> &Live {
        match &self.copy {
            Some(copy) if self.is_own_engine => copy,
            _ => &self.replica,
        }
    }

    /// The request went well. Of this and [`Reservation::failed`] the first that is said counts, the others say nothing.
    pub fn succeeded(&mut self, now_us: u64) {
        if !std::mem::replace(&mut self.is_judged, true) {
            self.engine().breaker.succeeded(&self.ticket, now_us);
        }
    }

    /// The request failed, and what gave it its place is to blame. Says whether that is ejected because of it.
    pub fn failed(&mut self, failure: Failure, now_us: u64) -> bool {
        !std::mem::replace(&mut self.is_judged, true) && self.engine().breaker.failed(&self.ticket, failure, now_us)
    }

    /// The prompt is on its way there: from now on it is believed to be held. `matched_blocks` is how much of it was
    /// before, `pending_prefill_tokens` the work to be done before the first token.
    pub(crate) fn expect_held(&mut self, chain: &PrefixChain, matched_blocks: usize, pending_prefill_tokens: u64) {
        self.matched_blocks = matched_blocks;
        self.pending_prefill_tokens = pending_prefill_tokens;
        self.replica.load.add_pending(pending_prefill_tokens);
        if let Some(copy) = &self.copy {
            copy.load.add_pending(pending_prefill_tokens);
        }
        self.engine().cache.insert(chain);
    }

    /// The prompt did not get there: what was believed only because of it is believed no longer.
    pub fn never_arrived(&self, chain: &PrefixChain) {
        self.engine().cache.forget(chain, self.matched_blocks);
    }

    /// The first content has arrived: the prefill is no longer pending. Calling it again changes nothing.
    pub fn first_content(&mut self) {
        let pending = std::mem::take(&mut self.pending_prefill_tokens);
        self.replica.load.remove_pending(pending);
        if let Some(copy) = &self.copy {
            copy.load.remove_pending(pending);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.first_content();
        self.replica.load.remove();
        if let Some(copy) = &self.copy {
            copy.load.remove();
        }
        self.engine().breaker.give_back(&self.ticket);
    }
}
