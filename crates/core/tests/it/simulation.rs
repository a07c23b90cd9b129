//! A seeded simulation of routing: thousands of random steps against a shadow that counts by hand.
//!
//! Every step is one weighted action on a fleet that changes under it; after every step each counter must equal the
//! shadow's and each rule must hold. A failure prints its seed and step; `KVROUTE_SEED=n` runs that seed alone.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use kvroute_core::abilities::{Abilities, Demands, Modalities, Role};
use kvroute_core::breaker::{Failure, Verdict};
use kvroute_core::decision::Choice;
use kvroute_core::facts::RequestFacts;
use kvroute_core::fleet::{Adapter, Component, Copy, Endpoint, Replica, TargetId, Variant};
use kvroute_core::hash;
use kvroute_core::live::{Duty, Health, Live};
use kvroute_core::load::Reservation;
use kvroute_core::moment::{Entropy, Moment};
use kvroute_core::router::{Attempts, NoRoute};
use kvroute_core::routing::Strategy;
use smallvec::smallvec;

use self::judge::Judge;
use crate::fixture::{Explained, Routed, attempt, facts, routing};

mod judge;
mod rules;

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

fn live() -> Arc<Live> {
    Arc::new(Live::new(20_000))
}

/// A replica as the world remembers it: what lives on when configurations change.
struct Known {
    live: Arc<Live>,
    in_flight: u32,
    pending: u64,
    routed: u64,
}

struct CopyKnown {
    live: Arc<Live>,
    in_flight: u32,
}

/// A request under way, with what the shadow must give back when it ends.
struct Open {
    reservation: Reservation,
    replica: String,
    copy: Option<usize>,
    pending: u64,
    facts: RequestFacts,
    tried: Vec<Choice>,
    generation: u64,
    /// Its number, and the engine that has it.
    number: u64,
    engine: Arc<Live>,
    /// It has been said how it went.
    is_judged: bool,
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
    /// The breaker of each engine, by the address of what lives there.
    judges: BTreeMap<usize, Judge>,
    /// What becomes of requests to engines that are ill.
    ill: BTreeMap<usize, Failure>,
    /// Requests placed so far.
    placed: u64,
}

/// What engines load and unload.
const LISTED: [&str; 2] = ["listed-a", "listed-b"];

/// Most replicas can do anything.
fn abilities(entropy: &mut Entropy) -> Abilities {
    let mut abilities = Abilities::default();
    match entropy.below(12) {
        0 => abilities.role = Role::Prefill,
        1 => abilities.modalities = Modalities::default(),
        2 => abilities.context_tokens_max = Some(u64::from(entropy.below(2_000))),
        _ => {}
    }
    abilities
}

/// The name of an engine that stays the same as long as the world.
fn id(live: &Arc<Live>) -> usize {
    Arc::as_ptr(live) as usize
}

