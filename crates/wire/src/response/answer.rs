//! Reads one JSON answer, or one event of a streamed one: usage, error, id, and whether there is content.
//!
//! One walk reads all APIs, since their members do not clash: chat and completions keep content in `choices`; an event of
//! the Responses API has its text as a `delta` string and everything else below `response`; one of Anthropic's has a
//! `delta` or `content_block` object and its first usage below `message`.

use std::ops::ControlFlow;

use super::usage::Counts;
use crate::json::{Kind, Scalar, Visitor, Want};
use crate::tag::Tag;

/// Bytes of an answer's id; a longer one counts as absent.
pub const ID_BYTES_MAX: usize = 256;

/// The object that the usage, the error and the id are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The document.
    Top,
    /// The `response` or `message` that an event brings.
    Whole,
}

/// The container that the walk is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Top,
    Whole,
    Usage(Level),
    UsageDetails(Level),
    /// `delta` or `content_block` of an event.
    Block,
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
    Usage(Level),
    Error,
    Id(Level),
    Type,
    Whole,
    /// A `delta` that is content itself, or holds some.
    Block,
    Choices,
    Delta,
    /// A string that is content unless it is empty.
    Content,
    Call,
    Count(Count),
    UsageDetails(Level),
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Count {
    Input,
    Output,
    Cached,
    CacheRead,
    CacheCreation,
}

/// What the string being read is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Content,
    Type,
    Id(Level),
}

/// What a `type` or the name of an event says by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TypeFacts {
    /// The engine reports an error.
    pub(super) error: bool,
    /// Nothing follows.
    pub(super) done: bool,
    /// It brings generated text, or a piece of a tool call.
    pub(super) content: bool,
}

impl TypeFacts {
    pub(super) fn of(name: &[u8]) -> Self {
        Self {
            error: matches!(name, b"error" | b"response.failed"),
            done: matches!(name, b"message_stop" | b"response.completed" | b"response.incomplete" | b"response.failed"),
            content: name == b"content_block_delta" || name.starts_with(b"response.") && name.ends_with(b".delta"),
        }
    }
}

/// What was found, and the walk that finds it.
#[derive(Debug)]
pub(super) struct Answer {
    /// The last usage object that is complete.
    pub(super) usage: Option<Counts>,
    /// There is an `error` that is an object or a string.
    pub(super) error: bool,
    /// There is text, reasoning or a tool call.
    pub(super) content: bool,
    /// The last `type` of the top level.
    pub(super) type_facts: TypeFacts,
    /// There is a `choices` array, and nothing in it.
    pub(super) no_choices: bool,
    id: Option<String>,
    whole_id: Option<String>,
    place: Place,
    named: Named,
    reading: Reading,
    tag: Tag,
    text: Vec<u8>,
    open_usage: Counts,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            usage: None,
            error: false,
            content: false,
            type_facts: TypeFacts::default(),
            no_choices: false,
            id: None,
            whole_id: None,
            place: Place::Outside,
            named: Named::Other,
            reading: Reading::Content,
            tag: Tag::default(),
            text: Vec::new(),
            open_usage: Counts::default(),
        }
    }
}

impl Answer {
    /// For who does not ask whether there is content: what may be content is passed over.
    pub(super) fn without_content() -> Self {
        Self { content: true, ..Self::default() }
    }

    /// The `id` of the document.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The `id` of the `response` (or `message`) that an event brings.
    pub(super) fn take_whole_id(&mut self) -> Option<String> {
        self.whole_id.take()
    }

    fn descend(&mut self, place: Place) -> Want {
        self.place = place;
        self.named = Named::Other;
        Want::Read
    }

    fn read(&mut self, reading: Reading) -> Want {
        self.tag.clear();
        self.text.clear();
        self.reading = reading;
        Want::Read
    }

    /// The count is void unless its number follows.
    fn count(&mut self, count: Count, kind: Kind) -> Want {
        *self.slot(count) = None;
        if kind == Kind::Number { Want::Read } else { Want::Skip }
    }

    fn slot(&mut self, count: Count) -> &mut Option<u64> {
        match count {
            Count::Input => &mut self.open_usage.input,
            Count::Output => &mut self.open_usage.output,
            Count::Cached => &mut self.open_usage.cached,
            Count::CacheRead => &mut self.open_usage.cache_read,
            Count::CacheCreation => &mut self.open_usage.cache_creation,
        }
    }

    fn id_slot(&mut self, level: Level) -> &mut Option<String> {
        match level {
            Level::Top => &mut self.id,
            Level::Whole => &mut self.whole_id,
        }
    }

    fn usage_member(level: Level, name: &[u8]) -> Named {
        match name {
            b"prompt_tokens" | b"input_tokens" => Named::Count(Count::Input),
            b"completion_tokens" | b"output_tokens" => Named::Count(Count::Output),
            b"cache_read_input_tokens" => Named::Count(Count::CacheRead),
            b"cache_creation_input_tokens" => Named::Count(Count::CacheCreation),
            b"prompt_tokens_details" | b"input_tokens_details" => Named::UsageDetails(level),
            _ => Named::Other,
        }
    }
}

