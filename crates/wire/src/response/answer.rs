//! Reads one JSON answer, or one chunk of a streamed one: usage, error, and whether there is content.

use std::ops::ControlFlow;

use crate::json::{Kind, Scalar, Visitor, Want};

/// Token counts that an engine reported. `None` is "not said", which is not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// `usage.prompt_tokens`
    pub prompt_tokens: Option<u64>,
    /// `usage.completion_tokens`
    pub completion_tokens: Option<u64>,
    /// `usage.prompt_tokens_details.cached_tokens`: prompt tokens whose KV the engine reused.
    pub cached_tokens: Option<u64>,
}

/// The container that the walk is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Top,
    Usage,
    UsageDetails,
    Choices,
    Choice,
    /// `delta` or `message` of a choice.
    Delta,
    /// `tool_calls` or `function_call`, whose first member or element proves content.
    Call,
}

/// The member named last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Usage,
    Error,
    Choices,
    Delta,
    /// A string that is content unless it is empty.
    Content,
    Call,
    PromptTokens,
    CompletionTokens,
    CachedTokens,
    UsageDetails,
    Other,
}

/// What was found, and the walk that finds it.
#[derive(Debug)]
pub(super) struct Answer {
    /// The last usage object that is complete.
    pub(super) usage: Option<Usage>,
    /// There is a top-level `error` that is an object or a string.
    pub(super) error: bool,
    /// A choice holds text, reasoning or tool calls.
    pub(super) content: bool,
    place: Place,
    named: Named,
    open_usage: Usage,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            usage: None,
            error: false,
            content: false,
            place: Place::Outside,
            named: Named::Other,
            open_usage: Usage::default(),
        }
    }
}

impl Answer {
    fn descend(&mut self, place: Place) -> Want {
        self.place = place;
        self.named = Named::Other;
        Want::Read
    }

    /// The count is void unless its number follows.
    fn count(&mut self, kind: Kind) -> Want {
        if let Some(slot) = self.slot() {
            *slot = None;
        }
        if kind == Kind::Number { Want::Read } else { Want::Skip }
    }

    fn slot(&mut self) -> Option<&mut Option<u64>> {
        match self.named {
            Named::PromptTokens => Some(&mut self.open_usage.prompt_tokens),
            Named::CompletionTokens => Some(&mut self.open_usage.completion_tokens),
            Named::CachedTokens => Some(&mut self.open_usage.cached_tokens),
            _ => None,
        }
    }
}

impl Visitor for Answer {
    fn name(&mut self, name: &[u8]) {
        self.named = match (self.place, name) {
            (Place::Top, b"usage") => Named::Usage,
            (Place::Top, b"error") => Named::Error,
            (Place::Top, b"choices") => Named::Choices,
            (Place::Choice, b"delta" | b"message") => Named::Delta,
            (Place::Choice, b"text")
            | (Place::Delta, b"content" | b"reasoning" | b"reasoning_content" | b"refusal") => Named::Content,
            (Place::Delta, b"tool_calls" | b"function_call") => Named::Call,
            (Place::Usage, b"prompt_tokens") => Named::PromptTokens,
            (Place::Usage, b"completion_tokens") => Named::CompletionTokens,
            (Place::Usage, b"prompt_tokens_details") => Named::UsageDetails,
            (Place::UsageDetails, b"cached_tokens") => Named::CachedTokens,
            _ => Named::Other,
        };
    }

    fn value(&mut self, kind: Kind) -> Want {
        match (self.place, self.named, kind) {
            (Place::Outside, _, Kind::Object) => self.descend(Place::Top),
            (Place::Choices, _, Kind::Object) => self.descend(Place::Choice),
            (Place::Call, ..) => {
                self.content = true;
                Want::Leave
            }
            (_, Named::Error, _) => {
                self.error = matches!(kind, Kind::Object | Kind::String);
                Want::Skip
            }
            (_, Named::Usage, Kind::Object) => {
                self.open_usage = Usage::default();
                self.descend(Place::Usage)
            }
            (_, Named::UsageDetails, _) => {
                self.open_usage.cached_tokens = None;
                if kind == Kind::Object { self.descend(Place::UsageDetails) } else { Want::Skip }
            }
            (_, Named::PromptTokens | Named::CompletionTokens | Named::CachedTokens, _) => self.count(kind),
            (_, Named::Choices, Kind::Array) if !self.content => self.descend(Place::Choices),
            (_, Named::Delta, Kind::Object) => self.descend(Place::Delta),
            (_, Named::Content, Kind::String) if !self.content => Want::Read,
            (_, Named::Call, Kind::Array | Kind::Object) => self.descend(Place::Call),
            _ => Want::Skip,
        }
    }

    fn text(&mut self, _: &[u8]) -> ControlFlow<()> {
        // Pieces are never empty, so the first one is proof enough.
        self.content = true;
        ControlFlow::Break(())
    }

    fn text_end(&mut self) {}

    fn scalar(&mut self, scalar: Scalar) {
        if let (Some(slot), Scalar::Unsigned(count)) = (self.slot(), scalar) {
            *slot = Some(count);
        }
    }

    fn close(&mut self) {
        self.place = match self.place {
            Place::Outside | Place::Top => Place::Outside,
            Place::Usage => {
                self.usage = Some(self.open_usage);
                Place::Top
            }
            Place::Choices => Place::Top,
            Place::UsageDetails => Place::Usage,
            Place::Choice => Place::Choices,
            Place::Delta => Place::Choice,
            Place::Call => Place::Delta,
        };
    }
}
