//! From a body to an answer.
//!
//! Everything that can be wrong with a request is found here, before the engine hears of it, so that
//! a stream that has begun ends well. What remains is a [`Job`]: its tokens, and how to tell them.

use std::sync::Arc;

use super::driver::{Progress, Slot, Ticket};
use super::error::ApiError;
use super::request::{Body, Prompt};
use super::response::{
    Chat, ChatChoice, ChatMessage, Completion, CompletionChoice, FINGERPRINT, PromptTokensDetails, Usage,
};
use super::routes::App;
use super::sequence::{Ending, Sequence, SequenceSpec, mix};
use crate::model::FinishReason;
use crate::vocab::{Vocab, render};

/// Length of an answer to a chat that sets no limit, if the context has room.
pub const CHAT_TOKENS_DEFAULT: u32 = 128;

/// Length of a completion that sets no limit.
pub const COMPLETION_TOKENS_DEFAULT: u32 = 16;

/// Longer salts are refused, as vLLM does it; session ids as well, since every event repeats them.
const NAME_CHARS_MAX: usize = 1024;

/// The two kinds of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// To `messages`.
    Chat,
    /// To a `prompt`.
    Completion,
}

/// A request that can be answered.
pub(super) struct Job {
    pub(super) api: Api,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) return_token_ids: bool,
    pub(super) sequence: Arc<Sequence>,
}

/// A job in the engine: what every piece of its answer says.
pub(super) struct Answer {
    pub(super) job: Job,
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    pub(super) ticket: Ticket,
    pub(super) cached_tokens: u32,
    pub(super) block_tokens: u32,
}

impl Body<'_> {
    /// What kind of answer the body asks for.
    pub(super) fn api(&self) -> Option<Api> {
        match (&self.messages, &self.prompt) {
            (Some(_), _) => Some(Api::Chat),
            (None, Some(_)) => Some(Api::Completion),
            (None, None) => None,
        }
    }

    /// The prompt's tokens. Text that cannot fit into the context is refused before it is encoded:
    /// that would hold up everybody else.
    pub(super) fn tokens(&self, api: Api, context_tokens_max: u32) -> Result<Vec<u32>, ApiError> {
        let vocab = Vocab::shared();
        let encode = |text: &str| match text.len() / vocab.token_bytes_max() > context_tokens_max as usize {
            true => Err(too_long(context_tokens_max)),
            false => Ok(vocab.encode(text)),
        };
        match (api, &self.messages, &self.prompt) {
            (Api::Chat, Some(messages), _) => encode(&render(messages, self.add_generation_prompt.unwrap_or(true))),
            (Api::Completion, _, Some(Prompt::Text(text))) => encode(text),
            (Api::Completion, _, Some(Prompt::Tokens(tokens))) => {
                match tokens.iter().find(|&&token| token >= vocab.size()) {
                    None => Ok(tokens.clone()),
                    Some(token) => Err(bad("prompt", format!("token id {token} is not in the vocabulary"))),
                }
            }
            (Api::Chat, None, _) => Err(bad("messages", "messages are missing")),
            (Api::Completion, _, None) => Err(bad("prompt", "prompt is missing")),
        }
    }
}

impl Job {
    /// Checks a body and makes its tokens.
    pub(super) fn new(app: &App, api: Api, body: Body<'_>) -> Result<Self, ApiError> {
        app.check_model(body.model.as_deref())?;
        if body.n.is_some_and(|n| n != 1) {
            return Err(bad("n", "n must be 1"));
        }
        check_name("cache_salt", body.cache_salt.as_deref())?;
        check_name("session_id", body.session_id.as_deref())?;
        let context_tokens_max = app.handle.preset().context_tokens_max;
        let prompt = body.tokens(api, context_tokens_max)?;
        let prompt_tokens = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        let room = context_tokens_max.saturating_sub(prompt_tokens);
        if prompt.is_empty() {
            return Err(bad("prompt", "prompt is empty"));
        }
        if room == 0 {
            return Err(too_long(context_tokens_max));
        }
        let (answer_tokens, ending) = length(api, &body, room)?;
        let sequence = Sequence::new(SequenceSpec {
            prompt,
            answer_tokens,
            ending,
            model: &app.model,
            salt: body.cache_salt,
            session_id: body.session_id,
            block_tokens: app.handle.preset().block_tokens,
            seed: app.seed,
        });
        Ok(Self {
            api,
            stream: body.stream.unwrap_or(false),
            include_usage: body.stream_options.and_then(|options| options.include_usage).unwrap_or(false),
            return_token_ids: body.return_token_ids.unwrap_or(false),
            sequence: Arc::new(sequence),
        })
    }
}

/// How long the answer is, and why it ends there.
fn length(api: Api, body: &Body<'_>, room: u32) -> Result<(u32, Ending), ApiError> {
    let asked = match api {
        Api::Chat => body.max_completion_tokens.or(body.max_tokens),
        Api::Completion => body.max_tokens,
    };
    match (asked, api) {
        (Some(0), _) => Err(bad("max_tokens", "max_tokens must be at least 1")),
        (Some(asked), _) if asked > room => {
            Err(bad("max_tokens", format!("max_tokens is {asked}, the context has room for {room} after the prompt")))
        }
        (Some(asked), _) => Ok((asked, Ending::Length)),
        (None, Api::Chat) => Ok((CHAT_TOKENS_DEFAULT.min(room), Ending::Stop)),
        (None, Api::Completion) => Ok((COMPLETION_TOKENS_DEFAULT.min(room), Ending::Length)),
    }
}

