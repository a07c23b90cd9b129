//! The admin port: metrics, probes, the fleet as it is now, and taking replicas out of it and back.

use std::net::IpAddr;
use std::sync::Arc;

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use kvroute_core::breaker::Verdict;
use kvroute_core::fleet::{Endpoint, Replica};
use kvroute_core::live::{Duty, Health, Live};
use kvroute_wire::sagemaker::decode_name;
use serde::Serialize;

use crate::gateway::Gateway;
use crate::request::body::RequestBody;
use crate::request::call::Probe;
use crate::response::body::ResponseBody;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Each replica has its place below.
const REPLICAS: &str = "/api/v1/replicas/";

const PATHS: &str = "there are /metrics, /livez, /readyz, /api/v1/replicas, and POST \
                     /api/v1/replicas/{id}/{ready|drain|maint}[?endpoint=NAME]\n";

/// Answers one request on the admin port.
pub(crate) async fn serve(gateway: Arc<Gateway>, request: Request<RequestBody>) -> Response<ResponseBody> {
    if *request.method() == Method::POST && request.uri().path().starts_with(REPLICAS) {
        if comes_from_elsewhere(request.headers()) {
            return text(StatusCode::FORBIDDEN, "pages of other origins may not change anything here\n");
        }
        return change_duty(&gateway, request.uri());
    }
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
        _ => text(StatusCode::NOT_FOUND, PATHS),
    }
}

/// Whether a page of another origin asks, in the browser of somebody who can reach this port. Browsers say whose page it
/// is with every POST. A page whose own name was made to lead here has the right origin; so it has to be asked for under
/// an address, or the name of the machine itself, neither of which others can give to their page.
fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN).map(HeaderValue::as_bytes) else { return false };
    let host = headers.get(header::HOST).map_or(&[][..], HeaderValue::as_bytes);
    let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    authority.is_none_or(|authority| authority != host || !is_nobodys_name(host))
}

/// Whether a host (with or without a port) is an address or `localhost`.
fn is_nobodys_name(host: &[u8]) -> bool {
    let Some(authority) = std::str::from_utf8(host).ok().and_then(|host| host.parse::<Authority>().ok()) else {
        return false;
    };
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

/// `POST /api/v1/replicas/{id}/{ready|drain|maint}`, with `?endpoint=` where several endpoints have a replica of this id.
fn change_duty(gateway: &Gateway, uri: &Uri) -> Response<ResponseBody> {
    let parts = uri.path().strip_prefix(REPLICAS).and_then(|rest| rest.rsplit_once('/'));
    let Some((id, wanted)) = parts.and_then(|(id, wanted)| Some((decode_name(id)?, wanted))) else {
        return text(StatusCode::NOT_FOUND, PATHS);
    };
    let Some(duty) = Duty::ALL.into_iter().find(|duty| duty.as_str() == wanted) else {
        return text(StatusCode::NOT_FOUND, PATHS);
    };
    let endpoint = uri.query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("endpoint=")));
    let endpoint = endpoint.map(|name| decode_name(name).unwrap_or_default());
    let snapshot = gateway.snapshot();
    let is_meant = |of: &Endpoint, replica: &Replica| {
        *replica.id == *id && endpoint.as_ref().is_none_or(|name| **name == *of.name)
    };
    let meant: Vec<_> = snapshot.replicas().filter(|(of, _, replica)| is_meant(of, replica)).collect();
    match meant[..] {
        [] => text(StatusCode::NOT_FOUND, "there is no such replica\n"),
        [(of, _, replica)] => {
            let before = replica.live.set_duty(duty);
            let (replica, endpoint, from, to) = (&*replica.id, &*of.name, before.as_str(), duty.as_str());
            tracing::info!(replica, endpoint, from, to, "replica's duty changed");
            typed("application/json", replicas(gateway))
        }
        [..] => text(StatusCode::CONFLICT, "several endpoints have a replica of this id, add ?endpoint=NAME\n"),
    }
}

#[derive(Serialize)]
struct ReplicaStatus<'a> {
    endpoint: &'a str,
    variant: &'a str,
    id: &'a str,
    url: String,
    state: &'static str,
    duty: &'static str,
    health: &'static str,
    ejected: bool,
    weight: f64,
    in_flight: u32,
    pending_prefill_tokens: u64,
    routed: u64,
}

/// In one word, what keeps requests away, or `ready`.
fn state(live: &Live, now_us: u64) -> &'static str {
    match (live.duty(), live.breaker.standing(now_us).verdict, live.health()) {
        (Duty::Drain | Duty::Maint, ..) => live.duty().as_str(),
        (Duty::Ready, Verdict::Ejected { .. }, _) => "ejected",
        (Duty::Ready, _, Health::Up) => "ready",
        (Duty::Ready, _, health) => health.as_str(),
    }
}

fn replicas(gateway: &Gateway) -> String {
    let snapshot = gateway.snapshot();
    let now_us = gateway.clock().moment().now_us;
    let rows = snapshot.replicas().map(|(endpoint, variant, replica)| ReplicaStatus {
        endpoint: &endpoint.name,
        variant: &variant.name,
        id: &replica.id,
        url: snapshot.target(replica.target).url.to_string(),
        state: state(&replica.live, now_us),
        duty: replica.live.duty().as_str(),
        health: replica.live.health().as_str(),
        ejected: matches!(replica.live.breaker.standing(now_us).verdict, Verdict::Ejected { .. }),
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
