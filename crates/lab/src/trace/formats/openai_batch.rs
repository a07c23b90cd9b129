//! Files of the OpenAI batch API: requests (`{"custom_id", "url", "body"}`) and answers (`{"custom_id", "response"}`), in
//! one file or two, joined by `custom_id`. There are no times.

use std::collections::HashMap;
use std::sync::Arc;

use kvroute_wire::request::Dialect;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::trace::content::record_of;
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Observed, Record};
use crate::trace::values::{Name, Usage, json_fault};

/// Answers that wait for their requests.
const ANSWERS_MAX: usize = 4 << 20;
/// What waits for answers, bytes of rows.
const WAITING_BYTES_MAX: usize = 256 << 20;

pub(super) fn recognises(look: &Look<'_>) -> bool {
    look.has("custom_id") && (look.has("body") || look.has("response"))
}

#[derive(Deserialize)]
struct Row<'a> {
    custom_id: Name,
    url: Option<Name>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
}

#[derive(Deserialize)]
struct Response<'a> {
    status_code: Option<u16>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// What an answer tells.
#[derive(Clone, Copy, Default)]
struct Answer {
    usage: Usage,
    status: Option<u16>,
}

/// Reads such files.
pub(super) struct OpenAiBatch {
    keeps_body: bool,
    waiting: Vec<Record>,
    waiting_bytes: usize,
    answers: HashMap<Arc<str>, Answer>,
    /// Requests went on without waiting for answers.
    is_over_limit: bool,
}

impl OpenAiBatch {
    pub(super) fn new(given: &Given) -> Self {
        Self {
            keeps_body: given.keeps_body,
            waiting: Vec::new(),
            waiting_bytes: 0,
            answers: HashMap::new(),
            is_over_limit: false,
        }
    }

    fn give(&mut self, out: &mut Vec<Record>) {
        for mut record in self.waiting.drain(..) {
            let answer = record.id.as_ref().and_then(|id| self.answers.get(id)).copied().unwrap_or_default();
            record.input_tokens = answer.usage.input_tokens;
            record.output_tokens = answer.usage.output_tokens;
            record.observed.cached_tokens = answer.usage.cached_tokens;
            record.observed.status = answer.status;
            out.push(record);
        }
        self.waiting_bytes = 0;
    }
}

impl ReadRow for OpenAiBatch {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row<'_> = serde_json::from_slice(bytes).map_err(|error| json_fault(&error))?;
        if let Some(body) = row.body {
            let dialect = row.url.map_or(Dialect::Auto, |url| Dialect::of_path(&url.0));
            let record = record_of(body.get().as_bytes(), dialect, self.keeps_body)?;
            self.waiting.push(Record { id: Some(row.custom_id.0), observed: Observed::default(), ..record });
            self.waiting_bytes += bytes.len();
        } else if let Some(response) = row.response {
            let usage = response.body.map(|body| Usage::of_answer(body.get())).unwrap_or_default();
            if self.answers.len() < ANSWERS_MAX {
                self.answers.insert(row.custom_id.0, Answer { usage, status: response.status_code });
            } else {
                self.is_over_limit = true;
            }
        }
        if self.waiting_bytes > WAITING_BYTES_MAX {
            self.is_over_limit = true;
            self.give(out);
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<Record>) {
        self.give(out);
    }

    fn assumptions(&self) -> Vec<String> {
        vec!["there are no times: requests are in the order of the file".to_owned()]
    }

    fn warnings(&self) -> Vec<String> {
        let warning = format!(
            "there are more than {} MiB of requests or {ANSWERS_MAX} answers: some requests went on without their answers",
            WAITING_BYTES_MAX >> 20
        );
        if self.is_over_limit { vec![warning] } else { Vec::new() }
    }
}
