//! SGLang's request log in JSON. A request is its `request.finished`, which has the lengths; where the first rows have
//! none, its `request.received`. What is logged at a low level is cut, which the log does not say.

use kvroute_wire::request::Dialect;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::trace::content::record_of;
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Content, Observed, Record, Segment};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Name, Tokens, json_fault};

const FINISHED: &str = "request.finished";
const RECEIVED: &str = "request.received";

/// How SGLang marks what it cut out.
const CUT_MARK: &str = " ... ";

pub(super) fn recognises(look: &Look<'_>) -> bool {
    look.member("event").is_some_and(|json| json.get().starts_with("\"request."))
}

#[derive(Deserialize)]
struct Row<'a> {
    timestamp: Option<Written>,
    event: Option<String>,
    rid: Option<Name>,
    #[serde(borrow)]
    obj: Option<&'a RawValue>,
    out: Option<Out>,
}

#[derive(Deserialize)]
struct Out {
    meta_info: Option<MetaInfo>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetaInfo {
    prompt_tokens: Option<Tokens>,
    cached_tokens: Option<Tokens>,
    completion_tokens: Option<Tokens>,
    e2e_latency: Option<f64>,
}

#[derive(Deserialize)]
struct Native {
    text: Option<String>,
    input_ids: Option<Vec<u32>>,
}

/// Reads such a log.
pub(super) struct SglangLog {
    times: Times,
    event: &'static str,
    keeps_body: bool,
    cut: u64,
}

impl SglangLog {
    pub(super) fn new(given: &Given, first: &[&[u8]]) -> Self {
        let finishes = |row: &&[u8]| {
            serde_json::from_slice::<Row<'_>>(row).is_ok_and(|row| row.event.as_deref() == Some(FINISHED))
        };
        Self {
            times: Times::new(given.time_unit, TimeUnit::Seconds),
            event: if first.iter().any(finishes) { FINISHED } else { RECEIVED },
            keeps_body: given.keeps_body,
            cut: 0,
        }
    }

    fn prompt(&mut self, obj: Option<&RawValue>) -> Record {
        let Some(obj) = obj else { return Record::default() };
        let native = serde_json::from_str::<Native>(obj.get()).ok();
        let content = native.and_then(|native| match native {
            Native { input_ids: Some(ids), .. } if !ids.is_empty() => Some(Content::TokenIds(ids.into())),
            Native { text: Some(text), .. } => Some(Content::Text(vec![Segment { role: String::new(), text }])),
            _ => None,
        });
        if let Some(content) = content {
            return Record { content, ..Record::default() };
        }
        record_of(obj.get().as_bytes(), Dialect::Auto, self.keeps_body).unwrap_or_default()
    }
}

impl ReadRow for SglangLog {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        if !bytes.starts_with(b"{") {
            return Ok(());
        }
        let row: Row<'_> = serde_json::from_slice(bytes).map_err(|error| json_fault(&error))?;
        if !row.event.is_some_and(|event| event.starts_with(self.event)) {
            return Ok(());
        }
        let prompt = self.prompt(row.obj);
        let meta = row.out.and_then(|out| out.meta_info).unwrap_or_default();
        let input = meta.prompt_tokens.map(|tokens| tokens.0);
        if prompt.content == Content::Unknown && input.is_none() {
            return Err("neither a prompt nor its length".into());
        }
        if let Content::Text(segments) = &prompt.content {
            self.cut += u64::from(segments.iter().any(|segment| segment.text.contains(CUT_MARK)));
        }
        let e2e_ms = meta.e2e_latency.filter(|s| s.is_finite() && *s >= 0.0).map(|s| s * 1e3);
        let told_ms = row.timestamp.and_then(|time| self.times.ms(time));
        out.push(Record {
            id: row.rid.map(|name| name.0),
            // An event is logged when it happens: the request came before its end.
            at_ms: told_ms.map(|ms| ms - e2e_ms.unwrap_or(0.0)),
            input_tokens: input,
            output_tokens: meta.completion_tokens.map(|tokens| tokens.0),
            observed: Observed {
                e2e_ms,
                cached_tokens: meta.cached_tokens.map(|tokens| tokens.0),
                ..Observed::default()
            },
            ..prompt
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        let event = if self.event == FINISHED {
            "a request is its event request.finished, and came as long before it as it took"
        } else {
            "a request is its event request.received"
        };
        [event.to_owned()].into_iter().chain(self.times.assumption()).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let cut = self.cut;
        if cut == 0 {
            return Vec::new();
        }
        vec![format!("{cut} prompts look as if they were cut where they were logged (--log-requests-level)")]
    }
}
