//! Access logs of nginx or Envoy in JSON, with the body of the request as a string. The names are those that people give
//! their fields; docs/operate/traces.md has a `log_format` that makes such a log.
//!
//! nginx counts in seconds, and so do times here; Envoy's `duration` is milliseconds. nginx writes a line when the answer
//! has ended, so the request came as long before it as it took; Envoy's `start_time` is when it came.

use kvroute_wire::request::Dialect;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::trace::content::record_of;
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Observed, Record};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Name, Usage, json_fault, text_or_json};

pub(super) fn recognises(look: &Look<'_>) -> bool {
    let has_body = look.has("body") || look.has("request_body");
    has_body
        && ["uri", "request_uri", "status", "upstream_addr", "response_code"].into_iter().any(|name| look.has(name))
}

#[derive(Deserialize)]
struct Row<'a> {
    /// When the line was written.
    #[serde(alias = "time", alias = "timestamp", alias = "msec", alias = "time_iso8601", alias = "@timestamp")]
    ts: Option<Written>,
    /// When the request came.
    start_time: Option<Written>,
    #[serde(alias = "request_id", alias = "x_request_id")]
    id: Option<Name>,
    #[serde(alias = "request_uri", alias = "path", alias = "request")]
    uri: Option<Name>,
    #[serde(alias = "response_code")]
    status: Option<Written>,
    #[serde(alias = "request_time")]
    rt: Option<Written>,
    duration: Option<Written>,
    #[serde(alias = "upstream_addr", alias = "upstream_host")]
    up: Option<Name>,
    #[serde(alias = "upstream_header_time")]
    ttfb: Option<Name>,
    #[serde(alias = "session", alias = "session_id")]
    sid: Option<Name>,
    tenant: Option<Name>,
    #[serde(borrow, alias = "request_body")]
    body: Option<&'a RawValue>,
    #[serde(borrow, alias = "response_body")]
    response: Option<&'a RawValue>,
}

/// Reads such a log.
pub(super) struct AccessLog {
    times: Times,
    keeps_body: bool,
    empty: u64,
}

impl AccessLog {
    pub(super) fn new(given: &Given) -> Self {
        Self { times: Times::new(given.time_unit, TimeUnit::Seconds), keeps_body: given.keeps_body, empty: 0 }
    }
}

impl ReadRow for AccessLog {
    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row<'_> = serde_json::from_slice(row).map_err(|error| json_fault(&error))?;
        let uri = row.uri.as_ref().map_or("", |uri| &uri.0);
        let path = path(uri);
        let body = row.body.map(text_or_json).unwrap_or_default();
        let is_empty = matches!(body.trim(), "" | "-" | "null");
        if is_empty && !is_of_llm(path) {
            return Ok(());
        }
        if is_empty {
            self.empty += 1;
            return Err("the body is empty: nginx logs none that it wrote to a file (client_body_buffer_size)".into());
        }
        let record = match record_of(body.as_bytes(), Dialect::of_path(path), self.keeps_body) {
            Ok(record) => record,
            Err(_) if !is_of_llm(path) && !path.is_empty() => return Ok(()),
            Err(why) => return Err(why),
        };
        let usage = row.response.map(|answer| Usage::of_answer(&text_or_json(answer))).unwrap_or_default();
        let in_ms = |time: Option<Written>, unit: TimeUnit| time.map(|time| time.in_ms(unit)).filter(|&ms| ms >= 0.0);
        // nginx writes a list where it asked several upstreams; the last one answered.
        let last = |name: Option<Name>| name.and_then(|name| Some(name.0.rsplit(',').next()?.trim().to_owned()));
        let ttfb = last(row.ttfb).as_deref().and_then(Written::parse);
        let e2e_ms = in_ms(row.rt, TimeUnit::Seconds).or(in_ms(row.duration, TimeUnit::Milliseconds));
        let came_ms = row.start_time.and_then(|time| self.times.ms(time));
        let ended_ms = row.ts.and_then(|time| self.times.ms(time));
        let status = in_ms(row.status, TimeUnit::Milliseconds).filter(|&status| status < 1000.0);
        out.push(Record {
            id: row.id.map(|name| name.0),
            at_ms: came_ms.or(ended_ms.map(|ended| ended - e2e_ms.unwrap_or(0.0))),
            session: row.sid.map(|name| name.0).filter(|name| is_said(name)).or(record.session),
            tenant: row.tenant.map(|name| name.0).filter(|name| is_said(name)).or(record.tenant),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            observed: Observed {
                ttft_ms: in_ms(ttfb, TimeUnit::Seconds),
                e2e_ms,
                cached_tokens: usage.cached_tokens,
                replica: last(row.up).filter(|name| is_said(name)).map(Into::into),
                status: status.map(|status| status as u16),
            },
            ..record
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        let logged = "a line is written when the answer has ended: the request came as long before it as it took";
        self.times.assumption().into_iter().chain([logged.to_owned()]).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let empty = self.empty;
        if empty == 0 {
            return Vec::new();
        }
        vec![format!("{empty} bodies are empty: long prompts are missing; raise client_body_buffer_size")]
    }
}

/// A value, and not what stands for none.
fn is_said(text: &str) -> bool {
    !matches!(text, "" | "-")
}

/// The path in a URI, or in a request line.
fn path(uri: &str) -> &str {
    let uri = uri.split(' ').find(|part| part.starts_with('/')).unwrap_or(uri);
    uri.split(['?', '#']).next().unwrap_or("")
}

fn is_of_llm(path: &str) -> bool {
    Dialect::of_path(path) != Dialect::Auto || path.ends_with("/invocations") || path.contains("/invocations")
}