impl Visitor for Answer {
    fn name(&mut self, name: &[u8]) {
        self.named = match (self.place, name) {
            (Place::Top, b"usage") => Named::Usage(Level::Top),
            (Place::Whole, b"usage") => Named::Usage(Level::Whole),
            (Place::Top | Place::Whole, b"error") => Named::Error,
            (Place::Top, b"id") => Named::Id(Level::Top),
            (Place::Whole, b"id") => Named::Id(Level::Whole),
            (Place::Top, b"type") => Named::Type,
            (Place::Top, b"response" | b"message") => Named::Whole,
            (Place::Top, b"delta" | b"content_block") => Named::Block,
            (Place::Top, b"choices") => Named::Choices,
            (Place::Choice, b"delta" | b"message") => Named::Delta,
            // The name of a tool tells that its call has begun.
            (Place::Block, b"text" | b"thinking" | b"partial_json" | b"name") | (Place::Choice, b"text") => {
                Named::Content
            }
            (Place::Delta, b"content" | b"reasoning" | b"reasoning_content" | b"refusal") => Named::Content,
            (Place::Delta, b"tool_calls" | b"function_call") => Named::Call,
            (Place::Usage(level), _) => Self::usage_member(level, name),
            (Place::UsageDetails(_), b"cached_tokens") => Named::Count(Count::Cached),
            _ => Named::Other,
        };
    }

    fn value(&mut self, kind: Kind) -> Want {
        match (self.place, self.named, kind) {
            (Place::Outside, _, Kind::Object) => self.descend(Place::Top),
            (Place::Choices, ..) => {
                self.no_choices = false;
                if kind == Kind::Object && !self.content { self.descend(Place::Choice) } else { Want::Skip }
            }
            (Place::Call, ..) => {
                self.content = true;
                Want::Leave
            }
            (_, Named::Error, _) => {
                self.error = matches!(kind, Kind::Object | Kind::String);
                Want::Skip
            }
            (_, Named::Usage(level), Kind::Object) => {
                self.open_usage = Counts::default();
                self.descend(Place::Usage(level))
            }
            (_, Named::UsageDetails(level), _) => {
                self.open_usage.cached = None;
                if kind == Kind::Object { self.descend(Place::UsageDetails(level)) } else { Want::Skip }
            }
            (_, Named::Count(count), _) => self.count(count, kind),
            (_, Named::Id(level), _) => {
                *self.id_slot(level) = None;
                if kind == Kind::String { self.read(Reading::Id(level)) } else { Want::Skip }
            }
            (_, Named::Type, _) => {
                self.type_facts = TypeFacts::default();
                if kind == Kind::String { self.read(Reading::Type) } else { Want::Skip }
            }
            (_, Named::Whole, Kind::Object) => self.descend(Place::Whole),
            (_, Named::Block, Kind::Object) => self.descend(Place::Block),
            (_, Named::Choices, _) => {
                self.no_choices = kind == Kind::Array;
                if kind == Kind::Array { self.descend(Place::Choices) } else { Want::Skip }
            }
            (_, Named::Delta, Kind::Object) => self.descend(Place::Delta),
            (_, Named::Content | Named::Block, Kind::String) if !self.content => self.read(Reading::Content),
            (_, Named::Call, Kind::Array | Kind::Object) => self.descend(Place::Call),
            _ => Want::Skip,
        }
    }

    fn text(&mut self, piece: &[u8]) -> ControlFlow<()> {
        match self.reading {
            // Pieces are never empty, so the first one is proof enough.
            Reading::Content => {
                self.content = true;
                return ControlFlow::Break(());
            }
            Reading::Type => self.tag.push(piece),
            Reading::Id(_) => {
                // One byte more than may be kept tells that it is too long.
                let room = ID_BYTES_MAX + 1 - self.text.len();
                self.text.extend_from_slice(&piece[..piece.len().min(room)]);
            }
        }
        ControlFlow::Continue(())
    }

    fn text_end(&mut self) {
        match self.reading {
            Reading::Content => {}
            Reading::Type => self.type_facts = TypeFacts::of(self.tag.bytes()),
            Reading::Id(level) => {
                let text = std::mem::take(&mut self.text);
                let fits = text.len() <= ID_BYTES_MAX;
                *self.id_slot(level) = fits.then_some(text).and_then(|text| String::from_utf8(text).ok());
            }
        }
    }

    fn scalar(&mut self, scalar: Scalar) {
        if let (Named::Count(count), Scalar::Unsigned(value)) = (self.named, scalar) {
            *self.slot(count) = Some(value);
        }
    }

    fn close(&mut self) {
        self.place = match self.place {
            Place::Outside | Place::Top => Place::Outside,
            Place::Usage(level) => {
                self.usage = Some(self.open_usage);
                if level == Level::Top { Place::Top } else { Place::Whole }
            }
            Place::UsageDetails(level) => Place::Usage(level),
            Place::Whole | Place::Block | Place::Choices => Place::Top,
            Place::Choice => Place::Choices,
            Place::Delta => Place::Choice,
            Place::Call => Place::Delta,
        };
    }
}
