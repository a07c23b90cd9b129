//! Brings the text to the sink in the order that the sink was promised.

use super::held::{Held, Run};
use super::outlet::Outlet;
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

/// The way to the sink, and what must wait for its role before it may go there.
#[derive(Debug)]
pub(super) struct TextFlow<S> {
    outlet: Outlet<S>,
    held_bytes_max: usize,
    segment: Segment,
    role: Vec<u8>,
    role_known: bool,
    /// The role where the message does not give one.
    role_implied: &'static [u8],
    held: Held,
    ids: Vec<u32>,
    /// Why text has ended before the body, if it has.
    ended: Option<Outcome>,
    /// It has ended inside the system text.
    system_ended: bool,
}

impl<S: PromptSink> TextFlow<S> {
    pub(super) fn new(sink: S, limits: Limits, waits_for_system: bool) -> Self {
        Self {
            outlet: Outlet::new(sink, waits_for_system, limits.waiting_bytes_max),
            held_bytes_max: limits.held_bytes_max,
            segment: Segment::Closed,
            role: Vec::new(),
            role_known: false,
            role_implied: b"",
            held: Held::default(),
            ids: Vec::new(),
            ended: None,
            system_ended: false,
        }
    }

    pub(super) fn sink(&self) -> &S {
        self.outlet.sink()
    }

    pub(super) fn into_parts(self) -> (S, Option<Outcome>) {
        (self.outlet.into_sink(), self.ended)
    }

    /// More text would reach the sink. The system text does whatever became of the conversation, since it comes first.
    pub(super) fn is_wanted(&self) -> bool {
        let ended = if self.outlet.is_in_system() { self.system_ended } else { self.ended.is_some() };
        !ended && !self.outlet.is_full()
    }

    /// No further text reaches the sink, for the given reason; the first reason stays.
    pub(super) fn end_text(&mut self, reason: Outcome) {
        self.ended.get_or_insert(reason);
        self.system_ended |= self.outlet.is_in_system();
    }

    /// A message begins; its role may come later.
    pub(super) fn begin_message(&mut self) {
        self.segment = Segment::Pending;
        self.role_void();
        self.role_implied = b"";
        self.held.clear();
    }

    /// A segment begins whose role is given by its place; empty for none.
    pub(super) fn begin_segment(&mut self, role: &'static [u8]) {
        self.begin_message();
        self.role_implied = role;
        self.open();
    }

    /// The system text comes now, which goes before what has come already.
    pub(super) fn begin_system(&mut self) {
        self.outlet.system_begins();
        self.begin_segment(b"system");
    }

    /// The system text is complete, or it is known that there is none.
    pub(super) fn end_system(&mut self) {
        self.end();
        self.outlet.system_done(self.system_ended);
    }

    /// There is no system text.
    pub(super) fn no_system(&mut self) {
        self.outlet.system_begins();
        self.outlet.system_done(false);
    }

    pub(super) fn is_open(&self) -> bool {
        self.segment == Segment::Open
    }

    /// No role is known: none was given yet, or what was given is void.
    pub(super) fn role_void(&mut self) {
        self.role.clear();
        self.role_known = false;
    }

    /// A piece of the role.
    pub(super) fn role_piece(&mut self, piece: &[u8]) {
        let room = ROLE_BYTES_MAX - self.role.len();
        self.role.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// The role is complete. Text that has been waiting for it can go.
    pub(super) fn role_done(&mut self, content_seen: bool) {
        self.role_known = true;
        if content_seen {
            self.open();
        }
    }

    /// The role that the message has unless it gives one itself.
    pub(super) fn role_implied(&mut self, role: &'static [u8], content_seen: bool) {
        self.role_implied = role;
        if content_seen {
            self.open();
        }
    }

    /// The message's text follows; it goes to the sink at once if the role is known.
    pub(super) fn content_begins(&mut self) {
        if self.role_known || !self.role_implied.is_empty() {
            self.open();
        }
    }

    /// The segment's role is final, since its text follows, or has been waiting for the role.
    fn open(&mut self) {
        if self.segment != Segment::Pending || !self.is_wanted() {
            return;
        }
        self.segment = Segment::Open;
        self.outlet.segment(if self.role_known { &self.role } else { self.role_implied });
        for (run, bytes) in self.held.runs() {
            if self.outlet.is_full() {
                break;
            }
            if run == Run::Media { self.outlet.media(bytes) } else { self.outlet.text(bytes) }
        }
        self.held.clear();
    }

    /// A piece of text or media of the segment; `false` when no more is needed.
    pub(super) fn piece(&mut self, media: bool, bytes: &[u8]) -> bool {
        if !self.is_wanted() {
            return false;
        }
        match self.segment {
            Segment::Open if media => self.outlet.media(bytes),
            Segment::Open => self.outlet.text(bytes),
            Segment::Pending => {
                let run = if media { Run::Media } else { Run::Text };
                if !self.held.push(run, bytes, self.held_bytes_max) {
                    self.end_text(Outcome::HeldTooLong);
                }
            }
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
            self.outlet.end_segment();
        }
        self.segment = Segment::Closed;
        self.held.clear();
    }

    fn flush_ids(&mut self) {
        if !self.ids.is_empty() && self.segment == Segment::Open && self.is_wanted() {
            self.outlet.token_ids(&self.ids);
        }
        self.ids.clear();
    }
}
