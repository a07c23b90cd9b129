//! A body's bytes -> its fields and the hashes of its prompt, in one pass while the bytes arrive.
//!
//! It is public because what it costs is a promise, and what is measured must be what runs.

use kvroute_core::abilities::Demands;
use kvroute_core::prompt::{Prompt, PromptHasher, Settings};
use kvroute_wire::request::{Dialect, Limits, MEDIA_END, PromptSink, RequestScanner, Scan, Shape};

/// Scans one body, and hashes its prompt.
pub struct BodyScanner(RequestScanner<HashingSink>);

impl BodyScanner {
    /// A scanner at the beginning of a body that was sent to the API of `dialect`.
    pub fn new(dialect: Dialect, settings: &Settings) -> Self {
        Self::with(dialect, settings, None)
    }

    /// The same, that reads the prompt to its end to tell its size.
    pub fn with_size(dialect: Dialect, settings: &Settings) -> Self {
        Self::with(dialect, settings, Some(Size::default()))
    }

    fn with(dialect: Dialect, settings: &Settings, size: Option<Size>) -> Self {
        // What waits for a system text that comes last is worth no more room than the hasher takes.
        let limits = Limits { waiting_bytes_max: settings.bytes_max(), ..Limits::default() };
        let sink = HashingSink { hasher: Box::new(PromptHasher::new(settings.clone())), size };
        Self(RequestScanner::for_dialect(dialect, sink, limits))
    }

    /// Takes the next bytes, cut anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        self.0.feed(piece);
    }

    /// How large the prompt is so far, if that is told.
    pub fn size(&self) -> Option<Size> {
        self.0.sink().size
    }

    /// What was found. Where the scan's outcome is a fault, the prompt may be any part of the true one.
    pub fn finish(self) -> (Scan, Prompt) {
        let (scan, sink) = self.0.finish();
        (scan, sink.hasher.finish())
    }
}

/// How large a prompt is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    segments: u32,
    text_bytes: u64,
    token_ids: u64,
}

impl Size {
    /// What it demands of a replica's context, with an answer of so many tokens. Several prompts in one body are several
    /// requests to the engine, of sizes that are not known apart.
    pub fn demands(self, shape: Shape, answer_tokens_max: Option<u64>) -> Demands {
        match shape {
            Shape::Completion if self.segments > 1 => Demands::default(),
            _ => Demands::of_prompt(self.text_bytes, self.token_ids, answer_tokens_max),
        }
    }
}

/// Hashes what the scanner finds. The hasher is boxed: its block would be moved about with the request's state.
struct HashingSink {
    hasher: Box<PromptHasher>,
    /// Counted to the end of the prompt, or not at all: after the hasher is full, text is passed over quicker unread.
    size: Option<Size>,
}

impl PromptSink for HashingSink {
    fn segment(&mut self, role: &[u8]) {
        if let Some(size) = &mut self.size {
            size.segments = size.segments.saturating_add(1);
        }
        self.hasher.segment(role);
    }

    fn text(&mut self, bytes: &[u8]) {
        if let Some(size) = &mut self.size {
            size.text_bytes += bytes.len() as u64;
        }
        self.hasher.text(bytes);
    }

    fn token_ids(&mut self, ids: &[u32]) {
        if let Some(size) = &mut self.size {
            size.token_ids += ids.len() as u64;
        }
        self.hasher.token_ids(ids);
    }

    fn media(&mut self, bytes: &[u8]) {
        if self.hasher.is_full() {
            return;
        }
        match bytes.split_last() {
            Some((&MEDIA_END, rest)) => {
                self.hasher.media(rest);
                self.hasher.end_media();
            }
            _ => self.hasher.media(bytes),
        }
    }

    fn end_segment(&mut self) {}

    fn is_full(&self) -> bool {
        self.size.is_none() && self.hasher.is_full()
    }
}
