//! The admin port: metrics, probes, and the fleet as it is now.

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use serde::Serialize;

use crate::gateway::Gateway;
use crate::request::call::Probe;
use crate::response::body::ResponseBody;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request on the admin port.
pub(crate) async fn serve(gateway: Arc<Gateway>, request: Request<Incoming>) -> Response<ResponseBody> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is possible here\n");
    }
    match request.uri().path() {
        "/metrics" => match gateway.metrics_page() {
            Ok(page) => typed(METRICS_TYPE, page),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("the metrics cannot be written: {error}\n")),
        },
        "/livez" | "/health" | "/healthz" => gateway.probe(Probe::Live),
        "/readyz" => gateway.probe(Probe::Ready),
        "/api/v1/replicas" => typed("application/json", replicas(&gateway)),
        _ => text(StatusCode::NOT_FOUND, "there are /metrics, /livez, /readyz and /api/v1/replicas\n"),
    }
}

#[derive(Serialize)]
struct ReplicaStatus<'a> {
    endpoint: &'a str,
    variant: &'a str,
    id: &'a str,
    url: String,
    state: &'static str,
    weight: f64,
    in_flight: u32,
    pending_prefill_tokens: u64,
    routed: u64,
}

fn replicas(gateway: &Gateway) -> String {
    let snapshot = gateway.snapshot();
    let rows = snapshot.replicas().map(|(endpoint, variant, replica)| ReplicaStatus {
        endpoint: &endpoint.name,
        variant: &variant.name,
        id: &replica.id,
        url: snapshot.target(replica.target).url.to_string(),
        state: replica.live.state().as_str(),
        weight: replica.weight,
        in_flight: replica.live.load.in_flight(),
        pending_prefill_tokens: replica.live.load.pending_prefill_tokens(),
        routed: replica.live.load.routed(),
    });
    serde_json::to_string(&rows.collect::<Vec<_>>()).expect("names and numbers make JSON")
}

fn text(status: StatusCode, text: &str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(text.to_owned()));
    *response.status_mut() = status;
    response
}

fn typed(content_type: &'static str, body: String) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
