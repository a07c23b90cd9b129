//! A fleet as the gateway makes it from a plain configuration, and requests to it.

use std::sync::Arc;

use anyhow::{Context, Result};
use kvroute_core::cache::CAPACITY_TOKENS_DEFAULT;
use kvroute_core::facts::{RequestFacts, tokens_of_bytes};
use kvroute_core::fleet::{Endpoint, Replica, TargetId, Variant};
use kvroute_core::hash;
use kvroute_core::live::{Health, Live};
use kvroute_core::load::Reservation;
use kvroute_core::moment::{Entropy, Moment};
use kvroute_core::prompt::{Prompt, Settings};
use kvroute_core::router::{self, Attempts};
use kvroute_core::routing::{PrefixAware, Routing, Strategy};

/// The gateway's defaults.
const PREFIX_LENGTH: u32 = 4096;
const CHAIN_BYTES_MAX: usize = 8192;

pub(crate) fn settings() -> Settings {
    Settings { seed: 0, prefix_lengths: Arc::from([PREFIX_LENGTH]), chain_bytes_max: CHAIN_BYTES_MAX }
}

/// So many replicas under `prefix_aware`, all well.
pub(crate) fn endpoint(replicas: usize) -> Endpoint {
    let replica = |i: usize| {
        let live = Live::new(CAPACITY_TOKENS_DEFAULT);
        live.set_health(Health::Up);
        Replica::new(&format!("10.0.0.{i}:8000"), 1.0, TargetId(i as u32), Arc::new(live))
    };
    let routing =
        Routing { strategy: Strategy::PrefixAware, prefix_aware: PrefixAware::default(), ..Routing::default() };
    let variant = Variant::new("main", 1.0, routing, (0..replicas).map(replica).collect());
    let variants = vec![variant];
    Endpoint { name: "default".into(), models: vec![], variants, components: vec![], adapters: vec![], discovery: None }
}

/// The facts of a request with this prompt.
pub(crate) fn facts(model: Option<String>, prompt: Prompt, settings: &Settings) -> RequestFacts {
    let mut facts = RequestFacts {
        model,
        tenant: Some(hash::bytes(b"somebody", settings.seed)),
        prompt_tokens_estimated: tokens_of_bytes(prompt.text_bytes),
        prefix_keys: [prompt.key(PREFIX_LENGTH)].into_iter().collect(),
        prompt,
        ..RequestFacts::default()
    };
    if let Some(scope) = facts.scope() {
        facts.prompt.chain.scope(scope);
    }
    facts
}

/// Routes one request; gives its place.
pub(crate) fn choose(endpoint: &Endpoint, facts: &RequestFacts, turn: u64) -> Result<Reservation> {
    let moment = Moment { now_us: turn, entropy: Entropy::new(hash::finish(turn)) };
    let routed = router::route(endpoint, facts, None, Attempts::default(), moment);
    Ok(routed.context("no replica takes the request")?.reservation)
}
