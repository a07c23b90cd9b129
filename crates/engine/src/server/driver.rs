//! Runs the model in real time: one task an engine.
//!
//! The task owns the model. It sleeps until the model's next event or a command, brings the model to
//! the present and hands its events to the requests they concern. Nothing is scheduled for a single
//! token. When the machine is late, virtual time catches up in one go and keeps its own intervals.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;

use super::clock::Clock;
use super::handle::{Command, Handle, Progress};
use super::kv_events::KvEvents;
use super::metrics::{AdapterNames, Metrics};
use super::sequence::{Ending, Sequence};
use crate::model::{AdapterLoad, Engine, Event, FinishReason, Micros};

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
        let (handle, receiver, metrics) = Handle::new(*engine.preset(), requests_max);
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
            metrics.adapters = self.adapter_names(now);
            if let Some(kv_events) = &mut self.kv_events {
                kv_events.flush(&self.clock);
            }
        }
        self.events = events;
        now
    }

    /// What the adapters in use are called.
    fn adapter_names(&self, now: Micros) -> AdapterNames {
        let at_unix_seconds = self.clock.unix_seconds(now);
        let AdapterLoad { running, waiting } = self.engine.adapter_load();
        if running.is_empty() && waiting.is_empty() {
            return AdapterNames { at_unix_seconds, ..AdapterNames::default() };
        }
        let used = self.requests.values().filter_map(|live| live.sequence.adapter());
        let names: BTreeMap<u32, &str> = used.map(|adapter| (adapter.id, &*adapter.name)).collect();
        let join = |ids: Vec<u32>| ids.iter().filter_map(|id| names.get(id).copied()).collect::<Vec<_>>().join(",");
        AdapterNames { at_unix_seconds, running: join(running), waiting: join(waiting) }
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
