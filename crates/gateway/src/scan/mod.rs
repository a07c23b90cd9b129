//! A body's bytes -> its fields and the hashes of its prompt, in one pass while the bytes arrive.
//!
//! It is public because what it costs is a promise, and what is measured must be what runs.

mod key_text;
mod size;

use kvroute_core::prompt::{Prompt, PromptHasher, Settings};
use kvroute_core::written::plain_bytes;
use kvroute_wire::request::{Dialect, Limits, MEDIA_END, PromptSink, RequestScanner, Scan};

use self::key_text::KeyText;
pub use self::size::Size;

/// Scans one body, and hashes its prompt.
pub struct BodyScanner<'s>(RequestScanner<HashingSink<'s>>);

/// What is looked at besides the fields and the prompt's beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wants<'s> {
    /// Of keys, lines at the prompt's beginning that begin with one of these, as JSON writes them, are left out.
    pub key_skip_lines: &'s [String],
    /// The prompt is read to its end, to tell its size.
    pub size: bool,
    /// Members after the prompt make no difference, so a long body is not read to its end. Only without a size.
    pub prompt_only: bool,
}

/// What was found in a body. Where the scan's outcome is a fault, the prompt may be any part of the true one.
#[derive(Debug)]
pub struct Scanned {
    /// Its fields, and how the reading went.
    pub scan: Scan,
    /// Its prompt, hashed.
    pub prompt: Prompt,
    /// What keys are made of, where it is not the prompt.
    pub key_prompt: Option<Box<Prompt>>,
    /// How large the whole prompt is, where that was wanted.
    pub size: Option<Size>,
}

impl<'s> BodyScanner<'s> {
    /// A scanner at the beginning of a body that was sent to the API of `dialect`.
    pub fn new(dialect: Dialect, settings: &Settings, wants: Wants<'s>) -> Self {
        let Wants { key_skip_lines, size, prompt_only } = wants;
        // What waits for a system text that comes last is worth no more room than the hasher takes.
        let limits = Limits { waiting_bytes_max: settings.bytes_max(), prompt_only, ..Limits::default() };
        let keys = (!key_skip_lines.is_empty()).then(|| Box::new(KeyText::new(key_skip_lines, settings)));
        let size = size.then(Size::default);
        let sink = HashingSink { hasher: Box::new(PromptHasher::new(settings.clone())), keys, size };
        Self(RequestScanner::for_dialect(dialect, sink, limits))
    }

    /// Takes the next bytes, cut anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        self.0.feed(piece);
    }

    /// The body is over.
    pub fn finish(self) -> Scanned {
        let (scan, HashingSink { hasher, keys, size }) = self.0.finish();
        let key_prompt = keys.map(|keys| Box::new(keys.finish()));
        Scanned { scan, prompt: hasher.finish(), key_prompt, size }
    }
}

/// Hashes what the scanner finds. Boxed: its block would be moved about with the request's state.
struct HashingSink<'s> {
    hasher: Box<PromptHasher>,
    /// Makes the keys where some lines are left out of them.
    keys: Option<Box<KeyText<'s>>>,
    /// Counted to the end of the prompt, or not at all: after the hasher is full, text is passed over quicker unread.
    size: Option<Size>,
}

impl HashingSink<'_> {
    fn has_hashed_enough(&self) -> bool {
        self.hasher.is_full() && self.keys.as_ref().is_none_or(|keys| keys.is_full())
    }

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
        if let Some(size) = &mut self.size {
            size.segments = size.segments.saturating_add(1);
        }
        self.hasher.segment(role);
        if let Some(keys) = &mut self.keys {
            keys.segment(role);
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        if let Some(size) = &mut self.size {
            size.text_bytes += plain_bytes(bytes) as u64;
        }
        self.hasher.text(bytes);
        if let Some(keys) = &mut self.keys {
            keys.text(bytes);
        }
    }

    fn token_ids(&mut self, ids: &[u32]) {
        if let Some(size) = &mut self.size {
            size.token_ids += ids.len() as u64;
        }
        self.each(|hasher| hasher.token_ids(ids));
    }

    fn media(&mut self, bytes: &[u8]) {
        if self.has_hashed_enough() {
            return;
        }
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
        self.size.is_none() && self.has_hashed_enough()
    }
}
