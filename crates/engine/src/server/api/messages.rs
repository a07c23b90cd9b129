//! `/v1/messages`: the Messages API, whose shapes are Anthropic's.
//!
//! The system prompt becomes the first message of the conversation, so that a prompt said in this API
//! and the same one said in chat share their blocks. `usage.input_tokens` leaves out what was found
//! cached, as the API's owner documents it; the sum of the three input counts is the prompt.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::super::app::App;
use super::super::error::ApiError;
use super::super::generate::{Facts, Length, Telling, Token, Wish, encode};
use super::super::sequence::Ending;
use super::openai::CHAT_TOKENS_DEFAULT;
use super::{CacheFields, Xargs, parse, put_named_event, to_json};
use crate::vocab::{Content, Message, render};

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    system: Option<Content<'a>>,
    max_tokens: Option<u32>,
    stream: Option<bool>,
    cache_salt: Option<String>,
    #[serde(borrow)]
    vllm_xargs: Option<Xargs<'a>>,
}

/// Tells a message.
struct MessagesTelling;

#[derive(Serialize)]
struct Whole<'a> {
    id: &'a str,
    r#type: &'static str,
    role: &'static str,
    content: &'a [Block<'a>],
    model: &'a str,
    stop_reason: Option<&'static str>,
    stop_sequence: (),
    usage: Usage,
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
struct Usage {
    /// Not found cached.
    input_tokens: u32,
    output_tokens: u32,
    /// Nothing is cached at the client's wish, as the API means it.
    cache_creation_input_tokens: u32,
    cache_read_input_tokens: u32,
}

/// An event of a stream; its name is its type.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event<'a> {
    MessageStart { message: Whole<'a> },
    ContentBlockStart { index: u32, content_block: Block<'a> },
    ContentBlockDelta { index: u32, delta: Block<'a> },
    ContentBlockStop { index: u32 },
    MessageDelta { delta: Stop, usage: Usage },
    MessageStop,
}

#[derive(Serialize)]
struct Stop {
    stop_reason: &'static str,
    stop_sequence: (),
}

/// A body's wish.
pub(in super::super) fn wish(app: &App, json: &[u8]) -> Result<Wish, ApiError> {
    let body: Body<'_> = parse(json)?;
    let target = app.target(body.model.as_deref())?;
    let mut messages = body.messages.ok_or_else(|| ApiError::field("messages", "messages are missing"))?;
    if body.max_tokens.is_none() {
        return Err(ApiError::field("max_tokens", "max_tokens is missing"));
    }
    if let Some(content) = body.system {
        messages.insert(0, Message { role: "system".into(), content });
    }
    let cache = CacheFields { cache_salt: body.cache_salt, session_id: None, vllm_xargs: body.vllm_xargs };
    Ok(Wish {
        target,
        prompt: encode(&render(&messages, true), app.context_tokens_max())?,
        length: Length { limit: body.max_tokens, otherwise: CHAT_TOKENS_DEFAULT, stops: true, param: "max_tokens" },
        cache: cache.check()?,
        stream: body.stream.unwrap_or(false),
        id_prefix: "msg_",
        telling: Box::new(MessagesTelling),
    })
}

impl Event<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        let name = match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
        };
        put_named_event(out, name, self);
    }
}

impl Usage {
    fn new(facts: &Facts, output_tokens: u32) -> Self {
        Self {
            input_tokens: facts.prompt_tokens() - facts.cached_tokens,
            output_tokens,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: facts.cached_tokens,
        }
    }
}

fn stop_reason(facts: &Facts) -> &'static str {
    match facts.sequence.ending() {
        Ending::Stop => "end_turn",
        Ending::Length => "max_tokens",
    }
}

fn message<'a>(
    facts: &'a Facts,
    content: &'a [Block<'a>],
    stop_reason: Option<&'static str>,
    tokens: u32,
) -> Whole<'a> {
    Whole {
        id: &facts.id,
        r#type: "message",
        role: "assistant",
        content,
        model: &facts.model,
        stop_reason,
        stop_sequence: (),
        usage: Usage::new(facts, tokens),
    }
}

impl Telling for MessagesTelling {
    fn token(&mut self, facts: &Facts, token: &Token<'_>, out: &mut Vec<u8>) {
        if token.is_first() {
            Event::MessageStart { message: message(facts, &[], None, 0) }.put(out);
            Event::ContentBlockStart { index: 0, content_block: Block { r#type: "text", text: "" } }.put(out);
        }
        Event::ContentBlockDelta { index: 0, delta: Block { r#type: "text_delta", text: token.text } }.put(out);
    }

    fn end(&mut self, facts: &Facts, tokens: u32, out: &mut Vec<u8>) {
        Event::ContentBlockStop { index: 0 }.put(out);
        let delta = Stop { stop_reason: stop_reason(facts), stop_sequence: () };
        Event::MessageDelta { delta, usage: Usage::new(facts, tokens) }.put(out);
        Event::MessageStop.put(out);
    }

    fn failure(&mut self, _facts: &Facts, error: &ApiError, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: error\ndata: ");
        out.extend_from_slice(error.to_messages_json().as_bytes());
        out.extend_from_slice(b"\n\n");
    }

    fn whole(&mut self, facts: &Facts, text: &str, tokens: &[u32]) -> Vec<u8> {
        let content = [Block { r#type: "text", text }];
        to_json(&message(facts, &content, Some(stop_reason(facts)), tokens.len() as u32))
    }
}
