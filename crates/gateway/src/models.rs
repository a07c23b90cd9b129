//! `/v1/models`: what the replicas serve, merged.
//!
//! All replicas that are not down are asked at once; of equal ids the first replica's entry is kept whole. Replicas that do not answer
//! in time are left out, so the list is what can be had now. The names that the configuration gives come last, for models
//! that no replica lists now.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt, Limited};
use kvroute_core::live::Health;
use kvroute_wire::openai::{find_model, merge_models};
use tokio::task::JoinSet;

use crate::request::{Refusal, RefusalKind};
use crate::response::body::ResponseBody;
use crate::snapshot::Snapshot;
use crate::upstream::target::Target;

const LIST_BYTES_MAX: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);

/// The merged list.
pub(crate) async fn list(snapshot: &Arc<Snapshot>) -> Result<Response<ResponseBody>, Refusal> {
    merged(snapshot).await.map(answer)
}

/// The entry of one model.
pub(crate) async fn one(snapshot: &Arc<Snapshot>, id: &str) -> Result<Response<ResponseBody>, Refusal> {
    let list = merged(snapshot).await?;
    let entry = find_model(&list, id).ok_or_else(|| Refusal::unknown_model(Some(id)))?;
    Ok(answer(Bytes::copy_from_slice(entry.as_bytes())))
}

fn answer(body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

async fn merged(snapshot: &Arc<Snapshot>) -> Result<Bytes, Refusal> {
    let mut asked = JoinSet::new();
    for (order, (_, _, replica)) in snapshot.replicas().enumerate() {
        if replica.live.health() != Health::Down {
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
    if lists.is_empty() && merged.models == 0 {
        // An empty list would say that there are no models, not that nobody can tell.
        return Err(Refusal::new(RefusalKind::Unavailable, "no replica can tell its models now"));
    }
    Ok(merged.body)
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
