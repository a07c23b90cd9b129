//! How many connections may be open: each costs memory, and a descriptor that the process may be out of.

use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;
use tokio::sync::Notify;

/// Counts the connections of one listener. Where there is no room the listener waits, and clients with it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    open: Gauge,
    left: Arc<Notify>,
}

/// One connection's place in the room.
#[derive(Debug)]
pub(super) struct Place(Room);

impl Room {
    /// A room whose open connections are counted by `open`.
    pub(super) fn new(open: Gauge) -> Self {
        Self { open, left: Arc::default() }
    }

    /// Waits until fewer than `connections_max` places are taken. For one listener at a time, which then takes one.
    pub(super) async fn has_room(&self, connections_max: usize) {
        if self.is_full(connections_max) {
            tracing::warn!(connections_max, "no room for more connections, clients wait (limits.connections_max)");
        }
        while self.is_full(connections_max) {
            self.left.notified().await;
        }
    }

    /// Takes a place.
    pub(super) fn enter(&self) -> Place {
        self.open.inc();
        Place(self.clone())
    }

    fn is_full(&self, connections_max: usize) -> bool {
        usize::try_from(self.open.get()).is_ok_and(|open| open >= connections_max)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.dec();
        self.0.left.notify_one();
    }
}
