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

pub(crate) mod call;
mod facts;
pub(crate) mod headers;
mod held;
mod read;
mod refusal;
mod send;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, Response, Version};
use hyper::body::Incoming;

use self::call::{Call, Inference};
use self::read::Received;
pub(crate) use self::refusal::{Refusal, RefusalKind};
use self::send::Errand;
use crate::gateway::Gateway;
use crate::models;
use crate::response::body::ResponseBody;
use crate::snapshot::Snapshot;

/// Answers one request on the data port.
pub(crate) async fn serve(gateway: Arc<Gateway>, request: Request<Incoming>) -> Response<ResponseBody> {
    let arrived = Instant::now();
    let snapshot = gateway.snapshot();
    let call = Call::of(request.method(), request.uri().path());
    let api = call.api(request.uri().path());
    let answer = match call {
        Call::Probe(probe) => Ok(gateway.probe(probe)),
        Call::Models => Box::pin(models::list(&gateway, &snapshot)).await,
        Call::Inference(inference) => infer(&gateway, &snapshot, inference, request, arrived).await,
        Call::WrongMethod { allowed } => Err(Refusal::wrong_method(allowed)),
        Call::Unknown => Err(Refusal::unknown_path(request.uri().path())),
    };
    answer.unwrap_or_else(|refusal| {
        if !refusal.was_asked() {
            gateway.telemetry().refused(&refusal, api);
        }
        refusal.response(api)
    })
}

async fn infer(
    gateway: &Arc<Gateway>,
    snapshot: &Arc<Snapshot>,
    call: Inference,
    request: Request<Incoming>,
    arrived: Instant,
) -> Result<Response<ResponseBody>, Refusal> {
    let (head, body) = request.into_parts();
    // Read first: a refusal before it would close on a client that is still sending.
    let mut received = read::body(&head.headers, body, call.dialect(), (gateway, snapshot)).await?;
    let params = headers::Params::of(&call, &head.headers)?;
    let index = endpoint_of(snapshot, &call, &received)?;
    let facts = facts::of(gateway, snapshot, index, &call, &head.headers, &params, &mut received);
    let errand = Errand {
        gateway,
        snapshot,
        index,
        call: &call,
        head: &head,
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
            let model = received.fields().and_then(|fields| fields.model.as_deref());
            snapshot.fleet.endpoint_for_model(model).ok_or_else(|| Refusal::unknown_model(model))
        }
    }
}
