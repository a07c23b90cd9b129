//! The snapshot in force: configuration, fleet, and where everything in it is reached.
//!
//! First start and reload are one path: [`Snapshot::next`] builds a snapshot from a configuration and whatever was in
//! force before. What did not change keeps its counters, health and cache view, because those live behind shared
//! pointers; a replica whose address changed is a new replica. Requests hold the snapshot they began with.

use std::collections::HashMap;
use std::sync::Arc;

use kvroute_core::fleet::{Adapter, Component, Copy, Endpoint, Fleet, Live, Replica, TargetId, Turn, Variant};
use kvroute_core::load::Load;
use kvroute_core::{cache, hash, prompt};

use crate::config::{self, Config};
use crate::telemetry::ReplicaLabels;
use crate::upstream::client::Client;
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
    /// Connections to replicas.
    pub(crate) client: Client,
}

/// What goes on from one snapshot to the next.
#[derive(Default)]
struct Kept {
    replicas: HashMap<(String, String, String), (Arc<Live>, Arc<EngineReport>)>,
    copies: HashMap<(String, String, String, usize), Arc<Load>>,
}

impl Snapshot {
    /// The snapshot that follows `before`, or the first.
    pub(crate) fn next(before: Option<&Snapshot>, config: Config) -> Self {
        let kept = before.map(Kept::of).unwrap_or_default();
        let client = match before {
            Some(before) if before.config.timeouts == config.timeouts => before.client.clone(),
            _ => Client::new(&config.timeouts),
        };
        let mut targets = Vec::new();
        let endpoints = config.endpoints.iter().map(|endpoint| build_endpoint(endpoint, &kept, &mut targets)).collect();
        let prompt = prompt_settings(&config);
        Self { fleet: Fleet { endpoints }, targets, prompt, client, config }
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
}

impl Kept {
    fn of(before: &Snapshot) -> Self {
        let mut kept = Kept::default();
        for (endpoint, _, replica) in before.replicas() {
            let target = before.target(replica.target);
            let key = (endpoint.name.to_string(), replica.id.to_string(), target.url.to_string());
            kept.replicas.insert(key, (replica.live.clone(), target.engine.clone()));
        }
        for endpoint in &before.fleet.endpoints {
            for component in &endpoint.components {
                let replicas = &endpoint.variants[component.variant].replicas;
                for (ordinal, copy) in with_ordinals(&component.copies, |copy| copy.replica) {
                    let replica = replicas[copy.replica].id.to_string();
                    let key = (endpoint.name.to_string(), component.name.clone(), replica, ordinal);
                    kept.copies.insert(key, copy.load.clone());
                }
            }
        }
        kept
    }
}

/// Each item with its number among the items before it that have the same group.
fn with_ordinals<T, G: Eq + std::hash::Hash>(items: &[T], group: impl Fn(&T) -> G) -> Vec<(usize, &T)> {
    let mut counts: HashMap<G, usize> = HashMap::new();
    let ordinal = |item| {
        let count = counts.entry(group(item)).or_default();
        *count += 1;
        (*count - 1, item)
    };
    items.iter().map(ordinal).collect()
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

fn build_endpoint(endpoint: &config::Endpoint, kept: &Kept, targets: &mut Vec<Arc<Target>>) -> Endpoint {
    let mut add = |target: Target| {
        targets.push(Arc::new(target));
        TargetId(targets.len() as u32 - 1)
    };
    let endpoint_name: Arc<str> = endpoint.name.as_str().into();
    let labels = |variant: &config::Variant, replica: &config::Replica| ReplicaLabels {
        endpoint: endpoint_name.clone(),
        variant: variant.name.as_str().into(),
        replica: replica.id.as_str().into(),
    };
    let mut variants = Vec::with_capacity(endpoint.variants.len());
    for variant in &endpoint.variants {
        let replicas = variant.replicas.iter().map(|replica| {
            let key = (endpoint.name.clone(), replica.id.clone(), replica.url.to_string());
            let known = kept.replicas.get(&key).cloned();
            let fresh = || (Arc::new(Live::new(cache::CAPACITY_TOKENS_DEFAULT)), Arc::default());
            let (live, engine) = known.unwrap_or_else(fresh);
            let target = add(Target::of_replica(labels(variant, replica), replica, &replica.url, engine));
            Replica::new(&replica.id, replica.weight, target, live)
        });
        variants.push(Variant {
            name: variant.name.as_str().into(),
            weight: variant.weight,
            routing: variant.routing.decision(),
            replicas: replicas.collect(),
            turn: Turn::default().into(),
        });
    }
    let components = endpoint.components.iter().map(|component| {
        let variant = variant_of_component(endpoint, component);
        let variant_config = &endpoint.variants[variant];
        let replicas = &variant_config.replicas;
        let copies =
            with_ordinals(&component.copies, |copy| copy.replica.clone()).into_iter().filter_map(|(ordinal, copy)| {
                let index = replicas.iter().position(|replica| replica.id == copy.replica)?;
                let key = (endpoint.name.clone(), component.name.clone(), copy.replica.clone(), ordinal);
                let load = kept.copies.get(&key).cloned().unwrap_or_default();
                let target = match &copy.url {
                    Some(url) => {
                        let replica = &replicas[index];
                        add(Target::of_replica(labels(variant_config, replica), replica, url, Arc::default()))
                    }
                    None => variants[variant].replicas[index].target,
                };
                Some(Copy {
                    replica: index,
                    target,
                    load,
                    key: hash::mix(hash::bytes(copy.replica.as_bytes(), 0), ordinal as u64),
                })
            });
        Component { name: component.name.clone(), variant, copies: copies.collect() }
    });
    let components: Vec<Component> = components.collect();
    let adapters = endpoint.adapters.iter().map(|adapter| Adapter {
        name: adapter.name.clone(),
        component: adapter.component.clone(),
        base: adapter.base.as_ref().and_then(|base| components.iter().position(|component| component.name == *base)),
        replicas: adapter.replicas.as_ref().map(|ids| ids.iter().map(|id| Arc::from(id.as_str())).collect()),
    });
    let adapters = adapters.collect();
    Endpoint { name: endpoint_name.clone(), models: endpoint.models.clone(), variants, components, adapters }
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
