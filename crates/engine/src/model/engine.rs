//! The engine as its driver sees it: requests in, virtual time forward, events out.

use std::collections::VecDeque;
use std::sync::Arc;

use super::scheduler::Scheduler;
use super::sequence::Sequence;
use super::{Event, FinishReason, Future, Micros, Preset, Request};

/// A model of one engine.
///
/// # Protocol
///
/// A driver that has reached the moment `now` calls [`advance(now)`](Self::advance) and then
/// [`submit`](Self::submit), [`abort`](Self::abort) or [`clear_cache`](Self::clear_cache) with the
/// same `now`, as often as it likes; then it waits for [`next_event_at`](Self::next_event_at) or for
/// its own next input, whichever is first. Time does not run backwards: an input with an earlier
/// `now` than the step or the like input before it counts as of then.
///
/// A step that has begun can't be changed: what comes in during a step acts when it ends.
///
/// The queue has no limit, as the engine's hasn't; whoever accepts requests limits them.
pub struct Engine {
    preset: Preset,
    scheduler: Scheduler,
    /// The last moment at which a step began or ended or an input was taken.
    clock: Micros,
    /// End of the step that runs now.
    step_ends_at: Option<Micros>,
    /// Requests on their way to the scheduler, in order of arrival there.
    arriving: VecDeque<(Micros, Request)>,
    aborts: VecDeque<(Micros, u64)>,
    cleared_untold: bool,
}

/// What an engine says about itself: gauges of this moment, and counters since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests in the batch.
    pub running: u32,
    /// Requests in the scheduler's queue. Those that are still on their way to it (HTTP, tokenizing,
    /// or until the end of the step) are not counted.
    pub waiting: u32,
    /// Share of KV memory that running requests refer to, 0 to 1. What is only cached counts as free.
    pub kv_used_ratio: f64,
    /// Of `queried_tokens_total`, those found cached.
    pub cached_tokens_total: u64,
    /// Prompt tokens of all requests that were started. A second start, after preemption, counts
    /// neither here nor in `cached_tokens_total`.
    pub queried_tokens_total: u64,
    /// Prompt tokens of all requests whose prompt was computed.
    pub prompt_tokens_total: u64,
    /// Tokens generated.
    pub generated_tokens_total: u64,
    /// Times a request lost its blocks.
    pub preemptions_total: u64,
}

/// Adapters that requests use at a moment: each once, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterLoad {
    /// Of requests in the batch.
    pub running: Vec<u32>,
    /// Of requests in the scheduler's queue.
    pub waiting: Vec<u32>,
}

impl Engine {
    /// An idle engine with nothing cached, at time zero.
    ///
    /// Limits of zero count as one, and memory of less than a block as one block. Times that are
    /// negative or not a number count as nothing, but every step takes a microsecond at least. A
    /// context longer than memory is cut to it, so that every accepted request can run alone.
    #[must_use]
    pub fn new(preset: Preset) -> Self {
        Self::with_future(preset, Arc::default())
    }

    /// As [`new`](Self::new), with what [`Eviction::Belady`](super::Eviction::Belady) has to know.
    #[must_use]
    pub fn with_future(preset: Preset, future: Arc<Future>) -> Self {
        let block_tokens = preset.block_tokens.max(1);
        let kv_tokens = (preset.kv_tokens / block_tokens).max(1).saturating_mul(block_tokens);
        let preset = Preset {
            block_tokens,
            kv_tokens,
            step_tokens_max: preset.step_tokens_max.max(1),
            seqs_max: preset.seqs_max.max(1),
            adapters_max: preset.adapters_max.max(1),
            context_tokens_max: preset.context_tokens_max.min(kv_tokens),
            ..preset
        };
        Self {
            preset,
            scheduler: Scheduler::new(&preset, future),
            clock: Micros::default(),
            step_ends_at: None,
            arriving: VecDeque::new(),
            aborts: VecDeque::new(),
            cleared_untold: false,
        }
    }

    /// The preset in force.
    #[must_use]
    pub fn preset(&self) -> &Preset {
        &self.preset
    }

    /// Takes in a request at `now`. It joins the queue after the preset's overhead; one that can never
    /// run is then [`Rejected`](FinishReason::Rejected).
    pub fn submit(&mut self, now: Micros, request: Request) {
        self.arriving.push_back((now.after_ms(self.preset.overhead_ms), request));
    }

