//! What chat and completions have in common: one body, one usage, one form of a stream's pieces.
//!
//! One shape for both kinds of body: `/invocations` and `/tokenize` take either, and must look to
//! know. Unknown fields are skipped without being kept.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::super::app::App;
use super::super::error::ApiError;
use super::super::generate::{Facts, Length, Wish, encode};
use super::chat::ChatTelling;
use super::completion::CompletionTelling;
use super::prompt::{OnePrompt, Prompt};
use super::{CacheFields, Xargs};
use crate::vocab::{Message, Vocab, render};

/// Length of an answer to a chat that sets no limit, if the context has room.
pub const CHAT_TOKENS_DEFAULT: u32 = 128;

/// Length of a completion that sets no limit.
pub const COMPLETION_TOKENS_DEFAULT: u32 = 16;

/// Says what answered. Clients may read a version into it; there is none to be read.
pub(super) const FINGERPRINT: &str = "kvroute-simulated";

/// The kinds of work that a body's shape tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// It has `messages`.
    Chat,
    /// It has a `prompt`.
    Completion,
    /// It has an `input`.
    Embedding,
}

/// Body of a request for an answer or for tokens.
#[derive(Debug, Deserialize)]
pub(in super::super) struct Body<'a> {
    #[serde(borrow)]
    pub(in super::super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    prompt: Option<OnePrompt<'a>>,
    /// Only seen here.
    input: Option<IgnoredAny>,
    add_generation_prompt: Option<bool>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    n: Option<u32>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    return_token_ids: Option<bool>,
    cache_salt: Option<String>,
    session_id: Option<String>,
    #[serde(borrow)]
    vllm_xargs: Option<Xargs<'a>>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    /// Whether usage follows the last token.
    include_usage: Option<bool>,
}

/// What the client wants to be told besides the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) include_usage: bool,
    pub(super) return_token_ids: bool,
}

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Usage {
    prompt_tokens: u32,
    total_tokens: u32,
    completion_tokens: u32,
    prompt_tokens_details: PromptTokensDetails,
}

/// Where the prompt's tokens came from.
#[derive(Clone, Copy, Debug, Serialize)]
struct PromptTokensDetails {
    cached_tokens: u32,
    /// Tokens of whole blocks that this prompt added to the cache; null for completions.
    created_cache_tokens: Option<u32>,
}

/// A piece of a stream, of either kind.
#[derive(Serialize)]
pub(super) struct Chunk<'a, C> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: &'a [C],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system_fingerprint: Option<&'static str>,
    /// The outer `None` leaves the field out: only a chat's first piece has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_token_ids: Option<Option<&'a [u32]>>,
}

impl<'a> Body<'a> {
    /// Reads a body; the error is the client's.
    pub(in super::super) fn parse(json: &'a [u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(json).map_err(|error| ApiError::bad(error.to_string()))
    }

    /// What the body asks for.
    pub(in super::super) fn kind(&self) -> Option<Kind> {
        match (&self.messages, &self.prompt, &self.input) {
            (Some(_), ..) => Some(Kind::Chat),
            (None, Some(_), _) => Some(Kind::Completion),
            (None, None, Some(_)) => Some(Kind::Embedding),
            (None, None, None) => None,
        }
    }

    /// The tokens of a conversation.
    fn chat_tokens(&self, context_tokens_max: u32) -> Result<Vec<u32>, ApiError> {
        let messages = self.messages.as_deref().ok_or_else(|| ApiError::field("messages", "messages are missing"))?;
        encode(&render(messages, self.add_generation_prompt.unwrap_or(true)), context_tokens_max)
    }

    /// The tokens of a prompt.
    fn completion_tokens(&self, context_tokens_max: u32) -> Result<Vec<u32>, ApiError> {
        match &self.prompt {
            Some(OnePrompt(prompt)) => prompt.tokens("prompt", context_tokens_max),
            None => Err(ApiError::field("prompt", "prompt is missing")),
        }
    }

    /// The tokens of whatever it is.
    pub(in super::super) fn tokens(&self, context_tokens_max: u32) -> Result<Vec<u32>, ApiError> {
        match self.messages.is_some() {
            true => self.chat_tokens(context_tokens_max),
            false => self.completion_tokens(context_tokens_max),
        }
    }

    /// An answer to `messages`.
    pub(in super::super) fn chat(self, app: &App) -> Result<Wish, ApiError> {
        let length = Length {
            limit: self.max_completion_tokens.or(self.max_tokens),
            otherwise: CHAT_TOKENS_DEFAULT,
            stops: true,
            param: "max_tokens",
        };
        let telling = Box::new(ChatTelling::new(self.options()));
        self.wish(app, length, Self::chat_tokens, "chatcmpl-", telling)
    }

