//! The fleet: an immutable snapshot of what may be routed to, around counters that outlive it.
//!
//! A reload builds a new [`Fleet`] and swaps a pointer. What is [`Live`] about a replica or a copy is shared between
//! snapshots by [`Arc`], so in-flight counts, health and cache views of what did not change go on as they were.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::abilities::Abilities;
use crate::discovery::Discovery;
use crate::hash;
use crate::live::Live;
use crate::memory::Memory;
use crate::rendezvous::Homes;
use crate::routing::Routing;

/// Seeds the hash of replica ids, so that a replica called like a prompt has nothing to do with it.
const REPLICA_SEED: u64 = 0x7265_706c_6963_6131;

/// Seeds the hash of component names in the names of copies that are engines of their own.
const COPY_SEED: u64 = 0x636f_7079_656e_6769;

/// Keys whose homes a large variant remembers: 128 KiB.
const KEYS_KNOWN_MAX: usize = 1 << 14;
/// Blocks of which a large variant remembers who was sent them last: 1 MiB.
const BLOCKS_KNOWN_MAX: usize = 1 << 17;

/// Names an engine (a replica, or a copy with an address of its own) for as long as it is configured under the same ids,
/// whatever snapshot is in force and however its address changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EngineId(u64);

/// Where a replica or copy is reached: an index into a table that the owner of the sockets keeps beside the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetId(pub u32);

/// All endpoints.
#[derive(Debug, Default)]
pub struct Fleet {
    /// In the order of the configuration.
    pub endpoints: Vec<Endpoint>,
}

impl Fleet {
    /// The index of the endpoint of this name, exactly spelled.
    pub fn endpoint(&self, name: &str) -> Option<usize> {
        self.endpoints.iter().position(|endpoint| *endpoint.name == *name)
    }

    /// The index of the endpoint that serves `model`: one that names it among its models or adapters, or whose engines
    /// list it as an adapter; else the first that serves any model. Without a model, the only endpoint there is.
    pub fn endpoint_for_model(&self, model: Option<&str>) -> Option<usize> {
        let any = || self.endpoints.iter().position(|endpoint| endpoint.models.is_empty());
        match model.filter(|model| !model.is_empty()) {
            Some(model) => self.endpoints.iter().position(|endpoint| endpoint.names_model(model)).or_else(any),
            None if self.endpoints.len() == 1 => Some(0),
            None => any(),
        }
    }
}

/// A named model service.
#[derive(Debug)]
pub struct Endpoint {
    /// The name in SageMaker's paths.
    pub name: Arc<str>,
    /// Model names it serves; empty serves any.
    pub models: Vec<String>,
    /// Its fleets. Never empty.
    pub variants: Vec<Variant>,
    /// Inference components placed on its replicas.
    pub components: Vec<Component>,
    /// LoRA adapters.
    pub adapters: Vec<Adapter>,
    /// Which engines list which adapter; `None` where the lists are not read.
    pub discovery: Option<Arc<Discovery>>,
}

impl Endpoint {
    /// The component that has a copy which is this engine.
    pub fn component_of(&self, engine: EngineId) -> Option<&Component> {
        let replica = |component: &Component, copy: &Copy| &self.variants[component.variant].replicas[copy.replica];
        self.components.iter().find(|component| {
            let mut own = component.copies.iter().filter(|copy| copy.has_own_address);
            own.any(|copy| component.engine_of(copy, replica(component, copy)) == engine)
        })
    }

    fn names_model(&self, model: &str) -> bool {
        let is_listed = || self.discovery.as_ref().is_some_and(|discovery| discovery.holders(model).is_some());
        self.models.iter().any(|m| m == model) || self.adapters.iter().any(|a| a.name == model) || is_listed()
    }
}

/// One fleet of an endpoint.
#[derive(Debug)]
pub struct Variant {
    /// Its name, unique within the endpoint.
    pub name: Arc<str>,
    /// Its share of the traffic that names no variant, relative to its siblings' weights.
    pub weight: f64,
    /// How its replicas are chosen.
    pub routing: Routing,
    /// Its replicas.
    pub replicas: Vec<Replica>,
    /// Held while a decision reads the loads and takes its place, so that each sees all before it.
    pub turn: Mutex<()>,
    homes: Homes,
    /// Homes of keys that were asked for.
    known_homes: Memory,
    /// Who was last sent a block.
    pub(crate) last_sent: Memory,
}

