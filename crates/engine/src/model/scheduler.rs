//! Who computes what in a step, and what a step's end brings.
//!
//! A step is planned when the one before ends: [`Scheduler::plan`] shares out the token budget and the
//! blocks, [`Scheduler::complete`] books the result. Nothing else moves requests between waiting and
//! running, except [`Scheduler::abort`] between two steps.
//!
//! Requests run in the order in which they were started, which is the order of arrival but for those
//! who wait for an adapter's place: the queue is first come, first served, and who is preempted goes
//! to its front. So "started last" is the end of the list. And as a request that the budget cuts short
//! leaves nothing for the next, only the last one can be in the middle of its prompt: going through the
//! list in order, decoding comes first.
//!
//! Costs: planning and completing look at every running request once or twice and hash nothing; a
//! prompt costs a look-up a block when it starts and one when the block is computed. A queue whose
//! next request found no room is left alone until a block is freed, since asking again would hash a
//! long prompt in every step. Adapters cost nothing where none is used; else who is next is found by
//! a look at who runs and who waits.

use std::collections::VecDeque;
use std::sync::Arc;

use super::adapters::AdapterSet;
use super::eviction::Queue;
use super::eviction::belady::Future;
use super::outcome::{generate, store, tell_found};
use super::pool::{BlockId, Pool, ROOT};
use super::sequence::Sequence;
use super::step::StepWork;
use super::{Event, Micros, Preset};

/// The batch, the queue and the memory of an engine.
pub(super) struct Scheduler {
    block_tokens: u32,
    step_tokens_max: u32,
    seqs_max: u32,
    whole_prompt_must_fit: bool,
    adapters_max: u32,
    pool: Pool,
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    /// Requests that wait or run with an adapter.
    adapted: usize,
    /// [`Pool::freed_total`] when the next request of the queue found no room. Void when who is next
    /// may have changed.
    no_room_since: Option<u64>,
    /// Kept for its capacity: blocks that the request being started found cached.
    found: Vec<BlockId>,
    totals: Totals,
}

/// Counters since the engine's start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) cached_tokens: u64,
    pub(super) queried_tokens: u64,
    pub(super) prompt_tokens: u64,
    pub(super) generated_tokens: u64,
    pub(super) preemptions: u64,
}

