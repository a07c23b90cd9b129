//! Takes from the body of an OpenAI-shaped request the prompt text and the few fields that routing needs.
//!
//! It exists so that a body can be routed without building a document and can reach the replica byte for byte: the
//! scanner only looks. It reads chat completions and completions, and SageMaker bodies of the same shape.
//!
//! What counts as prompt text:
//! - `messages[].content`: a string, or an array in which every string member named `text` and every plain string
//!   counts. Several are one segment, in order. `null`, absent or anything else is a segment without text.
//! - `prompt`: a string, an array of strings (a segment each), token ids, or an array of arrays of them (a segment each).
//! - What a message part holds under a name of media (`image_url`, `input_audio`, ...) is not text, but the engine's
//!   cache depends on it, so its strings go to [`PromptSink::media`].
//!
//! Edge cases:
//! - A message whose `content` comes before its `role` gives the same calls as with the role first: its text is held,
//!   up to [`Limits::held_bytes_max`].
//! - As in `serde_json`, the last of equal members wins, and a field of the wrong type counts as absent. Text cannot be
//!   taken back from the sink, so members that carry text or role are an exception: a second one ends the text and
//!   makes the outcome [`Outcome::Ambiguous`].
//! - A malformed body is the engine's business. The scan always gives what was found before; the outcome says whether
//!   it can be trusted.
//! - Once the sink is full, text is passed over unread and so unchecked, and its bytes no longer affect the outcome.

mod body;
mod fields;
mod held;
#[cfg(test)]
mod tests;
mod text;

pub use fields::{FIELD_BYTES_MAX, Fields};

use crate::json::{ErrorKind, Lexer};
use body::Body;

/// Bytes of a role that are told to the sink; a longer role is cut.
pub const ROLE_BYTES_MAX: usize = 64;

/// Follows each string of media. It cannot occur in UTF-8, so ["ab", "c"] differs from ["a", "bc"].
pub const MEDIA_END: u8 = 0xFF;

/// Receives the prompt in its order: `segment`, then any of the others, then `end_segment`, and again.
///
/// Pieces of text and media may be cut anywhere, also inside a UTF-8 character, and cuts carry no meaning.
pub trait PromptSink {
    /// A message begins; its role, cut to [`ROLE_BYTES_MAX`] bytes. Empty for a `prompt` and where no role is given.
    fn segment(&mut self, role: &[u8]);

    /// Un-escaped text of the segment.
    fn text(&mut self, bytes: &[u8]);

    /// Token ids of the segment, where the client sent ids in place of text; a piece is never empty.
    fn token_ids(&mut self, ids: &[u32]);

    /// Un-escaped strings of the segment's images, sound and other media, each followed by [`MEDIA_END`]. They belong to
    /// the identity of the prompt, not to its text. Ignored unless implemented.
    fn media(&mut self, bytes: &[u8]) {
        let _ = bytes;
    }

    /// The segment is complete, or the sink has enough of it.
    fn end_segment(&mut self);

    /// No more text is needed. Asked after every piece; once true, the only call that may still come is the
    /// `end_segment` of the segment that is open.
    fn is_full(&self) -> bool;
}

/// What the scanner may keep in memory.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of one message that are held while its role is not known yet.
    pub held_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { held_bytes_max: 256 * 1024 }
    }
}

/// Which API the body belongs to, judged by its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Has a `messages` array.
    Chat,
    /// Has a `prompt` that is a string or an array.
    Completion,
    /// Neither.
    Other,
}

/// Whether what was found can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The body was read to its end.
    Complete,
    /// The body is well-formed, but a member that carries text or role was given twice, or both `messages` and `prompt`
    /// were. The sink got the text up to the second one.
    Ambiguous,
    /// More than [`Limits::held_bytes_max`] bytes of a message came before its role. The sink got all messages before.
    HeldTooLong,
    /// Not JSON.
    Malformed {
        /// Bytes before the first one that is not.
        offset: u64,
    },
    /// More than [`crate::json::DEPTH_MAX`] containers inside each other.
    TooDeep,
    /// JSON, but not an object.
    NotAnObject,
    /// The body ended early.
    Truncated,
    /// No body, or only white space.
    Empty,
}

/// What a body holds for routing; its text went to the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The fields of the top level.
    pub fields: Fields,
    /// The API.
    pub shape: Shape,
    /// Whether the rest can be trusted.
    pub outcome: Outcome,
}

/// Scans one body while it arrives.
#[derive(Debug)]
pub struct RequestScanner<S> {
    lexer: Lexer,
    body: Body<S>,
}

impl<S: PromptSink> RequestScanner<S> {
    /// A scanner at the beginning of a body.
    pub fn new(sink: S, limits: Limits) -> Self {
        Self { lexer: Lexer::new(), body: Body::new(sink, limits) }
    }

    /// Takes the next bytes of the body, cut anywhere.
    pub fn feed(&mut self, chunk: &[u8]) {
        // The lexer keeps its error, and `finish` turns it into the outcome.
        let _ = self.lexer.feed(chunk, &mut self.body);
    }

    /// The sink as fed so far.
    pub fn sink(&self) -> &S {
        self.body.sink()
    }

    /// Ends the scan; gives the sink back.
    pub fn finish(mut self) -> (Scan, S) {
        let end = self.lexer.finish(&mut self.body);
        let (mut scan, sink) = self.body.into_scan();
        if let Err(error) = end {
            scan.outcome = match error.kind {
                ErrorKind::Syntax => Outcome::Malformed { offset: error.offset },
                ErrorKind::TooDeep => Outcome::TooDeep,
                ErrorKind::Truncated => Outcome::Truncated,
                ErrorKind::Empty => Outcome::Empty,
            };
        }
        (scan, sink)
    }
}
