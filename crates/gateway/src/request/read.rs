//! Reads a request's body, and scans it while it arrives: once it is here, what routing needs is known.

use std::time::Duration;

use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use kvroute_core::abilities::{Demands, Modalities};
use kvroute_core::prompt::Prompt;
use kvroute_wire::request::{Dialect, Fields, Outcome, Scan};
use tokio::time::Instant;

use super::Refusal;
use super::call::BodyShape;
use super::held::Held;
use crate::gateway::Gateway;
use crate::scan::{BodyScanner, Size};
use crate::snapshot::Snapshot;
use crate::upstream::body::Pieces;

/// How much of a refused body is taken, and for how long.
const DISCARD_BYTES_MAX: u64 = 64 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(10);

/// A body with what was found in it.
#[derive(Debug)]
pub(crate) struct Received {
    /// The bytes, to be passed on.
    pub(crate) pieces: Pieces,
    scan: Option<Scan>,
    /// Its part of what all bodies may take.
    _held: Held,
    /// The prompt; empty where it could not be read.
    pub(crate) prompt: Prompt,
    /// How large the whole prompt is, where that matters.
    size: Option<Size>,
}

impl Received {
    /// The fields of the body, where it is JSON.
    pub(crate) fn fields(&self) -> Option<&Fields> {
        self.scan.as_ref().map(|scan| &scan.fields)
    }

    /// What kind of prompt the body holds.
    pub(crate) fn shape(&self) -> BodyShape {
        self.scan.as_ref().map_or(BodyShape::Other, |scan| scan.shape.into())
    }

    /// Bytes of the prompt's text; of the body, where the text was not read to its end.
    pub(crate) fn prompt_bytes(&self) -> u64 {
        if self.prompt.is_cut { self.pieces.len() } else { self.prompt.text_bytes }
    }

    /// What a replica must be able to do for it, as far as it could be read.
    pub(crate) fn demands(&self) -> Demands {
        let Some(scan) = self.scan.as_ref().filter(|_| self.unscanned().is_none()) else { return Demands::default() };
        let Fields { has_image: image, has_audio: audio, max_tokens, .. } = scan.fields;
        let size = self.size.unwrap_or_default();
        Demands { modalities: Modalities { image, audio }, ..size.demands(scan.shape, max_tokens) }
    }

    /// Why the prompt could not be read, if the body is one that should have had one.
    pub(crate) fn unscanned(&self) -> Option<&'static str> {
        let Some(scan) = &self.scan else { return Some("not_plain_json") };
        match scan.outcome {
            Outcome::Complete | Outcome::Ambiguous => None,
            Outcome::HeldTooLong => Some("role_after_long_content"),
            Outcome::Malformed { .. } => Some("malformed"),
            Outcome::TooDeep => Some("too_deep"),
            Outcome::NotAnObject => Some("not_an_object"),
            Outcome::Truncated => Some("truncated"),
            Outcome::Empty => Some("empty"),
        }
    }
}

/// Reads the whole body.
pub(crate) async fn body(
    headers: &HeaderMap,
    mut body: Incoming,
    dialect: Dialect,
    (gateway, snapshot): (&Gateway, &Snapshot),
) -> Result<Received, Refusal> {
    let limits = &snapshot.config.limits;
    let bytes_max = limits.body_bytes_max as u64;
    if body.size_hint().lower() > bytes_max {
        // Reading is what tells a client that waits for it to go on.
        if !headers.contains_key(header::EXPECT) {
            discard(body);
        }
        return Err(Refusal::body_too_large(bytes_max));
    }
    let scanner = if snapshot.demands_matter { BodyScanner::with_size } else { BodyScanner::new };
    let mut scanner = is_scannable(headers).then(|| scanner(dialect, &snapshot.prompt));
    let mut pieces = Pieces::default();
    let mut held = Held::none_of(&gateway.telemetry().bodies_bytes);
    let idle = Duration::from_millis(snapshot.config.timeouts.body_idle_ms);
    let mut deadline = Instant::now() + idle;
    loop {
        let frame = tokio::time::timeout_at(deadline, body.frame()).await.map_err(|_| Refusal::body_too_slow(idle))?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|error| Refusal::body_unreadable(&error))?;
        let Ok(piece) = frame.into_data() else { continue };
        if pieces.len() + piece.len() as u64 > bytes_max {
            discard(body);
            return Err(Refusal::body_too_large(bytes_max));
        }
        if piece.is_empty() {
            // HTTP/2 has frames without data, with which a client could keep itself waited for.
            continue;
        }
        if !held.take(piece.len(), limits.bodies_bytes_max) {
            discard(body);
            return Err(Refusal::bodies_too_large());
        }
        if let Some(scanner) = &mut scanner {
            scanner.feed(&piece);
        }
        pieces.push(piece);
        if !body.is_end_stream() {
            deadline = Instant::now() + idle;
        }
    }
    let size = scanner.as_ref().and_then(BodyScanner::size);
    let (scan, prompt) = match scanner.map(BodyScanner::finish) {
        Some((scan, prompt)) => (Some(scan), prompt),
        None => (None, Prompt::default()),
    };
    let mut received = Received { pieces: pieces.complete(), scan, _held: held, prompt, size };
    if received.unscanned().is_some() {
        // What was hashed before the fault may be any part of the prompt: not something to route by.
        received.prompt = Prompt::default();
    }
    Ok(received)
}

/// Takes what a refused client still sends, within limits: closing on it would reset the connection, and most clients
/// then report the reset in place of the refusal.
fn discard(mut body: Incoming) {
    tokio::spawn(tokio::time::timeout(DISCARD_TIME, async move {
        let mut bytes_left = DISCARD_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, |piece| piece.len() as u64);
            let Some(rest) = bytes_left.checked_sub(bytes) else { break };
            bytes_left = rest;
        }
    }));
}

/// JSON, or not said to be anything else: boto3 and curl often do not say.
fn is_scannable(headers: &HeaderMap) -> bool {
    let is_encoded = headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity");
    let media_type = headers.get(header::CONTENT_TYPE).map_or(&b"application/json"[..], |value| value.as_bytes());
    let media_type = media_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let binary: [&[u8]; 3] = [b"multipart/form-data", b"application/octet-stream", b"audio/"];
    !is_encoded
        && !binary
            .iter()
            .any(|kind| media_type.len() >= kind.len() && media_type[..kind.len()].eq_ignore_ascii_case(kind))
}
