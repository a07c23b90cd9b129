//! The snapshot in force: configuration, fleet, and where everything in it is reached.
//!
//! First start and reload are one path: [`Snapshot::next`] builds a snapshot from a configuration and whatever was in
//! force before. What did not change keeps its counters, health and cache view, because those live behind shared
//! pointers; a replica whose address changed is a new replica. Requests hold the snapshot they began with.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Weak};

use kvroute_core::abilities::{Abilities, Modalities};
use kvroute_core::discovery::Discovery;
use kvroute_core::fleet::{Adapter, Component, Copy, Endpoint, EngineId, Fleet, Replica, TargetId, Variant};
use kvroute_core::live::Live;
use kvroute_core::written::written;
use kvroute_core::{cache, hash, prompt};

use crate::config::{self, Config};
use crate::telemetry::{ReplicaLabels, ReplicaSeries, Series, VariantLabels, VariantSeries};
use crate::upstream::origin::Origins;
use crate::upstream::target::{EngineReport, Target};

/// What requests are served from.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The configuration it was made of.
    pub(crate) config: Config,
    /// What may be routed to. Endpoints are in the configuration's order.
    pub(crate) fleet: Fleet,
    /// Where it is, by [`TargetId`].
    pub(crate) targets: Vec<Arc<Target>>,
    /// How prompts are hashed.
    pub(crate) prompt: prompt::Settings,
    /// `key_skip_lines`, as JSON writes them.
    pub(crate) key_skip_lines: Vec<String>,
    /// Whether some replica may be unable to do what a request demands, so that it matters what that is.
    pub(crate) demands_matter: bool,
    /// Connections to replicas.
    origins: Origins,
    engines: HashMap<EngineKey, Known>,
    departed: HashMap<EngineKey, Departed>,
    variant_series: BTreeMap<VariantLabels, Arc<VariantSeries>>,
    replica_series: BTreeMap<ReplicaLabels, Arc<ReplicaSeries>>,
}

/// What lives at one address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Engine<'a> {
    /// Its replica's, whose duty is that of its copies too.
    pub(crate) replica: &'a Arc<Live>,
    /// Its own.
    pub(crate) live: &'a Arc<Live>,
    pub(crate) target: &'a Arc<Target>,
    /// Where a replica's endpoint keeps who lists which adapter, if that is wanted.
    pub(crate) discovery: Option<&'a Arc<Discovery>>,
}

/// What makes an engine the same one as before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EngineKey {
    endpoint: Arc<str>,
    replica: Arc<str>,
    url: String,
    /// For a copy: its component, and the how-manieth of its copies on the replica it is.
    copy: Option<(String, usize)>,
}

/// What is known of an engine whatever the configuration says.
#[derive(Clone, Debug)]
struct Known {
    live: Arc<Live>,
    engine: Arc<EngineReport>,
}

/// What is still known of an engine that is in no configuration any more, while it has requests.
#[derive(Clone, Debug)]
struct Departed {
    live: Weak<Live>,
    engine: Arc<EngineReport>,
}

impl Snapshot {
    /// The snapshot that follows `before`, or the first.
    pub(crate) fn next(before: Option<&Snapshot>, config: Config) -> Self {
        let origins = match before {
            Some(before) if before.origins.keeps_to(&config) => before.origins.clone(),
            _ => Origins::new(&config),
        };
        let mut builder = Builder {
            before,
            origins: &origins,
            engines: HashMap::new(),
            targets: Vec::new(),
            variant_series: BTreeMap::new(),
            replica_series: BTreeMap::new(),
        };
        let endpoints = config.endpoints.iter().map(|endpoint| builder.endpoint(endpoint)).collect();
        let Builder { engines, targets, variant_series, replica_series, .. } = builder;
        let departed = before.map(|before| before.departed_in(&engines)).unwrap_or_default();
        let prompt = prompt_settings(&config);
        let fleet = Fleet { endpoints };
        let demands_matter = demands_matter(&config);
        let key_skip_lines = config.key_skip_lines.iter().map(|line| written(line)).collect();
        Self {
            fleet,
            targets,
            prompt,
            key_skip_lines,
            demands_matter,
            origins,
            config,
            engines,
            departed,
            variant_series,
            replica_series,
        }
    }

