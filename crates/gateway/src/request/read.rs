//! Reads a request's body, and scans it while it arrives: once it is here, what routing needs is known.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use kvroute_core::abilities::{Demands, Modalities};
use kvroute_core::prompt::Prompt;
use kvroute_wire::request::{Dialect, Fields, Outcome, Scan};
use kvroute_wire::rewrite::{self, Edit, Plan};

use super::Refusal;
use super::body::{BodyError, RequestBody};
use super::call::BodyShape;
use super::held::Held;
use super::unpack::{self, Unpacked, Unpacker};
use crate::config;
use crate::gateway::Gateway;
use crate::scan::{BodyScanner, Scanned, Size, Wants};
use crate::snapshot::Snapshot;
use crate::upstream::body::Pieces;

/// A body with what was found in it.
#[derive(Debug)]
pub(crate) struct Received {
    /// The bytes, to be passed on.
    pub(crate) pieces: Pieces,
    scan: Option<Scan>,
    /// Its part of what all bodies may take.
    _held: Held,
    /// What is in it, where it is compressed.
    unpacked: Option<Box<Unpacked>>,
    /// Whether the bytes are others than the client sent.
    pub(crate) is_changed: bool,
    /// The prompt; empty where it could not be read.
    pub(crate) prompt: Prompt,
    /// What keys are made of, where it is not that.
    key_prompt: Option<Box<Prompt>>,
    /// How large the whole prompt is, where that matters.
    size: Option<Size>,
}

impl Received {
    /// The fields of the body, where it is JSON.
    pub(crate) fn fields(&self) -> Option<&Fields> {
        self.scan.as_ref().map(|scan| &scan.fields)
    }

    /// The model that the body names.
    pub(crate) fn model(&self) -> Option<&str> {
        self.fields()?.model.as_deref()
    }

    /// What kind of prompt the body holds.
    pub(crate) fn shape(&self) -> BodyShape {
        self.scan.as_ref().map_or(BodyShape::Other, |scan| scan.shape.into())
    }

    /// Bytes of the prompt's text; of the body, where the text was not read to its end.
    pub(crate) fn prompt_bytes(&self) -> u64 {
        match &self.unpacked {
            _ if !self.prompt.is_cut => self.prompt.text_bytes,
            Some(unpacked) => unpacked.bytes,
            None => self.pieces.len(),
        }
    }

    /// The key of the prompt's first `prefix_length` characters.
    pub(crate) fn prompt_key(&self, prefix_length: u32) -> Option<u64> {
        self.key_prompt.as_deref().unwrap_or(&self.prompt).key(prefix_length)
    }

    /// The first `n` bytes of the plain body, or all there are.
    pub(crate) fn beginning(&self, n: usize) -> Cow<'_, [u8]> {
        match &self.unpacked {
            Some(unpacked) => unpacked.beginning[..unpacked.beginning.len().min(n)].into(),
            None => self.pieces.first(n),
        }
    }

    /// No change of the body follows that needs its plain bytes.
    pub(crate) fn drop_plain(&mut self) {
        if let Some(unpacked) = &mut self.unpacked {
            unpacked.pieces = None;
        }
    }

    /// Makes the body plain, if it is compressed and its plain bytes were kept.
    pub(crate) fn unpack(&mut self) {
        if let Some(pieces) = self.unpacked.as_mut().and_then(|unpacked| unpacked.pieces.take()) {
            self.pieces = pieces;
            self.unpacked = None;
            self.is_changed = true;
        }
    }

    /// Has the body name another model, in every place where it names one. It is plain from then on.
    pub(crate) fn rename_model(&mut self, model: &str) -> Result<(), Refusal> {
        self.unpack();
        let value = rewrite::json_string(model);
        let slices = self.pieces.slices();
        let plan = Plan::new(slices.iter().map(|slice| &slice[..]), &[Edit::Replace { name: "model", value: &value }]);
        let changed = plan.map_err(|error| Refusal::not_changed(&error))?.apply(slices);
        let mut pieces = Pieces::default();
        changed.into_iter().for_each(|piece| pieces.push(piece));
        self.pieces = pieces.complete();
        self.is_changed = true;
        if let Some(scan) = &mut self.scan {
            scan.fields.model = Some(model.to_owned());
        }
        Ok(())
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

/// A body while it arrives.
struct Reading<'s> {
    limits: &'s config::Limits,
    scanner: Option<BodyScanner<'s>>,
    unpacker: Option<Box<Unpacker>>,
    pieces: Pieces,
    held: Held,
}

