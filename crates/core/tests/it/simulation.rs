//! A seeded simulation of routing: thousands of random steps against a shadow that counts by hand.
//!
//! Every step is one weighted action on a fleet that changes under it; after every step each counter must equal the
//! shadow's and each rule must hold. A failure prints its seed and step; `KVROUTE_SEED=n` runs that seed alone.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use kvroute_core::decision::{Decision, Reason};
use kvroute_core::facts::{RequestFacts, tokens_of_bytes};
use kvroute_core::filter::Needs;
use kvroute_core::fleet::{Adapter, Component, Copy, Endpoint, Live, Replica, State, TargetId, Turn, Variant};
use kvroute_core::hash;
use kvroute_core::load::{Load, Reservation};
use kvroute_core::moment::{Entropy, Moment};
use kvroute_core::router::{NoRoute, route, take_next};
use kvroute_core::routing::Strategy;
use smallvec::smallvec;

use crate::fixture::{facts, routing};

const SEEDS: u64 = 200;
const STEPS: u64 = 2_000;
const IN_FLIGHT_MAX: usize = 120;
const PROMPTS: u32 = 24;

#[test]
fn whatever_happens_counters_are_true_and_rules_hold() {
    let seeds = match std::env::var("KVROUTE_SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("KVROUTE_SEED is a number");
            seed..seed + 1
        }
        Err(_) => 0..SEEDS,
    };
    let prompts: Vec<RequestFacts> = (0..PROMPTS).map(prompt).collect();
    for seed in seeds {
        let mut step = 0;
        let run = AssertUnwindSafe(|| {
            let mut world = World::new(seed, &prompts);
            while step < STEPS {
                world.step();
                world.check();
                step += 1;
            }
            world.end();
        });
        if let Err(panic) = catch_unwind(run) {
            println!("seed {seed} failed at step {step}: KVROUTE_SEED={seed} runs it again");
            resume_unwind(panic);
        }
    }
}

/// Conversations of different lengths, some of which begin alike.
fn prompt(n: u32) -> RequestFacts {
    let shared = format!("group {:>4} ", n % 6).repeat(120 + 60 * (n as usize % 3));
    facts(&format!("{shared}{}", format!("own {n} ").repeat(n as usize * 40)))
}

/// A replica as the world remembers it: what lives on when configurations change.
struct Known {
    live: Arc<Live>,
    in_flight: u32,
    pending: u64,
    routed: u64,
}

struct CopyKnown {
    load: Arc<Load>,
    in_flight: u32,
}

/// A request under way, with what the shadow must give back when it ends.
struct Open {
    reservation: Reservation,
    replica: String,
    copy: Option<usize>,
    pending: u64,
    decision: Decision,
    facts: RequestFacts,
    attempt: usize,
    generation: u64,
}

struct World<'a> {
    entropy: Entropy,
    prompts: &'a [RequestFacts],
    now_us: u64,
    /// Counts configurations: a decision's indices mean something only in its own.
    generation: u64,
    endpoint: Endpoint,
    replicas: BTreeMap<String, Known>,
    copies: BTreeMap<(String, usize), CopyKnown>,
    open: Vec<Open>,
}

impl<'a> World<'a> {
    fn new(seed: u64, prompts: &'a [RequestFacts]) -> Self {
        let endpoint =
            Endpoint { name: "e".into(), models: vec![], variants: vec![], components: vec![], adapters: vec![] };
        let mut world = Self {
            entropy: Entropy::new(hash::finish(seed)),
            prompts,
            now_us: 0,
            generation: 0,
            endpoint,
            replicas: BTreeMap::new(),
            copies: BTreeMap::new(),
            open: Vec::new(),
        };
        world.configure();
        world
    }

    fn step(&mut self) {
        self.now_us += u64::from(self.entropy.below(50_000));
        match self.entropy.below(100) {
            0..45 if self.open.len() < IN_FLIGHT_MAX => self.request(),
            0..58 => self.first_content(),
            58..80 => self.finish(),
            80..86 => self.disconnect(),
            86..91 => self.retry(),
            91..97 => self.change_state(),
            97 => self.restart_replica(),
            98 => self.now_us += 3_600_000_000, // the clock jumps an hour; nothing may expire by it
            _ => self.configure(),
        }
    }

