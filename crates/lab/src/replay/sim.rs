//! The simulation itself: virtual time goes from one event to the next.
//!
//! At each moment engines go first, in the order of their numbers, then arrivals, then changes of the fleet. An arrival
//! is placed by `core`'s own `route` (or by a baseline through `route_by`), goes to the modelled engine, and holds its
//! reservation as the gateway does: first content releases its pending prefill, its end gives the place back.
//!
//! Nothing here is random but the entropy of decisions, which is a function of the seed and the request: the same
//! arguments give the same run, on every platform.

mod changes;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kvroute_core::{
    breaker::Failure,
    decision::Reason,
    hash,
    load::Reservation,
    moment::{Entropy, Moment},
    prompt::BYTES_PER_TOKEN,
    router::{self, Attempts},
};
use kvroute_engine::model::{Event, FinishReason, Micros, Request};

use self::changes::Due;
use super::contender::{Contender, Rule};
use super::fleet::{Fleet, FleetSpec};
use super::job::{Jobs, LengthUnit};
use super::outcome::{Ending, Run, Served};
use super::pacing::{Pacer, Pacing};
use super::schedule::FleetEvent;
use super::warmup::Cut;
use crate::InvalidOption;
use crate::baselines::{self, Ask, Kv};

/// What is simulated, the strategy apart.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The fleet.
    pub fleet: FleetSpec,
    /// When requests arrive.
    pub pacing: Pacing,
    /// No request arrives at this time or later, in microseconds; `u64::MAX` for all of them.
    pub end_us: u64,
    /// What happens to the fleet.
    pub events: Vec<FleetEvent>,
    /// What counts for nothing.
    pub cut: Cut,
}

/// Runs one strategy over the jobs. `progress` is told now and then how many requests have arrived.
///
/// # Errors
/// If the jobs lack what the pacing needs, or an event names no replica.
pub fn simulate(
    jobs: &Jobs,
    setting: &Setting,
    contender: &Contender,
    seed: u64,
    progress: &mut dyn FnMut(usize),
) -> Result<Run, InvalidOption> {
    let mut sim = Sim::new(jobs, setting, contender, seed)?;
    let mut told = 0;
    while sim.step()? {
        if sim.run.served.len() >= told + PROGRESS_EVERY {
            told = sim.run.served.len();
            progress(told);
        }
    }
    progress(sim.run.served.len());
    Ok(sim.finish())
}

const PROGRESS_EVERY: usize = 1_024;

struct Sim<'a> {
    jobs: &'a Jobs,
    setting: &'a Setting,
    pacer: Pacer<'a>,
    fleet: Fleet,
    prefix_length: u32,
    baseline: Option<Box<dyn baselines::Rule>>,
    seed: u64,
    /// When engines have something to do. An entry counts only if it is what `due` says of its engine.
    engines: BinaryHeap<Reverse<(u64, usize)>>,
    due: Vec<u64>,
    /// Changes of the fleet to come.
    changes: BinaryHeap<Reverse<(u64, u64, Due)>>,
    changes_made: u64,
    /// Replicas that a deploy has yet to restart, the next one last.
    deploying: Vec<usize>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Since when each replica is part of the fleet; `None` while it is not.
    present_since: Vec<Option<u64>>,
    /// Kept for its capacity.
    out: Vec<Event>,
    run: Run,
}

/// A request under way.
struct Slot {
    served: usize,
    number: usize,
    reservation: Reservation,
    last_token_us: u64,
    is_counted: bool,
}

const NEVER: u64 = u64::MAX;

impl<'a> Sim<'a> {
    fn new(jobs: &'a Jobs, setting: &'a Setting, contender: &'a Contender, seed: u64) -> Result<Self, InvalidOption> {
        let prefix_length = contender.prefix_length.unwrap_or(jobs.unit.prefix_length_default());
        let is_text = jobs.unit == LengthUnit::Characters;
        let fleet = Fleet::new(&setting.fleet, contender.routing(prefix_length), jobs.block_tokens, is_text);
        let kv = Kv { tokens: setting.fleet.groups[0].preset.kv_tokens, block_tokens: jobs.block_tokens };
        let baseline = match &contender.rule {
            Rule::Core(_) => None,
            Rule::Baseline(baseline) => Some(baseline.rule(kv)),
        };
        let pacer = Pacer::new(jobs, setting.pacing, setting.end_us, seed)?;
        let mut sim = Self {
            jobs,
            setting,
            pacer,
            fleet,
            prefix_length,
            baseline,
            seed,
            engines: BinaryHeap::new(),
            due: Vec::new(),
            changes: BinaryHeap::new(),
            changes_made: 0,
            deploying: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            present_since: Vec::new(),
            out: Vec::new(),
            run: Run::new(),
        };
        for (index, event) in setting.events.iter().enumerate() {
            sim.at(event.at_us, Due::Event(index as u32));
        }
        sim.note_replicas(0);
        Ok(sim)
    }

