//! Runs the model in real time: one task an engine.
//!
//! The task owns the model. It sleeps until the model's next event or a command, brings the model to
//! the present and hands its events to the requests they concern. Nothing is scheduled for a single
//! token. When the machine is late, virtual time catches up in one go and keeps its own intervals.
//!
//! Both channels are unbounded, and bounded all the same: commands by the number of requests that are
//! let in, progress by the length of the answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::clock::Clock;
use super::kv_events::KvEvents;
use super::metrics::Metrics;
use super::sequence::{Ending, Sequence};
use crate::model::{Engine, Event, FinishReason, Micros, Preset};

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

/// How the rest of the server talks to the engine.
pub(super) struct Handle {
    commands: UnboundedSender<Command>,
    metrics: Arc<Mutex<Metrics>>,
    slots: Arc<Semaphore>,
    slots_max: usize,
    next_id: AtomicU64,
    preset: Preset,
}

/// The right to have one request answered.
pub(super) struct Slot {
    _permit: OwnedSemaphorePermit,
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

/// See the module.
pub(super) struct Driver {
    engine: Engine,
    clock: Clock,
    kv_events: Option<KvEvents>,
    metrics: Arc<Mutex<Metrics>>,
    requests: BTreeMap<u64, Live>,
    /// Kept for its capacity.
    events: Vec<Event>,
}

enum Command {
    Submit { id: u64, sequence: Arc<Sequence>, progress: UnboundedSender<Progress> },
    Abort { id: u64 },
    ClearCache { done: oneshot::Sender<bool> },
}

/// A request in the engine.
struct Live {
    sequence: Arc<Sequence>,
    progress: UnboundedSender<Progress>,
    submitted_at: Micros,
    last_token_at: Micros,
    tokens: u32,
}

impl Driver {
    /// Starts the engine's task. It ends when the handle and every ticket are gone.
    pub(super) fn start(
        engine: Engine,
        clock: Clock,
        kv_events: Option<KvEvents>,
        requests_max: usize,
    ) -> (Handle, JoinHandle<()>) {
        let (commands, receiver) = unbounded_channel();
        let metrics = Arc::new(Mutex::new(Metrics::default()));
        let handle = Handle {
            commands,
            metrics: Arc::clone(&metrics),
            slots: Arc::new(Semaphore::new(requests_max)),
            slots_max: requests_max,
            next_id: AtomicU64::new(1),
            preset: *engine.preset(),
        };
        let driver = Self { engine, clock, kv_events, metrics, requests: BTreeMap::new(), events: Vec::new() };
        (handle, tokio::spawn(driver.run(receiver)))
    }

    async fn run(mut self, mut commands: UnboundedReceiver<Command>) {
        loop {
            let wake_at = self.engine.next_event_at();
            let sleep = self.clock.sleep_until(wake_at.unwrap_or_default());
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { return };
                    // The model must reach the moment before something happens in it.
                    let now = self.advance();
                    self.obey(now, command);
                    while let Ok(command) = commands.try_recv() {
                        self.obey(now, command);
                    }
                }
                () = sleep, if wake_at.is_some() => {
                    self.advance();
                }
            }
        }
    }

    /// Brings the model to the present.
    fn advance(&mut self) -> Micros {
        let now = self.clock.now();
        let mut events = std::mem::take(&mut self.events);
        self.engine.advance(now, &mut events);
        if !events.is_empty() {
            let metrics = Arc::clone(&self.metrics);
            let mut metrics = metrics.lock();
            for event in events.drain(..) {
                self.hand_out(event, &mut metrics);
            }
            // Only now, as in vLLM: its gauges move when a step ends.
            metrics.load = self.engine.load();
            if let Some(kv_events) = &mut self.kv_events {
                kv_events.flush(&self.clock);
            }
        }
        self.events = events;
        now
    }

    fn obey(&mut self, now: Micros, command: Command) {
        match command {
            Command::Submit { id, sequence, progress } => {
                self.engine.submit(now, sequence.to_request(id));
                let live = Live { sequence, progress, submitted_at: now, last_token_at: now, tokens: 0 };
                self.requests.insert(id, live);
            }
            Command::Abort { id } => self.engine.abort(now, id),
            Command::ClearCache { done } => {
                // Whoever asked may have gone; it is done all the same.
                let _ = done.send(self.engine.clear_cache(now));
            }
        }
    }

    fn hand_out(&mut self, event: Event, metrics: &mut Metrics) {
        match event {
            Event::Scheduled { id, at, cached_tokens } => {
                let Some(live) = self.requests.get(&id) else { return };
                metrics.queue.observe(self.clock.real_seconds(live.submitted_at, at));
                live.tell(Progress::Scheduled { cached_tokens });
            }
            Event::FirstToken { id, at } | Event::Token { id, at } => self.token(id, at, metrics),
            Event::Finished { id, at, reason } => self.finished(id, at, reason, metrics),
            Event::Preempted { .. } => {}
            Event::Stored { at, id, parent, hashes, first_block } => {
                let Some(kv_events) = &mut self.kv_events else { return };
                let Some(live) = self.requests.get(&id) else { return };
                kv_events.stored(&self.clock, at, &live.sequence, parent, &hashes, first_block);
            }
            Event::Removed { at, hashes } => {
                if let Some(kv_events) = &mut self.kv_events {
                    kv_events.removed(&self.clock, at, &hashes);
                }
            }
            Event::Cleared { at } => {
                if let Some(kv_events) = &mut self.kv_events {
                    kv_events.cleared(&self.clock, at);
                }
            }
        }
    }

    fn token(&mut self, id: u64, at: Micros, metrics: &mut Metrics) {
        let Some(live) = self.requests.get_mut(&id) else { return };
        let seconds = self.clock.real_seconds(live.last_token_at, at);
        match live.tokens {
            // Counted from the request's arrival.
            0 => metrics.first_token.observe(seconds),
            _ => metrics.inter_token.observe(seconds),
        }
        live.tokens += 1;
        live.last_token_at = at;
        live.tell(Progress::Token);
    }

    fn finished(&mut self, id: u64, at: Micros, reason: FinishReason, metrics: &mut Metrics) {
        let Some(live) = self.requests.remove(&id) else { return };
        live.tell(Progress::Finished(reason));
        if matches!(reason, FinishReason::Stop | FinishReason::Length) {
            metrics.end_to_end.observe(self.clock.real_seconds(live.submitted_at, at));
            match live.sequence.ending() {
                Ending::Stop => metrics.stopped_total += 1,
                Ending::Length => metrics.length_total += 1,
            }
        }
    }
}

impl Live {
    fn tell(&self, progress: Progress) {
        // Who no longer listens has sent an abort, or will.
        let _ = self.progress.send(progress);
    }
}

impl Handle {
    /// The right to one more request; `None` when too many are being answered.
    pub(super) fn slot(&self) -> Option<Slot> {
        Arc::clone(&self.slots).try_acquire_owned().ok().map(|_permit| Slot { _permit })
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
