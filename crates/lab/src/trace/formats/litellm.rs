//! LiteLLM: rows of `LiteLLM_SpendLogs` and its standard logging payload. `messages` is empty unless prompts are stored;
//! the content-free `prefix_block_hashes` of the callback of that name are read as names of blocks.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::trace::blocks::{BlockName, Fit, choose_tokens, scoped};
use crate::trace::content::{content_of_messages, record_of};
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Blocks, Content, Observed, Record};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Members, Usage, text_or_json};

const BLOCK_TOKENS: u32 = 16;
const INPUT: &str = "prompt_tokens";

pub(super) fn recognises(look: &Look<'_>) -> bool {
    look.has("startTime") && ["call_type", "model_group", "spend", "endTime"].into_iter().any(|name| look.has(name))
}

#[derive(Deserialize)]
struct Metadata {
    prefix_block_hashes: Option<Vec<BlockName>>,
}

#[derive(Deserialize)]
struct ProxyRequest<'a> {
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// Reads such rows.
pub(super) struct LiteLlm {
    times: Times,
    block_tokens: u32,
    has_ids: bool,
    fit: Fit,
    keeps_body: bool,
}

impl LiteLlm {
    pub(super) fn new(given: &Given, first: &[&[u8]]) -> Self {
        let rows = first.iter().filter_map(|row| Members::of(row).ok());
        let lengths: Vec<_> = rows.filter_map(|row| Some((row.tokens(&[INPUT])?, hashes(&row)?.len()))).collect();
        Self {
            times: Times::new(given.time_unit, TimeUnit::Seconds),
            block_tokens: given.block_tokens.unwrap_or_else(|| choose_tokens(&lengths, BLOCK_TOKENS).0),
            has_ids: false,
            fit: Fit::default(),
            keeps_body: given.keeps_body,
        }
    }

    /// The prompt, from wherever the row has it.
    fn prompt(&mut self, row: &Members<'_>) -> Result<Record, String> {
        if let Some(names) = hashes(row) {
            let input = row.tokens(&[INPUT]).ok_or("prefix_block_hashes without prompt_tokens")?;
            self.fit.check(names.len(), self.block_tokens, input)?;
            self.has_ids = true;
            let content = Content::Blocks(Blocks { ids: scoped(&names, None), tokens: self.block_tokens });
            return Ok(Record { content, ..Record::default() });
        }
        if let Some(request) = row.raw(&["proxy_server_request"]) {
            let text = text_or_json(request);
            let whole = serde_json::from_str::<ProxyRequest<'_>>(&text).ok().and_then(|request| request.body);
            let body = whole.map_or(&*text, RawValue::get);
            if let Ok(record) = record_of(body.as_bytes(), kvroute_wire::request::Dialect::Auto, self.keeps_body) {
                return Ok(record);
            }
        }
        let messages = row.raw(&["messages"]).map(text_or_json).unwrap_or_default();
        if messages.starts_with('[') && messages.len() > "[]".len() {
            return Ok(Record { content: content_of_messages(&messages)?, ..Record::default() });
        }
        Ok(Record::default())
    }
}

fn hashes(row: &Members<'_>) -> Option<Vec<BlockName>> {
    row.get(&["prefix_block_hashes"]).or_else(|| {
        let metadata = text_or_json(row.raw(&["metadata"])?);
        serde_json::from_str::<Metadata>(&metadata).ok()?.prefix_block_hashes
    })
}

impl ReadRow for LiteLlm {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row = Members::of(bytes)?;
        let prompt = self.prompt(&row)?;
        let input_tokens = row.tokens(&[INPUT]);
        if prompt.content == Content::Unknown && input_tokens.is_none() {
            return Err("neither prompt_tokens nor messages".into());
        }
        let mut ms = |name: &str| row.get::<Written>(&[name]).and_then(|time| self.times.ms(time));
        let (start, first_token, end) = (ms("startTime"), ms("completionStartTime"), ms("endTime"));
        let since_start = |later: Option<f64>| Some(later? - start?).filter(|&ms| ms >= 0.0);
        let answer = row.raw(&["response"]).map(text_or_json);
        let usage = answer.map(|answer| Usage::of_answer(&answer)).unwrap_or_default();
        out.push(Record {
            id: row.name(&["request_id", "id"]),
            at_ms: start,
            session: row.name(&["session_id"]).or(prompt.session),
            model: row.name(&["model_group", "model"]),
            tenant: row.name(&["team_id", "end_user", "user"]).or(prompt.tenant),
            input_tokens,
            output_tokens: row.tokens(&["completion_tokens"]),
            observed: Observed {
                // Where nothing streams, LiteLLM writes the end as the first token, too.
                ttft_ms: since_start(first_token).filter(|_| first_token != end),
                e2e_ms: since_start(end),
                cached_tokens: usage.cached_tokens,
                replica: row.name(&["api_base"]),
                status: None,
            },
            ..prompt
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        let blocks = self.has_ids.then(|| format!("{} tokens a block (--block-tokens)", self.block_tokens));
        self.times.assumption().into_iter().chain(blocks).chain(self.fit.sentence()).collect()
    }
}
