//! Mooncake's rows: `{"timestamp", "input_length", "output_length", "hash_ids"}`, with what AIPerf and Dynamo add
//! (`text_input`, `messages` or `payload` in place of lengths and ids; `session_id`, `delay`, `request_id`, `model`), and
//! our own recorder (`x`: what became of the request).
//!
//! - Times are milliseconds unless told otherwise. A block has 512 tokens unless the lengths tell otherwise.
//! - `text_input` of a session's later rows is what the user says next: the prompt is all that was said before, without
//!   the answers, which the trace does not have.
//! - Dynamo's agentic traces begin with a line that tells the size of a block, and whether ids are equal only within a
//!   run (`hash_id_scope`).

use std::collections::HashMap;
use std::sync::Arc;

use kvroute_wire::request::Dialect;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::trace::blocks::{BlockName, Fit, choose_tokens, scoped};
use crate::trace::content::{content_of_messages, record_of};
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Blocks, Content, Observed, Record, Segment};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Name, Tokens, json_fault};

/// Tokens a block in Mooncake's own traces.
const BLOCK_TOKENS: u32 = 512;

/// What all sessions together may have said, bytes.
const HISTORY_BYTES_MAX: usize = 256 << 20;

/// What a turn takes beside its text, bytes.
const TURN_BYTES: usize = 128;

/// A line before the rows.
const HEADER_SCHEMA: &str = "dynamo.agentic_mooncake";

pub(super) fn recognises(look: &Look<'_>) -> bool {
    let is_header = look.member("schema").is_some_and(|schema| schema.get().contains(HEADER_SCHEMA));
    let has_length = look.has("input_length") || look.has("input_tokens");
    let has_prompt = ["text_input", "messages", "payload"].into_iter().any(|name| look.has(name));
    let has_place = ["timestamp", "delay", "session_id", "output_length"].into_iter().any(|name| look.has(name));
    is_header || (has_length && (look.has("hash_ids") || look.has("output_length"))) || (has_prompt && has_place)
}

#[derive(Deserialize)]
struct Row<'a> {
    timestamp: Option<Written>,
    created_time: Option<Written>,
    not_before_ms: Option<Written>,
    delay: Option<Written>,
    delay_ms: Option<Written>,
    session_id: Option<Name>,
    session: Option<Name>,
    play_id: Option<Name>,
    request_id: Option<Name>,
    id: Option<Name>,
    model: Option<Name>,
    tenant: Option<Name>,
    input_length: Option<Tokens>,
    input_tokens: Option<Tokens>,
    output_length: Option<Tokens>,
    output_tokens: Option<Tokens>,
    hash_ids: Option<Vec<BlockName>>,
    text_input: Option<String>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    x: Option<Extra>,
}

impl Row<'_> {
    fn input(&self) -> Option<u32> {
        self.input_length.or(self.input_tokens).map(|tokens| tokens.0)
    }
}

/// What our own recorder adds.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Extra {
    block_tokens: Option<Tokens>,
    input_tokens: Option<Tokens>,
    output_tokens_max: Option<Tokens>,
    ttft_ms: Option<f64>,
    e2e_ms: Option<f64>,
    cached_tokens: Option<Tokens>,
    replica: Option<Name>,
    status: Option<u16>,
}

#[derive(Deserialize)]
struct Header {
    schema: String,
    block_size: Option<Tokens>,
    hash_id_scope: Option<String>,
}

/// Reads such rows.
pub(super) struct Mooncake {
    times: Times,
    keeps_body: bool,
    block_tokens: u32,
    /// How it is known.
    block_tokens_by: String,
    has_local_ids: bool,
    fit: Fit,
    has_ids: bool,
    histories: HashMap<Arc<str>, Vec<Segment>>,
    history_bytes: usize,
    has_history: bool,
}

impl Mooncake {
    pub(super) fn new(given: &Given, first: &[&[u8]]) -> Self {
        let (block_tokens, block_tokens_by) = match given.block_tokens {
            Some(tokens) => (tokens, "as told".to_owned()),
            None => block_tokens(first),
        };
        Self {
            times: Times::new(given.time_unit, TimeUnit::Milliseconds),
            keeps_body: given.keeps_body,
            block_tokens,
            block_tokens_by,
            has_local_ids: false,
            fit: Fit::default(),
            has_ids: false,
            histories: HashMap::new(),
            history_bytes: 0,
            has_history: false,
        }
    }