impl<'a> World<'a> {
    fn new(seed: u64, prompts: &'a [RequestFacts]) -> Self {
        let endpoint = Endpoint {
            name: "e".into(),
            models: vec![],
            variants: vec![],
            components: vec![],
            adapters: vec![],
            discovery: Some(Arc::default()),
        };
        let mut world = Self {
            entropy: Entropy::new(hash::finish(seed)),
            prompts,
            now_us: 0,
            generation: 0,
            endpoint,
            replicas: BTreeMap::new(),
            copies: BTreeMap::new(),
            open: Vec::new(),
            judges: BTreeMap::new(),
            ill: BTreeMap::new(),
            placed: 0,
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
            86..91 => {
                if let Some(index) = self.some_open() {
                    self.retry(index);
                }
            }
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
                    live: live(),
                    in_flight: 0,
                    pending: 0,
                    routed: 0,
                });
                let weight = if weighted { f64::from(1 + self.entropy.below(4)) } else { 1.0 };
                let abilities = abilities(&mut self.entropy);
                Replica { abilities, ..Replica::new(name, weight, TargetId(0), known.live.clone()) }
            })
            .collect();
        let copies = (0..self.entropy.below(6) as usize)
            .map(|ordinal| {
                let replica = self.entropy.below(replicas.len() as u32) as usize;
                let key = (names[replica].clone(), ordinal);
                let known = self.copies.entry(key).or_insert_with(|| CopyKnown { live: live(), in_flight: 0 });
                Copy {
                    replica,
                    target: TargetId(1 + ordinal as u32),
                    has_own_address: ordinal % 2 == 0,
                    live: known.live.clone(),
                    key: hash::finish(ordinal as u64),
                }
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
        if let Some(discovery) = &self.endpoint.discovery {
            discovery.follow(replicas.iter().map(Replica::engine).collect());
        }
        let main = Variant::new("main", 1.0, routing, replicas);
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
            4 => facts.demands.modalities.image = true,
            5 => {
                facts.demands =
                    Demands::of_prompt(facts.prompt.text_bytes, 0, Some(u64::from(self.entropy.below(500))));
            }
            6 => facts.model = Some(LISTED[self.entropy.below(2) as usize].to_owned()),
            _ => {}
        }
        facts.session = Some(u64::from(self.entropy.below(8)));
        self.place(facts, Vec::new());
    }

    fn place(&mut self, facts: RequestFacts, mut tried: Vec<Choice>) {
        let moment = Moment { now_us: self.now_us, entropy: Entropy::new(self.entropy.next_u64()) };
        let before = self.in_flight();
        let attempts = Attempts { variant: (!tried.is_empty()).then_some(0), tried: &tried };
        match attempt(&self.endpoint, &facts, attempts, moment) {
            Err(NoRoute::Unfit(drops)) => assert!(drops.iter().all(|(drop, _)| drop.is_for_good())),
            Err(NoRoute::NoReplica(drops)) => {
                assert!(!drops.iter().all(|(drop, _)| drop.is_for_good()));
                let places = self.endpoint.variants[0].replicas.len();
                assert!(drops.iter().map(|(_, n)| n).sum::<usize>() >= places, "every one has its reason");
            }
            Err(refused) => panic!("{refused}"),
            Ok(Routed { decision, reservation }) => {
                self.check_decision(&decision, &facts, &tried, &before);
                tried.push(decision.choice);
                self.took(reservation, &decision, facts, tried);
            }
        }
    }

    fn took(&mut self, reservation: Reservation, decision: &Explained, facts: RequestFacts, tried: Vec<Choice>) {
        let Choice { replica, copy, .. } = decision.choice;
        let replica = self.endpoint.variants[0].replicas[replica].id.to_string();
        let hashed = facts.prompt.text_bytes;
        let pending = facts.prompt_tokens_estimated * (hashed - decision.captured_bytes) / hashed;
        let known = self.replicas.get_mut(&replica).expect("known");
        known.in_flight += 1;
        known.pending += pending;
        known.routed += 1;
        if let Some(copy) = copy {
            self.copies.get_mut(&(replica.clone(), copy)).expect("known").in_flight += 1;
        }
        let engine = self.engine(decision.choice).clone();
        assert!(std::ptr::eq(reservation.engine(), &*engine), "the place is where the decision says");
        let (generation, number, now_us) = (self.generation, self.placed, self.now_us);
        self.judge(&engine).placed(number, now_us);
        self.placed += 1;
        let is_judged = false;
        self.open.push(Open {
            reservation,
            replica,
            copy,
            pending,
            facts,
            tried,
            generation,
            number,
            engine,
            is_judged,
        });
    }

    fn some_open(&mut self) -> Option<usize> {
        (!self.open.is_empty()).then(|| self.entropy.below(self.open.len() as u32) as usize)
    }

    fn first_content(&mut self) {
        let Some(index) = self.some_open() else { return };
        let open = &mut self.open[index];
        open.reservation.first_content();
        self.replicas.get_mut(&open.replica).expect("known").pending -= std::mem::take(&mut open.pending);
    }

    /// An answer ends as it does where it comes from, which is said once or several times.
    fn finish(&mut self) {
        self.first_content();
        let Some(index) = self.some_open() else { return };
        match self.ill.get(&id(&self.open[index].engine)).copied() {
            Some(Failure::Unreachable) => return self.retry(index),
            Some(Failure::Request) => {
                self.fail(index, Failure::Request);
                self.succeed(index);
            }
            None => self.succeed(index),
        }
        self.leave(index);
    }

    fn succeed(&mut self, index: usize) {
        self.open[index].reservation.succeeded(self.now_us);
        let Open { number, ref engine, is_judged, .. } = self.open[index];
        if !is_judged {
            let engine = engine.clone();
            self.judge(&engine).succeeded(number);
        }
        self.open[index].is_judged = true;
    }

    fn fail(&mut self, index: usize, failure: Failure) {
        let (now_us, next) = (self.now_us, self.placed);
        let ejected = self.open[index].reservation.failed(failure, now_us);
        let Open { number, ref engine, is_judged, .. } = self.open[index];
        let engine = engine.clone();
        assert_eq!(ejected, !is_judged && self.judge(&engine).failed(number, failure, now_us, next));
        self.open[index].is_judged = true;
    }

    /// A client goes away, which says nothing of the engine.
    fn disconnect(&mut self) {
        if let Some(index) = self.some_open() {
            self.leave(index);
        }
    }

    fn leave(&mut self, index: usize) {
        let open = self.open.swap_remove(index);
        self.gave_back(&open);
        drop(open.reservation);
    }

    fn judge(&mut self, engine: &Arc<Live>) -> &mut Judge {
        self.judges.entry(id(engine)).or_default()
    }

    fn verdict(&self, engine: &Arc<Live>) -> Verdict {
        self.judges.get(&id(engine)).map_or(Verdict::Closed, |judge| judge.verdict(self.now_us))
    }

    /// What lives where a decision sends its request.
    fn engine(&self, choice: Choice) -> &Arc<Live> {
        match choice.copy.map(|copy| &self.endpoint.components[0].copies[copy]) {
            Some(copy) if copy.has_own_address => &copy.live,
            _ => &self.endpoint.variants[0].replicas[choice.replica].live,
        }
    }

    fn gave_back(&mut self, open: &Open) {
        self.judge(&open.engine).ended(open.number);
        let known = self.replicas.get_mut(&open.replica).expect("known");
        known.in_flight -= 1;
        known.pending -= open.pending;
        if let Some(copy) = open.copy {
            self.copies.get_mut(&(open.replica.clone(), copy)).expect("known").in_flight -= 1;
        }
    }

    /// The place cannot be reached: another one, under the same snapshot as the first.
    fn retry(&mut self, index: usize) {
        self.fail(index, Failure::Unreachable);
        let open = self.open.swap_remove(index);
        open.reservation.never_arrived(&open.facts.prompt.chain);
        self.gave_back(&open);
        drop(open.reservation);
        if open.generation == self.generation {
            self.place(open.facts, open.tried);
        }
    }

    fn some_live(&mut self) -> Arc<Live> {
        let (replicas, copies) = (self.replicas.values().map(|k| &k.live), self.copies.values().map(|k| &k.live));
        let all: Vec<Arc<Live>> = replicas.chain(copies).cloned().collect();
        all[self.entropy.below(all.len() as u32) as usize].clone()
    }

    fn change_state(&mut self) {
        let live = self.some_live();
        match self.entropy.below(9) {
            8 => self.change_list(),
            0 => _ = live.set_duty(Duty::ALL[self.entropy.below(3) as usize]),
            1 => live.busy_until(self.now_us + 1_000_000),
            2 => _ = self.ill.insert(id(&live), Failure::Request),
            3 => _ = self.ill.insert(id(&live), Failure::Unreachable),
            4 => _ = live.set_health(Health::ALL[self.entropy.below(4) as usize]),
            _ => {
                live.set_duty(Duty::Ready);
                live.set_health(Health::Up);
                self.ill.remove(&id(&live));
            }
        }
    }

    /// An engine loads or unloads adapters, which its list says.
    fn change_list(&mut self) {
        let replica = self.entropy.below(self.endpoint.variants[0].replicas.len() as u32) as usize;
        let engine = self.endpoint.variants[0].replicas[replica].engine();
        let listed = LISTED.iter().filter(|_| self.entropy.below(2) == 0).map(|name| (*name).to_owned()).collect();
        self.endpoint.discovery.as_ref().expect("there is one").lists(engine, &listed);
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
            assert_eq!(known.live.load.in_flight(), known.in_flight, "copy {name:?}");
        }
        let lives =
            self.replicas.values().map(|known| &known.live).chain(self.copies.values().map(|known| &known.live));
        for live in lives {
            assert_eq!(live.breaker.standing(self.now_us).verdict, self.verdict(live));
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
