//! Walks a body: knows at every value where it is and what is wanted of it.

use std::ops::ControlFlow;

use super::fields::{FieldReader, Member, TextField};
use super::text::TextFlow;
use super::{Limits, Outcome, PromptSink, Scan, Shape};
use crate::json::{Kind, Scalar, Visitor, Want};

/// Members of a message part whose strings are media.
const MEDIA_NAMES: [&[u8]; 12] = [
    b"image_url",
    b"image",
    b"image_embeds",
    b"input_audio",
    b"audio",
    b"audio_url",
    b"audio_embeds",
    b"video",
    b"video_url",
    b"file",
    b"image_pil",
    b"uuid",
];

/// The container that the walk is in. Every place has one parent, so no stack is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the body, and after it.
    Outside,
    Top,
    StreamOptions,
    Messages,
    Message,
    /// The array that is a message's content.
    Parts,
    Part,
    /// Containers below a media member of a part.
    Media {
        depth: u8,
    },
    /// The array that is the prompt.
    Prompts,
    /// A list of token ids inside the prompt array.
    Ids,
}

/// The member named last, in the container that the walk is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Top(Member),
    IncludeUsage,
    Role,
    Content,
    PartText,
    PartMedia,
    Other,
}

/// What the string or scalar being read is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Field(TextField),
    Scalar(Member),
    IncludeUsage,
    Role,
    Text,
    /// A `prompt` string, a segment of its own.
    Prompt,
    Media,
    TokenId,
}

#[derive(Debug)]
pub(super) struct Body<S> {
    text: TextFlow<S>,
    fields: FieldReader,
    shape: Shape,
    is_object: bool,
    place: Place,
    named: Named,
    reading: Reading,
    /// The current message has had content, the current part its text.
    content_seen: bool,
    part_text_seen: bool,
    /// Token ids stand directly in the prompt array, and their segment is open.
    ids_run: bool,
}

impl<S: PromptSink> Body<S> {
    pub(super) fn new(sink: S, limits: Limits) -> Self {
        Self {
            text: TextFlow::new(sink, limits),
            fields: FieldReader::default(),
            shape: Shape::Other,
            is_object: false,
            place: Place::Outside,
            named: Named::Other,
            reading: Reading::Text,
            content_seen: false,
            part_text_seen: false,
            ids_run: false,
        }
    }

    pub(super) fn sink(&self) -> &S {
        self.text.sink()
    }

    /// What was found, with the outcome of a body that is well-formed.
    pub(super) fn into_scan(self) -> (Scan, S) {
        let (sink, ended) = self.text.into_parts();
        let outcome = if self.is_object { ended.unwrap_or(Outcome::Complete) } else { Outcome::NotAnObject };
        (Scan { fields: self.fields.into_fields(), shape: self.shape, outcome }, sink)
    }

    fn descend(&mut self, place: Place) -> Want {
        self.place = place;
        self.named = Named::Other;
        Want::Read
    }

    fn read(&mut self, reading: Reading) -> Want {
        self.reading = reading;
        Want::Read
    }

    fn top(&mut self, member: Member, kind: Kind) -> Want {
        self.fields.reset(member);
        match (member, kind) {
            (Member::Messages | Member::Prompt, _) => self.text_member(member, kind),
            (Member::StreamOptions, Kind::Object) => self.descend(Place::StreamOptions),
            (Member::Text(field), Kind::String) => self.read(Reading::Field(field)),
            (Member::Stream, Kind::Literal) | (Member::MaxTokens | Member::MaxCompletionTokens, Kind::Number) => {
                self.read(Reading::Scalar(member))
            }
            _ => Want::Skip,
        }
    }

    /// `messages` or `prompt`: the first one that holds text is the prompt; another makes it ambiguous.
    fn text_member(&mut self, member: Member, kind: Kind) -> Want {
        let (shape, holds_text) = match member {
            Member::Messages => (Shape::Chat, kind == Kind::Array),
            _ => (Shape::Completion, matches!(kind, Kind::Array | Kind::String)),
        };
        if self.shape != Shape::Other {
            // `null` beside the real one is what clients send that write out every member; a repeated name never is.
            if holds_text || self.shape == shape {
                self.text.end_text(Outcome::Ambiguous);
            }
            return Want::Skip;
        }
        if !holds_text {
            return Want::Skip;
        }
        self.shape = shape;
        match (member, kind) {
            (Member::Messages, _) => self.descend(Place::Messages),
            (_, Kind::Array) => self.descend(Place::Prompts),
            _ => self.prompt_string(),
        }
    }

    fn prompt_string(&mut self) -> Want {
        self.text.begin_prompt();
        self.read(Reading::Prompt)
    }

    fn message(&mut self, kind: Kind) -> Want {
        if !self.text.is_wanted() {
            return Want::Leave;
        }
        if kind != Kind::Object {
            return Want::Skip;
        }
        self.text.begin_message();
        self.content_seen = false;
        self.descend(Place::Message)
    }

    fn role(&mut self, kind: Kind) -> Want {
        if self.text.is_open() {
            // Its text has gone out under the earlier role.
            self.text.end_text(Outcome::Ambiguous);
            return Want::Skip;
        }
        self.text.role_void();
        if kind == Kind::String { self.read(Reading::Role) } else { Want::Skip }
    }

    fn content(&mut self, kind: Kind) -> Want {
        if self.content_seen {
            self.text.end_text(Outcome::Ambiguous);
        }
        if !matches!(kind, Kind::String | Kind::Array) || !self.text.is_wanted() {
            return Want::Skip;
        }
        self.content_seen = true;
        self.text.content_begins();
        if kind == Kind::String { self.read(Reading::Text) } else { self.descend(Place::Parts) }
    }