    /// A new configuration: replicas come, go and are listed in another order; the strategy, the threshold, weights,
    /// components and adapters change. What stays keeps its counters.
    fn configure(&mut self) {
        self.generation += 1;
        let mut names: Vec<String> = (0..9).filter(|_| self.entropy.below(10) < 7).map(|i| format!("r{i}")).collect();
        if names.is_empty() {
            names.push("r0".to_owned());
        }
        let turn = self.entropy.below(names.len() as u32) as usize;
        names.rotate_left(turn);
        let weighted = self.entropy.below(3) == 0;
        let replicas: Vec<Replica> = names
            .iter()
            .map(|name| {
                let known = self.replicas.entry(name.clone()).or_insert_with(|| Known {
                    live: Arc::new(Live::new(20_000)),
                    in_flight: 0,
                    pending: 0,
                    routed: 0,
                });
                let weight = if weighted { f64::from(1 + self.entropy.below(4)) } else { 1.0 };
                Replica::new(name, weight, TargetId(0), known.live.clone())
            })
            .collect();
        let copies = (0..self.entropy.below(6) as usize)
            .map(|ordinal| {
                let replica = self.entropy.below(replicas.len() as u32) as usize;
                let key = (names[replica].clone(), ordinal);
                let load =
                    &self.copies.entry(key).or_insert_with(|| CopyKnown { load: Arc::default(), in_flight: 0 }).load;
                Copy { replica, target: TargetId(1), load: load.clone(), key: hash::finish(ordinal as u64) }
            })
            .collect();
        let strategy = Strategy::ALL[self.entropy.below(5) as usize];
        let routing = routing(strategy, 1 + self.entropy.below(12));
        let adapter = Adapter {
            name: "adapter".to_owned(),
            component: None,
            base: None,
            replicas: Some(names.iter().take(2).map(|name| Arc::from(name.as_str())).collect()),
        };
        let main = Variant { name: "main".into(), weight: 1.0, routing, replicas, turn: Turn::default().into() };
        self.endpoint.variants = vec![main];
        self.endpoint.components = vec![Component { name: "component".to_owned(), variant: 0, copies }];
        self.endpoint.adapters = vec![adapter];
    }

    fn request(&mut self) {
        let mut facts = self.prompts[self.entropy.below(PROMPTS) as usize].clone();
        match self.entropy.below(10) {
            0 => facts.component = Some("component".to_owned()),
            1 => facts.model = Some("adapter".to_owned()),
            2 => facts.prefix_keys = smallvec![],
            3 => facts.tenant = Some(u64::from(self.entropy.below(3))),
            _ => {}
        }
        facts.session = Some(u64::from(self.entropy.below(8)));
        let moment = Moment { now_us: self.now_us, entropy: Entropy::new(self.entropy.next_u64()) };
        let before: Vec<u32> = self.in_flight();
        match route(&self.endpoint, &facts, moment) {
            Err(NoRoute::NoReplica(drops)) => {
                let replicas = &self.endpoint.variants[0].replicas;
                assert_eq!(drops.iter().map(|(_, n)| n).sum::<usize>(), replicas.len(), "every one has its reason");
            }
            Err(refused) => panic!("{refused}"),
            Ok(routed) => {
                self.check_decision(&routed.decision, routed.needs, &facts, &before);
                let decision = routed.decision;
                let held = decision.captured_bytes;
                self.took(routed.reservation, decision, facts, 0, held);
            }
        }
    }

    fn took(&mut self, reservation: Reservation, decision: Decision, facts: RequestFacts, attempt: usize, held: u64) {
        let choice = decision.choices[attempt];
        let replica = self.endpoint.variants[0].replicas[choice.replica].id.to_string();
        let pending = facts.prompt_tokens_estimated.saturating_sub(tokens_of_bytes(held));
        let known = self.replicas.get_mut(&replica).unwrap();
        known.in_flight += 1;
        known.pending += pending;
        known.routed += 1;
        if let Some(copy) = choice.copy {
            self.copies.get_mut(&(replica.clone(), copy)).unwrap().in_flight += 1;
        }
        let generation = self.generation;
        let copy = choice.copy;
        self.open.push(Open { reservation, replica, copy, pending, decision, facts, attempt, generation });
    }

