//! Records to Mooncake's rows, with what AIPerf, Dynamo and our own recorder add to them: what other tools read.
//!
//! What a row has no member for stands in `x`, so that reading what was written gives the same record. Bodies are not
//! written: a prompt is written as its messages, or as `payload` where it has none.

use std::io::{self, Write};

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::{Content, Record, Segment};

/// Writes rows.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    /// The time that is written as 0.
    origin_ms: f64,
}

impl<W: Write> TraceWriter<W> {
    /// Writes to `out`, times counted from `origin_ms` on.
    pub fn new(out: W, origin_ms: f64) -> Self {
        Self { out, origin_ms }
    }

    /// Writes a row.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, &row(record, self.origin_ms))?;
        self.out.write_all(b"\n")
    }

    /// Ends the trace; gives back where it was written to.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_ids: Option<&'a [u64]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<Message<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Payload<'a>>,
    #[serde(skip_serializing_if = "Extra::is_empty")]
    x: Extra<'a>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: &'a str,
}

/// A prompt without messages.
enum Payload<'a> {
    Ids(&'a [u32]),
    Texts(&'a [Segment]),
}

impl Serialize for Payload<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut body = serializer.serialize_map(Some(1))?;
        match self {
            Self::Ids(ids) => body.serialize_entry("prompt", ids)?,
            Self::Texts([one]) => body.serialize_entry("prompt", &one.text)?,
            Self::Texts(texts) => {
                let texts: Vec<_> = texts.iter().map(|segment| &segment.text).collect();
                body.serialize_entry("prompt", &texts)?;
            }
        }
        body.end()
    }
}

/// What rows of other tools have no member for.
#[derive(Default, PartialEq, Serialize)]
struct Extra<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    block_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e2e_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replica: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
}

impl Extra<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A number that is written without a fraction where it has none, as other tools do.
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT_MAX: f64 = (1_u64 << 53) as f64;
        if self.0.fract() == 0.0 && self.0.abs() < EXACT_MAX {
            serializer.serialize_i64(self.0 as i64)
        } else {
            serializer.serialize_f64(self.0)
        }
    }
}

fn row(record: &Record, origin_ms: f64) -> Row<'_> {
    let (mut hash_ids, mut messages, mut payload, mut block_tokens) = (None, None, None, None);
    match &record.content {
        Content::Blocks(blocks) => {
            hash_ids = Some(&*blocks.ids);
            block_tokens = Some(blocks.tokens);
        }
        Content::TokenIds(ids) => payload = Some(Payload::Ids(ids)),
        Content::Text(segments) if segments.iter().all(|segment| segment.role.is_empty()) => {
            payload = Some(Payload::Texts(segments));
        }
        Content::Text(segments) => {
            let said = segments.iter().map(|segment| Message { role: &segment.role, content: &segment.text });
            messages = Some(said.collect());
        }
        Content::Unknown => {}
    }
    // A row has either a length or a prompt.
    let has_prompt = messages.is_some() || payload.is_some();
    let observed = &record.observed;
    Row {
        timestamp: record.at_ms.map(|at| Number(at - origin_ms)),
        delay: record.delay_ms.map(Number),
        session_id: record.session.as_deref(),
        request_id: record.id.as_deref(),
        model: record.model.as_deref(),
        tenant: record.tenant.as_deref(),
        input_length: record.input_tokens.filter(|_| !has_prompt),
        output_length: record.output_tokens,
        hash_ids,
        messages,
        payload,
        x: Extra {
            block_tokens,
            input_tokens: record.input_tokens.filter(|_| has_prompt),
            output_tokens_max: record.output_tokens_max,
            ttft_ms: observed.ttft_ms,
            e2e_ms: observed.e2e_ms,
            cached_tokens: observed.cached_tokens,
            replica: observed.replica.as_deref(),
            status: observed.status,
        },
    }
}
