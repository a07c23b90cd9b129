//! In-flight and pending-prefill counters, and the guard that releases them exactly once.
//!
//! A request counts from the decision that places it (so that a burst sees its own beginning) until its
//! [`Reservation`] is dropped, by whichever comes first of end of body, client disconnect, upstream error, retry or
//! panic. Nothing else lowers a counter: no timer, no health check, no reload.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::fleet::Live;

/// Counters of one replica or copy.
#[derive(Debug, Default)]
pub struct Load {
    in_flight: AtomicU32,
    pending_prefill_tokens: AtomicU64,
    routed: AtomicU64,
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

    fn add(&self, pending: u64) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.pending_prefill_tokens.fetch_add(pending, Ordering::Relaxed);
        self.routed.fetch_add(1, Ordering::Relaxed);
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
    copy: Option<Arc<Load>>,
    pending_prefill_tokens: u64,
}

impl Reservation {
    /// Takes a place. `pending_prefill_tokens` is the work the replica must do before its first token.
    pub(crate) fn take(replica: Arc<Live>, copy: Option<Arc<Load>>, pending_prefill_tokens: u64) -> Self {
        replica.load.add(pending_prefill_tokens);
        if let Some(copy) = &copy {
            copy.add(pending_prefill_tokens);
        }
        Self { replica, copy, pending_prefill_tokens }
    }

    /// The replica on which the place is.
    pub fn replica(&self) -> &Live {
        &self.replica
    }

    /// The first content has arrived: the prefill is no longer pending. Calling it again changes nothing.
    pub fn first_content(&mut self) {
        let pending = std::mem::take(&mut self.pending_prefill_tokens);
        self.replica.load.remove_pending(pending);
        if let Some(copy) = &self.copy {
            copy.remove_pending(pending);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.first_content();
        self.replica.load.remove();
        if let Some(copy) = &self.copy {
            copy.remove();
        }
    }
}
