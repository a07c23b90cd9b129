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
use crate::trace::values::{Members, Name, Usage, text_or_json};

const TIMES: [&str; 5] = ["timestamp", "ts", "time", "created", "created_at"];
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
        let row = Members::of(bytes)?;
        if let Some(data) = row.get::<Vec<Conversation<'_>>>(&["data"]) {
            return self.payloads(data, out);
        }
        let dialect = row.name(&["path", "url", "uri"]).map_or(Dialect::Auto, |path| Dialect::of_path(&path));
        let record = match row.raw(&["request", "body"]) {
            Some(request) => record_of(text_or_json(request).as_bytes(), dialect, self.keeps_body)?,
            None => record_of(bytes, dialect, self.keeps_body)?,
        };
        let usage = match (row.raw(&["usage"]), row.raw(&["response"])) {
            (Some(usage), _) => Usage::of(usage.get()),
            (None, Some(answer)) => Usage::of_answer(&text_or_json(answer)),
            (None, None) => Usage::default(),
        };
        let expected = row.tokens(&["output_tokens", "expected_output_len"]);
        out.push(Record {
            id: row.name(&["id", "request_id"]),
            at_ms: row.get::<Written>(&TIMES).and_then(|time| self.times.ms(time)),
            session: row.name(&["session_id"]).or(record.session),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens.or(expected),
            observed: Observed {
                cached_tokens: usage.cached_tokens,
                status: row.get(&["status"]),
                ..Observed::default()
            },
            ..record
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        self.times.assumption().into_iter().collect()
    }
}
