//! How the rest of the server talks to the engine's task.
//!
//! Both channels are unbounded, and bounded all the same: commands by the number of requests that are
//! let in, progress by the length of the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::metrics::Metrics;
use super::sequence::Sequence;
use crate::model::{FinishReason, Preset};

/// What a request learns of its own fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The engine began, with so many prompt tokens cached.
    Scheduled {
        /// Fewer than the prompt has.
        cached_tokens: u32,
    },
    /// The next token of the answer is there.
    Token,
    /// Nothing follows.
    Finished(FinishReason),
}

/// See the module.
pub(super) struct Handle {
    commands: UnboundedSender<Command>,
    metrics: Arc<Mutex<Metrics>>,
    slots: Arc<Semaphore>,
    slots_max: usize,
    next_id: AtomicU64,
    preset: Preset,
}

/// The right to have one request answered. A request of several inputs shares one.
#[derive(Clone)]
pub(super) struct Slot {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// A submitted request. Dropped before its end, it is aborted: that is what a client's disconnect
/// comes to, at whatever point.
pub(super) struct Ticket {
    id: u64,
    commands: UnboundedSender<Command>,
    progress: UnboundedReceiver<Progress>,
    finished: bool,
    _slot: Slot,
}

/// What the engine's task is told to do.
pub(super) enum Command {
    Submit { id: u64, sequence: Arc<Sequence>, progress: UnboundedSender<Progress> },
    Abort { id: u64 },
    ClearCache { done: oneshot::Sender<bool> },
}

impl Handle {
    /// A handle, what its commands come out of, and the metrics that it shows. At most `requests_max`
    /// requests hold a slot at a time.
    pub(super) fn new(preset: Preset, requests_max: usize) -> (Self, UnboundedReceiver<Command>, Arc<Mutex<Metrics>>) {
        let (commands, receiver) = unbounded_channel();
        let metrics = Arc::new(Mutex::new(Metrics::default()));
        let handle = Self {
            commands,
            metrics: Arc::clone(&metrics),
            slots: Arc::new(Semaphore::new(requests_max)),
            slots_max: requests_max,
            next_id: AtomicU64::new(1),
            preset,
        };
        (handle, receiver, metrics)
    }

    /// The right to one more request; `None` when too many are being answered.
    pub(super) fn slot(&self) -> Option<Slot> {
        Arc::clone(&self.slots).try_acquire_owned().ok().map(|permit| Slot { _permit: Arc::new(permit) })
    }

    /// Requests being answered.
    pub(super) fn in_flight(&self) -> usize {
        self.slots_max - self.slots.available_permits()
    }

    /// The engine's preset, as the model reads it.
    pub(super) fn preset(&self) -> &Preset {
        &self.preset
    }

    /// What the engine counted. The engine waits while this is held.
    pub(super) fn metrics(&self) -> parking_lot::MutexGuard<'_, Metrics> {
        self.metrics.lock()
    }

    /// Sends a request to the engine.
    pub(super) fn submit(&self, slot: Slot, sequence: Arc<Sequence>) -> Ticket {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, progress) = unbounded_channel();
        // If the engine's task is gone, so is the sender, and the ticket ends without a token.
        let _ = self.commands.send(Command::Submit { id, sequence, progress: sender });
        Ticket { id, commands: self.commands.clone(), progress, finished: false, _slot: slot }
    }

    /// Empties the prefix cache. False when requests hold blocks, and nothing changed.
    pub(super) async fn clear_cache(&self) -> bool {
        let (done, cleared) = oneshot::channel();
        let _ = self.commands.send(Command::ClearCache { done });
        cleared.await.unwrap_or(false)
    }
}

impl Ticket {
    /// Names the request within this engine.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The next piece of news; `None` if the engine is gone.
    pub(super) async fn progress(&mut self) -> Option<Progress> {
        std::future::poll_fn(|context| self.poll_progress(context)).await
    }

    /// As [`progress`](Self::progress), for use in a poll.
    pub(super) fn poll_progress(&mut self, context: &mut Context<'_>) -> Poll<Option<Progress>> {
        let progress = std::task::ready!(self.progress.poll_recv(context));
        self.finished |= matches!(progress, None | Some(Progress::Finished(_)));
        Poll::Ready(progress)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.commands.send(Command::Abort { id: self.id });
        }
    }
}
