//! What routing may look at, from a request's head and scanned body.

use http::{HeaderMap, HeaderName, HeaderValue};
use kvroute_core::abilities::Demands;
use kvroute_core::facts::{RequestFacts, tokens_of_bytes};
use kvroute_core::hash;
use kvroute_core::routing::{NativePrefixSource, Strategy};
use kvroute_wire::request::Dialect;

use super::call::{Api, Inference};
use super::headers::Params;
use super::read::Received;
use crate::config;
use crate::gateway::Gateway;
use crate::keepers::Kind;
use crate::snapshot::Snapshot;

/// Seeds of hashes of names, so that a session called like a tenant is not that tenant.
const TENANT_SEED: u64 = 1;
const SESSION_SEED: u64 = 2;
const SALT_SEED: u64 = 3;

/// The facts of a request to the endpoint at `index`; its prompt moves into them.
pub(crate) fn of(
    gateway: &Gateway,
    snapshot: &Snapshot,
    index: usize,
    call: &Inference,
    headers: &HeaderMap,
    params: &Params,
    received: &mut Received,
) -> RequestFacts {
    let endpoint = snapshot.endpoint_config(index);
    let seeded = |seed: u64| snapshot.prompt.seed ^ seed;
    let fields = received.fields();
    let cache_key = fields.and_then(|fields| fields.prompt_cache_key.as_deref()).map(str::as_bytes);
    let tenant = header(headers, &endpoint.routing.tenant_header).or(cache_key);
    let session = header(headers, &endpoint.routing.session_header)
        .or(params.session.as_deref().map(str::as_bytes))
        .or(cache_key);
    let keeper = |kind: Kind, id: Option<&str>| id.and_then(|id| gateway.keepers().of(&endpoint.name, kind, id));
    let previous = fields.and_then(|fields| fields.previous_response_id.as_deref()).or(call.response_id());
    let pinned = keeper(Kind::Session, params.session.as_deref()).or_else(|| keeper(Kind::Response, previous));
    let salt = fields.and_then(|fields| fields.cache_salt.as_deref());

    let mut facts = RequestFacts {
        model: fields.and_then(|fields| fields.model.clone()),
        variant: params.variant.clone(),
        component: params.component.clone(),
        tenant: tenant.map(|tenant| hash::bytes(tenant, seeded(TENANT_SEED))),
        session: session.map(|session| hash::bytes(session, seeded(SESSION_SEED))),
        pinned,
        cache_salt: salt.map(|salt| hash::bytes(salt.as_bytes(), seeded(SALT_SEED))),
        prompt_tokens_estimated: tokens_of_bytes(received.prompt_bytes()),
        demands: received.demands(),
        ..RequestFacts::default()
    };
    if call.has_prompt {
        let keys = endpoint.variants.iter().map(|variant| prefix_key(&variant.routing, call.api, received, seeded(0)));
        facts.prefix_keys = keys.collect();
        facts.prompt = std::mem::take(&mut received.prompt);
        if let Some(scope) = facts.scope() {
            facts.prompt.chain.scope(scope);
        }
    } else {
        // What the path is for is not known here; it goes by load.
        facts.session = None;
        facts.demands = Demands { modalities: facts.demands.modalities, ..Demands::default() };
    }
    facts
}

/// Whether members that may stand after a long prompt can make a difference to where the request goes. Where they cannot,
/// its body is not read to the end, but for its bytes. A `cache_salt` that is missed there costs no more than a wrong
/// belief about what a replica holds.
pub(crate) fn need_all(snapshot: &Snapshot, call: &Inference, headers: &HeaderMap) -> bool {
    let endpoints = &snapshot.config.endpoints;
    let index = match &call.endpoint {
        Some(name) => snapshot.fleet.endpoint(name),
        None => (endpoints.len() == 1 && endpoints[0].models.is_empty()).then_some(0),
    };
    let Some(endpoint) = index.map(|index| snapshot.endpoint_config(index)) else { return true };
    let model_matters = !endpoint.aliases.is_empty() || !endpoint.adapters.is_empty() || endpoint.discover_models;
    let uses = |strategy| endpoint.variants.iter().any(|variant| variant.routing.strategy == strategy);
    let lacks = |name| header(headers, name).is_none();
    // What stands in for these headers is `prompt_cache_key`.
    let tenant_matters = uses(Strategy::PrefixAware) && lacks(&endpoint.routing.tenant_header);
    let session_matters = uses(Strategy::Session) && lacks(&endpoint.routing.session_header);
    let is_gone_on_with = call.dialect() == Dialect::Responses;
    model_matters || tenant_matters || session_matters || is_gone_on_with || snapshot.demands_matter
}

/// What `prefix_aware` hashes at a variant.
fn prefix_key(routing: &config::Routing, api: Api, received: &Received, seed: u64) -> Option<u64> {
    match (api, routing.native_prefix_source) {
        (Api::SageMaker, NativePrefixSource::BodyBytes) => {
            let beginning = received.beginning(routing.prefix_length as usize);
            (!beginning.is_empty()).then(|| hash::bytes(&beginning, seed))
        }
        (Api::SageMaker, NativePrefixSource::MessageText) | (Api::OpenAi, _) => {
            received.prompt_key(routing.prefix_length)
        }
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    headers.get(name).map(HeaderValue::as_bytes).filter(|value| !value.is_empty())
}