    /// The target of this id.
    pub(crate) fn target(&self, id: TargetId) -> &Arc<Target> {
        &self.targets[id.0 as usize]
    }

    /// The configuration of the endpoint at this index of the fleet.
    pub(crate) fn endpoint_config(&self, index: usize) -> &config::Endpoint {
        &self.config.endpoints[index]
    }

    /// Every replica with its place in the fleet.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = (&Endpoint, &Variant, &Replica)> {
        let variants = self.fleet.endpoints.iter().flat_map(|e| e.variants.iter().map(move |v| (e, v)));
        variants.flat_map(|(e, v)| v.replicas.iter().map(move |r| (e, v, r)))
    }

    /// Every engine: replicas, and copies that have an address of their own.
    pub(crate) fn engines(&self) -> impl Iterator<Item = Engine<'_>> {
        self.fleet.endpoints.iter().flat_map(|endpoint| {
            let replicas = endpoint.variants.iter().flat_map(|variant| &variant.replicas);
            let replicas =
                replicas.map(|replica| (replica, &replica.live, replica.target, endpoint.discovery.as_ref()));
            let copies = endpoint.components.iter().flat_map(|component| {
                let own = component.copies.iter().filter(|copy| copy.has_own_address);
                let replicas = &endpoint.variants[component.variant].replicas;
                own.map(|copy| (&replicas[copy.replica], &copy.live, copy.target, None))
            });
            replicas.chain(copies).map(|(replica, live, target, discovery)| Engine {
                replica: &replica.live,
                live,
                target: self.target(target),
                discovery,
            })
        })
    }

    /// Where each endpoint that wants to know keeps who lists which adapter, and the engines that are asked.
    pub(crate) fn discoveries(&self) -> impl Iterator<Item = (&Discovery, HashSet<EngineId>)> {
        self.fleet.endpoints.iter().filter_map(|endpoint| {
            let replicas = endpoint.variants.iter().flat_map(|variant| &variant.replicas);
            Some((&**endpoint.discovery.as_ref()?, replicas.map(Replica::engine).collect()))
        })
    }

    /// What was here, or gone and still busy, and is not among `engines`.
    fn departed_in(&self, engines: &HashMap<EngineKey, Known>) -> HashMap<EngineKey, Departed> {
        let gone = self.engines.iter().map(|(key, known)| {
            (key.clone(), Departed { live: Arc::downgrade(&known.live), engine: known.engine.clone() })
        });
        let all = self.departed.clone().into_iter().chain(gone);
        all.filter(|(key, gone)| !engines.contains_key(key) && gone.live.strong_count() > 0).collect()
    }

    /// What is known of an engine.
    fn known(&self, key: &EngineKey) -> Option<Known> {
        let departed = || {
            let Departed { live, engine } = self.departed.get(key)?;
            Some(Known { live: live.upgrade()?, engine: engine.clone() })
        };
        self.engines.get(key).cloned().or_else(departed)
    }

    /// What is counted of each variant.
    pub(crate) fn variant_series(&self) -> impl Iterator<Item = (&VariantLabels, &VariantSeries)> {
        self.variant_series.iter().map(|(labels, series)| (labels, &**series))
    }

    /// What is counted of each replica.
    pub(crate) fn replica_series(&self) -> impl Iterator<Item = (&ReplicaLabels, &ReplicaSeries)> {
        self.replica_series.iter().map(|(labels, series)| (labels, &**series))
    }
}

