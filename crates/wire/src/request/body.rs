//! Walks a body: knows at every value where it is and what is wanted of it.

use std::ops::ControlFlow;

use super::dialect::{Dialect, Source};
use super::fields::{FieldReader, Member, TextField};
use super::media::{self, MediaKind};
use super::text::TextFlow;
use super::{Limits, Outcome, PromptSink, Scan, Shape};
use crate::json::{Kind, Scalar, Visitor, Want};
use crate::tag::Tag;

/// Whose parts are walked. Parts are inside each other in one way only, so no stack is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    System,
    Message,
    /// A part of a message that has parts itself, as the result of a tool.
    Part,
}

/// The container that the walk is in. Every place has one parent, so no stack is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the body, and after it.
    Outside,
    Top,
    StreamOptions,
    Conversation,
    Tools,
    Messages,
    Message,
    /// An array of parts.
    Parts(Owner),
    Part(Owner),
    /// Containers below a media member of a part.
    Media {
        owner: Owner,
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
    ConversationId,
    Role,
    /// The `type` of an item.
    ItemType,
    Content,
    PartType,
    PartText,
    PartContent,
    PartMedia(MediaKind),
    Other,
}

/// What the string or scalar being read is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Field(TextField),
    Scalar(Member),
    IncludeUsage,
    Role,
    ItemType,
    PartType,
    Text,
    /// A string that is a segment of its own.
    Prompt,
    System,
    Media,
    TokenId,
}

#[derive(Debug)]
pub(super) struct Body<S> {
    dialect: Dialect,
    prompt_only: bool,
    text: TextFlow<S>,
    fields: FieldReader,
    /// The member that the prompt, but for its system text, was found in.
    source: Option<Source>,
    system_seen: bool,
    /// There are instructions, or an input has items.
    is_conversation: bool,
    is_object: bool,
    place: Place,
    named: Named,
    reading: Reading,
    tag: Tag,
    /// The current message has had content, the current part its text.
    content_seen: bool,
    part_text_seen: bool,
    /// Token ids stand directly in the prompt array, and their segment is open.
    ids_run: bool,
}

impl<S: PromptSink> Body<S> {
    pub(super) fn new(dialect: Dialect, sink: S, limits: Limits) -> Self {
        Self {
            dialect,
            prompt_only: limits.prompt_only,
            text: TextFlow::new(sink, limits, dialect.has_system_member()),
            fields: FieldReader::default(),
            source: None,
            system_seen: false,
            is_conversation: false,
            is_object: false,
            place: Place::Outside,
            named: Named::Other,
            reading: Reading::Text,
            tag: Tag::default(),
            content_seen: false,
            part_text_seen: false,
            ids_run: false,
        }
    }

    pub(super) fn is_prompt_only(&self) -> bool {
        self.prompt_only
    }

    /// Nothing that follows is wanted, whatever it is. What an `input` is may show after it, where the path says nothing.
    pub(super) fn has_enough(&self) -> bool {
        self.prompt_only && self.text.sink().is_full() && matches!(self.source, Some(source) if source != Source::Input)
    }

    /// The rest is not looked at.
    pub(super) fn leave(&mut self) {
        if self.text.is_open() {
            self.text.end();
        }
    }

    pub(super) fn sink(&self) -> &S {
        self.text.sink()
    }

    /// What was found, with the outcome of a body that is well-formed.
    pub(super) fn into_scan(self) -> (Scan, S) {
        let fields = self.fields.into_fields();
        let shape = match self.source {
            Some(Source::Messages | Source::Items | Source::System) => Shape::Chat,
            Some(Source::Prompt) => Shape::Completion,
            Some(Source::Input) if self.is_conversation || fields.is_of_conversation() => Shape::Response,
            Some(Source::Input) => Shape::Embedding,
            None => Shape::Other,
        };
        let (sink, ended) = self.text.into_parts();
        let outcome = if self.is_object { ended.unwrap_or(Outcome::Complete) } else { Outcome::NotAnObject };
        (Scan { fields, shape, outcome }, sink)
    }

    fn descend(&mut self, place: Place) -> Want {
        self.place = place;
        self.named = Named::Other;
        Want::Read
    }

    fn read(&mut self, reading: Reading) -> Want {
        self.reading = reading;
        match reading {
            Reading::Text | Reading::Prompt | Reading::System => Want::ReadWritten,
            _ => Want::Read,
        }
    }

    fn read_tag(&mut self, reading: Reading, kind: Kind) -> Want {
        self.tag.clear();
        if kind == Kind::String { self.read(reading) } else { Want::Skip }
    }

