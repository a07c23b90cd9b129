//! Access logs of nginx or Envoy in JSON, with the body of the request as a string. The names are those that people give
//! their fields; docs/operate/traces.md has a `log_format` that makes such a log.
//!
//! nginx counts in seconds, and so do times here; Envoy's `duration` is milliseconds. nginx writes a line when the answer
//! has ended, so the request came as long before it as it took; Envoy's `start_time` is when it came.

use kvroute_wire::request::Dialect;

use crate::trace::content::record_of;
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Observed, Record};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Members, Usage, text_or_json};

pub(super) fn recognises(look: &Look<'_>) -> bool {
    let has_body = BODY.into_iter().any(|name| look.has(name));
    has_body
        && ["uri", "request_uri", "status", "upstream_addr", "response_code"].into_iter().any(|name| look.has(name))
}

/// When the line was written.
const WRITTEN: [&str; 6] = ["ts", "time", "timestamp", "msec", "time_iso8601", "@timestamp"];
const BODY: [&str; 2] = ["body", "request_body"];

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
        let row = Members::of(row)?;
        let uri = row.name(&["uri", "request_uri", "path", "request"]);
        let path = path(uri.as_deref().unwrap_or(""));
        let body = row.raw(&BODY).map(text_or_json).unwrap_or_default();
        let is_empty = matches!(body.trim(), "" | "-");
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
        let answer = row.raw(&["response", "response_body"]).map(text_or_json);
        let usage = answer.map(|answer| Usage::of_answer(&answer)).unwrap_or_default();
        let observed = observed(&row, &usage);
        let came_ms = row.get::<Written>(&["start_time"]).and_then(|time| self.times.ms(time));
        let ended_ms = row.get::<Written>(&WRITTEN).and_then(|time| self.times.ms(time));
        out.push(Record {
            id: row.name(&["id", "request_id", "x_request_id"]),
            at_ms: came_ms.or(ended_ms.map(|ended| ended - observed.e2e_ms.unwrap_or(0.0))),
            session: row.name(&["sid", "session", "session_id"]).or(record.session),
            tenant: row.name(&["tenant", "tenant_id"]).or(record.tenant),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            observed,
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

fn observed(row: &Members<'_>, usage: &Usage) -> Observed {
    let span = |names: &[&str], unit: TimeUnit| {
        let written = row.get::<Written>(names)?;
        Some(written.in_ms(unit)).filter(|ms| ms.is_finite() && *ms >= 0.0)
    };
    // nginx writes a list where it asked several upstreams; the last one answered.
    let last = |names: &[&str]| Some(row.name(names)?.rsplit(',').next()?.trim().to_owned());
    let first_byte = last(&["ttfb", "upstream_header_time"]).as_deref().and_then(Written::parse);
    let status = span(&["status", "response_code"], TimeUnit::Milliseconds).filter(|&status| status < 1000.0);
    Observed {
        ttft_ms: first_byte.map(|time| time.in_ms(TimeUnit::Seconds)).filter(|ms| *ms >= 0.0),
        e2e_ms: span(&["rt", "request_time"], TimeUnit::Seconds).or(span(&["duration"], TimeUnit::Milliseconds)),
        cached_tokens: usage.cached_tokens,
        replica: last(&["up", "upstream_addr", "upstream_host"]).filter(|name| name != "-").map(Into::into),
        status: status.map(|status| status as u16),
    }
}

/// The path in a URI, or in a request line.
fn path(uri: &str) -> &str {
    let uri = uri.split(' ').find(|part| part.starts_with('/')).unwrap_or(uri);
    uri.split(['?', '#']).next().unwrap_or("")
}

fn is_of_llm(path: &str) -> bool {
    Dialect::of_path(path) != Dialect::Auto || path.ends_with("/invocations") || path.contains("/invocations")
}