    /// What the row's prompt tells, its body included.
    fn prompt(&mut self, row: &Row<'_>, session: Option<&Arc<str>>, block_tokens: u32) -> Result<Record, String> {
        let given = [row.text_input.is_some(), row.messages.is_some(), row.payload.is_some(), row.hash_ids.is_some()];
        if given.into_iter().filter(|&is_given| is_given).count() > 1 {
            return Err("more than one of hash_ids, text_input, messages and payload".into());
        }
        if let Some(payload) = row.payload {
            return record_of(payload.get().as_bytes(), Dialect::Auto, self.keeps_body);
        }
        let content = if let Some(names) = &row.hash_ids {
            let input = row.input().ok_or("hash_ids without input_length")?;
            self.fit.check(names.len(), block_tokens, input)?;
            self.has_ids = true;
            let scope = self.has_local_ids.then(|| session.map_or("", |session| session));
            Content::Blocks(Blocks { ids: scoped(names, scope), tokens: block_tokens })
        } else if let Some(text) = &row.text_input {
            self.next_turn(text, session)?
        } else if let Some(messages) = row.messages {
            content_of_messages(messages.get())?
        } else if row.input().is_some() {
            Content::Unknown
        } else {
            return Err("neither a length nor a prompt".into());
        };
        Ok(Record { content, ..Record::default() })
    }

    /// The prompt of a session that goes on with `text`.
    fn next_turn(&mut self, text: &str, session: Option<&Arc<str>>) -> Result<Content, String> {
        let segment = Segment { role: "user".into(), text: text.to_owned() };
        let Some(session) = session else { return Ok(Content::Text(vec![segment])) };
        let bytes = text.len() + session.len() + TURN_BYTES;
        if self.history_bytes + bytes > HISTORY_BYTES_MAX {
            return Err(format!("the sessions have said more than {} MiB", HISTORY_BYTES_MAX >> 20));
        }
        self.history_bytes += bytes;
        let history = self.histories.entry(Arc::clone(session)).or_default();
        self.has_history |= !history.is_empty();
        history.push(segment);
        Ok(Content::Text(history.clone()))
    }

    fn header(&mut self, row: &[u8]) -> bool {
        let Ok(header) = serde_json::from_slice::<Header>(row) else { return false };
        if header.schema != HEADER_SCHEMA {
            return false;
        }
        if let Some(tokens) = header.block_size.filter(|tokens| tokens.0 > 0) {
            self.block_tokens = tokens.0;
            self.block_tokens_by = "as the first line tells".into();
        }
        self.has_local_ids = header.hash_id_scope.as_deref() == Some("local");
        true
    }
}

/// Tokens a block, by the first rows.
fn block_tokens(first: &[&[u8]]) -> (u32, String) {
    let lengths: Vec<_> = first
        .iter()
        .filter_map(|row| serde_json::from_slice::<Row<'_>>(row).ok())
        .filter_map(|row| Some((row.input()?, row.hash_ids?.len())))
        .collect();
    let (tokens, fits) = choose_tokens(&lengths, BLOCK_TOKENS);
    (tokens, format!("which fits {fits} of the first {} rows", lengths.len()))
}

impl ReadRow for Mooncake {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row<'_> = serde_json::from_slice(bytes).map_err(|error| json_fault(&error))?;
        let is_empty = row.input().is_none() && row.hash_ids.is_none();
        if is_empty && self.header(bytes) {
            return Ok(());
        }
        let session = row.session_id.as_ref().or(row.session.as_ref()).or(row.play_id.as_ref());
        let session = session.map(|name| Arc::clone(&name.0));
        let x = row.x.as_ref();
        let block_tokens = x.and_then(|x| x.block_tokens).map_or(self.block_tokens, |tokens| tokens.0.max(1));
        let prompt = self.prompt(&row, session.as_ref(), block_tokens)?;
        let input = row.input();
        out.push(Record {
            id: row.request_id.or(row.id).map(|name| name.0),
            at_ms: row.timestamp.or(row.created_time).or(row.not_before_ms).and_then(|time| self.times.ms(time)),
            delay_ms: row.delay.or(row.delay_ms).and_then(|time| self.times.span_ms(time)),
            session: session.or(prompt.session),
            model: row.model.map(|name| name.0).or(prompt.model),
            tenant: row.tenant.map(|name| name.0).or(prompt.tenant),
            input_tokens: input.or(x.and_then(|x| x.input_tokens).map(|tokens| tokens.0)),
            output_tokens: row.output_length.or(row.output_tokens).map(|tokens| tokens.0),
            output_tokens_max: x.and_then(|x| x.output_tokens_max).map(|tokens| tokens.0).or(prompt.output_tokens_max),
            observed: row.x.map(observed).unwrap_or_default(),
            ..prompt
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        let mut told = Vec::new();
        told.extend(self.times.assumption());
        if self.has_ids {
            told.push(format!("{} tokens a block, {} (--block-tokens)", self.block_tokens, self.block_tokens_by));
            told.extend(self.fit.sentence());
        }
        if self.has_history {
            told.push(
                "a later text_input of a session follows all earlier ones, without the answers between them".into(),
            );
        }
        told
    }
}

fn observed(x: Extra) -> Observed {
    Observed {
        ttft_ms: x.ttft_ms,
        e2e_ms: x.e2e_ms,
        cached_tokens: x.cached_tokens.map(|tokens| tokens.0),
        replica: x.replica.map(|name| name.0),
        status: x.status,
    }
}