    /// The rules of a decision, from outside.
    fn check_decision(&self, decision: &Decision, needs: Needs<'_>, facts: &RequestFacts, before: &[u32]) {
        let variant = &self.endpoint.variants[0];
        let chosen = decision.choices[0];
        for choice in &decision.choices {
            assert_eq!(variant.replicas[choice.replica].live.state(), State::Ready, "only ready replicas are chosen");
            assert_eq!(choice.copy.is_some(), needs.component.is_some(), "a component is served by a copy");
            if let Some(copy) = choice.copy {
                assert_eq!(
                    self.endpoint.components[0].copies[copy].replica, choice.replica,
                    "the copy is on its replica"
                );
            }
            if let Some(adapter) = needs.adapter {
                assert!(adapter.is_on(&variant.replicas[choice.replica]), "the adapter is there");
            }
        }
        let mut distinct: Vec<usize> = decision.choices.iter().map(|choice| choice.replica).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), decision.choices.len(), "a retry never asks the same replica again");
        assert!(decision.captured_bytes <= decision.available_bytes);
        assert!(decision.available_bytes <= facts.prompt.text_bytes);

        let keyed = matches!(variant.routing.strategy, Strategy::PrefixAware | Strategy::Session);
        let eligible: Vec<usize> = (0..before.len()).filter(|&i| decision.candidates[i].is_eligible()).collect();
        if keyed && needs.component.is_none() && eligible.len() > 1 && decision.reason != Reason::NoPrefix {
            let threshold = variant.routing.prefix_aware.concurrency_threshold;
            let some_under = eligible.iter().any(|&i| before[i] < threshold);
            assert!(before[chosen.replica] < threshold || !some_under, "at its threshold while another is under it");
            assert_eq!(decision.reason == Reason::SpillSaturated, !some_under);
            let home = decision.home.expect("a key has a home");
            assert_eq!(decision.reason.is_spill(), before[home.replica] >= threshold);
        }
        if variant.routing.strategy == Strategy::LeastOutstanding && needs.component.is_none() {
            let relative = |i: usize| f64::from(before[i] + 1) / variant.replicas[i].weight;
            assert!(eligible.iter().all(|&i| relative(chosen.replica) <= relative(i)), "the least outstanding");
        }
    }

    fn some_open(&mut self) -> Option<usize> {
        (!self.open.is_empty()).then(|| self.entropy.below(self.open.len() as u32) as usize)
    }

    fn first_content(&mut self) {
        let Some(index) = self.some_open() else { return };
        let open = &mut self.open[index];
        open.reservation.first_content();
        self.replicas.get_mut(&open.replica).unwrap().pending -= std::mem::take(&mut open.pending);
    }

    fn finish(&mut self) {
        self.first_content();
        self.disconnect();
    }

    fn disconnect(&mut self) {
        let Some(index) = self.some_open() else { return };
        let open = self.open.swap_remove(index);
        self.gave_back(&open);
        drop(open.reservation);
    }

    fn gave_back(&mut self, open: &Open) {
        let known = self.replicas.get_mut(&open.replica).unwrap();
        known.in_flight -= 1;
        known.pending -= open.pending;
        if let Some(copy) = open.copy {
            self.copies.get_mut(&(open.replica.clone(), copy)).unwrap().in_flight -= 1;
        }
    }

    /// The replica cannot be reached: the next choice, under the same snapshot as the first.
    fn retry(&mut self) {
        let Some(index) = self.some_open() else { return };
        if self.open[index].generation != self.generation {
            return;
        }
        let open = self.open.swap_remove(index);
        let attempt = open.attempt + 1;
        let needs = Needs::of(&self.endpoint, open.facts.component.as_deref(), open.facts.model.as_deref());
        let next = take_next(&self.endpoint, needs.unwrap(), &open.decision, attempt, &open.facts);
        self.gave_back(&open);
        drop(open.reservation);
        if let Some((reservation, held)) = next {
            self.took(reservation, open.decision, open.facts, attempt, held);
        }
    }

    fn some_live(&mut self) -> Arc<Live> {
        let index = self.entropy.below(self.replicas.len() as u32) as usize;
        self.replicas.values().nth(index).unwrap().live.clone()
    }

    fn change_state(&mut self) {
        let live = self.some_live();
        let up = self.entropy.below(3) > 0;
        live.set_state(if up { State::Ready } else { State::ALL[1 + self.entropy.below(2) as usize] });
    }

    fn restart_replica(&mut self) {
        let live = self.some_live();
        live.cache.clear();
        assert_eq!(live.cache.blocks(), 0);
    }

    fn in_flight(&self) -> Vec<u32> {
        self.endpoint.variants[0].replicas.iter().map(|replica| replica.live.load.in_flight()).collect()
    }

    fn check(&self) {
        for (name, known) in &self.replicas {
            let load = &known.live.load;
            let counted = (load.in_flight(), load.pending_prefill_tokens(), load.routed());
            assert_eq!(counted, (known.in_flight, known.pending, known.routed), "{name}");
        }
        for (name, known) in &self.copies {
            assert_eq!(known.load.in_flight(), known.in_flight, "copy {name:?}");
        }
        let open: u32 = self.replicas.values().map(|known| known.in_flight).sum();
        assert_eq!(open as usize, self.open.len());
    }

    fn end(mut self) {
        while !self.open.is_empty() {
            self.disconnect();
        }
        self.check();
        assert!(self.replicas.values().all(|known| known.live.load.pending_prefill_tokens() == 0));
    }
}
