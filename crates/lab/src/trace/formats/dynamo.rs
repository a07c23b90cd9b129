//! Dynamo's request traces (`dynamo.request.trace.v1`): an event a line, in an envelope `{"event": ...}` or without. An
//! event that has a `request` with lengths is one request; others are passed over.

use serde::Deserialize;

use crate::trace::blocks::{BlockName, Fit, scoped};
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Blocks, Content, Observed, Record};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Name, Tokens, json_fault};

const SCHEMA: &str = "dynamo.request.trace";

pub(super) fn recognises(look: &Look<'_>) -> bool {
    ["schema", "event"].into_iter().filter_map(|name| look.member(name)).any(|json| json.get().contains(SCHEMA))
}

#[derive(Deserialize)]
struct Row {
    event: Option<Event>,
    #[serde(flatten)]
    bare: Event,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    event_time_unix_ms: Option<Written>,
    request: Option<Request>,
}

#[derive(Deserialize)]
struct Request {
    request_id: Option<Name>,
    session_id: Option<Name>,
    model: Option<Name>,
    input_tokens: Option<Tokens>,
    output_tokens: Option<Tokens>,
    cached_tokens: Option<Tokens>,
    request_received_ms: Option<Written>,
    ttft_ms: Option<f64>,
    total_time_ms: Option<f64>,
    worker: Option<Worker>,
    replay: Option<Replay>,
}

#[derive(Deserialize)]
struct Worker {
    prefill_worker_id: Option<Name>,
    decode_worker_id: Option<Name>,
}

#[derive(Deserialize)]
struct Replay {
    trace_block_size: Option<Tokens>,
    input_length: Option<Tokens>,
    input_sequence_hashes: Option<Vec<BlockName>>,
}

/// Reads such events.
pub(super) struct Dynamo {
    times: Times,
    block_tokens: Option<u32>,
    fit: Fit,
}

impl Dynamo {
    pub(super) fn new(given: &Given) -> Self {
        let times = Times::new(given.time_unit.or(Some(TimeUnit::Milliseconds)), TimeUnit::Milliseconds);
        Self { times, block_tokens: given.block_tokens, fit: Fit::default() }
    }

    fn content(&mut self, replay: Option<Replay>, input: Option<u32>) -> Result<Content, String> {
        let Some(Replay { trace_block_size, input_sequence_hashes: Some(names), .. }) = replay else {
            return Ok(Content::Unknown);
        };
        let size = self.block_tokens.or(trace_block_size.map(|tokens| tokens.0)).filter(|&size| size > 0);
        let size = size.ok_or("hashes without trace_block_size (--block-tokens)")?;
        let input = input.ok_or("hashes without a length")?;
        self.fit.check(names.len(), size, input)?;
        Ok(Content::Blocks(Blocks { ids: scoped(&names, None), tokens: size }))
    }
}

impl ReadRow for Dynamo {
    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row = serde_json::from_slice(row).map_err(|error| json_fault(&error))?;
        let event = row.event.unwrap_or(row.bare);
        let Some(request) = event.request else { return Ok(()) };
        let inside = request.replay.as_ref().and_then(|replay| replay.input_length);
        // The hashes are of the replay's length; where the two differ, the blocks must still fit the record.
        let Some(input) = inside.or(request.input_tokens) else { return Ok(()) };
        let content = self.content(request.replay, Some(input.0))?;
        let received = request.request_received_ms.and_then(|time| self.times.ms(time));
        let ended = event.event_time_unix_ms.and_then(|time| self.times.ms(time));
        let worker = request.worker.and_then(|worker| worker.prefill_worker_id.or(worker.decode_worker_id));
        out.push(Record {
            id: request.request_id.map(|name| name.0),
            at_ms: received.or_else(|| Some(ended? - request.total_time_ms?)),
            session: request.session_id.map(|name| name.0),
            model: request.model.map(|name| name.0),
            content,
            input_tokens: Some(input.0),
            output_tokens: request.output_tokens.map(|tokens| tokens.0),
            observed: Observed {
                ttft_ms: request.ttft_ms,
                e2e_ms: request.total_time_ms,
                cached_tokens: request.cached_tokens.map(|tokens| tokens.0),
                replica: worker.map(|name| name.0),
                status: None,
            },
            ..Record::default()
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        self.fit.sentence().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by fuzzing.
    #[test]
    fn a_prompt_is_as_long_as_its_hashes_say_where_two_lengths_differ() {
        let row = |lengths: &str| {
            let replay = r#""trace_block_size":32,"input_sequence_hashes":[11,22,33]"#;
            let row = format!(r#"{{"schema":"dynamo.request.trace.v1","request":{{{lengths},{replay}}}}}}}"#);
            let mut out = Vec::new();
            Dynamo::new(&Given::default())
                .read(row.as_bytes(), &mut out)
                .map(|()| out.pop().and_then(|r| r.input_tokens))
        };
        assert_eq!(row(r#""input_tokens":45,"replay":{"input_length":96"#), Ok(Some(96)));
        assert_eq!(row(r#""input_tokens":96,"replay":{"input_length":96"#), Ok(Some(96)));
        assert!(row(r#""input_tokens":96,"replay":{"input_length":45"#).is_err());
    }
}
