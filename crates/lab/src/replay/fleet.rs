//! The modelled fleet: engines in virtual time behind the endpoint that `core` routes over.
//!
//! A change of the fleet is what it is to the gateway: a new snapshot around the same counters. What a restarted replica
//! was believed to hold is forgotten, as the gateway forgets it when its checks see the replica come back.

use std::str::FromStr;
use std::sync::Arc;

use kvroute_core::{
    cache::CacheView,
    fleet::{Endpoint, Replica as Member, TargetId, Variant},
    live::{Duty, Health, Live},
    routing::Routing,
};
use kvroute_engine::model::{Engine, Micros, Preset};

use crate::InvalidOption;

/// Replicas of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// How many, at least one.
    pub count: u32,
    /// What each is.
    pub preset: Preset,
    /// Relative capacity, as in the gateway's configuration.
    pub weight: f64,
}

/// The fleet at the beginning, and how long a start takes.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetSpec {
    /// Not empty. Replicas that join later are like those of the first group.
    pub groups: Vec<Group>,
    /// From the start of an engine until it serves, microseconds.
    pub cold_start_us: u64,
}

/// Replicas of a group, at most.
const REPLICAS_MAX: u32 = 4_096;

impl FromStr for Group {
    type Err = InvalidOption;

    /// Reads `8xllama-3.1-70b-h100-tp8`, `llama-3.1-8b-h100` or `2xllama-3.1-70b-a100-tp8@0.5`, which has the weight 0.5.
    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let refused = |what: String| {
            let problem = format!(
                "{text:?}: {what}; write COUNTxENGINE or COUNTxENGINE@WEIGHT, such as 8x{}",
                Preset::default().name
            );
            InvalidOption::new("fleet", problem)
        };
        let (rest, weight) = match text.split_once('@') {
            Some((rest, weight)) => {
                (rest, weight.parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight > 0.0))
            }
            None => (text, Some(1.0)),
        };
        let weight = weight.ok_or_else(|| refused("the weight is not a number above 0".to_owned()))?;
        let counted = rest.split_once('x').and_then(|(count, name)| Some((count.parse::<u32>().ok()?, name)));
        let (count, name) = counted.unwrap_or((1, rest));
        if !(1..=REPLICAS_MAX).contains(&count) {
            return Err(refused(format!("{count} is not within 1..{REPLICAS_MAX}")));
        }
        let preset = Preset::by_name(name).ok_or_else(|| {
            let known: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name).collect();
            refused(format!("the engines are {}", known.join(", ")))
        })?;
        Ok(Self { count, preset, weight })
    }
}

impl FleetSpec {
    /// So many replicas of one kind.
    pub fn of(count: u32, preset: Preset) -> Self {
        Self { groups: vec![Group { count, preset, weight: 1.0 }], cold_start_us: 60_000_000 }
    }

    /// Replicas at the beginning.
    pub fn replicas(&self) -> u32 {
        self.groups.iter().map(|group| group.count).sum()
    }
}

/// One replica, whatever became of it.
pub(super) struct Replica {
    pub(super) id: String,
    pub(super) engine: Engine,
    pub(super) live: Arc<Live>,
    pub(super) state: State,
    weight: f64,
    preset: Preset,
}

/// What a replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Serving.
    Up,
    /// Ending what it has; what then.
    Draining(Then),
    /// Starting.
    Starting,
    /// Not part of the fleet any more.
    Gone,
}

/// What follows a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Leave,
    Restart,
}

/// See the module. Replicas keep their numbers, which are their targets.
pub(super) struct Fleet {
    pub(super) replicas: Vec<Replica>,
    pub(super) endpoint: Endpoint,
    pub(super) cold_start_us: u64,
    routing: Routing,
    block_tokens: u32,
    joining: Group,
    /// Whether chains are of text.
    is_text: bool,
}

impl Fleet {
    /// All replicas up, with empty caches.
    pub(super) fn new(spec: &FleetSpec, routing: Routing, block_tokens: u32, is_text: bool) -> Self {
        let mut fleet = Self {
            replicas: Vec::new(),
            endpoint: endpoint(routing, Vec::new()),
            cold_start_us: spec.cold_start_us,
            routing,
            block_tokens,
            joining: spec.groups[0].clone(),
            is_text,
        };
        for group in &spec.groups {
            (0..group.count).for_each(|_| fleet.push(group, Health::Up));
        }
        fleet.publish();
        fleet
    }

