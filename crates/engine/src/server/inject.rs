//! Injected faults at work, and the paths by which tests rule them.
//!
//! ```text
//! GET    /inject          the rules, and how often each struck
//! POST   /inject          one more rule
//! DELETE /inject          none any more
//! GET    /debug/requests  what became of every request
//! ```
//!
//! They are there only where the configuration allows it: whoever reaches them can stop the engine.
//!
//! A half-open connection is one whose request is left in the socket: its head has been read, to know
//! the path, and nothing after that. Like a real one it does not notice that its client leaves; it is
//! let go when the rules are cleared, or after [`HALF_OPEN_MS_MAX`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::{Request, StatusCode};
use serde::Serialize;

use super::app::{App, Injection};
use super::error::ApiError;
use super::fault::{Armed, BrokenEnd, Effect, INFERENCE_PATHS, Rule};
use super::ledger::{Outcome, Receipt};
use super::line::{End, Line};
use super::reply::{self, Cut, Disturbance, Reply};
use super::routes;

/// The longest that a half-open connection is held.
const HALF_OPEN_MS_MAX: u64 = 600_000;

#[derive(Serialize)]
struct Rules<'a> {
    rules: &'a [Armed],
}

/// Answers a request that may meet a fault.
pub(super) async fn answer(app: &App, injection: &Injection, request: Request<Incoming>, line: &Arc<Line>) -> Reply {
    let path = request.uri().path();
    let receipt = INFERENCE_PATHS.contains(&path).then(|| injection.ledger.received(request.headers()));
    // Before the decision, so that rules which are cleared right after it are not missed.
    let cleared = injection.cleared.notified();
    let effect = injection.faults.lock().decide(path);
    let mut disturbance = Disturbance::None;
    match effect {
        None => {}
        Some(Effect::Status { status, retry_after }) => {
            let mut reply = routes::refusal(path, &ApiError::Injected(status));
            drain(app, request).await;
            if let Some(retry_after) = retry_after {
                reply.headers_mut().insert(RETRY_AFTER, retry_after);
            }
            return booked(reply, receipt);
        }
        Some(Effect::Hang) => {
            drain(app, request).await;
            return std::future::pending().await;
        }
        Some(Effect::HalfOpen) => {
            let _ = tokio::time::timeout(Duration::from_millis(HALF_OPEN_MS_MAX), cleared).await;
            return end(line, End::Reset, receipt).await;
        }
        Some(Effect::CutBeforeHeaders) => {
            drain(app, request).await;
            return end(line, End::Reset, receipt).await;
        }
        Some(Effect::SlowStart { ms }) => tokio::time::sleep(Duration::from_millis(ms)).await,
        Some(Effect::SlowChunks { ms }) => {
            disturbance = Disturbance::Slow { pause: Duration::from_millis(ms), sleep: None };
        }
        Some(Effect::CutMidStream { after_chunks }) => {
            disturbance = cut(after_chunks, Cut::Line(Arc::clone(line), End::Reset));
        }
        Some(Effect::EndMidStream { after_chunks, ending }) => {
            disturbance = cut(after_chunks, broken(ending, line));
        }
        Some(Effect::ErrorMidStream { after_chunks }) => disturbance = cut(after_chunks, Cut::Error),
    }
    let mut reply = app.route(request).await;
    reply.body_mut().disturb(disturbance);
    booked(reply, receipt)
}

/// Answers the tests' own paths. Others are not there, and neither are these unless that is allowed.
pub(super) async fn control(app: &App, request: Request<Incoming>) -> Result<Reply, ApiError> {
    let Some(injection) = &app.injection else { return Err(ApiError::NoRoute) };
    match (request.method().as_str(), request.uri().path()) {
        ("GET", "/debug/requests") => Ok(reply::json(injection.ledger.page())),
        ("GET", "/inject") => Ok(json(&Rules { rules: injection.faults.lock().list() })),
        ("DELETE", "/inject") => {
            injection.faults.lock().clear();
            injection.cleared.notify_waiters();
            Ok(json(&Rules { rules: &[] }))
        }
        ("POST", "/inject") => {
            let body = app.read(request).await?;
            let rule: Rule = serde_json::from_slice(&body).map_err(|error| ApiError::bad(error.to_string()))?;
            let mut faults = injection.faults.lock();
            let armed = faults.add(rule).map_err(ApiError::bad)?;
            Ok(json(armed))
        }
        (_, "/inject" | "/debug/requests") => Err(ApiError::NoMethod),
        _ => Err(ApiError::NoRoute),
    }
}

fn json(shape: &impl Serialize) -> Reply {
    // These shapes cannot fail.
    reply::json(serde_json::to_vec(shape).unwrap_or_default())
}

/// Reads a body to its end, within the limits: a client that is still sending is not told the same as
/// one that waits.
async fn drain(app: &App, request: Request<Incoming>) {
    let mut body = request.into_body();
    let mut bytes = 0;
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > app.body_bytes_max {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(app.read_ms_max), read).await;
}

/// Ends the connection in place of an answer.
async fn end(line: &Line, how: End, receipt: Option<Receipt>) -> Reply {
    if let Some(mut receipt) = receipt {
        receipt.settle(Outcome::Failed);
    }
    line.end(how);
    std::future::pending().await
}

fn cut(chunks_left: u32, how: Cut) -> Disturbance {
    Disturbance::Cut { chunks_left, how }
}

fn broken(ending: BrokenEnd, line: &Arc<Line>) -> Cut {
    match ending {
        BrokenEnd::Clean => Cut::Clean,
        BrokenEnd::BetweenChunks => Cut::Line(Arc::clone(line), End::Close),
        BrokenEnd::InChunk => Cut::Line(Arc::clone(line), End::CloseInChunk),
    }
}

/// Leaves the receipt with the body, or settles it where there was nothing to answer.
fn booked(mut reply: Reply, receipt: Option<Receipt>) -> Reply {
    let refused = reply.status() >= StatusCode::BAD_REQUEST;
    if let Some(mut receipt) = receipt {
        if refused {
            receipt.settle(Outcome::Failed);
        }
        reply.body_mut().book(receipt);
    }
    reply
}
