//! Takes from the body of a request the prompt text and the few fields that routing needs.
//!
//! It exists so that a body can be routed without building a document and can reach the replica byte for byte: the
//! scanner only looks. It reads what the path says ([`Dialect`]): OpenAI's chat completions, completions, responses and
//! embeddings, Anthropic's messages, and bodies of SageMaker's native API, where the members decide.
//!
//! What counts as prompt text:
//! - `messages[].content`: a string, or an array in which every string member named `text` and every plain string
//!   counts. Several are one segment, in order. `null`, absent or anything else is a segment without text.
//! - `prompt` (completions) and `input` (embeddings): a string, an array of strings (a segment each), token ids, or an
//!   array of arrays of them (a segment each).
//! - `input` (responses): a string, which is a message of the user, or items, which are read as messages. An item
//!   without a role has the one that its `type` implies in a chat: `..._output` is `tool`, whose text is its `output`;
//!   `..._call` and `reasoning` are `assistant`.
//! - `input` where the path says nothing: as for embeddings, and items as for responses.
//! - `instructions` (responses) and `system` (messages): the first segment, of role `system`, wherever it stands.
//! - The `content` of a part (messages: the result of a tool), a string or parts again.
//! - What a message part holds under a name of media (`image_url`, `input_audio`, `source`, ...) is not text, but the
//!   engine's cache depends on it, so its strings go to [`PromptSink::media`].
//!
//! So equal conversations give equal calls, whatever the API.
//!
//! Edge cases:
//! - A message whose `content` comes before its `role` gives the same calls as with the role first: its text is held,
//!   up to [`Limits::held_bytes_max`].
//! - A conversation before its system text waits for it, or for the end of the body, up to
//!   [`Limits::waiting_bytes_max`].
//! - As in `serde_json`, the last of equal members wins, and a field of the wrong type counts as absent. Text cannot be
//!   taken back from the sink, so members that carry text or role are an exception: a second one ends the text and
//!   makes the outcome [`Outcome::Ambiguous`].
//! - A malformed body is the engine's business. The scan always gives what was found before; the outcome says whether
//!   it can be trusted.
//! - Once the sink is full, text is passed over unread and so unchecked, and its bytes no longer affect the outcome. With
//!   [`Limits::prompt_only`] all else is too, so a body costs no more than its beginning.

mod body;
mod dialect;
mod fields;
mod held;
mod media;
mod outlet;
#[cfg(test)]
mod tests;
mod text;

pub use dialect::Dialect;
pub use fields::{FIELD_BYTES_MAX, Fields};

#[cfg(doc)]
use crate::json::Want;
use crate::json::{ErrorKind, Lexer};
use body::Body;

/// Bytes of a role that are told to the sink; a longer role is cut.
pub const ROLE_BYTES_MAX: usize = 64;

/// Where only the prompt is wanted, this much is looked at before it is asked whether there was enough.
const STRIDE_BYTES: usize = 8 * 1024;

/// Follows each string of media. It cannot occur in UTF-8, so ["ab", "c"] differs from ["a", "bc"].
pub const MEDIA_END: u8 = 0xFF;

/// Receives the prompt in its order: `segment`, then any of the others, then `end_segment`, and again.
///
/// Pieces of text and media may be cut anywhere, also inside a UTF-8 character, and cuts carry no meaning.
pub trait PromptSink {
    /// A message begins; its role, cut to [`ROLE_BYTES_MAX`] bytes. Empty for a `prompt` and where no role is given.
    fn segment(&mut self, role: &[u8]);

    /// Text of the segment as JSON writes it at its shortest ([`Want::ReadWritten`]): equal texts are equal here, however
    /// the client escaped them, and nothing is un-escaped for it.
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
    /// Bytes of a conversation that wait for a system text that stands after it. Where more comes, it is passed over as
    /// if the sink were full, so nothing is lost by a limit of what the sink takes until it is.
    pub waiting_bytes_max: usize,
    /// Once the sink is full nothing more is looked at: members that stand after the prompt are not found, and whatever is
    /// wrong there is not noticed.
    pub prompt_only: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { held_bytes_max: 256 * 1024, waiting_bytes_max: 1024 * 1024, prompt_only: false }
    }
}

/// What kind of prompt the body holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A conversation: `messages`, or the `input` of responses.
    Chat,
    /// Text without roles: `prompt`, or the `input` of embeddings.
    Completion,
    /// An `input` where the path says nothing, with items in it or beside it what only a conversation has:
    /// `instructions`, `tools`, `stream`, a limit of tokens, an earlier response.
    Response,
    /// Another `input` where the path says nothing.
    Embedding,
    /// None that the dialect knows.
    Other,
}

/// Whether what was found can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The body was read to its end.
    Complete,
    /// The body is well-formed, but a member that carries text or role was given twice, or two that may both be the
    /// prompt. The sink got the text up to the second one.
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
    /// The kind of prompt.
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
    /// A scanner at the beginning of a body of which the path says nothing.
    pub fn new(sink: S, limits: Limits) -> Self {
        Self::for_dialect(Dialect::Auto, sink, limits)
    }

    /// A scanner at the beginning of a body that was sent to the API of `dialect`.
    pub fn for_dialect(dialect: Dialect, sink: S, limits: Limits) -> Self {
        Self { lexer: Lexer::new(), body: Body::new(dialect, sink, limits) }
    }

    /// Takes the next bytes of the body, cut anywhere.
    pub fn feed(&mut self, chunk: &[u8]) {
        let stride = if self.body.is_prompt_only() { STRIDE_BYTES } else { chunk.len().max(1) };
        for part in chunk.chunks(stride) {
            if self.body.has_enough() {
                return;
            }
            // The lexer keeps its error, and `finish` turns it into the outcome.
            let _ = self.lexer.feed(part, &mut self.body);
        }
    }

    /// The sink as fed so far.
    pub fn sink(&self) -> &S {
        self.body.sink()
    }

    /// Ends the scan; gives the sink back.
    pub fn finish(mut self) -> (Scan, S) {
        if self.body.has_enough() {
            self.body.leave();
            let (scan, sink) = self.body.into_scan();
            // Whatever seemed wrong came after it was full, and may lie beyond the last look in another cut.
            return (Scan { outcome: Outcome::Complete, ..scan }, sink);
        }
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
