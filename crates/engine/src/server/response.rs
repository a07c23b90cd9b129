//! Response bodies: vLLM's fields in vLLM's order.
//!
//! `()` is written as null: fields that the engine has and this one never fills.

use std::collections::BTreeMap;

use serde::Serialize;

use super::config::KvEventsConfig;

/// Says what answered. Clients may read a version into it; there is none to be read.
pub(super) const FINGERPRINT: &str = "kvroute-simulated";

/// Tokens of a request.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Usage {
    pub(super) prompt_tokens: u32,
    pub(super) total_tokens: u32,
    pub(super) completion_tokens: u32,
    pub(super) prompt_tokens_details: PromptTokensDetails,
}

/// Where the prompt's tokens came from.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct PromptTokensDetails {
    pub(super) cached_tokens: u32,
    /// Tokens of whole blocks that this prompt added to the cache; null for completions.
    pub(super) created_cache_tokens: Option<u32>,
}

/// A whole chat answer.
#[derive(Serialize)]
pub(super) struct Chat<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: [ChatChoice<'a>; 1],
    pub(super) service_tier: (),
    pub(super) system_fingerprint: &'static str,
    pub(super) usage: Usage,
    pub(super) prompt_logprobs: (),
    pub(super) prompt_token_ids: Option<&'a [u32]>,
    pub(super) kv_transfer_params: (),
}

#[derive(Serialize)]
pub(super) struct ChatChoice<'a> {
    pub(super) index: u32,
    pub(super) message: ChatMessage<'a>,
    pub(super) logprobs: (),
    pub(super) finish_reason: &'static str,
    pub(super) stop_reason: (),
    pub(super) token_ids: Option<&'a [u32]>,
}

#[derive(Serialize)]
pub(super) struct ChatMessage<'a> {
    pub(super) role: &'static str,
    pub(super) content: &'a str,
    pub(super) refusal: (),
    pub(super) annotations: (),
    pub(super) audio: (),
    pub(super) function_call: (),
    pub(super) reasoning: (),
}

/// A whole completion.
#[derive(Serialize)]
pub(super) struct Completion<'a> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: [CompletionChoice<'a>; 1],
    pub(super) service_tier: (),
    pub(super) system_fingerprint: &'static str,
    pub(super) usage: Usage,
    pub(super) kv_transfer_params: (),
}

#[derive(Serialize)]
pub(super) struct CompletionChoice<'a> {
    pub(super) index: u32,
    pub(super) text: &'a str,
    pub(super) logprobs: (),
    pub(super) finish_reason: &'static str,
    pub(super) stop_reason: (),
    pub(super) token_ids: Option<&'a [u32]>,
    pub(super) prompt_logprobs: (),
    pub(super) prompt_token_ids: Option<&'a [u32]>,
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

#[derive(Serialize)]
pub(super) struct ChatChunkChoice<'a> {
    pub(super) index: u32,
    pub(super) delta: Delta<'a>,
    pub(super) logprobs: (),
    pub(super) finish_reason: Option<&'static str>,
    /// There with the last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop_reason: Option<()>,
    /// There with every token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_ids: Option<Option<[u32; 1]>>,
}

#[derive(Serialize)]
pub(super) struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    pub(super) content: &'a str,
}

#[derive(Serialize)]
pub(super) struct CompletionChunkChoice<'a> {
    pub(super) index: u32,
    pub(super) text: &'a str,
    pub(super) logprobs: (),
    pub(super) finish_reason: Option<&'static str>,
    pub(super) stop_reason: (),
    pub(super) prompt_token_ids: Option<&'a [u32]>,
    pub(super) token_ids: Option<[u32; 1]>,
}

/// `/v1/models`.
#[derive(Serialize)]
pub(super) struct Models<'a> {
    object: &'static str,
    data: [Model<'a>; 1],
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    root: String,
    parent: (),
    max_model_len: u32,
    permission: [(); 0],
}

/// `/tokenize`.
#[derive(Serialize)]
pub(super) struct Tokenized<'a> {
    pub(super) count: usize,
    pub(super) max_model_len: u32,
    pub(super) tokens: &'a [u32],
    pub(super) token_strs: (),
}

/// `/detokenize`.
#[derive(Serialize)]
pub(super) struct Detokenized {
    pub(super) prompt: String,
}

/// `/kv_event_sources`: by data parallel rank, of which there is one.
pub(super) type KvEventSources = BTreeMap<u32, KvEventSource>;

/// Where a rank publishes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct KvEventSource {
    enable_kv_cache_events: bool,
    publisher: &'static str,
    endpoint: String,
    replay_endpoint: Option<String>,
    buffer_steps: usize,
    hwm: u32,
    max_queue_size: u32,
    topic: String,
}

impl<'a> Models<'a> {
    pub(super) fn new(model: &'a str, preset: &str, created: u64, context_tokens_max: u32) -> Self {
        let data = [Model {
            id: model,
            object: "model",
            created,
            owned_by: "vllm",
            root: format!("simulated/{preset}"),
            parent: (),
            max_model_len: context_tokens_max,
            permission: [],
        }];
        Self { object: "list", data }
    }
}

impl KvEventSource {
    pub(super) fn new(config: &KvEventsConfig, endpoint: &str, replay: Option<&str>) -> Self {
        Self {
            enable_kv_cache_events: true,
            publisher: "zmq",
            endpoint: endpoint.to_owned(),
            replay_endpoint: replay.map(str::to_owned),
            buffer_steps: config.buffer_steps,
            hwm: 100_000,
            max_queue_size: 100_000,
            topic: config.topic.clone(),
        }
    }
}
