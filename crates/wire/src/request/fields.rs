//! The fields of the top level.

use super::media::MediaKind;
use crate::json::Scalar;

/// Bytes of a string field; a longer one counts as absent.
pub const FIELD_BYTES_MAX: usize = 1024;

/// What routing needs besides the text. Fields of the wrong type are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// `model`
    pub model: Option<String>,
    /// `stream` is `true`.
    pub stream: bool,
    /// `stream_options.include_usage` is `true`.
    pub include_usage: bool,
    /// `prompt_cache_key`
    pub prompt_cache_key: Option<String>,
    /// `previous_response_id`
    pub previous_response_id: Option<String>,
    /// `cache_salt`
    pub cache_salt: Option<String>,
    /// `conversation`, or its `id` where it is an object.
    pub conversation: Option<String>,
    /// `session_id`
    pub session_id: Option<String>,
    /// `max_completion_tokens`, else `max_output_tokens`, else `max_tokens`.
    pub max_tokens: Option<u64>,
    /// `n`: how many answers are wanted.
    pub n: Option<u64>,
    /// `tools` is an array that is not empty.
    pub tools: bool,
    /// Some part of a message is an image. Only what was read for its text was looked at: parts that came after the
    /// sink was full, or after the text had ended for another reason, are not known.
    pub has_image: bool,
    /// Some part of a message is sound; the same limits.
    pub has_audio: bool,
    /// Some string field was longer than [`FIELD_BYTES_MAX`].
    pub oversized: bool,
}

impl Fields {
    /// Whether one is there that is of no use but for a conversation.
    pub(super) fn is_of_conversation(&self) -> bool {
        self.stream
            || self.tools
            || self.max_tokens.is_some()
            || self.previous_response_id.is_some()
            || self.conversation.is_some()
    }
}

/// Members of the top level that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    Messages,
    Prompt,
    Input,
    Instructions,
    System,
    Tools,
    StreamOptions,
    Text(TextField),
    Stream,
    N,
    MaxTokens,
    MaxOutputTokens,
    MaxCompletionTokens,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextField {
    Model,
    PromptCacheKey,
    PreviousResponseId,
    CacheSalt,
    Conversation,
    SessionId,
}

impl Member {
    pub(super) fn named(name: &[u8]) -> Self {
        match name {
            b"messages" => Self::Messages,
            b"prompt" => Self::Prompt,
            b"input" => Self::Input,
            b"instructions" => Self::Instructions,
            b"system" => Self::System,
            b"tools" => Self::Tools,
            b"model" => Self::Text(TextField::Model),
            b"stream" => Self::Stream,
            b"stream_options" => Self::StreamOptions,
            b"prompt_cache_key" => Self::Text(TextField::PromptCacheKey),
            b"previous_response_id" => Self::Text(TextField::PreviousResponseId),
            b"cache_salt" => Self::Text(TextField::CacheSalt),
            b"conversation" => Self::Text(TextField::Conversation),
            b"session_id" => Self::Text(TextField::SessionId),
            b"n" => Self::N,
            b"max_tokens" => Self::MaxTokens,
            b"max_output_tokens" => Self::MaxOutputTokens,
            b"max_completion_tokens" => Self::MaxCompletionTokens,
            _ => Self::Other,
        }
    }
}

/// The fields while the body is being read.
#[derive(Debug, Default)]
pub(super) struct FieldReader {
    fields: Fields,
    max_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    text: Vec<u8>,
    text_too_long: bool,
}

impl FieldReader {
    /// The member occurs (again): what an earlier one of this name said is void.
    pub(super) fn reset(&mut self, member: Member) {
        match member {
            Member::Text(field) => {
                *self.slot(field) = None;
                self.text.clear();
                self.text_too_long = false;
            }
            Member::Stream => self.fields.stream = false,
            Member::StreamOptions => self.fields.include_usage = false,
            Member::Tools => self.fields.tools = false,
            Member::N => self.fields.n = None,
            Member::MaxTokens => self.max_tokens = None,
            Member::MaxOutputTokens => self.max_output_tokens = None,
            Member::MaxCompletionTokens => self.max_completion_tokens = None,
            Member::Messages
            | Member::Prompt
            | Member::Input
            | Member::Instructions
            | Member::System
            | Member::Other => {}
        }
    }

    pub(super) fn scalar(&mut self, member: Member, scalar: Scalar) {
        match (member, scalar) {
            (Member::Stream, Scalar::Bool(value)) => self.fields.stream = value,
            (Member::N, Scalar::Unsigned(value)) => self.fields.n = Some(value),
            (Member::MaxTokens, Scalar::Unsigned(value)) => self.max_tokens = Some(value),
            (Member::MaxOutputTokens, Scalar::Unsigned(value)) => self.max_output_tokens = Some(value),
            (Member::MaxCompletionTokens, Scalar::Unsigned(value)) => self.max_completion_tokens = Some(value),
            _ => {}
        }
    }

    pub(super) fn has_tools(&mut self) {
        self.fields.tools = true;
    }

    pub(super) fn has_media(&mut self, kind: MediaKind) {
        match kind {
            MediaKind::Image => self.fields.has_image = true,
            MediaKind::Audio => self.fields.has_audio = true,
            MediaKind::Other => {}
        }
    }

    pub(super) fn include_usage(&mut self, value: bool) {
        self.fields.include_usage = value;
    }

    /// Gathers a string field.
    pub(super) fn text(&mut self, piece: &[u8]) {
        self.text_too_long |= self.text.len() + piece.len() > FIELD_BYTES_MAX;
        if !self.text_too_long {
            self.text.extend_from_slice(piece);
        }
    }

    pub(super) fn text_end(&mut self, field: TextField) {
        let text = std::mem::take(&mut self.text);
        if self.text_too_long {
            self.fields.oversized = true;
        } else {
            // The lexer let only UTF-8 through, so nothing is lost here.
            *self.slot(field) = String::from_utf8(text).ok();
        }
    }

    pub(super) fn into_fields(self) -> Fields {
        let max_tokens = self.max_completion_tokens.or(self.max_output_tokens).or(self.max_tokens);
        Fields { max_tokens, ..self.fields }
    }

    fn slot(&mut self, field: TextField) -> &mut Option<String> {
        match field {
            TextField::Model => &mut self.fields.model,
            TextField::PromptCacheKey => &mut self.fields.prompt_cache_key,
            TextField::PreviousResponseId => &mut self.fields.previous_response_id,
            TextField::CacheSalt => &mut self.fields.cache_salt,
            TextField::Conversation => &mut self.fields.conversation,
            TextField::SessionId => &mut self.fields.session_id,
        }
    }
}
