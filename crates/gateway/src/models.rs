//! `/v1/models`: what the replicas serve, merged.
//!
//! All replicas that requests may go to are asked at once; of equal ids the first replica's entry is kept whole. Replicas
//! that do not answer in time are left out, so the list is what can be had now. The names that the configuration gives
//! come last, for models that no replica lists now.
//!
//! Clients ask for the list at every start, dashboards all the time, and each time the whole fleet would be asked. So
//! whoever asks while it is being asked, or within [`KEPT`] after, gets the same list.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, Limited};
use kvroute_core::breaker::Verdict;
use kvroute_core::live::{Duty, Health, Live};
use kvroute_wire::openai::{find_model, merge_models};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::gateway::Gateway;
use crate::request::{Refusal, RefusalKind};
use crate::response::body::ResponseBody;
use crate::snapshot::Snapshot;
use crate::upstream::target::Target;

const LIST_BYTES_MAX: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a list is good enough for others.
const KEPT: Duration = Duration::from_secs(1);

/// The last list.
#[derive(Debug, Default)]
pub(crate) struct Lists(Mutex<Option<Told>>);

#[derive(Debug)]
struct Told {
    at: Instant,
    /// What was in force: with another configuration there are others to ask.
    of: Weak<Snapshot>,
    /// `None` where nobody could tell.
    list: Option<Bytes>,
}

impl Told {
    fn is_good_for(&self, snapshot: &Arc<Snapshot>) -> bool {
        self.at.elapsed() < KEPT && std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(snapshot))
    }
}

/// The merged list.
pub(crate) async fn list(gateway: &Gateway, snapshot: &Arc<Snapshot>) -> Result<Response<ResponseBody>, Refusal> {
    merged(gateway, snapshot).await.map(answer)
}

/// The entry of one model.
pub(crate) async fn one(
    gateway: &Gateway,
    snapshot: &Arc<Snapshot>,
    id: &str,
) -> Result<Response<ResponseBody>, Refusal> {
    let list = merged(gateway, snapshot).await?;
    let entry = find_model(&list, id).ok_or_else(|| Refusal::unknown_model(Some(id)))?;
    Ok(answer(Bytes::copy_from_slice(entry.as_bytes())))
}

fn answer(body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn merged(gateway: &Gateway, snapshot: &Arc<Snapshot>) -> Result<Bytes, Refusal> {
    // Whoever has the lock asks for all who wait for it; if that one leaves, the next one asks.
    let mut last = gateway.models().0.lock().await;
    let list = match &*last {
        Some(told) if told.is_good_for(snapshot) => told.list.clone(),
        _ => {
            let list = ask_all(snapshot, gateway.clock().moment().now_us).await;
            *last = Some(Told { at: Instant::now(), of: Arc::downgrade(snapshot), list: list.clone() });
            list
        }
    };
    // An empty list would say that there are no models, not that nobody can tell.
    list.ok_or_else(|| Refusal::new(RefusalKind::Unavailable, "no replica can tell its models now"))
}

/// Whether requests may go there at all.
fn may_serve(live: &Live, now_us: u64) -> bool {
    let is_gone = matches!(live.breaker.standing(now_us).verdict, Verdict::Ejected { is_reachable: false, .. });
    live.duty() == Duty::Ready && live.health() != Health::Down && !is_gone
}

/// The lists of all replicas that may serve, merged; `None` where there is nothing to tell.
async fn ask_all(snapshot: &Arc<Snapshot>, now_us: u64) -> Option<Bytes> {
    let mut asked = JoinSet::new();
    for (order, (_, _, replica)) in snapshot.replicas().enumerate() {
        if may_serve(&replica.live, now_us) {
            let target = snapshot.target(replica.target).clone();
            asked.spawn(async move { (order, ask(&target).await) });
        }
    }
    let mut lists: Vec<(usize, Bytes)> =
        asked.join_all().await.into_iter().filter_map(|(order, list)| Some((order, list?))).collect();
    lists.sort_by_key(|(order, _)| *order);
    let configured = configured(snapshot);
    let mut bodies: Vec<&[u8]> = lists.iter().map(|(_, list)| &list[..]).collect();
    bodies.push(&configured);
    let merged = merge_models(&bodies, LIST_BYTES_MAX);
    (!lists.is_empty() || merged.models > 0).then_some(merged.body)
}

async fn ask(target: &Target) -> Option<Bytes> {
    let answer = async {
        let response = target.get("/v1/models", TIMEOUT).await.ok()?;
        let is_good = response.status().is_success();
        let body = Limited::new(response.into_body(), LIST_BYTES_MAX).collect().await.ok()?;
        is_good.then(|| body.to_bytes())
    };
    tokio::time::timeout(TIMEOUT, answer).await.ok().flatten()
}

/// The names that the configuration gives models and adapters, and what else clients may call them.
fn configured(snapshot: &Snapshot) -> Vec<u8> {
    let names = snapshot
        .config
        .endpoints
        .iter()
        .flat_map(|endpoint| endpoint.models.iter().chain(endpoint.adapters.iter().map(|adapter| &adapter.name)));
    let models =
        names.map(|id| serde_json::json!({ "id": id, "object": "model", "created": 0, "owned_by": "kvroute" }));
    let aliases = snapshot.config.endpoints.iter().flat_map(|endpoint| &endpoint.aliases);
    let aliases = aliases.map(|(alias, model)| {
        serde_json::json!({ "id": alias, "object": "model", "created": 0, "owned_by": "kvroute", "root": model })
    });
    let list = serde_json::json!({ "object": "list", "data": models.chain(aliases).collect::<Vec<_>>() });
    list.to_string().into_bytes()
}