    fn top(&mut self, member: Member, kind: Kind) -> Want {
        if self.has_enough() {
            // Not to be found in one cut and missed in another.
            return Want::Skip;
        }
        self.fields.reset(member);
        match self.dialect.source(member) {
            Some(Source::System) => return self.system(kind),
            Some(source) => return self.prompt_member(source, kind),
            None => {}
        }
        match (member, kind) {
            (Member::Instructions, Kind::String | Kind::Array) => {
                self.is_conversation = true;
                Want::Skip
            }
            (Member::StreamOptions, Kind::Object) => self.descend(Place::StreamOptions),
            (Member::Tools, Kind::Array) => self.descend(Place::Tools),
            (Member::Text(TextField::Conversation), Kind::Object) => self.descend(Place::Conversation),
            (Member::Text(field), Kind::String) => self.read(Reading::Field(field)),
            (Member::Stream, Kind::Literal)
            | (Member::N | Member::MaxTokens | Member::MaxOutputTokens | Member::MaxCompletionTokens, Kind::Number) => {
                self.read(Reading::Scalar(member))
            }
            _ => Want::Skip,
        }
    }

    /// A member that may hold the prompt: the first one that holds text is it; another makes it ambiguous.
    fn prompt_member(&mut self, source: Source, kind: Kind) -> Want {
        let holds_text = kind == Kind::Array || kind == Kind::String && source != Source::Messages;
        if self.source.is_some() {
            // `null` beside the real one is what clients send that write out every member; a repeated name never is.
            if holds_text || self.source == Some(source) {
                self.text.end_text(Outcome::Ambiguous);
            }
            return Want::Skip;
        }
        if !holds_text {
            return Want::Skip;
        }
        self.source = Some(source);
        match (source, kind) {
            (Source::Prompt | Source::Input, Kind::Array) => self.descend(Place::Prompts),
            (_, Kind::Array) => self.descend(Place::Messages),
            (Source::Items, _) => self.string_segment(b"user"),
            _ => self.string_segment(b""),
        }
    }

    fn string_segment(&mut self, role: &'static [u8]) -> Want {
        self.text.begin_segment(role);
        self.read(Reading::Prompt)
    }

    /// The member that holds the system text. Whatever it holds, the conversation need not wait any longer.
    fn system(&mut self, kind: Kind) -> Want {
        if std::mem::replace(&mut self.system_seen, true) {
            self.text.end_text(Outcome::Ambiguous);
            return Want::Skip;
        }
        match kind {
            Kind::String => {
                self.text.begin_system();
                self.read(Reading::System)
            }
            Kind::Array => {
                self.text.begin_system();
                self.descend(Place::Parts(Owner::System))
            }
            _ => {
                self.text.no_system();
                Want::Skip
            }
        }
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
        if kind == Kind::String { self.read(Reading::Text) } else { self.descend(Place::Parts(Owner::Message)) }
    }

    fn part_or_text(&mut self, owner: Owner, kind: Kind) -> Want {
        if !self.text.is_wanted() {
            return Want::Leave;
        }
        self.part_text_seen = false;
        match kind {
            Kind::String => self.read(Reading::Text),
            Kind::Object => self.descend(Place::Part(owner)),
            _ => Want::Skip,
        }
    }

    /// The text of a part, or its content, which may be parts again.
    fn part_text(&mut self, kind: Kind, may_have_parts: bool) -> Want {
        if self.part_text_seen {
            self.text.end_text(Outcome::Ambiguous);
        }
        let holds_text = kind == Kind::String || may_have_parts && kind == Kind::Array;
        if !holds_text || !self.text.is_wanted() {
            return Want::Skip;
        }
        self.part_text_seen = true;
        if kind == Kind::String { self.read(Reading::Text) } else { self.descend(Place::Parts(Owner::Part)) }
    }

    fn media(&mut self, kind: Kind, owner: Owner, depth: u8) -> Want {
        if !self.text.is_wanted() {
            return Want::Skip;
        }
        match kind {
            Kind::String => self.read(Reading::Media),
            Kind::Object | Kind::Array => self.descend(Place::Media { owner, depth: depth + 1 }),
            _ => Want::Skip,
        }
    }

    fn media_member(&mut self, media: MediaKind, kind: Kind) -> Want {
        let Place::Part(owner) = self.place else { return Want::Skip };
        if matches!(kind, Kind::String | Kind::Object | Kind::Array) {
            self.fields.has_media(media);
        }
        self.media(kind, owner, 0)
    }

