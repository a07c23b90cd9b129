//! A body's bytes -> its fields and the hashes of its prompt, in one pass while the bytes arrive.
//!
//! It is public because what it costs is a promise, and what is measured must be what runs.

mod key_text;

use kvroute_core::prompt::{Prompt, PromptHasher, Settings};
use kvroute_wire::request::{Dialect, Limits, MEDIA_END, PromptSink, RequestScanner, Scan};

use self::key_text::KeyText;

/// Scans one body, and hashes its prompt.
pub struct BodyScanner<'s>(RequestScanner<HashingSink<'s>>);

impl<'s> BodyScanner<'s> {
    /// A scanner at the beginning of a body that was sent to the API of `dialect`. Of keys it leaves out lines at the
    /// prompt's beginning that begin with one of `key_skip_lines`.
    pub fn new(dialect: Dialect, settings: &Settings, key_skip_lines: &'s [String]) -> Self {
        // What waits for a system text that comes last is worth no more room than the hasher takes.
        let limits = Limits { waiting_bytes_max: settings.bytes_max(), ..Limits::default() };
        let keys = (!key_skip_lines.is_empty()).then(|| Box::new(KeyText::new(key_skip_lines, settings)));
        let sink = HashingSink { hasher: Box::new(PromptHasher::new(settings.clone())), keys };
        Self(RequestScanner::for_dialect(dialect, sink, limits))
    }

    /// Takes the next bytes, cut anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        self.0.feed(piece);
    }

    /// What was found, and what keys are made of, where it is not the prompt. Where the scan's outcome is a fault, the
    /// prompt may be any part of the true one.
    pub fn finish(self) -> (Scan, Prompt, Option<Box<Prompt>>) {
        let (scan, sink) = self.0.finish();
        (scan, sink.hasher.finish(), sink.keys.map(|keys| Box::new(keys.finish())))
    }
}

/// Hashes what the scanner finds. Boxed: its block would be moved about with the request's state.
struct HashingSink<'s> {
    hasher: Box<PromptHasher>,
    /// Makes the keys where some lines are left out of them.
    keys: Option<Box<KeyText<'s>>>,
}

impl HashingSink<'_> {
    /// What comes is neither a segment nor text: all that hash get it alike.
    fn each(&mut self, give: impl Fn(&mut PromptHasher)) {
        give(&mut self.hasher);
        if let Some(keys) = &mut self.keys {
            give(keys.rest());
        }
    }
}

impl PromptSink for HashingSink<'_> {
    fn segment(&mut self, role: &[u8]) {
        self.hasher.segment(role);
        if let Some(keys) = &mut self.keys {
            keys.segment(role);
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        self.hasher.text(bytes);
        if let Some(keys) = &mut self.keys {
            keys.text(bytes);
        }
    }

    fn token_ids(&mut self, ids: &[u32]) {
        self.each(|hasher| hasher.token_ids(ids));
    }

    fn media(&mut self, bytes: &[u8]) {
        self.each(|hasher| match bytes.split_last() {
            Some((&MEDIA_END, rest)) => {
                hasher.media(rest);
                hasher.end_media();
            }
            _ => hasher.media(bytes),
        });
    }

    fn end_segment(&mut self) {}

    fn is_full(&self) -> bool {
        self.hasher.is_full() && self.keys.as_ref().is_none_or(|keys| keys.is_full())
    }
}