impl<'s> Reading<'s> {
    fn start(
        headers: &HeaderMap,
        body: &RequestBody,
        dialect: Dialect,
        prompt_only: bool,
        (gateway, snapshot): (&Gateway, &'s Snapshot),
    ) -> Result<Self, Refusal> {
        let limits = &snapshot.config.limits;
        let mut held = Held::none_of(&gateway.telemetry().bodies_bytes);
        let unpacker = unpacker(headers, body, snapshot)?;
        if let Some(unpacker) = &unpacker
            && !held.take(unpacker.memory_bytes(), limits.bodies_bytes_max)
        {
            return Err(Refusal::bodies_too_large());
        }
        let key_skip_lines = &snapshot.key_skip_lines;
        let wants = Wants { key_skip_lines, size: snapshot.demands_matter, prompt_only };
        let scanner = is_scannable(headers).then(|| BodyScanner::new(dialect, &snapshot.prompt, wants));
        Ok(Self { limits, scanner, unpacker, pieces: Pieces::default(), held })
    }

    /// The next bytes.
    async fn take(&mut self, piece: Bytes) -> Result<(), Refusal> {
        let bytes_max = self.limits.body_bytes_max as u64;
        if self.pieces.len() + piece.len() as u64 > bytes_max {
            return Err(Refusal::body_too_large(bytes_max));
        }
        if !self.held.take(piece.len(), self.limits.bodies_bytes_max) {
            return Err(Refusal::bodies_too_large());
        }
        let mut scan = |bytes: &[u8]| {
            if let Some(scanner) = &mut self.scanner {
                scanner.feed(bytes);
            }
        };
        match &mut self.unpacker {
            None => scan(&piece),
            Some(unpacker) => unpacker.feed(&piece, &mut self.held, scan).await?,
        }
        self.pieces.push(piece);
        Ok(())
    }

    /// All of it is here.
    fn finish(mut self) -> Result<Received, Refusal> {
        self.held.give_back(self.unpacker.as_ref().map_or(0, |unpacker| unpacker.memory_bytes()));
        let unpacked = self.unpacker.map(|unpacker| unpacker.finish()).transpose()?.map(Box::new);
        let (scan, prompt, key_prompt, size) = match self.scanner.map(BodyScanner::finish) {
            Some(Scanned { scan, prompt, key_prompt, size }) => (Some(scan), prompt, key_prompt, size),
            None => (None, Prompt::default(), None, None),
        };
        let (pieces, _held) = (self.pieces.complete(), self.held);
        let mut received = Received { pieces, scan, unpacked, is_changed: false, _held, prompt, key_prompt, size };
        if received.unscanned().is_some() {
            // What was hashed before the fault may be any part of the prompt: not something to route by.
            received.prompt = Prompt::default();
            received.key_prompt = None;
        }
        Ok(received)
    }
}

/// Reads the whole body. `prompt_only` says that members after the prompt make no difference.
pub(crate) async fn body(
    headers: &HeaderMap,
    mut body: RequestBody,
    dialect: Dialect,
    prompt_only: bool,
    (gateway, snapshot): (&Gateway, &Snapshot),
) -> Result<Received, Refusal> {
    let bytes_max = snapshot.config.limits.body_bytes_max as u64;
    if body.bytes_left() > bytes_max {
        // Reading is what tells a client that waits for it to go on.
        if !headers.contains_key(header::EXPECT) {
            body.discard();
        }
        return Err(Refusal::body_too_large(bytes_max));
    }
    let mut reading = match Reading::start(headers, &body, dialect, prompt_only, (gateway, snapshot)) {
        Ok(reading) => reading,
        Err(refusal) => {
            body.discard();
            return Err(refusal);
        }
    };
    let idle = Duration::from_millis(snapshot.config.timeouts.body_idle_ms);
    while let Some(piece) = body.piece(idle).await {
        let piece = piece.map_err(|error| match error {
            BodyError::Idle => Refusal::body_too_slow(idle),
            error => Refusal::body_unreadable(&error),
        })?;
        if let Err(refusal) = reading.take(piece).await {
            body.discard();
            return Err(refusal);
        }
    }
    reading.finish()
}

/// What decompresses the body, if it is compressed.
fn unpacker(headers: &HeaderMap, body: &RequestBody, snapshot: &Snapshot) -> Result<Option<Box<Unpacker>>, Refusal> {
    if !headers.contains_key(header::CONTENT_ENCODING) || body.is_end() {
        return Ok(None);
    }
    let Some(coding) = unpack::coding_of(headers)? else { return Ok(None) };
    let config = &snapshot.config;
    let beginning_bytes_max = snapshot.prompt.prefix_lengths.last().map_or(0, |&length| length as usize);
    // Which endpoint is meant is known once the body has been read.
    let keeps = config.endpoints.iter().any(|endpoint| endpoint.decompress_requests || !endpoint.aliases.is_empty());
    Ok(Some(Box::new(Unpacker::new(coding, &config.limits, beginning_bytes_max, keeps))))
}

/// JSON, or not said to be anything else: boto3 and curl often do not say.
fn is_scannable(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).map_or(&b"application/json"[..], |value| value.as_bytes());
    let media_type = media_type.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let binary: [&[u8]; 3] = [b"multipart/form-data", b"application/octet-stream", b"audio/"];
    !binary.iter().any(|kind| media_type.len() >= kind.len() && media_type[..kind.len()].eq_ignore_ascii_case(kind))
}