    /// Makes room for what is kept of each replica.
    fn note_replicas(&mut self, now_us: u64) {
        let count = self.fleet.replicas.len();
        self.due.resize(count, NEVER);
        self.present_since.resize(count, Some(now_us));
        self.run.present_us.resize(count, 0);
        self.run.busy_us.resize(count, 0);
    }

    /// Goes to the next event. False if there is none.
    fn step(&mut self) -> Result<bool, InvalidOption> {
        let arrival = self.pacer.next_at().unwrap_or(NEVER);
        let change = self.changes.peek().map_or(NEVER, |Reverse((at, ..))| *at);
        let engine = self.next_engine();
        if let Some((at, number)) = engine.filter(|(at, _)| *at <= arrival && *at <= change) {
            self.advance(number, at);
            return Ok(true);
        }
        if arrival <= change
            && let Some(job) = self.pacer.take()
        {
            self.arrive(job, arrival);
            return Ok(true);
        }
        // Changes after the last request matter to nobody.
        if arrival == NEVER && engine.is_none() {
            return Ok(false);
        }
        if let Some(Reverse((at, _, due))) = self.changes.pop() {
            self.change(due, at)?;
        }
        Ok(true)
    }

    /// The engine that has something to do first, and when.
    fn next_engine(&mut self) -> Option<(u64, usize)> {
        while let Some(&Reverse((at, number))) = self.engines.peek() {
            if self.due[number] == at {
                return Some((at, number));
            }
            self.engines.pop();
        }
        None
    }

    /// Notes when an engine has something to do.
    fn expect(&mut self, number: usize) {
        let at = self.fleet.next_event_at(number).unwrap_or(NEVER);
        if self.due[number] != at {
            self.due[number] = at;
            if at != NEVER {
                self.engines.push(Reverse((at, number)));
            }
        }
    }

    /// Brings an engine to `now`, with all that follows from it.
    fn advance(&mut self, number: usize, now_us: u64) {
        let was_due = self.due[number] <= now_us;
        let mut out = std::mem::take(&mut self.out);
        self.fleet.replicas[number].engine.advance(Micros(now_us), &mut out);
        for event in &out {
            self.hear(number, event);
        }
        out.clear();
        self.out = out;
        self.expect(number);
        if was_due && self.fleet.replicas[number].engine.load().running > 0 {
            self.run.busy_us[number] += self.due[number].saturating_sub(now_us);
        }
    }

    fn hear(&mut self, number: usize, event: &Event) {
        match event {
            Event::Scheduled { id, at, cached_tokens } => {
                if let Some(served) = self.served(*id) {
                    served.scheduled_us = at.0;
                    served.delivered_tokens = *cached_tokens;
                }
            }
            Event::FirstToken { id, at } => self.first_token(*id, at.0),
            Event::Token { id, at } => {
                let Some(Some(slot)) = self.slots.get_mut(*id as usize) else { return };
                let gap = at.0 - std::mem::replace(&mut slot.last_token_us, at.0);
                if slot.is_counted {
                    self.run.gaps_us.saturating_record(gap);
                }
                self.run.served[slot.served].output_tokens += 1;
            }
            Event::Finished { id, at, reason } => {
                let ending = if *reason == FinishReason::Rejected { Ending::TooLong } else { Ending::Answered };
                self.end(*id as u32, ending, at.0);
            }
            Event::Preempted { .. } => self.run.preemptions += 1,
            Event::Stored { hashes, .. } => {
                if let Some(index) = self.listener() {
                    index.stored(number, hashes);
                }
            }
            Event::Removed { hashes, .. } => {
                if let Some(index) = self.listener() {
                    index.removed(number, hashes[0]);
                }
            }
            Event::Cleared { .. } => {}
        }
    }

    fn listener(&mut self) -> Option<&mut baselines::Index> {
        self.baseline.as_mut()?.index().filter(|index| index.listens())
    }

    fn served(&mut self, id: u64) -> Option<&mut Served> {
        let slot = self.slots.get(id as usize)?.as_ref()?;
        self.run.served.get_mut(slot.served)
    }

    fn first_token(&mut self, id: u64, at_us: u64) {
        let Some(Some(slot)) = self.slots.get_mut(id as usize) else { return };
        slot.last_token_us = at_us;
        slot.reservation.first_content();
        let served = &mut self.run.served[slot.served];
        served.first_us = at_us;
        served.output_tokens = 1;
        if let Some(books) = self.baseline.as_mut().and_then(|rule| rule.books()) {
            books.done(id as u32);
        }
    }

