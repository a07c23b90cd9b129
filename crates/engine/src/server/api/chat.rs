//! `/v1/chat/completions`.

use serde::Serialize;

use super::super::error::ApiError;
use super::super::generate::{Facts, Telling, Token};
use super::openai::{Chunk, FINGERPRINT, Options, Usage};
use super::{DONE, put_event, put_failure, to_json};

const CHUNK: &str = "chat.completion.chunk";

/// Tells an answer to a chat.
pub(super) struct ChatTelling {
    options: Options,
}

/// A whole answer.
#[derive(Serialize)]
struct Chat<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a>; 1],
    service_tier: (),
    system_fingerprint: &'static str,
    usage: Usage,
    prompt_logprobs: (),
    prompt_token_ids: Option<&'a [u32]>,
    kv_transfer_params: (),
}

#[derive(Serialize)]
struct Choice<'a> {
    index: u32,
    message: Message<'a>,
    logprobs: (),
    finish_reason: &'static str,
    stop_reason: (),
    token_ids: Option<&'a [u32]>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
    refusal: (),
    annotations: (),
    audio: (),
    function_call: (),
    reasoning: (),
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    delta: Delta<'a>,
    logprobs: (),
    finish_reason: Option<&'static str>,
    /// There with the last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<()>,
    /// There with every token.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<Option<[u32; 1]>>,
}

#[derive(Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    content: &'a str,
}

impl ChatTelling {
    pub(super) fn new(options: Options) -> Self {
        Self { options }
    }

    /// A stream begins with an event that says who speaks.
    fn put_role(&self, facts: &Facts, out: &mut Vec<u8>) {
        let choice = ChunkChoice {
            index: 0,
            delta: Delta { role: Some("assistant"), content: "" },
            logprobs: (),
            finish_reason: None,
            stop_reason: None,
            token_ids: None,
        };
        let mut chunk = Chunk::new(facts, CHUNK, std::slice::from_ref(&choice));
        chunk.prompt_token_ids = Some(self.options.prompt_token_ids(facts));
        put_event(out, &chunk);
    }
}

impl Telling for ChatTelling {
    fn token(&mut self, facts: &Facts, token: &Token<'_>, out: &mut Vec<u8>) {
        if token.is_first() {
            self.put_role(facts, out);
        }
        let choice = ChunkChoice {
            index: 0,
            delta: Delta { role: None, content: token.text },
            logprobs: (),
            finish_reason: token.last.then(|| facts.finish_reason()),
            stop_reason: token.last.then_some(()),
            token_ids: Some(self.options.return_token_ids.then_some([token.id])),
        };
        let mut chunk = Chunk::new(facts, CHUNK, std::slice::from_ref(&choice));
        chunk.system_fingerprint = self.options.fingerprint(token.last);
        put_event(out, &chunk);
    }

    fn end(&mut self, facts: &Facts, tokens: u32, out: &mut Vec<u8>) {
        self.options.put_usage(facts, CHUNK, Usage::new(facts, tokens, true), out);
        out.extend_from_slice(DONE);
    }

    fn failure(&mut self, _facts: &Facts, error: &ApiError, out: &mut Vec<u8>) {
        put_failure(out, error);
    }

    fn whole(&mut self, facts: &Facts, text: &str, tokens: &[u32]) -> Vec<u8> {
        let message = Message {
            role: "assistant",
            content: text,
            refusal: (),
            annotations: (),
            audio: (),
            function_call: (),
            reasoning: (),
        };
        let choice = Choice {
            index: 0,
            message,
            logprobs: (),
            finish_reason: facts.finish_reason(),
            stop_reason: (),
            token_ids: self.options.return_token_ids.then_some(tokens),
        };
        to_json(&Chat {
            id: &facts.id,
            object: "chat.completion",
            created: facts.created,
            model: &facts.model,
            choices: [choice],
            service_tier: (),
            system_fingerprint: FINGERPRINT,
            usage: Usage::new(facts, tokens.len() as u32, true),
            prompt_logprobs: (),
            prompt_token_ids: self.options.prompt_token_ids(facts),
            kv_transfer_params: (),
        })
    }
}