    /// A continuation of `prompt`.
    pub(in super::super) fn completion(self, app: &App) -> Result<Wish, ApiError> {
        let length =
            Length { limit: self.max_tokens, otherwise: COMPLETION_TOKENS_DEFAULT, stops: false, param: "max_tokens" };
        let telling = Box::new(CompletionTelling::new(self.options()));
        self.wish(app, length, Self::completion_tokens, "cmpl-", telling)
    }

    fn options(&self) -> Options {
        Options {
            include_usage: self.stream_options.as_ref().and_then(|options| options.include_usage).unwrap_or(false),
            return_token_ids: self.return_token_ids.unwrap_or(false),
        }
    }

    fn wish(
        self,
        app: &App,
        length: Length,
        tokens: fn(&Self, u32) -> Result<Vec<u32>, ApiError>,
        id_prefix: &'static str,
        telling: Box<dyn super::super::generate::Telling>,
    ) -> Result<Wish, ApiError> {
        let target = app.target(self.model.as_deref())?;
        if self.n.is_some_and(|n| n != 1) {
            return Err(ApiError::field("n", "n must be 1"));
        }
        let prompt = tokens(&self, app.context_tokens_max())?;
        let cache =
            CacheFields { cache_salt: self.cache_salt, session_id: self.session_id, vllm_xargs: self.vllm_xargs };
        Ok(Wish {
            target,
            prompt,
            length,
            cache: cache.check()?,
            stream: self.stream.unwrap_or(false),
            id_prefix,
            telling,
        })
    }
}

impl Prompt<'_> {
    /// Its tokens; `param` is the field that they come from.
    pub(super) fn tokens(&self, param: &'static str, context_tokens_max: u32) -> Result<Vec<u32>, ApiError> {
        match self {
            Self::Text(text) => encode(text, context_tokens_max),
            Self::Tokens(tokens) => {
                let vocab = Vocab::shared();
                match tokens.iter().find(|&&token| token >= vocab.size()) {
                    None => Ok(tokens.clone()),
                    Some(token) => Err(ApiError::field(param, format!("token id {token} is not in the vocabulary"))),
                }
            }
        }
    }
}

impl Usage {
    /// After so many tokens of the answer. Only chat says what was added to the cache.
    pub(super) fn new(facts: &Facts, completion_tokens: u32, chat: bool) -> Self {
        let prompt_tokens = facts.prompt_tokens();
        Self {
            prompt_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            completion_tokens,
            prompt_tokens_details: PromptTokensDetails {
                cached_tokens: facts.cached_tokens,
                created_cache_tokens: chat.then(|| facts.created_tokens()),
            },
        }
    }
}

impl<'a, C> Chunk<'a, C> {
    pub(super) fn new(facts: &'a Facts, object: &'static str, choices: &'a [C]) -> Self {
        Self {
            id: &facts.id,
            object,
            created: facts.created,
            model: &facts.model,
            choices,
            usage: None,
            system_fingerprint: None,
            prompt_token_ids: None,
        }
    }
}

impl Options {
    /// The prompt's tokens, if they were asked for.
    pub(super) fn prompt_token_ids(self, facts: &Facts) -> Option<&[u32]> {
        self.return_token_ids.then(|| facts.sequence.prompt())
    }

    /// The piece after the last token, if usage was asked for.
    pub(super) fn put_usage(self, facts: &Facts, object: &'static str, usage: Usage, out: &mut Vec<u8>) {
        if self.include_usage {
            let mut chunk = Chunk::<()>::new(facts, object, &[]);
            chunk.usage = Some(usage);
            chunk.system_fingerprint = Some(FINGERPRINT);
            super::put_event(out, &chunk);
        }
    }

    /// The fingerprint goes with the last piece before the end, whichever that is.
    pub(super) fn fingerprint(self, last: bool) -> Option<&'static str> {
        (last && !self.include_usage).then_some(FINGERPRINT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_null_fields_are_as_good_as_absent() {
        let body =
            br#"{"prompt":"p","n":null,"model":null,"tools":[{"a":[1]}],"max_tokens":null,"vllm_xargs":{"x":1}}"#;
        let body = Body::parse(body).unwrap();
        assert_eq!(body.prompt, Some(OnePrompt(Prompt::Text("p".into()))));
        assert!(body.n.is_none() && body.model.is_none() && body.max_tokens.is_none());
    }

    #[test]
    fn the_shape_says_what_a_body_asks_for() {
        for (json, kind) in [
            (r#"{"messages":[],"prompt":"p","input":"i"}"#, Some(Kind::Chat)),
            (r#"{"prompt":"p","input":"i"}"#, Some(Kind::Completion)),
            (r#"{"input":[[1],[2]]}"#, Some(Kind::Embedding)),
            (r#"{"inputs":"i"}"#, None),
        ] {
            assert_eq!(Body::parse(json.as_bytes()).unwrap().kind(), kind, "{json}");
        }
    }
}