    /// A request is over; its place is free.
    fn end(&mut self, id: u32, ending: Ending, at_us: u64) {
        let Some(mut slot) = self.slots[id as usize].take() else { return };
        match ending {
            Ending::Lost => {
                slot.reservation.failed(Failure::Request, at_us);
            }
            _ => slot.reservation.succeeded(at_us),
        }
        drop(slot.reservation);
        self.free.push(id);
        if let Some(rule) = &mut self.baseline {
            rule.ended(id);
        }
        let served = &mut self.run.served[slot.served];
        (served.ended_us, served.ending) = (at_us, ending);
        let job = served.job;
        self.run.end_us = self.run.end_us.max(at_us);
        self.pacer.ended(job, at_us);
        self.maybe_drained(slot.number, at_us);
    }

    fn arrive(&mut self, job: u32, now_us: u64) {
        let id = self.free.pop().unwrap_or(self.slots.len() as u32);
        let routed = self.route(id, job, now_us);
        let served = Served {
            job,
            replica: 0,
            sent_us: now_us,
            scheduled_us: now_us,
            first_us: now_us,
            ended_us: now_us,
            delivered_tokens: 0,
            available_tokens: 0,
            captured_tokens: 0,
            output_tokens: 0,
            reason: Reason::Load,
            ending: Ending::Refused,
        };
        let Some(router::Routed { decision, reservation }) = routed else {
            self.free.push(id);
            if self.slots.len() == id as usize {
                self.slots.push(None);
            }
            self.run.served.push(served);
            self.run.end_us = self.run.end_us.max(now_us);
            return self.pacer.ended(job, now_us);
        };
        let number = decision.choice.target.0 as usize;
        let tokens = |bytes: u64| (bytes / BYTES_PER_TOKEN) as u32;
        self.run.served.push(Served {
            replica: number as u32,
            available_tokens: tokens(decision.available_bytes),
            captured_tokens: tokens(decision.captured_bytes),
            reason: decision.reason,
            ..served
        });
        let is_counted = self.setting.cut.counts(job, now_us);
        let slot = Slot { served: self.run.served.len() - 1, number, reservation, last_token_us: now_us, is_counted };
        match self.slots.get_mut(id as usize) {
            Some(free) => *free = Some(slot),
            None => self.slots.push(Some(slot)),
        }
        self.submit(id, job, number, now_us);
    }

    fn submit(&mut self, id: u32, job: u32, number: usize, now_us: u64) {
        self.advance(number, now_us);
        let this = &self.jobs.list[job as usize];
        let request = Request {
            id: u64::from(id),
            prompt_tokens: this.input_tokens,
            block_hashes: this.blocks.clone(),
            output_tokens: this.output_tokens,
            output_seed: hash::mix(self.seed, u64::from(job)),
            adapter: this.adapter,
            report_cached: false,
        };
        self.fleet.replicas[number].engine.submit(Micros(now_us), request);
        self.expect(number);
    }

    /// The decision, by the gateway's own lines; `None` if nobody can take the request.
    fn route(&mut self, id: u32, job: u32, now_us: u64) -> Option<router::Routed> {
        let this = &self.jobs.list[job as usize];
        let facts = this.facts(self.jobs, self.prefix_length);
        let moment = Moment { now_us, entropy: Entropy::new(hash::mix(self.seed, u64::from(job) + 1)) };
        let endpoint = &self.fleet.endpoint;
        let routed = match &mut self.baseline {
            None => router::route(endpoint, &facts, None, Attempts::default(), moment),
            Some(rule) => {
                let replicas = &self.fleet.replicas;
                router::route_by(endpoint, &facts, None, Attempts::default(), moment, &mut |_, places, entropy| {
                    let ask = Ask {
                        request: id,
                        facts: &facts,
                        blocks: &this.blocks[..this.prompt_blocks(self.jobs.block_tokens)],
                        input_tokens: this.input_tokens,
                        places,
                        now_us,
                        engine: &|number| replicas[number].engine.load(),
                    };
                    rule.pick(&ask, entropy)
                })
            }
        };
        routed.ok()
    }

    fn finish(mut self) -> Run {
        let end_us = self.run.end_us;
        for (number, since) in self.present_since.iter().enumerate() {
            self.run.present_us[number] += since.map_or(0, |since| end_us.saturating_sub(since));
        }
        self.run.replicas = self.fleet.replicas.iter().map(|replica| replica.id.clone()).collect();
        debug_assert!(
            self.fleet.replicas.iter().all(|replica| replica.live.load.in_flight() == 0),
            "at rest all is free"
        );
        self.run
    }
}