    fn prompt_element(&mut self, kind: Kind) -> Want {
        if kind != Kind::Number {
            self.end_run();
        }
        if kind == Kind::Object && self.source == Some(Source::Input) {
            // From here on these are items.
            self.is_conversation = true;
            self.place = Place::Messages;
            return self.message(kind);
        }
        if !self.text.is_wanted() {
            return Want::Leave;
        }
        match kind {
            Kind::String => self.string_segment(b""),
            Kind::Array => {
                self.text.begin_segment(b"");
                self.descend(Place::Ids)
            }
            Kind::Number => {
                if !self.ids_run {
                    self.ids_run = true;
                    self.text.begin_segment(b"");
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

    /// A piece of a string that is not text. All of it is read, whatever of it is kept, so that whether it is
    /// well-formed does not depend on how the body was cut.
    fn name_piece(&mut self, piece: &[u8]) {
        match self.reading {
            Reading::Field(_) => self.fields.text(piece),
            Reading::Role => self.text.role_piece(piece),
            Reading::ItemType | Reading::PartType => self.tag.push(piece),
            _ => {}
        }
    }

    /// Items of the Responses API that are no messages have no role; in a chat they would be messages that have one.
    fn item_type_done(&mut self) {
        let name = self.tag.bytes();
        if name.ends_with(b"_output") {
            self.text.role_implied(b"tool", self.content_seen);
        } else if name.ends_with(b"_call") || name == b"reasoning" {
            self.text.role_implied(b"assistant", self.content_seen);
        }
    }
}

impl<S: PromptSink> Visitor for Body<S> {
    fn name(&mut self, name: &[u8]) {
        let has_items = self.dialect == Dialect::Responses || self.source == Some(Source::Input);
        let has_inner_parts = self.dialect == Dialect::Messages;
        self.named = match (self.place, name) {
            (Place::Top, _) => Named::Top(Member::named(name)),
            (Place::StreamOptions, b"include_usage") => Named::IncludeUsage,
            (Place::Conversation, b"id") => Named::ConversationId,
            (Place::Message, b"role") => Named::Role,
            (Place::Message, b"content") => Named::Content,
            (Place::Message, b"output") if has_items => Named::Content,
            (Place::Message, b"type") if has_items => Named::ItemType,
            (Place::Part(_), b"text") => Named::PartText,
            (Place::Part(_), b"type") => Named::PartType,
            (Place::Part(Owner::Message), b"content") if has_inner_parts => Named::PartContent,
            (Place::Part(_), _) => media::of_member(name).map_or(Named::Other, Named::PartMedia),
            _ => Named::Other,
        };
    }

    fn value(&mut self, kind: Kind) -> Want {
        match (self.place, self.named) {
            (Place::Outside, _) if kind == Kind::Object => {
                self.is_object = true;
                self.descend(Place::Top)
            }
            (Place::Tools, _) => {
                self.fields.has_tools();
                Want::Leave
            }
            (Place::Messages, _) => self.message(kind),
            (Place::Parts(owner), _) => self.part_or_text(owner, kind),
            (Place::Prompts, _) => self.prompt_element(kind),
            (Place::Ids, _) => self.listed_id(kind),
            (Place::Media { owner, depth }, _) => self.media(kind, owner, depth),
            (_, Named::Top(member)) => self.top(member, kind),
            (_, Named::IncludeUsage) => {
                self.fields.include_usage(false);
                if kind == Kind::Literal { self.read(Reading::IncludeUsage) } else { Want::Skip }
            }
            (_, Named::ConversationId) => {
                self.fields.reset(Member::Text(TextField::Conversation));
                if kind == Kind::String { self.read(Reading::Field(TextField::Conversation)) } else { Want::Skip }
            }
            (_, Named::Role) => self.role(kind),
            (_, Named::ItemType) => self.read_tag(Reading::ItemType, kind),
            (_, Named::Content) => self.content(kind),
            (_, Named::PartType) => self.read_tag(Reading::PartType, kind),
            (_, Named::PartText) => self.part_text(kind, false),
            (_, Named::PartContent) => self.part_text(kind, true),
            (_, Named::PartMedia(media)) => self.media_member(media, kind),
            (_, Named::Other) => Want::Skip,
        }
    }

    fn text(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let more = match self.reading {
            Reading::Text | Reading::Prompt | Reading::System => self.text.piece(false, piece),
            Reading::Media => self.text.piece(true, piece),
            _ => {
                self.name_piece(piece);
                true
            }
        };
        if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn text_end(&mut self) {
        match self.reading {
            Reading::Field(field) => self.fields.text_end(field),
            Reading::Role => self.text.role_done(self.content_seen),
            Reading::ItemType => self.item_type_done(),
            Reading::PartType => self.fields.has_media(media::of_type(self.tag.bytes())),
            Reading::Prompt => self.text.end(),
            Reading::System => self.text.end_system(),
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
            Place::StreamOptions | Place::Conversation | Place::Tools | Place::Messages => Place::Top,
            Place::Message => {
                self.text.end();
                Place::Messages
            }
            Place::Parts(Owner::System) => {
                self.text.end_system();
                Place::Top
            }
            Place::Parts(Owner::Message) => Place::Message,
            Place::Parts(Owner::Part) => {
                // The parts inside had texts of their own; the one around has had its content.
                self.part_text_seen = true;
                Place::Part(Owner::Message)
            }
            Place::Part(owner) => Place::Parts(owner),
            Place::Media { owner, depth: 1 } => Place::Part(owner),
            Place::Media { owner, depth } => Place::Media { owner, depth: depth - 1 },
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