    fn part_or_text(&mut self, kind: Kind) -> Want {
        if !self.text.is_wanted() {
            return Want::Leave;
        }
        self.part_text_seen = false;
        match kind {
            Kind::String => self.read(Reading::Text),
            Kind::Object => self.descend(Place::Part),
            _ => Want::Skip,
        }
    }

    fn part_text(&mut self, kind: Kind) -> Want {
        if self.part_text_seen {
            self.text.end_text(Outcome::Ambiguous);
        }
        if kind != Kind::String || !self.text.is_wanted() {
            return Want::Skip;
        }
        self.part_text_seen = true;
        self.read(Reading::Text)
    }

    fn media(&mut self, kind: Kind, depth: u8) -> Want {
        if !self.text.is_wanted() {
            return Want::Skip;
        }
        match kind {
            Kind::String => self.read(Reading::Media),
            Kind::Object | Kind::Array => self.descend(Place::Media { depth: depth + 1 }),
            _ => Want::Skip,
        }
    }

    fn prompt_element(&mut self, kind: Kind) -> Want {
        if kind != Kind::Number {
            self.end_run();
        }
        if !self.text.is_wanted() {
            return Want::Leave;
        }
        match kind {
            Kind::String => self.prompt_string(),
            Kind::Array => {
                self.text.begin_prompt();
                self.descend(Place::Ids)
            }
            Kind::Number => {
                if !self.ids_run {
                    self.ids_run = true;
                    self.text.begin_prompt();
                }
                self.read(Reading::TokenId)
            }
            _ => Want::Skip,
        }
    }

    /// Ends the segment of the ids that stand directly in the prompt array, if there is one.
    fn end_run(&mut self) {
        if std::mem::take(&mut self.ids_run) {
            self.text.end();
        }
    }

    fn listed_id(&mut self, kind: Kind) -> Want {
        match kind {
            _ if !self.text.is_wanted() => Want::Leave,
            Kind::Number => self.read(Reading::TokenId),
            _ => Want::Skip,
        }
    }
}

impl<S: PromptSink> Visitor for Body<S> {
    fn name(&mut self, name: &[u8]) {
        self.named = match (self.place, name) {
            (Place::Top, _) => Named::Top(Member::named(name)),
            (Place::StreamOptions, b"include_usage") => Named::IncludeUsage,
            (Place::Message, b"role") => Named::Role,
            (Place::Message, b"content") => Named::Content,
            (Place::Part, b"text") => Named::PartText,
            (Place::Part, _) if MEDIA_NAMES.contains(&name) => Named::PartMedia,
            _ => Named::Other,
        };
    }

    fn value(&mut self, kind: Kind) -> Want {
        match (self.place, self.named) {
            (Place::Outside, _) if kind == Kind::Object => {
                self.is_object = true;
                self.descend(Place::Top)
            }
            (Place::Messages, _) => self.message(kind),
            (Place::Parts, _) => self.part_or_text(kind),
            (Place::Prompts, _) => self.prompt_element(kind),
            (Place::Ids, _) => self.listed_id(kind),
            (Place::Media { depth }, _) => self.media(kind, depth),
            (_, Named::Top(member)) => self.top(member, kind),
            (_, Named::IncludeUsage) => {
                self.fields.include_usage(false);
                if kind == Kind::Literal { self.read(Reading::IncludeUsage) } else { Want::Skip }
            }
            (_, Named::Role) => self.role(kind),
            (_, Named::Content) => self.content(kind),
            (_, Named::PartText) => self.part_text(kind),
            (_, Named::PartMedia) => self.media(kind, 0),
            (_, Named::Other) => Want::Skip,
        }
    }

    fn text(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let more = match self.reading {
            Reading::Field(_) => self.fields.text(piece),
            Reading::Role => self.text.role_piece(piece),
            Reading::Text | Reading::Prompt => self.text.piece(false, piece),
            Reading::Media => self.text.piece(true, piece),
            Reading::Scalar(_) | Reading::IncludeUsage | Reading::TokenId => false,
        };
        if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn text_end(&mut self) {
        match self.reading {
            Reading::Field(field) => self.fields.text_end(field),
            Reading::Role => self.text.role_done(self.content_seen),
            Reading::Prompt => self.text.end(),
            Reading::Media => self.text.media_end(),
            Reading::Text | Reading::Scalar(_) | Reading::IncludeUsage | Reading::TokenId => {}
        }
    }

    fn scalar(&mut self, scalar: Scalar) {
        match (self.reading, scalar) {
            (Reading::Scalar(member), _) => self.fields.scalar(member, scalar),
            (Reading::IncludeUsage, Scalar::Bool(value)) => self.fields.include_usage(value),
            (Reading::TokenId, Scalar::Unsigned(id)) => self.text.token_id(id),
            _ => {}
        }
    }

    fn close(&mut self) {
        self.place = match self.place {
            Place::Outside | Place::Top => Place::Outside,
            Place::StreamOptions | Place::Messages => Place::Top,
            Place::Message => {
                self.text.end();
                Place::Messages
            }
            Place::Parts => Place::Message,
            Place::Part => Place::Parts,
            Place::Media { depth: 1 } => Place::Part,
            Place::Media { depth } => Place::Media { depth: depth - 1 },
            Place::Prompts => {
                self.end_run();
                Place::Top
            }
            Place::Ids => {
                self.text.end();
                Place::Prompts
            }
        };
    }
}