    /// Gives up a request at `now`: it finishes [`Aborted`](FinishReason::Aborted) when the step that
    /// runs ends, or at once if none does. What it has computed stays cached. A request that is not
    /// there is ignored.
    pub fn abort(&mut self, now: Micros, id: u64) {
        let arriving = self.arriving.iter().any(|(_, request)| request.id == id);
        if arriving || self.scheduler.holds(id) {
            self.aborts.push_back((now, id));
        }
    }

    /// Empties the prefix cache at `now`, unless requests hold blocks: false then, and nothing
    /// changes, as with the engine's `reset_prefix_cache`. [`Event::Cleared`] comes with the end of
    /// the next step, which may be long after: the engine publishes only then.
    pub fn clear_cache(&mut self, now: Micros) -> bool {
        let cleared = self.scheduler.clear_cache();
        if cleared {
            self.clock = self.clock.max(now);
            self.cleared_untold = true;
        }
        cleared
    }

    /// When [`advance`](Self::advance) next has something to do; `None` while the engine is idle.
    #[must_use]
    pub fn next_event_at(&self) -> Option<Micros> {
        self.step_ends_at.or_else(|| {
            let arrival = self.arriving.front().map(|&(at, _)| at);
            let abort = self.aborts.front().map(|&(at, _)| at);
            let input = arrival.into_iter().chain(abort).min()?;
            Some(input.max(self.clock))
        })
    }

    /// Runs the engine up to and including `until` and appends what happens to `out`.
    pub fn advance(&mut self, until: Micros, out: &mut Vec<Event>) {
        while let Some(at) = self.next_event_at().filter(|&at| at <= until) {
            self.clock = at;
            if self.step_ends_at.take().is_some() {
                if std::mem::take(&mut self.cleared_untold) {
                    out.push(Event::Cleared { at });
                }
                self.scheduler.complete(at, out);
            }
            self.take_aborts(out);
            self.take_arrivals(out);
            self.step_ends_at = self.scheduler.plan(at, out).map(|work| {
                let end = at.after_ms(self.preset.step_ms(&work));
                end.max(Micros(at.0.saturating_add(1)))
            });
        }
    }

    fn take_aborts(&mut self, out: &mut Vec<Event>) {
        let at = self.clock;
        while let Some((_, id)) = self.aborts.pop_front_if(|&mut (due, _)| due <= at) {
            let arriving = self.arriving.iter().position(|(_, request)| request.id == id);
            let found = match arriving {
                Some(index) => self.arriving.remove(index).is_some(),
                None => self.scheduler.abort(id),
            };
            if found {
                out.push(Event::Finished { id, at, reason: FinishReason::Aborted });
            }
        }
    }

    fn take_arrivals(&mut self, out: &mut Vec<Event>) {
        let at = self.clock;
        let Preset { block_tokens, context_tokens_max, .. } = self.preset;
        while let Some((_, request)) = self.arriving.pop_front_if(|&mut (due, _)| due <= at) {
            let id = request.id;
            match Sequence::new(request, block_tokens, context_tokens_max) {
                Some(sequence) => self.scheduler.enqueue(sequence),
                None => {
                    out.push(Event::Finished { id, at, reason: FinishReason::Rejected });
                }
            }
        }
    }

    /// What the engine says about itself. Changes with [`advance`](Self::advance) only.
    #[must_use]
    pub fn load(&self) -> Load {
        let totals = self.scheduler.totals();
        Load {
            running: self.scheduler.running() as u32,
            waiting: self.scheduler.waiting() as u32,
            kv_used_ratio: self.scheduler.kv_used_ratio(),
            cached_tokens_total: totals.cached_tokens,
            queried_tokens_total: totals.queried_tokens,
            prompt_tokens_total: totals.prompt_tokens,
            generated_tokens_total: totals.generated_tokens,
            preemptions_total: totals.preemptions,
        }
    }

    /// Adapters in use. Changes with [`advance`](Self::advance) only.
    #[must_use]
    pub fn adapter_load(&self) -> AdapterLoad {
        let (running, waiting) = self.scheduler.adapters();
        AdapterLoad { running: running.into_vec(), waiting: waiting.into_vec() }
    }

    /// Panics unless the engine's books agree: every block is free or referred to by as many requests
    /// as it counts, and every request holds the blocks that its tokens need. For tests and debugging;
    /// costs a walk over all of memory.
    pub fn check_invariants(&self) {
        self.scheduler.check_invariants();
        let busy = self.scheduler.running() + self.scheduler.waiting() > 0;
        assert_eq!(busy, self.step_ends_at.is_some(), "requests are there and no step runs");
        let end_of_time = Micros(u64::MAX);
        let ends = |end| end > self.clock || end == end_of_time;
        assert!(self.step_ends_at.is_none_or(ends), "the step takes no time");
    }
}
