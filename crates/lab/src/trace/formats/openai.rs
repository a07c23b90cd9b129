//! Requests of the OpenAI and Anthropic APIs, a line each: the body itself, with a time beside it where there is one, or a
//! row that holds the body as `request` (or `body`) and the answer as `response`. Also vLLM's `custom` data sets
//! (`{"prompt", "output_tokens"}`) and AIPerf's `inputs.json` (`{"data": [{"session_id", "payloads"}]}`).

use kvroute_wire::request::Dialect;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::trace::content::record_of;
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Observed, Record};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Name, Tokens, Usage, json_fault, text_or_json};

const PROMPTS: [&str; 3] = ["messages", "prompt", "input"];

pub(super) fn recognises(look: &Look<'_>) -> bool {
    let holds_body = ["request", "body"].into_iter().filter_map(|name| look.member(name)).any(|json| {
        let text = text_or_json(json);
        text.starts_with('{') && PROMPTS.iter().any(|name| text.contains(&format!("\"{name}\"")))
    });
    let is_inputs = look.member("data").is_some_and(|json| json.get().contains("\"payloads\""));
    holds_body || is_inputs || PROMPTS.into_iter().any(|name| look.has(name))
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(alias = "ts", alias = "created", alias = "time", alias = "created_at")]
    timestamp: Option<Written>,
    #[serde(alias = "request_id", alias = "custom_id")]
    id: Option<Name>,
    session_id: Option<Name>,
    #[serde(borrow, alias = "body")]
    request: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(alias = "expected_output_len")]
    output_tokens: Option<Tokens>,
    path: Option<Name>,
    status: Option<u16>,
    #[serde(borrow)]
    data: Option<Vec<Conversation<'a>>>,
}

#[derive(Deserialize)]
struct Conversation<'a> {
    session_id: Option<Name>,
    #[serde(borrow)]
    payloads: Vec<&'a RawValue>,
}

/// Reads such rows.
pub(super) struct OpenAi {
    times: Times,
    keeps_body: bool,
}

impl OpenAi {
    pub(super) fn new(given: &Given) -> Self {
        Self { times: Times::new(given.time_unit, TimeUnit::Seconds), keeps_body: given.keeps_body }
    }

    fn payloads(&self, data: Vec<Conversation<'_>>, out: &mut Vec<Record>) -> Result<(), String> {
        for conversation in data {
            let session = conversation.session_id.map(|name| name.0);
            for payload in conversation.payloads {
                let record = record_of(payload.get().as_bytes(), Dialect::Auto, self.keeps_body)?;
                out.push(Record { session: session.clone().or(record.session.clone()), ..record });
            }
        }
        Ok(())
    }
}

impl ReadRow for OpenAi {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row<'_> = serde_json::from_slice(bytes).map_err(|error| json_fault(&error))?;
        if let Some(data) = row.data {
            return self.payloads(data, out);
        }
        let dialect = row.path.map_or(Dialect::Auto, |path| Dialect::of_path(&path.0));
        let record = match row.request {
            Some(request) => record_of(text_or_json(request).as_bytes(), dialect, self.keeps_body)?,
            None => record_of(bytes, dialect, self.keeps_body)?,
        };
        let usage = match (row.usage, row.response) {
            (Some(usage), _) => Usage::of(usage.get()),
            (None, Some(answer)) => Usage::of_answer(&text_or_json(answer)),
            (None, None) => Usage::default(),
        };
        out.push(Record {
            id: row.id.map(|name| name.0),
            at_ms: row.timestamp.and_then(|time| self.times.ms(time)),
            session: row.session_id.map(|name| name.0).or(record.session),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens.or(row.output_tokens.map(|tokens| tokens.0)),
            observed: Observed { cached_tokens: usage.cached_tokens, status: row.status, ..Observed::default() },
            ..record
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        self.times.assumption().into_iter().collect()
    }
}
