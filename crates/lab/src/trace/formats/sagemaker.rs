//! SageMaker's data capture: a line an invocation, whose body is a string (`JSON`, or `BASE64` where content types are not
//! configured). What is captured is a sample.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kvroute_wire::request::Dialect;
use serde::Deserialize;

use crate::trace::content::record_of;
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Observed, Record};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Name, Usage, json_fault};

pub(super) fn recognises(look: &Look<'_>) -> bool {
    look.has("captureData")
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    capture_data: CaptureData,
    event_metadata: Option<EventMetadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CaptureData {
    endpoint_input: Option<Captured>,
    endpoint_output: Option<Captured>,
}

#[derive(Deserialize)]
struct Captured {
    data: String,
    encoding: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventMetadata {
    event_id: Option<Name>,
    inference_id: Option<Name>,
    inference_time: Option<Written>,
}

impl Captured {
    fn bytes(self) -> Result<Vec<u8>, String> {
        match self.encoding.as_deref() {
            Some("BASE64") => STANDARD.decode(self.data.trim()).map_err(|_| "the data is not base64".to_owned()),
            Some("CSV") => Err("the body is CSV, not JSON".to_owned()),
            _ => Ok(self.data.into_bytes()),
        }
    }
}

/// Reads such lines.
pub(super) struct SageMaker {
    times: Times,
    keeps_body: bool,
}

impl SageMaker {
    pub(super) fn new(given: &Given) -> Self {
        Self { times: Times::new(given.time_unit, TimeUnit::Seconds), keeps_body: given.keeps_body }
    }
}

impl ReadRow for SageMaker {
    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row = serde_json::from_slice(row).map_err(|error| json_fault(&error))?;
        let input = row.capture_data.endpoint_input.ok_or("no endpointInput: only answers were captured")?;
        let record = record_of(&input.bytes()?, Dialect::Auto, self.keeps_body)?;
        let answer = row.capture_data.endpoint_output.and_then(|output| output.bytes().ok());
        let usage = answer.map(|answer| Usage::of_answer(&String::from_utf8_lossy(&answer))).unwrap_or_default();
        let about = row.event_metadata;
        let time = about.as_ref().and_then(|about| about.inference_time);
        out.push(Record {
            at_ms: time.and_then(|time| self.times.ms(time)),
            id: about.and_then(|about| about.inference_id.or(about.event_id)).map(|name| name.0),
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            observed: Observed { cached_tokens: usage.cached_tokens, ..Observed::default() },
            ..record
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        self.times.assumption().into_iter().collect()
    }

    fn warnings(&self) -> Vec<String> {
        let sampled = "data capture keeps a sample (InitialSamplingPercentage): unless that is 100, reuse and load are understated";
        vec![sampled.to_owned()]
    }
}
