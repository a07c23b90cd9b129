//! From a wish to an answer.
//!
//! Everything that can be wrong with a request is found here, before the engine hears of it, so that
//! a stream that has begun ends well. Each API makes a [`Wish`] of its body and brings a [`Telling`],
//! which knows how that API tells an answer; between the two all APIs are the same.

use std::sync::Arc;

use super::app::{App, Target};
use super::error::ApiError;
use super::handle::{Progress, Slot, Ticket};
use super::sequence::{CacheOptions, Ending, Sequence, SequenceSpec};
use crate::model::FinishReason;
use crate::vocab::Vocab;

/// What a request asks for.
pub(super) struct Wish {
    pub(super) target: Target,
    pub(super) prompt: Vec<u32>,
    pub(super) length: Length,
    pub(super) cache: CacheOptions,
    pub(super) stream: bool,
    /// What the answer's id begins with.
    pub(super) id_prefix: &'static str,
    pub(super) telling: Box<dyn Telling>,
}

/// How long the answer is.
pub(super) struct Length {
    /// What the request says: it gets exactly as many.
    pub(super) limit: Option<u32>,
    /// If it says nothing: so many, where the context has room.
    pub(super) otherwise: u32,
    /// Whether those end of themselves.
    pub(super) stops: bool,
    /// The field that the limit came in.
    pub(super) param: &'static str,
}

/// What every piece of an answer says.
pub(super) struct Facts {
    pub(super) id: String,
    /// Unix seconds.
    pub(super) created: u64,
    /// As the client knows it: the adapter's name if there is one.
    pub(super) model: String,
    pub(super) sequence: Arc<Sequence>,
    /// 0 until the engine has begun.
    pub(super) cached_tokens: u32,
    block_tokens: u32,
}

/// A token of an answer.
pub(super) struct Token<'a> {
    /// Its place, from 0.
    pub(super) index: u32,
    pub(super) id: u32,
    pub(super) text: &'a str,
    /// Whether none follows.
    pub(super) last: bool,
}

/// An answer that the engine works on. Dropped before its end, it is given up.
pub(super) struct Answer {
    pub(super) facts: Facts,
    pub(super) telling: Box<dyn Telling>,
    pub(super) ticket: Ticket,
}

/// How an API tells an answer: either as a stream (opening, tokens, then end or failure) or whole.
/// What is put into `out` at a time is sent at a time.
pub(super) trait Telling: Send {
    /// What is sent before the engine has begun. Most APIs have nothing to say then, so that a client's
    /// first byte is its first token.
    fn opening(&mut self, _facts: &Facts, _out: &mut Vec<u8>) {}