/// Makes the fleet of a configuration, and the table of addresses beside it.
struct Builder<'a> {
    before: Option<&'a Snapshot>,
    origins: &'a Origins,
    engines: HashMap<EngineKey, Known>,
    targets: Vec<Arc<Target>>,
    variant_series: BTreeMap<VariantLabels, Arc<VariantSeries>>,
    replica_series: BTreeMap<ReplicaLabels, Arc<ReplicaSeries>>,
}

impl Builder<'_> {
    fn endpoint(&mut self, endpoint: &config::Endpoint) -> Endpoint {
        let name: Arc<str> = endpoint.name.as_str().into();
        let variants: Vec<Variant> = endpoint.variants.iter().map(|variant| self.variant(&name, variant)).collect();
        let mut components = Vec::with_capacity(endpoint.components.len());
        for component in &endpoint.components {
            let index = variant_of_component(endpoint, component);
            let (config, variant) = (&endpoint.variants[index], &variants[index]);
            components.push(self.component(&name, component, index, config, variant));
        }
        let adapters = endpoint.adapters.iter().map(|adapter| Adapter {
            name: adapter.name.clone(),
            component: adapter.component.clone(),
            base: adapter.base.as_ref().and_then(|base| components.iter().position(|c| c.name == *base)),
            replicas: adapter.replicas.as_ref().map(|ids| ids.iter().map(|id| Arc::from(id.as_str())).collect()),
        });
        let adapters = adapters.collect();
        let discovery = endpoint.discover_models.then(|| self.discovery(&name));
        Endpoint { name, models: endpoint.models.clone(), variants, components, adapters, discovery }
    }

    fn variant(&mut self, endpoint: &Arc<str>, variant: &config::Variant) -> Variant {
        let name: Arc<str> = variant.name.as_str().into();
        let mut replicas = Vec::with_capacity(variant.replicas.len());
        for replica in &variant.replicas {
            let id: Arc<str> = replica.id.as_str().into();
            let url = replica.url.to_string();
            let key = EngineKey { endpoint: endpoint.clone(), replica: id.clone(), url, copy: None };
            let Known { live, engine } = self.engine(key);
            let labels = ReplicaLabels { endpoint: endpoint.clone(), variant: name.clone(), replica: id };
            let mut known = Replica::new(&replica.id, replica.weight, TargetId(0), live);
            let (series, engine_id) = (self.series(&labels), known.engine());
            let target = Target::of_replica(labels, series, replica, &replica.url, engine_id, engine, self.origins);
            known.target = self.add(target);
            known.abilities = replica.abilities;
            replicas.push(known);
        }
        let routing = variant.routing.decision();
        Variant::new(&name, variant.weight, routing, replicas)
    }

    fn component(
        &mut self,
        endpoint: &Arc<str>,
        component: &config::Component,
        index: usize,
        config: &config::Variant,
        variant: &Variant,
    ) -> Component {
        let copies = Vec::with_capacity(component.copies.len());
        let mut built = Component { name: component.name.clone(), variant: index, copies };
        for (ordinal, copy) in with_ordinals(&component.copies, |copy| copy.replica.as_str()) {
            // The configuration has been checked: all copies are on replicas of this variant.
            let Some(index) = config.replicas.iter().position(|replica| replica.id == copy.replica) else { continue };
            let (replica, config) = (&variant.replicas[index], &config.replicas[index]);
            let id = replica.id.clone();
            let Known { live, engine } = self.engine(EngineKey {
                endpoint: endpoint.clone(),
                replica: id.clone(),
                url: copy.url.as_ref().unwrap_or(&config.url).to_string(),
                copy: Some((component.name.clone(), ordinal)),
            });
            let key = hash::mix(hash::bytes(copy.replica.as_bytes(), 0), ordinal as u64);
            let has_own_address = copy.url.is_some();
            let mut known = Copy { replica: index, target: replica.target, has_own_address, live, key };
            if let Some(url) = &copy.url {
                let variant = variant.name.clone();
                let labels = ReplicaLabels { endpoint: endpoint.clone(), variant, replica: id };
                let (series, engine_id) = (self.series(&labels), built.engine_of(&known, replica));
                let target = Target::of_replica(labels, series, config, url, engine_id, engine, self.origins);
                known.target = self.add(target);
            }
            built.copies.push(known);
        }
        built
    }

    /// What the engines of an endpoint list, as far as they have been asked before.
    fn discovery(&self, endpoint: &Arc<str>) -> Arc<Discovery> {
        let before = self.before.and_then(|before| before.fleet.endpoints.iter().find(|known| known.name == *endpoint));
        before.and_then(|known| known.discovery.clone()).unwrap_or_default()
    }

    /// What is known of an engine, or nothing yet.
    fn engine(&mut self, key: EngineKey) -> Known {
        let fresh = || Known { live: Arc::new(Live::new(cache::CAPACITY_TOKENS_DEFAULT)), engine: Arc::default() };
        let known = self.before.and_then(|before| before.known(&key)).unwrap_or_else(fresh);
        self.engines.insert(key, known.clone());
        known
    }

    /// Where what becomes of a replica's requests is counted: where it was, if there was such a replica.
    fn series(&mut self, labels: &ReplicaLabels) -> Series {
        let of = VariantLabels::of(labels);
        let before = self.before;
        let variant = self
            .variant_series
            .entry(of.clone())
            .or_insert_with(|| before.and_then(|before| before.variant_series.get(&of).cloned()).unwrap_or_default());
        let replica = self.replica_series.entry(labels.clone()).or_insert_with(|| {
            before.and_then(|before| before.replica_series.get(labels).cloned()).unwrap_or_default()
        });
        Series { variant: variant.clone(), replica: replica.clone() }
    }

    fn add(&mut self, target: Target) -> TargetId {
        self.targets.push(Arc::new(target));
        TargetId(self.targets.len() as u32 - 1)
    }
}