impl Scheduler {
    /// An idle scheduler with empty memory. The preset's limits are above zero.
    pub(super) fn new(preset: &Preset, future: Arc<Future>) -> Self {
        let blocks_max = preset.kv_tokens / preset.block_tokens;
        Self {
            block_tokens: preset.block_tokens,
            step_tokens_max: preset.step_tokens_max,
            seqs_max: preset.seqs_max,
            whole_prompt_must_fit: preset.whole_prompt_must_fit,
            adapters_max: preset.adapters_max,
            pool: Pool::new(blocks_max, Queue::new(preset.eviction, future, blocks_max)),
            running: Vec::new(),
            waiting: VecDeque::new(),
            adapted: 0,
            no_room_since: None,
            found: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Requests that have blocks.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Requests in the queue.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Share of KV memory that running requests refer to, 0 to 1.
    pub(super) fn kv_used_ratio(&self) -> f64 {
        f64::from(self.pool.used()) / f64::from(self.pool.blocks_max())
    }

    /// Counters.
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether the request waits or runs.
    pub(super) fn holds(&self, id: u64) -> bool {
        self.running.iter().chain(&self.waiting).any(|sequence| sequence.id == id)
    }

    /// The adapters of the requests that run, and of those in the queue.
    pub(super) fn adapters(&self) -> (AdapterSet, AdapterSet) {
        if self.adapted == 0 {
            return Default::default();
        }
        (self.running.iter().collect(), self.waiting.iter().collect())
    }

    /// A request joins the end of the queue.
    pub(super) fn enqueue(&mut self, sequence: Sequence) {
        self.adapted += usize::from(sequence.adapter.is_some());
        self.waiting.push_back(sequence);
    }

    /// Drops a request. Between steps only. Returns whether it was there.
    pub(super) fn abort(&mut self, id: u64) -> bool {
        let waits = self.waiting.iter().position(|sequence| sequence.id == id);
        let gone = match waits.and_then(|index| self.waiting.remove(index)) {
            Some(sequence) => sequence,
            None => {
                let Some(index) = self.running.iter().position(|sequence| sequence.id == id) else {
                    return false;
                };
                let mut sequence = self.running.remove(index);
                self.pool.release(&mut sequence.blocks, sequence.kind);
                sequence
            }
        };
        self.adapted -= usize::from(gone.adapter.is_some());
        // Who is next now may need less room.
        self.no_room_since = None;
        true
    }

    /// Empties the cache, if no request holds a block. Returns whether it did.
    pub(super) fn clear_cache(&mut self) -> bool {
        self.pool.clear()
    }

    /// Shares out a step that begins now; `None` if there is nothing to do.
    pub(super) fn plan(&mut self, at: Micros, out: &mut Vec<Event>) -> Option<StepWork> {
        let mut budget = self.step_tokens_max;
        let preempted_before = self.totals.preemptions;
        self.plan_running(&mut budget, at, out);
        let is_short = self.totals.preemptions > preempted_before;
        while !is_short && budget > 0 && self.start_next(&mut budget, at, out) {}
        let mut work = StepWork::default();
        for sequence in self.running.iter().filter(|sequence| sequence.planned_tokens > 0) {
            work.add(sequence);
        }
        (work != StepWork::default()).then_some(work)
    }

    fn plan_running(&mut self, budget: &mut u32, at: Micros, out: &mut Vec<Event>) {
        let mut index = 0;
        while index < self.running.len() && *budget > 0 {
            let sequence = &self.running[index];
            let tokens = sequence.pending_tokens().min(*budget);
            let blocks = (sequence.computed_tokens + tokens).div_ceil(self.block_tokens) - sequence.blocks.len() as u32;
            if self.make_room(index, blocks, at, out) {
                let sequence = &mut self.running[index];
                self.pool.take(blocks, &mut sequence.blocks);
                sequence.planned_tokens = tokens;
                *budget -= tokens;
            }
            index += 1;
        }
    }

    /// Preempts from the end of the batch until `blocks` are free for the request at `index`. False if
    /// that request itself had to go.
    ///
    /// Nobody starts in a step that preempts: who was preempted is next, and would take back what it gave
    /// up.
    fn make_room(&mut self, index: usize, blocks: u32, at: Micros, out: &mut Vec<Event>) -> bool {
        while self.pool.free() < blocks && self.running.len() > index {
            if let Some(mut victim) = self.running.pop() {
                self.pool.release(&mut victim.blocks, victim.kind);
                victim.restart();
                self.totals.preemptions += 1;
                self.no_room_since = None;
                out.push(Event::Preempted { id: victim.id, at });
                self.waiting.push_front(victim);
            }
        }
        self.running.len() > index
    }

    /// The place in the queue of who starts next: the first whose adapter runs already, or for whose
    /// adapter there is a place.
    fn next_waiting(&self) -> Option<usize> {
        if self.adapted == 0 {
            return (!self.waiting.is_empty()).then_some(0);
        }
        let running: AdapterSet = self.running.iter().collect();
        self.waiting.iter().position(|sequence| running.admits(sequence.adapter, self.adapters_max))
    }

    /// Starts who is next in the queue with what is cached of it. False if all have to wait.
    fn start_next(&mut self, budget: &mut u32, at: Micros, out: &mut Vec<Event>) -> bool {
        if self.running.len() >= self.seqs_max as usize || self.no_room_since == Some(self.pool.freed_total()) {
            return false;
        }
        let Some(index) = self.next_waiting() else { return false };
        let next = &self.waiting[index];
        self.found.clear();
        let cached = next.reusable_hashes(self.block_tokens).scan(ROOT, |parent, hash| {
            *parent = self.pool.find(*parent, hash)?;
            Some(*parent)
        });
        self.found.extend(cached);
        let found = self.found.len() as u32;
        let cached_tokens = found * self.block_tokens;
        let tokens = (next.tokens() - cached_tokens).min(*budget);
        let blocks = (cached_tokens + tokens).div_ceil(self.block_tokens) - found;
        let fitting = if self.whole_prompt_must_fit { next.tokens() } else { cached_tokens + tokens };
        let fitting_blocks = fitting.div_ceil(self.block_tokens) - found;
        // What it reuses of the free blocks can't be taken for it as well.
        let found_free = self.found.iter().filter(|&&id| self.pool.is_free(id)).count() as u32;
        if self.pool.free() - found_free < fitting_blocks {
            self.no_room_since = Some(self.pool.freed_total());
            return false;
        }
        self.no_room_since = None;
        let Some(mut sequence) = self.waiting.remove(index) else { return false };
        for &id in &self.found {
            self.pool.reuse(id);
        }
        sequence.blocks.reserve_exact(sequence.tokens().div_ceil(self.block_tokens) as usize);
        sequence.blocks.extend_from_slice(&self.found);
        self.pool.take(blocks, &mut sequence.blocks);
        sequence.start(found, cached_tokens);
        sequence.planned_tokens = tokens;
        *budget -= tokens;
        if !sequence.started {
            sequence.started = true;
            sequence.kind = self.pool.meet(sequence.id, sequence.prompt_hashes(self.block_tokens));
            self.totals.queried_tokens += u64::from(sequence.prompt_tokens);
            self.totals.cached_tokens += u64::from(cached_tokens);
            out.push(Event::Scheduled { id: sequence.id, at, cached_tokens });
        }
        self.running.push(sequence);
        true
    }

    /// The planned step ends now.
    pub(super) fn complete(&mut self, at: Micros, out: &mut Vec<Event>) {
        out.extend(self.pool.drain_evicted().map(|hash| Event::Removed { at, hashes: [hash] }));
        let mut finished = false;
        for sequence in self.running.iter_mut().filter(|sequence| sequence.planned_tokens > 0) {
            sequence.computed_tokens += sequence.planned_tokens;
            sequence.planned_tokens = 0;
            out.extend(tell_found(sequence, at));
            let full_blocks = sequence.computed_tokens / self.block_tokens;
            if full_blocks > sequence.named_blocks {
                out.extend(store(&mut self.pool, sequence, full_blocks, at));
            }
            if sequence.pending_tokens() == 0 {
                out.extend(generate(sequence, &mut self.totals, at));
                finished |= sequence.finished().is_some();
            }
        }
        if finished {
            self.drop_finished(at, out);
        }
    }

    fn drop_finished(&mut self, at: Micros, out: &mut Vec<Event>) {
        let (pool, adapted, no_room_since) = (&mut self.pool, &mut self.adapted, &mut self.no_room_since);
        self.running.retain_mut(|sequence| {
            let Some(reason) = sequence.finished() else { return true };
            pool.release(&mut sequence.blocks, sequence.kind);
            if sequence.adapter.is_some() {
                *adapted -= 1;
                *no_room_since = None;
            }
            out.push(Event::Finished { id: sequence.id, at, reason });
            false
        });
    }

    /// Panics unless memory and requests agree. Costs a walk over all of both.
    pub(super) fn check_invariants(&self) {
        let sequences = || self.running.iter().chain(&self.waiting);
        self.pool.check_invariants(sequences().map(|sequence| sequence.blocks.as_slice()));
        assert!(self.running.len() <= self.seqs_max as usize, "too many requests run");
        let planned: u64 = sequences().map(|sequence| u64::from(sequence.planned_tokens)).sum();
        assert!(planned <= u64::from(self.step_tokens_max), "the step is over its budget");
        let adapters: AdapterSet = self.running.iter().collect();
        assert!(adapters.len() <= self.adapters_max as usize, "too many adapters run");
        assert_eq!(self.adapted, sequences().filter(|sequence| sequence.adapter.is_some()).count());
        for sequence in &self.running {
            let (id, held) = (sequence.id, sequence.blocks.len() as u32);
            let tokens = sequence.computed_tokens + sequence.planned_tokens;
            assert_eq!(held, tokens.div_ceil(self.block_tokens), "request {id} holds other blocks");
            assert!(sequence.pending_tokens() > 0, "request {id} has nothing left to do");
            let full_blocks = sequence.computed_tokens / self.block_tokens;
            assert_eq!(sequence.named_blocks, full_blocks, "request {id} keeps blocks to itself");
            assert!(sequence.finished().is_none(), "request {id} runs on after its end");
        }
        for sequence in self.running.iter().rev().skip(1) {
            let pending = sequence.pending_tokens();
            let decodes_next = pending == 1 || pending == sequence.planned_tokens;
            assert!(decodes_next, "request {} is in its prompt and not the last", sequence.id);
        }
        for sequence in &self.waiting {
            assert!(sequence.blocks.is_empty(), "request {} waits with blocks", sequence.id);
            let kept = sequence.computed_tokens + sequence.planned_tokens + sequence.named_blocks;
            assert_eq!(kept, 0, "request {} waits with results", sequence.id);
        }
    }
}