    /// The next token.
    fn token(&mut self, facts: &Facts, token: &Token<'_>, out: &mut Vec<u8>);

    /// What follows the last token, of so many.
    fn end(&mut self, facts: &Facts, tokens: u32, out: &mut Vec<u8>);

    /// The engine gave up, at whatever point.
    fn failure(&mut self, facts: &Facts, error: &ApiError, out: &mut Vec<u8>);

    /// All of it as JSON.
    fn whole(&mut self, facts: &Facts, text: &str, tokens: &[u32]) -> Vec<u8>;
}

/// The tokens of a text. One that cannot fit into the context is refused before it is encoded: that
/// would hold up everybody else.
pub(super) fn encode(text: &str, context_tokens_max: u32) -> Result<Vec<u32>, ApiError> {
    let vocab = Vocab::shared();
    match text.len() / vocab.token_bytes_max() > context_tokens_max as usize {
        true => Err(too_long(context_tokens_max)),
        false => Ok(vocab.encode(text)),
    }
}

/// Refuses a prompt that is empty or leaves less than `tokens_min` tokens of room for an answer;
/// returns that room.
pub(super) fn room(prompt: &[u32], tokens_min: u32, context_tokens_max: u32) -> Result<u32, ApiError> {
    if prompt.is_empty() {
        return Err(ApiError::field("prompt", "prompt is empty"));
    }
    let prompt_tokens = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
    match context_tokens_max.checked_sub(prompt_tokens) {
        Some(room) if room >= tokens_min => Ok(room),
        _ => Err(too_long(context_tokens_max)),
    }
}

fn too_long(context_tokens_max: u32) -> ApiError {
    let message = format!("prompt leaves no room in the context of {context_tokens_max} tokens");
    ApiError::field("prompt", message)
}

/// What a request learns when its end is not the end of an answer.
pub(super) fn failure(reason: FinishReason) -> ApiError {
    match reason {
        FinishReason::Rejected => ApiError::bad("request does not fit into the engine"),
        FinishReason::Aborted | FinishReason::Stop | FinishReason::Length => ApiError::EngineGone,
    }
}

impl Length {
    /// How many tokens, and why it ends there.
    fn resolve(&self, room: u32) -> Result<(u32, Ending), ApiError> {
        match self.limit {
            Some(0) => Err(ApiError::field(self.param, format!("{} must be at least 1", self.param))),
            Some(limit) if limit > room => Err(ApiError::field(
                self.param,
                format!("{} is {limit}, the context has room for {room} after the prompt", self.param),
            )),
            Some(limit) => Ok((limit, Ending::Length)),
            None => {
                let ending = if self.stops { Ending::Stop } else { Ending::Length };
                Ok((self.otherwise.min(room), ending))
            }
        }
    }
}

impl Answer {
    /// Gives the wish to the engine, if it can be granted.
    pub(super) fn start(app: &App, slot: &Slot, wish: Wish) -> Result<Self, ApiError> {
        let Wish { target, prompt, length, cache, id_prefix, telling, .. } = wish;
        let (answer_tokens, ending) = length.resolve(room(&prompt, 1, app.context_tokens_max())?)?;
        let spec = SequenceSpec { answer_tokens, ending, ..app.spec(&target, prompt, cache) };
        let sequence = Arc::new(Sequence::new(spec));
        let ticket = app.handle.submit(slot.clone(), Arc::clone(&sequence));
        let facts = Facts {
            id: app.new_id(id_prefix, ticket.id()),
            created: app.unix_seconds(),
            model: target.name(app).to_owned(),
            sequence,
            cached_tokens: 0,
            block_tokens: app.handle.preset().block_tokens,
        };
        Ok(Self { facts, telling, ticket })
    }

    /// Waits for the end and tells it all at once, as JSON.
    pub(super) async fn whole(mut self) -> Result<Vec<u8>, ApiError> {
        let mut tokens = Vec::new();
        loop {
            match self.ticket.progress().await {
                Some(Progress::Scheduled { cached_tokens }) => self.facts.cached_tokens = cached_tokens,
                Some(Progress::Token) => {
                    tokens.push(self.facts.sequence.answer_token(tokens.len() as u32));
                }
                Some(Progress::Finished(FinishReason::Stop | FinishReason::Length)) => break,
                Some(Progress::Finished(reason)) => return Err(failure(reason)),
                None => return Err(ApiError::EngineGone),
            }
        }
        let text = Vocab::shared().decode(&tokens);
        Ok(self.telling.whole(&self.facts, &String::from_utf8_lossy(&text), &tokens))
    }
}

impl Facts {
    pub(super) fn prompt_tokens(&self) -> u32 {
        self.sequence.prompt().len() as u32
    }

    /// Tokens of whole blocks that the prompt adds to the cache.
    pub(super) fn created_tokens(&self) -> u32 {
        let full = self.prompt_tokens() / self.block_tokens * self.block_tokens;
        full.saturating_sub(self.cached_tokens)
    }

    /// In OpenAI's words.
    pub(super) fn finish_reason(&self) -> &'static str {
        self.sequence.ending().as_str()
    }
}

impl Token<'_> {
    pub(super) fn is_first(&self) -> bool {
        self.index == 0
    }
}
