//! A body's bytes -> its fields and the hashes of its prompt, in one pass while the bytes arrive.
//!
//! It is public because what it costs is a promise, and what is measured must be what runs.

use kvroute_core::prompt::{Prompt, PromptHasher, Settings};
use kvroute_wire::request::{Dialect, Limits, MEDIA_END, PromptSink, RequestScanner, Scan};

/// Scans one body, and hashes its prompt.
pub struct BodyScanner(RequestScanner<HashingSink>);

impl BodyScanner {
    /// A scanner at the beginning of a body that was sent to the API of `dialect`.
    pub fn new(dialect: Dialect, settings: &Settings) -> Self {
        // What waits for a system text that comes last is worth no more room than the hasher takes.
        let limits = Limits { waiting_bytes_max: settings.bytes_max(), ..Limits::default() };
        let sink = HashingSink(Box::new(PromptHasher::new(settings.clone())));
        Self(RequestScanner::for_dialect(dialect, sink, limits))
    }

    /// Takes the next bytes, cut anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        self.0.feed(piece);
    }

    /// What was found. Where the scan's outcome is a fault, the prompt may be any part of the true one.
    pub fn finish(self) -> (Scan, Prompt) {
        let (scan, sink) = self.0.finish();
        (scan, sink.0.finish())
    }
}

/// Hashes what the scanner finds. Boxed: its block would be moved about with the request's state.
struct HashingSink(Box<PromptHasher>);

impl PromptSink for HashingSink {
    fn segment(&mut self, role: &[u8]) {
        self.0.segment(role);
    }

    fn text(&mut self, bytes: &[u8]) {
        self.0.text(bytes);
    }

    fn token_ids(&mut self, ids: &[u32]) {
        self.0.token_ids(ids);
    }

    fn media(&mut self, bytes: &[u8]) {
        match bytes.split_last() {
            Some((&MEDIA_END, rest)) => {
                self.0.media(rest);
                self.0.end_media();
            }
            _ => self.0.media(bytes),
        }
    }

    fn end_segment(&mut self) {}

    fn is_full(&self) -> bool {
        self.0.is_full()
    }
}
