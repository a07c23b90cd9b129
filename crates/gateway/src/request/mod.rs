//! The path of a request, top to bottom.
//!
//! ```text
//! call      what the path and method ask for
//! read      the body, scanned while it arrives
//! facts     what routing may look at
//! route     core decides and takes the place
//! send      to the first choice; while nothing was sent, to the next one
//! relay     the answer, untouched, observed on its way
//! ```
//!
//! The request's [`Exchange`] is made when its place is taken and lives until the last byte of the answer went out, or
//! nobody wants it any more; dropping it releases the place and records how the request ended.

pub(crate) mod call;
mod facts;
pub(crate) mod headers;
mod read;
mod refusal;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use kvroute_core::filter::Needs;
use kvroute_core::router::{self, Routed};

use self::call::{Api, Call, Inference};
use self::read::Received;
pub(crate) use self::refusal::{Refusal, RefusalKind};
use crate::config;
use crate::gateway::Gateway;
use crate::models;
use crate::response::body::ResponseBody;
use crate::response::exchange::Exchange;
use crate::response::relay;
use crate::snapshot::Snapshot;
use crate::upstream::body::Pieces;
use crate::upstream::client::SendError;
use crate::upstream::target::Target;

/// Answers one request on the data port.
pub(crate) async fn serve(gateway: Arc<Gateway>, request: Request<Incoming>) -> Response<ResponseBody> {
    let arrived = Instant::now();
    let snapshot = gateway.snapshot();
    let call = Call::of(request.method(), request.uri().path());
    let api = call.api();
    let answer = match call {
        Call::Probe(probe) => Ok(gateway.probe(probe)),
        Call::Models => Ok(models::list(&snapshot).await),
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
    gateway: &Gateway,
    snapshot: &Arc<Snapshot>,
    call: Inference,
    request: Request<Incoming>,
    arrived: Instant,
) -> Result<Response<ResponseBody>, Refusal> {
    let (head, body) = request.into_parts();
    // Read first: a refusal before it would close on a client that is still sending.
    let received = read::body(&head.headers, body, snapshot).await?;
    let params = headers::Params::of(&call, &head.headers)?;
    let index = endpoint_of(snapshot, &call, &received)?;
    let endpoint = &snapshot.fleet.endpoints[index];
    let facts = facts::of(snapshot, index, &call, &head.headers, &params, &received);

    let before = Instant::now();
    let routed = router::route(endpoint, &facts, gateway.clock().moment()).map_err(|why| Refusal::no_route(&why))?;
    let unscanned = received.unscanned().filter(|_| call.has_prompt);
    gateway.telemetry().decided(endpoint, &routed.decision, before.elapsed(), unscanned);
    let Routed { decision, reservation, needs } = routed;
    let target = |attempt: usize| snapshot.target(decision.choices[attempt].target).clone();
    let mut exchange = Exchange::new(gateway.telemetry(), target(0), &decision, reservation, &facts, arrived);

    let shape = received.shape();
    let outgoing =
        Outgoing { call: &call, head: &head, snapshot, index, needs, component: params.component.as_deref() };
    let first_byte = Duration::from_millis(snapshot.config.timeouts.first_byte_ms);
    for attempt in 1.. {
        let request = outgoing.to(exchange.target(), shape, received.pieces.clone())?;
        let error = match snapshot.client.send(request, first_byte).await {
            Ok(response) => return Ok(relay::answer(&call, response, exchange).await),
            Err(error) => error,
        };
        // Only what was certainly not sent may be sent again: an engine may be generating for anything else.
        let may_retry = matches!(error, SendError::Connect(_));
        let next = if may_retry { router::take_next(endpoint, needs, &decision, attempt, &facts) } else { None };
        match next {
            Some((reservation, captured_bytes)) => exchange.retry(target(attempt), reservation, captured_bytes),
            None => return Err(exchange.failed(&error)),
        }
    }
    unreachable!("a decision has a last choice")
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

/// What a request to a replica is made of.
struct Outgoing<'a> {
    call: &'a Inference,
    head: &'a http::request::Parts,
    snapshot: &'a Snapshot,
    index: usize,
    needs: Needs<'a>,
    component: Option<&'a str>,
}

impl Outgoing<'_> {
    /// The request to `target`: the client's body, byte for byte, on the path that the target's API has for it.
    fn to(&self, target: &Target, shape: call::BodyShape, body: Pieces) -> Result<Request<Pieces>, Refusal> {
        let path = self.path(target, shape)?;
        let uri = target.uri(&path).ok_or_else(|| Refusal::unknown_path(path.as_str()))?;
        let mut request = Request::new(body);
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers(target);
        Ok(request)
    }

    fn path(&self, target: &Target, shape: call::BodyShape) -> Result<PathAndQuery, Refusal> {
        match &self.call.api {
            Api::OpenAi => {
                let path = self.call.path.as_str();
                let query = self.head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
                PathAndQuery::try_from(format!("{path}{query}")).map_err(|_| Refusal::unknown_path(path))
            }
            Api::SageMaker => call::native_path(target.api, shape).map(PathAndQuery::from_static),
        }
    }

    fn headers(&self, target: &Target) -> HeaderMap {
        let mut headers = match self.call.api {
            Api::OpenAi => {
                headers::forwarded(&self.head.headers, self.snapshot.endpoint_config(self.index).forward_authorization)
            }
            Api::SageMaker => headers::forwarded_native(&self.head.headers, self.call.streams),
        };
        if self.call.api == Api::SageMaker && target.api == config::Api::OpenAi {
            // The body's shape chose the path, so JSON it is, whatever the client called it: curl calls it a form.
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(key) = &target.authorization {
            headers.insert(header::AUTHORIZATION, key.clone());
        }
        headers::name_adapter(&mut headers, self.component, self.needs);
        headers
    }
}
