//! Collects findings while a file is read, and cuts the excerpts shown with them.
//!
//! Excerpts are cut at the end, not when a finding is made: only then is it known which stretches of the text hold
//! secrets. Those are a value under a key that sounds like one (`api_key`, but also a misspelt `api_kye`, where the
//! excerpt of the unknown-key error would otherwise print the key) and a URL with credentials. After a syntax error
//! there is no telling where values end, so a secret-sounding `word:` masks the rest of its line.

use std::ops::Range;
use std::sync::Arc;

use super::diagnostic::{Diagnostic, Diagnostics, Excerpt, Position, Severity};

/// Findings kept in full. More are only counted: nobody reads them, and memory stays bounded.
const FINDINGS_MAX: usize = 200;
/// Characters of a line shown in an excerpt.
const EXCERPT_CHARS_MAX: usize = 100;
/// Bytes looked at on each side of a place to find its line; a whole file may be one line.
const LINE_BYTES_MAX: usize = 1_024;
/// Characters of a value quoted in a message.
const QUOTE_CHARS_MAX: usize = 60;
const MASK: &str = "***";

/// A stretch of the text. `start` and `end` are byte offsets; `line` and `column` count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// The beginning of the file, for what is missing altogether.
pub(super) const TOP: Span = Span { start: 0, end: 0, line: 1, column: 1 };

/// What was found so far in one text.
pub(super) struct Report<'t> {
    origin: Arc<str>,
    text: &'t str,
    found: Vec<Finding>,
    errors: usize,
    unlisted: usize,
    masked: Vec<Range<usize>>,
    broken: bool,
}

#[derive(PartialEq)]
struct Finding {
    severity: Severity,
    span: Span,
    message: String,
    help: Option<String>,
}

impl<'t> Report<'t> {
    pub(super) fn new(text: &'t str, origin: &str) -> Self {
        let origin = printable(origin).into();
        Self { origin, text, found: Vec::new(), errors: 0, unlisted: 0, masked: Vec::new(), broken: false }
    }

    /// Records an error.
    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.add(Severity::Error, span, message.into(), None);
    }

    /// Records an error and what to do about it; an empty `help` is none.
    pub(super) fn error_with(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.add(Severity::Error, span, message.into(), Some(help.into()));
    }

    /// Records something that may not be meant.
    pub(super) fn warn(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.add(Severity::Warning, span, message.into(), Some(help.into()));
    }

    /// Keeps a stretch of the text out of every excerpt.
    pub(super) fn mask(&mut self, span: Span) {
        if span.end > span.start {
            self.masked.push(span.start..span.end);
        }
    }

    /// The text is not YAML: from here on, words decide what is a secret.
    pub(super) fn syntax_error(&mut self, span: Span, message: String, help: &str) {
        self.broken = true;
        self.error_with(span, message, help);
    }

    /// Whether further findings are only counted, so that effort on their wording is wasted.
    pub(super) fn is_full(&self) -> bool {
        self.found.len() == FINDINGS_MAX
    }

    /// The line of a place, or what is near on it.
    pub(super) fn line(&self, span: Span) -> &'t str {
        &self.text[line_around(self.text, span.start)]
    }

    pub(super) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Everything found, by position.
    pub(super) fn finish(mut self) -> Diagnostics {
        self.found.sort_by_key(|finding| (finding.span.line, finding.span.column));
        // An alias makes one place in the file count several times.
        self.found.dedup();
        let found = self.found.iter().map(|finding| self.diagnostic(finding)).collect();
        Diagnostics { origin: self.origin, found, unlisted: self.unlisted }
    }

    fn add(&mut self, severity: Severity, span: Span, message: String, help: Option<String>) {
        self.errors += usize::from(severity == Severity::Error);
        if self.is_full() {
            self.unlisted += 1;
            // Whoever is told that the file cannot be used is shown why, however many warnings came before.
            match self.found.iter().rposition(|kept| severity == Severity::Error && kept.severity != severity) {
                Some(warning) => drop(self.found.remove(warning)),
                None => return,
            }
        }
        let help = help.filter(|help| !help.is_empty());
        self.found.push(Finding { severity, span, message, help });
    }

    fn diagnostic(&self, finding: &Finding) -> Diagnostic {
        let Finding { severity, span, message, help } = finding;
        Diagnostic {
            severity: *severity,
            origin: Arc::clone(&self.origin),
            position: Some(Position { line: span.line, column: span.column }),
            message: message.clone(),
            help: help.clone(),
            excerpt: Some(self.excerpt(*span)),
        }
    }

    /// The line of `span`, with every masked stretch as `***` and the caret moved accordingly.
    fn excerpt(&self, span: Span) -> Excerpt {
        let line = line_around(self.text, span.start);
        let caret = span.start.clamp(line.start, line.end)..span.end.clamp(line.start, line.end);
        let by_word = secret_by_word(&self.text[line.clone()]).filter(|_| self.broken);
        let by_word = by_word.map(|range| range.start + line.start..range.end + line.start);
        let here = |range: &&Range<usize>| range.start < line.end && line.start < range.end;
        let masked: Vec<&Range<usize>> = self.masked.iter().filter(here).chain(&by_word).collect();
        let mut out: Vec<char> = Vec::new();
        let (mut caret_start, mut caret_end) = (None, None);
        let mut in_mask = false;
        for (offset, c) in self.text[line.clone()].char_indices().map(|(i, c)| (i + line.start, c)) {
            if offset >= caret.start {
                caret_start.get_or_insert(out.len());
            }
            if offset >= caret.end {
                caret_end.get_or_insert(out.len());
            }
            let masked = masked.iter().any(|range| range.contains(&offset));
            match (masked, in_mask) {
                (true, false) => out.extend(MASK.chars()),
                (true, true) => {}
                (false, _) => out.push(plain_char(c)),
            }
            in_mask = masked;
        }
        let caret_start = caret_start.unwrap_or(out.len());
        let caret_end = caret_end.unwrap_or(out.len());
        crop(&out, caret_start, caret_end.saturating_sub(caret_start).max(1))
    }
}

