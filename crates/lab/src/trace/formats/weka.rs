//! Weka's agent sessions (also kv-cache-tester's): one JSON object a session, with its `requests`.
//!
//! - Times are seconds since the session began; when sessions began is not known.
//! - `hash_ids` are local to the session, so two sessions share nothing. The trace says how long their system prompts are
//!   (`system_tokens`), not that two are the same.
//! - A request of type `subagent` holds the requests of an agent that works beside its session: a session of its own,
//!   whose blocks are named as those of the session it belongs to. Its times count from its own beginning.
//! - `think_time` is the time since the answer before it.

use std::sync::Arc;

use serde::Deserialize;

use crate::trace::blocks::{BlockName, Fit, scoped};
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow, TimeBase};
use crate::trace::record::{Blocks, Content, Observed, Record};
use crate::trace::time::TimeUnit;
use crate::trace::values::{Name, Tokens, json_fault};

const BLOCK_TOKENS: u32 = 64;

pub(super) fn recognises(look: &Look<'_>) -> bool {
    look.has("requests") && (look.has("block_size") || look.has("hash_id_scope"))
}

#[derive(Deserialize)]
struct Session {
    id: Option<Name>,
    block_size: Option<Tokens>,
    hash_id_scope: Option<String>,
    requests: Vec<Request>,
}

#[derive(Deserialize)]
struct Request {
    t: Option<f64>,
    model: Option<Name>,
    #[serde(rename = "in")]
    input: Option<Tokens>,
    #[serde(rename = "out")]
    output: Option<Tokens>,
    #[serde(default)]
    hash_ids: Vec<BlockName>,
    think_time: Option<f64>,
    api_time: Option<f64>,
    ttft: Option<f64>,
    agent_id: Option<Name>,
    /// Of a subagent.
    requests: Option<Vec<Request>>,
}

/// Reads such sessions.
pub(super) struct Weka {
    unit: TimeUnit,
    block_tokens: Option<u32>,
    /// Tokens a block in the last session.
    seen_block_tokens: u32,
    fit: Fit,
    sessions: u64,
    misfits: u64,
    misfit_first: Option<String>,
}

/// What holds for the requests of a session, or of a subagent in it.
struct Within<'a> {
    session: Arc<str>,
    scope: Option<&'a str>,
    block_tokens: u32,
    begin: f64,
}

impl Weka {
    pub(super) fn new(given: &Given) -> Self {
        Self {
            unit: given.time_unit.unwrap_or(TimeUnit::Seconds),
            block_tokens: given.block_tokens,
            seen_block_tokens: BLOCK_TOKENS,
            fit: Fit::default(),
            sessions: 0,
            misfits: 0,
            misfit_first: None,
        }
    }

    fn requests(&mut self, requests: Vec<Request>, within: &Within<'_>, out: &mut Vec<Record>) {
        for (at, request) in requests.into_iter().enumerate() {
            let begin = within.begin + request.t.unwrap_or(0.0);
            if let Some(requests) = request.requests {
                let agent = request.agent_id.map_or_else(|| at.to_string().into(), |name| name.0);
                let session = format!("{}/{agent}", within.session).into();
                // One inside another is not known, and not followed: nothing here may go round for ever.
                let requests = requests.into_iter().map(|request| Request { requests: None, ..request }).collect();
                self.requests(requests, &Within { session, begin, ..*within }, out);
                continue;
            }
            match self.request(request, begin, within) {
                Ok(record) => out.push(record),
                Err(why) => {
                    self.misfits += 1;
                    self.misfit_first.get_or_insert_with(|| format!("{}, request {}: {why}", within.session, at + 1));
                }
            }
        }
    }

    fn request(&mut self, request: Request, begin: f64, within: &Within<'_>) -> Result<Record, String> {
        let input = request.input.ok_or("no length")?.0;
        self.fit.check(request.hash_ids.len(), within.block_tokens, input)?;
        let ms = |time: Option<f64>| time.filter(|time| time.is_finite()).map(|time| self.unit.in_ms(time));
        let ids = scoped(&request.hash_ids, within.scope);
        Ok(Record {
            at_ms: ms(request.t.map(|_| begin)),
            delay_ms: ms(request.think_time),
            session: Some(Arc::clone(&within.session)),
            model: request.model.map(|name| name.0),
            content: Content::Blocks(Blocks { ids, tokens: within.block_tokens }),
            input_tokens: Some(input),
            output_tokens: request.output.map(|tokens| tokens.0),
            observed: Observed { ttft_ms: ms(request.ttft), e2e_ms: ms(request.api_time), ..Observed::default() },
            ..Record::default()
        })
    }
}

impl ReadRow for Weka {
    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let session: Session = serde_json::from_slice(row).map_err(|error| json_fault(&error))?;
        self.sessions += 1;
        let id = session.id.map_or_else(|| self.sessions.to_string().into(), |name| name.0);
        let told = session.block_size.map_or(BLOCK_TOKENS, |tokens| tokens.0);
        self.seen_block_tokens = self.block_tokens.unwrap_or(told).max(1);
        let scope = Arc::clone(&id);
        let is_local = session.hash_id_scope.as_deref() != Some("global");
        let within = Within {
            session: id,
            scope: is_local.then_some(&*scope),
            block_tokens: self.seen_block_tokens,
            begin: 0.0,
        };
        self.requests(session.requests, &within, out);
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        let times = format!("times are {} since each session began", self.unit.name());
        let scope = "names of blocks are local to a session: sessions share nothing with each other".to_owned();
        let blocks = format!("{} tokens a block, as the trace tells (--block-tokens)", self.seen_block_tokens);
        [times, scope, blocks].into_iter().chain(self.fit.sentence()).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let first = self.misfit_first.as_deref();
        first
            .map(|first| format!("{} requests inside sessions were left out: {first}", self.misfits))
            .into_iter()
            .collect()
    }

    fn time_base(&self) -> TimeBase {
        TimeBase::Session
    }
}
