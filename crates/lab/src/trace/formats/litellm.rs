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
use crate::trace::values::{Name, Tokens, Usage, json_fault, text_or_json};

const BLOCK_TOKENS: u32 = 16;

pub(super) fn recognises(look: &Look<'_>) -> bool {
    look.has("startTime") && ["call_type", "model_group", "spend", "endTime"].into_iter().any(|name| look.has(name))
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(alias = "id")]
    request_id: Option<Name>,
    #[serde(rename = "startTime")]
    start: Option<Written>,
    #[serde(rename = "completionStartTime")]
    first_token: Option<Written>,
    #[serde(rename = "endTime")]
    end: Option<Written>,
    model: Option<Name>,
    model_group: Option<Name>,
    api_base: Option<Name>,
    prompt_tokens: Option<Tokens>,
    completion_tokens: Option<Tokens>,
    session_id: Option<Name>,
    #[serde(alias = "end_user")]
    user: Option<Name>,
    team_id: Option<Name>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    proxy_server_request: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    prefix_block_hashes: Option<Vec<BlockName>>,
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
        let rows = first.iter().filter_map(|row| serde_json::from_slice::<Row<'_>>(row).ok());
        let lengths: Vec<_> = rows.filter_map(|row| Some((row.prompt_tokens?.0, hashes(&row)?.len()))).collect();
        Self {
            times: Times::new(given.time_unit, TimeUnit::Seconds),
            block_tokens: given.block_tokens.unwrap_or_else(|| choose_tokens(&lengths, BLOCK_TOKENS).0),
            has_ids: false,
            fit: Fit::default(),
            keeps_body: given.keeps_body,
        }
    }

    /// The prompt, from wherever the row has it.
    fn prompt(&mut self, row: &Row<'_>) -> Result<Record, String> {
        if let Some(names) = hashes(row) {
            let input = row.prompt_tokens.ok_or("prefix_block_hashes without prompt_tokens")?.0;
            self.fit.check(names.len(), self.block_tokens, input)?;
            self.has_ids = true;
            let content = Content::Blocks(Blocks { ids: scoped(&names, None), tokens: self.block_tokens });
            return Ok(Record { content, ..Record::default() });
        }
        if let Some(request) = row.proxy_server_request {
            let text = text_or_json(request);
            let whole = serde_json::from_str::<ProxyRequest<'_>>(&text).ok().and_then(|request| request.body);
            let body = whole.map_or(&*text, RawValue::get);
            if let Ok(record) = record_of(body.as_bytes(), kvroute_wire::request::Dialect::Auto, self.keeps_body) {
                return Ok(record);
            }
        }
        let messages = row.messages.map(text_or_json).unwrap_or_default();
        if messages.starts_with('[') && messages.len() > "[]".len() {
            return Ok(Record { content: content_of_messages(&messages)?, ..Record::default() });
        }
        Ok(Record::default())
    }
}

fn hashes(row: &Row<'_>) -> Option<Vec<BlockName>> {
    row.prefix_block_hashes.clone().or_else(|| {
        let metadata = text_or_json(row.metadata?);
        serde_json::from_str::<Metadata>(&metadata).ok()?.prefix_block_hashes
    })
}

impl ReadRow for LiteLlm {
    fn read(&mut self, bytes: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row<'_> = serde_json::from_slice(bytes).map_err(|error| json_fault(&error))?;
        let prompt = self.prompt(&row)?;
        if prompt.content == Content::Unknown && row.prompt_tokens.is_none() {
            return Err("neither prompt_tokens nor messages".into());
        }
        let mut ms = |time: Option<Written>| time.and_then(|time| self.times.ms(time));
        let (start, first_token, end) = (ms(row.start), ms(row.first_token), ms(row.end));
        let since_start = |later: Option<f64>| Some(later? - start?).filter(|&ms| ms >= 0.0);
        let usage = row.response.map(|answer| Usage::of_answer(&text_or_json(answer))).unwrap_or_default();
        let named = |name: Option<Name>| name.map(|name| name.0).filter(|name| !name.is_empty());
        out.push(Record {
            id: named(row.request_id),
            at_ms: start,
            session: named(row.session_id).or(prompt.session),
            model: named(row.model_group).or(named(row.model)),
            tenant: named(row.team_id).or(named(row.user)).or(prompt.tenant),
            input_tokens: row.prompt_tokens.map(|tokens| tokens.0),
            output_tokens: row.completion_tokens.map(|tokens| tokens.0),
            observed: Observed {
                // Where nothing streams, LiteLLM writes the end as the first token, too.
                ttft_ms: since_start(first_token).filter(|_| first_token != end),
                e2e_ms: since_start(end),
                cached_tokens: usage.cached_tokens,
                replica: named(row.api_base),
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