/// Whether a value under this key is to be kept out of everything printed.
pub(super) fn names_a_secret(key: &str) -> bool {
    if key.len() > 64 {
        return false;
    }
    let key = key.to_ascii_lowercase();
    ["key", "secret", "token", "password", "seed"].iter().any(|word| key.contains(word))
        || strsim::osa_distance(&key, "api_key") <= 2
}

/// A value as messages show it: in quotes, cropped, without control characters.
pub(super) fn quote(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTE_CHARS_MAX).map(plain_char).collect();
    if text.chars().nth(QUOTE_CHARS_MAX).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// Text without control characters, so that a file cannot write to the terminal that shows its errors.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(plain_char).collect()
}

fn plain_char(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}

fn line_around(text: &str, offset: usize) -> Range<usize> {
    let breaks = |c: char| c == '\n' || c == '\r';
    let offset = text.floor_char_boundary(offset);
    let first = text.floor_char_boundary(offset.saturating_sub(LINE_BYTES_MAX));
    let last = text.floor_char_boundary(offset.saturating_add(LINE_BYTES_MAX));
    let start = text[first..offset].rfind(breaks).map_or(first, |i| i + first + 1);
    let end = text[offset..last].find(breaks).map_or(last, |i| i + offset);
    start..end
}

/// The rest of a line after a `word:` that sounds like a secret, unless it is a `${...}` reference.
fn secret_by_word(line: &str) -> Option<Range<usize>> {
    line.match_indices(':').find_map(|(colon, _)| {
        let before = line[..colon].trim_end_matches(['"', '\'', ' ']);
        let word = before.rsplit([' ', '{', ',', '"', '\'', '-']).next().unwrap_or_default();
        let value = line[colon + 1..].trim_start();
        (names_a_secret(word) && !value.starts_with("${")).then(|| line.len() - value.len()..line.len())
    })
}

fn crop(line: &[char], caret_start: usize, caret_len: usize) -> Excerpt {
    if line.len() <= EXCERPT_CHARS_MAX {
        return Excerpt { text: line.iter().collect(), caret_start, caret_len };
    }
    let from = caret_start.saturating_sub(EXCERPT_CHARS_MAX / 2).min(line.len() - EXCERPT_CHARS_MAX);
    let to = from + EXCERPT_CHARS_MAX;
    let mut text: String = line[from..to].iter().collect();
    let mut caret_start = caret_start - from;
    if from > 0 {
        text.insert(0, '…');
        caret_start += 1;
    }
    if to < line.len() {
        text.push('…');
    }
    let room = (EXCERPT_CHARS_MAX + 1).saturating_sub(caret_start).max(1);
    Excerpt { text, caret_start, caret_len: caret_len.min(room) }
}