fn check_name(param: &'static str, name: Option<&str>) -> Result<(), ApiError> {
    let fits = |name: &str| !name.is_empty() && name.chars().nth(NAME_CHARS_MAX).is_none();
    match name.is_none_or(fits) {
        true => Ok(()),
        false => Err(bad(param, format!("{param} must have 1 to {NAME_CHARS_MAX} characters"))),
    }
}

fn too_long(context_tokens_max: u32) -> ApiError {
    bad("prompt", format!("prompt leaves no room in the context of {context_tokens_max} tokens"))
}

fn bad(param: &'static str, message: impl Into<String>) -> ApiError {
    ApiError::Bad { message: message.into(), param: Some(param) }
}

impl Answer {
    /// Gives the job to the engine.
    pub(super) fn start(app: &App, slot: Slot, job: Job) -> Self {
        let ticket = app.handle.submit(slot, Arc::clone(&job.sequence));
        let started_unix = app.clock.started_unix();
        let prefix = match job.api {
            Api::Chat => "chatcmpl",
            Api::Completion => "cmpl",
        };
        let name = mix(started_unix.as_nanos() as u64 ^ mix(ticket.id()));
        Self {
            job,
            id: format!("{prefix}-{name:016x}"),
            created: app.clock.unix_seconds(app.clock.now()) as u64,
            model: app.model.clone(),
            ticket,
            cached_tokens: 0,
            block_tokens: app.handle.preset().block_tokens,
        }
    }

    pub(super) fn usage(&self, completion_tokens: u32) -> Usage {
        let prompt_tokens = self.job.sequence.prompt().len() as u32;
        let full = prompt_tokens / self.block_tokens * self.block_tokens;
        let created = (self.job.api == Api::Chat).then(|| full.saturating_sub(self.cached_tokens));
        Usage {
            prompt_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            completion_tokens,
            prompt_tokens_details: PromptTokensDetails {
                cached_tokens: self.cached_tokens,
                created_cache_tokens: created,
            },
        }
    }

    /// Waits for the end and tells it all at once, as JSON.
    pub(super) async fn whole(mut self) -> Result<Vec<u8>, ApiError> {
        let mut tokens = Vec::new();
        loop {
            match self.ticket.progress().await {
                Some(Progress::Scheduled { cached_tokens }) => self.cached_tokens = cached_tokens,
                Some(Progress::Token) => {
                    tokens.push(self.job.sequence.answer_token(tokens.len() as u32));
                }
                Some(Progress::Finished(FinishReason::Stop | FinishReason::Length)) => break,
                Some(Progress::Finished(FinishReason::Rejected)) => {
                    return Err(ApiError::bad("request does not fit into the engine"));
                }
                Some(Progress::Finished(FinishReason::Aborted)) | None => {
                    return Err(ApiError::EngineGone);
                }
            }
        }
        let text = Vocab::shared().decode(&tokens);
        let text = String::from_utf8_lossy(&text);
        let json = match self.job.api {
            Api::Chat => serde_json::to_vec(&self.chat(&text, &tokens)),
            Api::Completion => serde_json::to_vec(&self.completion(&text, &tokens)),
        };
        json.map_err(|_| ApiError::EngineGone)
    }

    fn chat<'a>(&'a self, content: &'a str, tokens: &'a [u32]) -> Chat<'a> {
        let message = ChatMessage {
            role: "assistant",
            content,
            refusal: (),
            annotations: (),
            audio: (),
            function_call: (),
            reasoning: (),
        };
        Chat {
            id: &self.id,
            object: "chat.completion",
            created: self.created,
            model: &self.model,
            choices: [ChatChoice {
                index: 0,
                message,
                logprobs: (),
                finish_reason: self.job.sequence.ending().as_str(),
                stop_reason: (),
                token_ids: self.job.return_token_ids.then_some(tokens),
            }],
            service_tier: (),
            system_fingerprint: FINGERPRINT,
            usage: self.usage(tokens.len() as u32),
            prompt_logprobs: (),
            prompt_token_ids: self.prompt_token_ids(),
            kv_transfer_params: (),
        }
    }

    fn completion<'a>(&'a self, text: &'a str, tokens: &'a [u32]) -> Completion<'a> {
        Completion {
            id: &self.id,
            object: "text_completion",
            created: self.created,
            model: &self.model,
            choices: [CompletionChoice {
                index: 0,
                text,
                logprobs: (),
                finish_reason: self.job.sequence.ending().as_str(),
                stop_reason: (),
                token_ids: self.job.return_token_ids.then_some(tokens),
                prompt_logprobs: (),
                prompt_token_ids: self.prompt_token_ids(),
            }],
            service_tier: (),
            system_fingerprint: FINGERPRINT,
            usage: self.usage(tokens.len() as u32),
            kv_transfer_params: (),
        }
    }

    /// The prompt's tokens, if they were asked for.
    pub(super) fn prompt_token_ids(&self) -> Option<&[u32]> {
        self.job.return_token_ids.then(|| self.job.sequence.prompt())
    }
}
