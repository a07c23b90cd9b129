//! Keys of prompts whose first lines change with every request.
//!
//! Some clients begin the system text with a line of their own (a trace id, a nonce), and so every prompt would have a
//! key of its own. Where the configuration names how such lines begin (`key_skip_lines`), keys are made of the prompt
//! without them. The prefix chain keeps them, and so does the body: the engine sees them, so what it holds of a prompt
//! ends there.
//!
//! Rules: only lines at the beginning of the prompt's first segment are left out; a line ends with its line feed, or with
//! its segment. All together are at most [`SKIPPED_BYTES_MAX`] bytes, and what is beyond them belongs to the key again.
//! Where the text is cut makes no difference. Texts and beginnings are as JSON writes them, where a line feed is `\n`.

use kvroute_core::prompt::{BLOCK_BYTES, Prompt, PromptHasher, Settings};

/// Bytes that are left out at most: a prompt of nothing else must not cost more than others.
const SKIPPED_BYTES_MAX: usize = 4_096;

/// Where the text is.
#[derive(Debug)]
enum At {
    /// At the beginning of a line: what has come of it may still be that of one to leave out.
    LineStart { held: Vec<u8> },
    /// In a line that is left out.
    Skipped,
    /// After all of them.
    Rest,
}

/// Hashes a prompt for its keys.
#[derive(Debug)]
pub(super) struct KeyText<'s> {
    lines: &'s [String],
    at: At,
    hasher: PromptHasher,
    segments: u32,
    /// Bytes left out so far, and of the beginning of a line that may be.
    skipped_bytes: usize,
}

impl<'s> KeyText<'s> {
    /// Leaves out lines that begin with one of `lines`, which are as JSON writes them.
    pub(super) fn new(lines: &'s [String], settings: &Settings) -> Self {
        // Only the keys are used: a hasher wants one block of chain to know whether there was text.
        let hasher = PromptHasher::new(Settings { chain_bytes_max: BLOCK_BYTES, ..settings.clone() });
        Self { lines, at: At::LineStart { held: Vec::new() }, hasher, segments: 0, skipped_bytes: 0 }
    }

    /// The hasher, where what comes next is not text of the first segment.
    pub(super) fn rest(&mut self) -> &mut PromptHasher {
        if let At::LineStart { held } = std::mem::replace(&mut self.at, At::Rest) {
            self.hasher.text(&held);
        }
        &mut self.hasher
    }

    /// A segment begins.
    pub(super) fn segment(&mut self, role: &[u8]) {
        self.segments += 1;
        let hasher = if self.segments == 1 { &mut self.hasher } else { self.rest() };
        hasher.segment(role);
    }

    /// More text.
    pub(super) fn text(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            match &mut self.at {
                At::LineStart { .. } | At::Skipped if self.skipped_bytes == SKIPPED_BYTES_MAX => {
                    self.rest();
                }
                At::LineStart { held } => {
                    held.push(piece[0]);
                    self.skipped_bytes += 1;
                    piece = &piece[1..];
                    if self.lines.iter().any(|line| held.starts_with(line.as_bytes())) {
                        self.at = At::Skipped;
                    } else if !self.lines.iter().any(|line| line.as_bytes().starts_with(held)) {
                        self.rest();
                    }
                }
                At::Skipped => {
                    let looked_at = &piece[..piece.len().min(SKIPPED_BYTES_MAX - self.skipped_bytes)];
                    let end = line_end(looked_at);
                    let skipped = end.unwrap_or(looked_at.len());
                    self.skipped_bytes += skipped;
                    piece = &piece[skipped..];
                    if end.is_some() {
                        self.at = At::LineStart { held: Vec::new() };
                    }
                }
                At::Rest => {
                    self.hasher.text(piece);
                    return;
                }
            }
        }
    }

    /// Whether more text would change nothing.
    pub(super) fn is_full(&self) -> bool {
        self.hasher.is_full()
    }

    /// The prompt's keys; its chain means nothing.
    pub(super) fn finish(mut self) -> Prompt {
        self.rest();
        self.hasher.finish()
    }
}

/// The position after the first line feed, if there is one. Pieces are not cut inside an escape.
fn line_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr(b'\\', text.get(at..)?)? + 2;
        if text.get(at - 1) == Some(&b'n') {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use kvroute_core::written::written;

    use super::*;

    const LENGTH: u32 = 1_024;

    fn key(lines: &[&str], segments: &[&str], size: usize) -> Option<u64> {
        let lines: Vec<String> = lines.iter().map(|&line| written(line)).collect();
        let settings = Settings { seed: 1, prefix_lengths: [LENGTH].into(), chain_bytes_max: 8_192 };
        let mut text = KeyText::new(&lines, &settings);
        for segment in segments {
            text.segment(b"system");
            let pieces = segment.as_bytes().chunks(size).map(|piece| written(str::from_utf8(piece).unwrap()));
            pieces.for_each(|piece| text.text(piece.as_bytes()));
        }
        text.finish().key(LENGTH)
    }

    #[test]
    fn lines_that_begin_so_are_left_out_at_the_beginning_only_wherever_the_text_is_cut() {
        let lines = ["x-trace:", "x-nonce ", "\"id\" "];
        let plain = |segments: &[&str]| key(&[], segments, 99);
        let long = "y".repeat(5_000);
        let many_lines = "x-trace: 1\n".repeat(500);
        let long_line = format!("x-trace:{long}");
        for (sent, same_as) in [
            (&["x-trace: id=1;\nrest"][..], &["rest"][..]),
            (&["x-trace: id=1;\nx-nonce 5\nx-trace:\nrest\nx-trace: 2"], &["rest\nx-trace: 2"]),
            (&["\"id\" \\no\nrest"], &["rest"]),
            (&["x-tracy: id=1;\nrest"], &["x-tracy: id=1;\nrest"]),
            (&["x-tra", "x-trace: 1\nrest"], &["x-tra", "x-trace: 1\nrest"]),
            (&["x-trace: 1", "rest"], &["", "rest"]),
            (&["\nx-trace: 1\n"], &["\nx-trace: 1\n"]),
            (&[&long_line], &[&long_line[SKIPPED_BYTES_MAX..]]),
            // A line feed is two bytes.
            (&[&many_lines], &[&many_lines[SKIPPED_BYTES_MAX / 12 * 11..]]),
            (&["x-tra"], &["x-tra"]),
        ] {
            for size in [1, 3, 7, 10_000] {
                assert_eq!(key(&lines, sent, size), plain(same_as), "{:.40?} in pieces of {size}", sent[0]);
            }
        }
        assert_ne!(plain(&["a"]), plain(&["b"]));
    }
}