/// Each item with its number among the items before it that have the same group.
fn with_ordinals<'a, T, G: Eq + Hash>(items: &'a [T], group: impl Fn(&'a T) -> G) -> Vec<(usize, &'a T)> {
    let mut counts: HashMap<G, usize> = HashMap::new();
    let ordinal = |item: &'a T| {
        let count = counts.entry(group(item)).or_default();
        *count += 1;
        (*count - 1, item)
    };
    items.iter().map(ordinal).collect()
}

fn demands_matter(config: &Config) -> bool {
    let can_do_anything = |replica: &config::Replica| {
        let Abilities { role: _, modalities, context_tokens_max } = replica.abilities;
        modalities == Modalities::ALL && context_tokens_max.is_none()
    };
    config.endpoints.iter().any(|endpoint| {
        let mut replicas = endpoint.variants.iter().flat_map(|variant| &variant.replicas);
        endpoint.discover_models || !replicas.all(can_do_anything)
    })
}

fn prompt_settings(config: &Config) -> prompt::Settings {
    let routings = config.endpoints.iter().flat_map(|endpoint| &endpoint.variants).map(|variant| &variant.routing);
    let mut lengths: Vec<u32> = routings.map(|routing| routing.prefix_length).collect();
    lengths.sort_unstable();
    lengths.dedup();
    prompt::Settings {
        seed: config.hash_seed,
        prefix_lengths: lengths.into(),
        chain_bytes_max: config.limits.prompt_bytes_max,
    }
}

/// The variant that holds a component's copies: the one it names, else the one of its first copy's replica. The
/// configuration has been checked, so there is one.
fn variant_of_component(endpoint: &config::Endpoint, component: &config::Component) -> usize {
    let named = component.variant.as_ref().and_then(|name| endpoint.variants.iter().position(|v| v.name == *name));
    let holds = |variant: &config::Variant| {
        component.copies.first().is_some_and(|copy| variant.replicas.iter().any(|replica| replica.id == copy.replica))
    };
    named.or_else(|| endpoint.variants.iter().position(holds)).unwrap_or(0)
}
