//! Small fleets and requests to route.

use std::sync::Arc;

use kvroute_core::decision::{Candidate, Decision};
use kvroute_core::facts::RequestFacts;
use kvroute_core::fleet::{Endpoint, Replica, TargetId, Variant};
use kvroute_core::hash;
use kvroute_core::live::{Health, Live};
use kvroute_core::load::Reservation;
use kvroute_core::moment::{Entropy, Moment};
use kvroute_core::prompt::{PromptHasher, Settings};
use kvroute_core::router::{self, Attempts, NoRoute};
use kvroute_core::routing::{PrefixAware, Routing, Strategy};
use smallvec::smallvec;

pub(crate) const PREFIX_LENGTH: u32 = 1_024;

pub(crate) fn routing(strategy: Strategy, concurrency_threshold: u32) -> Routing {
    let prefix_aware = PrefixAware { prefix_length: PREFIX_LENGTH, concurrency_threshold };
    Routing { strategy, prefix_aware, ..Routing::default() }
}

pub(crate) fn replica(id: &str) -> Replica {
    weighted_replica(id, 1.0)
}

pub(crate) fn weighted_replica(id: &str, weight: f64) -> Replica {
    Replica::new(id, weight, TargetId(0), live())
}

/// One that is known to be well.
pub(crate) fn live() -> Arc<Live> {
    let live = Live::new(1_000_000);
    live.set_health(Health::Up);
    Arc::new(live)
}

pub(crate) fn variant(name: &str, routing: Routing, replicas: Vec<Replica>) -> Variant {
    Variant::new(name, 1.0, routing, replicas)
}

pub(crate) fn endpoint(variants: Vec<Variant>) -> Endpoint {
    Endpoint { name: "e".into(), models: vec![], variants, components: vec![], adapters: vec![], discovery: None }
}

/// One variant of `n` replicas `r0..`.
pub(crate) fn fleet_of(n: usize, routing: Routing) -> Endpoint {
    endpoint(vec![variant("main", routing, (0..n).map(|i| replica(&format!("r{i}"))).collect())])
}

pub(crate) fn facts(text: &str) -> RequestFacts {
    let settings = Settings { seed: 0, prefix_lengths: Arc::from([PREFIX_LENGTH]), chain_bytes_max: 1 << 20 };
    let mut hasher = PromptHasher::new(settings);
    hasher.segment(b"user");
    hasher.text(text.as_bytes());
    let prompt = hasher.finish();
    let prefix_keys = smallvec![prompt.key(PREFIX_LENGTH)];
    RequestFacts { prefix_keys, prompt_tokens_estimated: prompt.text_bytes / 4, prompt, ..RequestFacts::default() }
}

pub(crate) fn moment(n: u64) -> Moment {
    Moment { now_us: n, entropy: Entropy::new(hash::finish(n)) }
}

/// A decision with what it looked at.
#[derive(Debug)]
pub(crate) struct Explained {
    pub(crate) decision: Decision,
    pub(crate) candidates: Vec<Candidate>,
}

impl std::ops::Deref for Explained {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}

/// A request that has been given its place.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) decision: Explained,
    pub(crate) reservation: Reservation,
}

/// Routes with a history; every target has a path.
pub(crate) fn attempt(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    attempts: Attempts<'_>,
    moment: Moment,
) -> Result<Routed, NoRoute> {
    let candidates = router::explain(endpoint, facts, None, attempts, moment);
    let router::Routed { decision, reservation } = router::route(endpoint, facts, None, attempts, moment)?;
    let candidates = candidates.expect("what can be routed can be explained");
    Ok(Routed { decision: Explained { decision, candidates }, reservation })
}

/// Routes and keeps the place.
pub(crate) fn place(endpoint: &Endpoint, facts: &RequestFacts, n: u64) -> (Explained, Reservation) {
    let routed = attempt(endpoint, facts, Attempts::default(), moment(n)).expect("a replica can take it");
    (routed.decision, routed.reservation)
}

/// Routes and ends the request at once; gives the replica's index.
pub(crate) fn pass(endpoint: &Endpoint, facts: &RequestFacts, n: u64) -> usize {
    place(endpoint, facts, n).0.choice.replica
}

pub(crate) fn refusal(endpoint: &Endpoint, facts: &RequestFacts) -> NoRoute {
    attempt(endpoint, facts, Attempts::default(), moment(0)).expect_err("nothing can take it")
}
