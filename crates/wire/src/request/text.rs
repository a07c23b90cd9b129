//! Brings the text to the sink in the order that the sink was promised.

use super::held::Held;
use super::{Limits, MEDIA_END, Outcome, PromptSink, ROLE_BYTES_MAX};

/// Token ids gathered before they go to the sink.
pub(super) const IDS_AT_ONCE: usize = 256;

/// Where the current message is between its begin and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    /// Not told to the sink yet: its text, if any, is held.
    Pending,
    /// Told to the sink.
    Open,
    /// Over, or none has begun.
    Closed,
}

/// The sink, and what must wait before it may go there.
#[derive(Debug)]
pub(super) struct TextFlow<S> {
    sink: S,
    limits: Limits,
    segment: Segment,
    role: Vec<u8>,
    role_known: bool,
    held: Held,
    ids: Vec<u32>,
    /// Why text has ended before the body, if it has.
    ended: Option<Outcome>,
}

impl<S: PromptSink> TextFlow<S> {
    pub(super) fn new(sink: S, limits: Limits) -> Self {
        Self {
            sink,
            limits,
            segment: Segment::Closed,
            role: Vec::new(),
            role_known: false,
            held: Held::default(),
            ids: Vec::new(),
            ended: None,
        }
    }

    pub(super) fn sink(&self) -> &S {
        &self.sink
    }

    pub(super) fn into_parts(self) -> (S, Option<Outcome>) {
        (self.sink, self.ended)
    }

    /// More text would reach the sink.
    pub(super) fn is_wanted(&self) -> bool {
        self.ended.is_none() && !self.sink.is_full()
    }

    /// No further text reaches the sink, for the given reason; the first reason stays.
    pub(super) fn end_text(&mut self, reason: Outcome) {
        self.ended.get_or_insert(reason);
    }

    /// A message begins; its role may come later.
    pub(super) fn begin_message(&mut self) {
        self.segment = Segment::Pending;
        self.role_void();
        self.held.clear();
    }

    /// A segment begins that has no role.
    pub(super) fn begin_prompt(&mut self) {
        self.begin_message();
        self.open();
    }

    pub(super) fn is_open(&self) -> bool {
        self.segment == Segment::Open
    }

    /// No role is known: none was given yet, or what was given is void.
    pub(super) fn role_void(&mut self) {
        self.role.clear();
        self.role_known = false;
    }

    /// A piece of the role; `false` when no more of it is needed.
    pub(super) fn role_piece(&mut self, piece: &[u8]) -> bool {
        let room = ROLE_BYTES_MAX - self.role.len();
        self.role.extend_from_slice(&piece[..piece.len().min(room)]);
        self.role.len() < ROLE_BYTES_MAX
    }

    /// The role is complete. Text that has been waiting for it can go.
    pub(super) fn role_done(&mut self, content_seen: bool) {
        self.role_known = true;
        if content_seen {
            self.open();
        }
    }

    /// The message's text follows; it goes to the sink at once if the role is known.
    pub(super) fn content_begins(&mut self) {
        if self.role_known {
            self.open();
        }
    }

    /// The segment's role is final, since its text follows, or has been waiting for the role.
    fn open(&mut self) {
        if self.segment != Segment::Pending || !self.is_wanted() {
            return;
        }
        self.segment = Segment::Open;
        self.sink.segment(&self.role);
        for (media, bytes) in self.held.runs() {
            if self.sink.is_full() {
                break;
            }
            if media { self.sink.media(bytes) } else { self.sink.text(bytes) }
        }
        self.held.clear();
    }

    /// A piece of text or media of the segment; `false` when no more is needed.
    pub(super) fn piece(&mut self, media: bool, bytes: &[u8]) -> bool {
        if !self.is_wanted() {
            return false;
        }
        match self.segment {
            Segment::Open if media => self.sink.media(bytes),
            Segment::Open => self.sink.text(bytes),
            Segment::Pending if self.held.push(media, bytes, self.limits.held_bytes_max) => {}
            Segment::Pending => self.end_text(Outcome::HeldTooLong),
            Segment::Closed => {}
        }
        self.is_wanted()
    }

    /// A string of media is complete.
    pub(super) fn media_end(&mut self) {
        self.piece(true, &[MEDIA_END]);
    }

    /// A number in a list of ids. One that is no `u32` is not an id, and is passed over.
    pub(super) fn token_id(&mut self, id: u64) {
        if let Ok(id) = u32::try_from(id) {
            self.ids.push(id);
        }
        if self.ids.len() == IDS_AT_ONCE {
            self.flush_ids();
        }
    }

    /// The segment is over.
    pub(super) fn end(&mut self) {
        self.open();
        self.flush_ids();
        if self.segment == Segment::Open {
            self.sink.end_segment();
        }
        self.segment = Segment::Closed;
        self.held.clear();
    }

    fn flush_ids(&mut self) {
        if !self.ids.is_empty() && self.segment == Segment::Open && self.is_wanted() {
            self.sink.token_ids(&self.ids);
        }
        self.ids.clear();
    }
}