    /// A new replica, not yet part of the endpoint.
    fn push(&mut self, group: &Group, health: Health) {
        let preset = Preset { block_tokens: self.block_tokens, ..group.preset };
        let engine = Engine::new(preset);
        let kv_tokens = engine.preset().kv_tokens;
        // A chain of text has blocks of its own; that of a trace of blocks has the engine's.
        let cache = match self.is_text {
            true => CacheView::new(u64::from(kv_tokens)),
            false => CacheView::of_blocks((kv_tokens / engine.preset().block_tokens) as usize),
        };
        let live = Arc::new(Live::with_cache(cache));
        live.set_health(health);
        live.set_context_tokens_max(Some(u64::from(engine.preset().context_tokens_max)));
        let state = if health == Health::Up { State::Up } else { State::Starting };
        let id = format!("r{}", self.replicas.len() + 1);
        self.replicas.push(Replica { id, engine, live, state, weight: group.weight, preset });
    }

    /// Makes the endpoint say what the replicas are.
    pub(super) fn publish(&mut self) {
        let present = self.replicas.iter().enumerate().filter(|(_, replica)| replica.state != State::Gone);
        let member = |(index, replica): (usize, &Replica)| {
            Member::new(&replica.id, replica.weight, TargetId(index as u32), replica.live.clone())
        };
        self.endpoint = endpoint(self.routing, present.map(member).collect());
    }

    /// A replica joins; gives its number. It serves nothing until [`Fleet::started`].
    pub(super) fn join(&mut self) -> usize {
        let group = self.joining.clone();
        self.push(&group, Health::Warming);
        self.publish();
        self.replicas.len() - 1
    }

    /// A replica takes nothing new.
    pub(super) fn drain(&mut self, number: usize, then: Then) {
        self.replicas[number].live.set_duty(Duty::Drain);
        self.replicas[number].state = State::Draining(then);
    }

    /// A replica that served is gone for good.
    pub(super) fn leave(&mut self, number: usize) {
        self.replicas[number].state = State::Gone;
        self.publish();
    }

    /// A replica loses all that it has and starts again.
    pub(super) fn restart(&mut self, number: usize) {
        let replica = &mut self.replicas[number];
        replica.engine = Engine::new(replica.preset);
        replica.live.set_health(Health::Down);
        replica.live.set_duty(Duty::Ready);
        replica.live.cache.clear();
        replica.state = State::Starting;
    }

    /// A replica's cold start is over.
    pub(super) fn started(&mut self, number: usize) {
        self.replicas[number].live.set_health(Health::Up);
        self.replicas[number].state = State::Up;
    }

    /// The number of the replica of this id.
    pub(super) fn number_of(&self, id: &str) -> Option<usize> {
        self.replicas.iter().position(|replica| replica.id == id)
    }

    /// The newest replicas that serve.
    pub(super) fn newest(&self, count: u32) -> Vec<usize> {
        let up = (0..self.replicas.len()).rev().filter(|number| self.replicas[*number].state == State::Up);
        up.take(count as usize).collect()
    }

    /// When some engine next has something to do.
    pub(super) fn next_event_at(&self, number: usize) -> Option<u64> {
        self.replicas[number].engine.next_event_at().map(|Micros(at)| at)
    }
}

fn endpoint(routing: Routing, replicas: Vec<Member>) -> Endpoint {
    let variants = vec![Variant::new("fleet", 1.0, routing, replicas)];
    Endpoint { name: "replay".into(), models: vec![], variants, components: vec![], adapters: vec![], discovery: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_a_count_an_engine_and_a_weight() {
        let group: Group = "2xllama-3.1-70b-a100-tp8@0.5".parse().unwrap();
        assert_eq!((group.count, group.preset.name, group.weight), (2, "llama-3.1-70b-a100-tp8", 0.5));
        assert_eq!("llama-3.1-8b-h100".parse::<Group>().unwrap().count, 1);
        for text in ["", "8x", "8xgpu", "0xllama-3.1-8b-h100", "llama-3.1-8b-h100@0", "llama-3.1-8b-h100@x"] {
            assert!(text.parse::<Group>().unwrap_err().to_string().contains("8xllama"), "{text}");
        }
    }
}
