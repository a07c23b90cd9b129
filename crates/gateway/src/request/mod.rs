//! The path of a request, top to bottom.
//!
//! ```text
//! call      what the path and method ask for
//! read      the body, scanned while it arrives
//! facts     what routing may look at
//! send      core decides and takes the place; the request goes there, or elsewhere if that fails early enough
//! relay     the answer, untouched, observed on its way
//! ```
//!
//! The request's [`Exchange`] is made when its place is taken and lives until the last byte of the answer went out, or
//! nobody wants it any more; dropping it releases the place and records how the request ended.

pub(crate) mod body;
pub(crate) mod call;
mod cors;
mod facts;
pub(crate) mod headers;
mod held;
mod read;
mod refusal;
mod refusal_log;
mod send;
mod unpack;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body::Body;

use self::body::RequestBody;
use self::call::{Api, Call, Inference};
use self::cors::Grant;
use self::read::Received;
pub(crate) use self::refusal::{Refusal, RefusalKind};
pub(crate) use self::refusal_log::RefusalLog;
use self::send::Errand;
use crate::gateway::Gateway;
use crate::models;
use crate::response::body::ResponseBody;
use crate::snapshot::Snapshot;

/// Longest path with its query that is passed on. The base path of a replica and its address go before it, and all of it
/// must fit into the 64 KiB less one byte that a URI may have.
const PATH_BYTES_MAX: usize = 62 << 10;

/// Answers one request on the data port.
pub(crate) async fn serve(gateway: Arc<Gateway>, request: Request<RequestBody>) -> Response<ResponseBody> {
    let arrived = Instant::now();
    let snapshot = gateway.snapshot();
    let (head, body) = request.into_parts();
    let grant = Grant::of(&snapshot.config.cors, &head.headers);
    if let Some(answer) = grant.as_ref().and_then(|grant| grant.preflight(&snapshot.config.cors, &head)) {
        return answer;
    }
    let mut response = answer(&gateway, &snapshot, &head, body, arrived).await;
    if let Some(grant) = grant {
        grant.tell(response.headers_mut());
    }
    if head.method == Method::HEAD { without_body(response) } else { response }
}

/// The head of an answer of our own; a replica's has no body anyway.
fn without_body(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    if let (ResponseBody::Full(_), Some(bytes)) = (response.body(), response.body().size_hint().exact()) {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
        *response.body_mut() = ResponseBody::full("");
    }
    response
}

/// The answer to an `OPTIONS` for a path that is answered here.
fn methods(allowed: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(""));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

async fn answer(
    gateway: &Arc<Gateway>,
    snapshot: &Arc<Snapshot>,
    head: &Parts,
    body: RequestBody,
    arrived: Instant,
) -> Response<ResponseBody> {
    let path = head.uri.path();
    let call = Call::of(&head.method, path);
    let api = call.api(path);
    let answer = match call {
        Call::Probe(probe) => Ok(gateway.probe(probe)),
        Call::Models => Box::pin(models::list(gateway, snapshot)).await,
        Call::Model(id) => Box::pin(models::one(gateway, snapshot, &id)).await,
        Call::Methods { allowed } => Ok(methods(allowed)),
        Call::Inference(inference) => infer(gateway, snapshot, inference, head, body, arrived).await,
        Call::WrongMethod { allowed } => Err(Refusal::wrong_method(allowed)),
        Call::Unknown => Err(Refusal::unknown_path(path)),
    };
    answer.unwrap_or_else(|refusal| refused(gateway, refusal, api, &head.headers))
}

/// The answer that says so, with an id by which it is found in the log.
fn refused(gateway: &Gateway, refusal: Refusal, api: Api, asked: &HeaderMap) -> Response<ResponseBody> {
    let id = refusal_log::request_id(asked, gateway.clock());
    if !refusal.was_asked() {
        gateway.telemetry().refused(&refusal, api);
        gateway.refusals().tell(&refusal, api, &id);
    }
    let mut response = refusal.response(api);
    response.headers_mut().insert(refusal_log::REQUEST_ID, id);
    response
}

async fn infer(
    gateway: &Arc<Gateway>,
    snapshot: &Arc<Snapshot>,
    call: Inference,
    head: &Parts,
    body: RequestBody,
    arrived: Instant,
) -> Result<Response<ResponseBody>, Refusal> {
    // Read first: a refusal before it would close on a client that is still sending.
    let prompt_only = !facts::need_all(snapshot, &call, &head.headers);
    let mut received = read::body(&head.headers, body, call.dialect(), prompt_only, (gateway, snapshot)).await?;
    if head.uri.path_and_query().is_some_and(|path| path.as_str().len() > PATH_BYTES_MAX) {
        return Err(Refusal::path_too_long(PATH_BYTES_MAX));
    }
    let params = headers::Params::of(&call, &head.headers)?;
    let index = endpoint_of(snapshot, &call, &received)?;
    let endpoint = snapshot.endpoint_config(index);
    if endpoint.decompress_requests {
        received.unpack();
    }
    if let Some(model) = received.model().and_then(|name| endpoint.aliases.get(name)) {
        received.rename_model(model)?;
    }
    received.drop_plain();
    let facts = facts::of(gateway, snapshot, index, &call, &head.headers, &params, &mut received);
    let errand = Errand {
        gateway,
        snapshot,
        index,
        call: &call,
        head,
        facts: &facts,
        received: &received,
        opens_session: params.opens_session,
        arrived,
    };
    let answer = errand.run().await?;
    if head.version == Version::HTTP_2 {
        let limit = Duration::from_millis(snapshot.config.timeouts.client_stall_ms);
        return Ok(answer.map(|body| body.watched(limit)));
    }
    Ok(answer)
}

/// The endpoint a request is for: named by its path, or by the model in its body.
fn endpoint_of(snapshot: &Snapshot, call: &Inference, received: &Received) -> Result<usize, Refusal> {
    match &call.endpoint {
        Some(name) => snapshot.fleet.endpoint(name).ok_or_else(|| Refusal::unknown_endpoint(name)),
        None => {
            let model = received.model();
            let aliased =
                |name| snapshot.config.endpoints.iter().position(|endpoint| endpoint.aliases.contains_key(name));
            let index = model.and_then(aliased).or_else(|| snapshot.fleet.endpoint_for_model(model));
            index.ok_or_else(|| Refusal::unknown_model(model))
        }
    }
}
