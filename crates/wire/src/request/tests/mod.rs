//! What the tests share: a sink that records, and short ways to scan.

mod cases;
mod dialects;
mod oracle;

use super::*;
use crate::testing::chunks;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Segment {
    role: String,
    text: String,
    ids: Vec<u32>,
    media: Vec<u8>,
}

/// Records the calls, checks their order, and is full after `text_bytes_max` bytes.
#[derive(Debug)]
struct Recorder {
    segments: Vec<Segment>,
    text: Vec<u8>,
    text_bytes: usize,
    text_bytes_max: usize,
    open: bool,
}

impl Recorder {
    fn new(text_bytes_max: usize) -> Self {
        Self { segments: vec![], text: vec![], text_bytes: 0, text_bytes_max, open: false }
    }

    fn last(&mut self) -> &mut Segment {
        assert!(self.open, "a call outside a segment");
        assert!(self.text_bytes < self.text_bytes_max, "a call although full");
        self.segments.last_mut().unwrap()
    }
}

impl PromptSink for Recorder {
    fn segment(&mut self, role: &[u8]) {
        assert!(!std::mem::replace(&mut self.open, true), "a segment in a segment");
        assert!(!self.is_full(), "a segment although full");
        self.segments.push(Segment { role: String::from_utf8_lossy(role).into_owned(), ..Segment::default() });
    }

    fn text(&mut self, bytes: &[u8]) {
        self.last();
        self.text.extend_from_slice(bytes);
        self.text_bytes += bytes.len();
    }

    fn token_ids(&mut self, ids: &[u32]) {
        assert!((1..=text::IDS_AT_ONCE).contains(&ids.len()), "ids are handed on in bounded pieces");
        self.last().ids.extend_from_slice(ids);
    }

    fn media(&mut self, bytes: &[u8]) {
        self.last().media.extend_from_slice(bytes);
    }

    fn end_segment(&mut self) {
        assert!(std::mem::replace(&mut self.open, false), "an end without a segment");
        let text = std::mem::take(&mut self.text);
        self.segments.last_mut().unwrap().text = plain(&String::from_utf8_lossy(&text));
    }

    fn is_full(&self) -> bool {
        self.text_bytes >= self.text_bytes_max
    }
}

/// The text that is written so, but for an escape at its end that is not all there.
fn plain(written: &str) -> String {
    let read = |written: &str| serde_json::from_str::<String>(&format!("\"{written}\"")).ok();
    let whole = || written.rsplit_once('\\').map_or("", |(before, _)| before.trim_end_matches('\\'));
    let text = read(written).unwrap_or_else(|| read(whole()).unwrap());
    assert!(written.starts_with(&as_written(&text)), "{written:?} is not how {text:?} is written at its shortest");
    text
}

fn as_written(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Bytes of text as the sink gets them.
fn written_bytes(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| as_written(&segment.text).len()).sum()
}

fn scan_as(
    dialect: Dialect,
    body: &[u8],
    sizes: &[usize],
    text_bytes_max: usize,
    limits: Limits,
) -> (Scan, Vec<Segment>) {
    let mut scanner = RequestScanner::for_dialect(dialect, Recorder::new(text_bytes_max), limits);
    for chunk in chunks(body, sizes) {
        scanner.feed(chunk);
    }
    let (scan, sink) = scanner.finish();
    (scan, sink.segments)
}

fn scan_with(body: &[u8], sizes: &[usize], text_bytes_max: usize, limits: Limits) -> (Scan, Vec<Segment>) {
    scan_as(Dialect::Auto, body, sizes, text_bytes_max, limits)
}

/// Scans whole and byte by byte.
fn scan_dialect(dialect: Dialect, body: &str) -> (Scan, Vec<Segment>) {
    let whole = scan_as(dialect, body.as_bytes(), &[], usize::MAX, Limits::default());
    let by_bytes = scan_as(dialect, body.as_bytes(), &[1], usize::MAX, Limits::default());
    assert_eq!(whole, by_bytes, "the cutting made a difference: {body}");
    whole
}

fn scan(body: &str) -> (Scan, Vec<Segment>) {
    scan_dialect(Dialect::Auto, body)
}

fn segments_of(dialect: Dialect, body: &str) -> Vec<Segment> {
    let (scan, segments) = scan_dialect(dialect, body);
    assert_eq!(scan.outcome, Outcome::Complete, "{body}");
    segments
}

fn segments(body: &str) -> Vec<Segment> {
    segments_of(Dialect::Auto, body)
}

fn text_segment(role: &str, text: &str) -> Segment {
    Segment { role: role.to_owned(), text: text.to_owned(), ..Segment::default() }
}

fn id_segment(ids: &[u32]) -> Segment {
    Segment { ids: ids.to_vec(), ..Segment::default() }
}
