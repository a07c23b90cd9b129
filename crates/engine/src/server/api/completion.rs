//! `/v1/completions`.

use serde::Serialize;

use super::super::error::ApiError;
use super::super::generate::{Facts, Telling, Token};
use super::openai::{Chunk, FINGERPRINT, Options, Usage};
use super::{DONE, put_event, put_failure, to_json};

const OBJECT: &str = "text_completion";

/// Tells a completion.
pub(super) struct CompletionTelling {
    options: Options,
}

/// A whole completion.
#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    service_tier: (),
    system_fingerprint: &'static str,
    usage: Usage,
    kv_transfer_params: (),
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    text: &'a str,
    logprobs: (),
    finish_reason: &'static str,
    stop_reason: (),
    token_ids: Option<&'a [u32]>,
    prompt_logprobs: (),
    prompt_token_ids: Option<&'a [u32]>,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    text: &'a str,
    logprobs: (),
    finish_reason: Option<&'static str>,
    stop_reason: (),
    prompt_token_ids: Option<&'a [u32]>,
    token_ids: Option<[u32; 1]>,
}

impl CompletionTelling {
    pub(super) fn new(options: Options) -> Self {
        Self { options }
    }
}

impl Telling for CompletionTelling {
    fn token(&mut self, facts: &Facts, token: &Token<'_>, out: &mut Vec<u8>) {
        let choice = ChunkChoice {
            index: 0,
            text: token.text,
            logprobs: (),
            finish_reason: token.last.then(|| facts.finish_reason()),
            stop_reason: (),
            prompt_token_ids: if token.is_first() { self.options.prompt_token_ids(facts) } else { None },
            token_ids: self.options.return_token_ids.then_some([token.id]),
        };
        let mut chunk = Chunk::new(facts, OBJECT, std::slice::from_ref(&choice));
        chunk.system_fingerprint = self.options.fingerprint(token.last);
        put_event(out, &chunk);
    }

    fn end(&mut self, facts: &Facts, tokens: u32, out: &mut Vec<u8>) {
        self.options.put_usage(facts, OBJECT, Usage::new(facts, tokens, false), out);
        out.extend_from_slice(DONE);
    }

    fn failure(&mut self, _facts: &Facts, error: &ApiError, out: &mut Vec<u8>) {
        put_failure(out, error);
    }

    fn whole(&mut self, facts: &Facts, text: &str, tokens: &[u32]) -> Vec<u8> {
        let choice = Choice {
            index: 0,
            text,
            logprobs: (),
            finish_reason: facts.finish_reason(),
            stop_reason: (),
            token_ids: self.options.return_token_ids.then_some(tokens),
            prompt_logprobs: (),
            prompt_token_ids: self.options.prompt_token_ids(facts),
        };
        to_json(&Completion {
            id: &facts.id,
            object: OBJECT,
            created: facts.created,
            model: &facts.model,
            choices: [choice],
            service_tier: (),
            system_fingerprint: FINGERPRINT,
            usage: Usage::new(facts, tokens.len() as u32, false),
            kv_transfer_params: (),
        })
    }
}