impl Variant {
    /// A variant of these replicas, whose ids and weights stay as they are.
    pub fn new(name: &str, weight: f64, routing: Routing, replicas: Vec<Replica>) -> Self {
        let homes = Homes::of(replicas.iter().map(|replica| (replica.key, replica.weight)));
        let known_homes = Memory::among(replicas.len(), KEYS_KNOWN_MAX);
        let last_sent = Memory::among(replicas.len(), BLOCKS_KNOWN_MAX);
        Self { name: name.into(), weight, routing, replicas, turn: Mutex::default(), homes, known_homes, last_sent }
    }

    /// The index of the replica where a key belongs, whatever its state.
    pub(crate) fn home_of(&self, key: u64) -> Option<usize> {
        if let Some(known) = self.known_homes.of(key) {
            return Some(known);
        }
        let home = self.homes.of_key(key)?;
        self.known_homes.set(key, home);
        Some(home)
    }
}

/// One engine server, as one snapshot knows it.
#[derive(Debug)]
pub struct Replica {
    /// Its name: survives reordering, address changes and restarts, and decides what rendezvous hashing gives it.
    pub id: Arc<str>,
    /// Relative capacity: a replica of weight 2 gets twice the keys and twice the load.
    pub weight: f64,
    /// Where it is.
    pub target: TargetId,
    /// What outlives the snapshot.
    pub live: Arc<Live>,
    /// What it can do, its copies included.
    pub abilities: Abilities,
    /// The replica's part of rendezvous scores.
    pub key: u64,
}

impl Replica {
    /// A replica of this name around what is known of it, which can do anything. `weight` must be positive.
    pub fn new(id: &str, weight: f64, target: TargetId, live: Arc<Live>) -> Self {
        assert!(weight > 0.0, "weights are positive");
        let key = hash::bytes(id.as_bytes(), REPLICA_SEED);
        Self { id: Arc::from(id), weight, target, live, abilities: Abilities::default(), key }
    }

    /// The engine at its address.
    pub fn engine(&self) -> EngineId {
        EngineId(self.key)
    }
}

/// An inference component: a model that has copies on some replicas of one variant.
#[derive(Debug)]
pub struct Component {
    /// The name by which it is invoked.
    pub name: String,
    /// Index of its variant in the endpoint.
    pub variant: usize,
    /// Its copies.
    pub copies: Vec<Copy>,
}

impl Component {
    /// The engine at the address of one of its copies, which is on `replica`.
    pub fn engine_of(&self, copy: &Copy, replica: &Replica) -> EngineId {
        match copy.has_own_address {
            true => EngineId(hash::mix(hash::bytes(self.name.as_bytes(), COPY_SEED), hash::mix(replica.key, copy.key))),
            false => replica.engine(),
        }
    }
}

/// One copy of a component on a replica.
#[derive(Debug)]
pub struct Copy {
    /// Index of its replica in the variant.
    pub replica: usize,
    /// Where it is: its own address, or its replica's.
    pub target: TargetId,
    /// Whether it is an engine of its own. One that shares its replica's address shares its health and cache too.
    pub has_own_address: bool,
    /// What outlives the snapshot. Its replica counts its requests too.
    pub live: Arc<Live>,
    /// The copy's part of rendezvous scores among the copies of its replica.
    pub key: u64,
}

/// A LoRA adapter.
#[derive(Debug)]
pub struct Adapter {
    /// The name by which requests choose it as `model`.
    pub name: String,
    /// The inference component name by which SageMaker calls invoke it.
    pub component: Option<String>,
    /// Index of the component whose copies carry it.
    pub base: Option<usize>,
    /// Ids of the replicas that have it; `None` is all.
    pub replicas: Option<Vec<Arc<str>>>,
}

impl Adapter {
    /// Whether the replica has it.
    pub fn is_on(&self, replica: &Replica) -> bool {
        self.replicas.as_ref().is_none_or(|ids| ids.contains(&replica.id))
    }
}
