//! The scanner gives the same for every cut, in every dialect, and keeps the order that it promises its sink.
#![no_main]

use kvroute_fuzz::{chunks, split};
use kvroute_wire::request::{Dialect, Limits, Outcome, PromptSink, RequestScanner, Scan};
use libfuzzer_sys::fuzz_target;

/// Every call, with cuts removed, since they carry no meaning.
#[derive(Debug, Default, PartialEq)]
struct Record {
    calls: Vec<(u8, Vec<u8>)>,
    open: bool,
    bytes: usize,
    bytes_max: usize,
}

impl Record {
    fn add(&mut self, call: u8, bytes: &[u8]) {
        assert!(self.open && !self.is_full(), "a call outside a segment, or although full");
        self.bytes += bytes.len();
        match self.calls.last_mut() {
            Some((last, all)) if *last == call => all.extend_from_slice(bytes),
            _ => self.calls.push((call, bytes.to_vec())),
        }
    }
}

impl PromptSink for Record {
    fn segment(&mut self, role: &[u8]) {
        assert!(!std::mem::replace(&mut self.open, true) && !self.is_full());
        self.calls.push((b's', role.to_vec()));
    }

    fn text(&mut self, bytes: &[u8]) {
        self.add(b't', bytes);
    }

    fn token_ids(&mut self, ids: &[u32]) {
        assert!(!ids.is_empty());
        self.add(b'i', &ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>());
    }

    fn media(&mut self, bytes: &[u8]) {
        self.add(b'm', bytes);
    }

    fn end_segment(&mut self) {
        assert!(std::mem::replace(&mut self.open, false));
        self.calls.push((b'e', vec![]));
    }

    fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }
}

fn scan(dialect: Dialect, bytes: &[u8], cut: u8, bytes_max: usize, limits: Limits) -> (Scan, Record) {
    let mut scanner = RequestScanner::for_dialect(dialect, Record { bytes_max, ..Record::default() }, limits);
    for chunk in chunks(bytes, cut) {
        scanner.feed(chunk);
    }
    scanner.finish()
}

fuzz_target!(|data: &[u8]| {
    let Some((variant, cut, bytes)) = split(data) else { return };
    let dialect = Dialect::ALL[usize::from(variant) % Dialect::ALL.len()];
    let (whole, calls) = scan(dialect, bytes, 0, usize::MAX, Limits::default());
    let (mut cut_scan, cut_calls) = scan(dialect, bytes, cut, usize::MAX, Limits::default());
    if let (Outcome::Malformed { .. }, Outcome::Malformed { offset }) = (&whole.outcome, &cut_scan.outcome) {
        // Bad UTF-8 is told at the beginning of its run, and a run ends where a chunk does; so may the text before it.
        assert!(*offset <= bytes.len() as u64);
        cut_scan.outcome = whole.outcome;
    } else {
        assert_eq!(calls, cut_calls);
    }
    assert_eq!(whole, cut_scan);
    let (held_bytes_max, waiting_bytes_max) = (usize::from(variant), usize::from(variant) * 4);
    for prompt_only in [false, true] {
        let tight = Limits { held_bytes_max, waiting_bytes_max, prompt_only };
        scan(dialect, bytes, cut, usize::from(cut) + 1, tight);
    }
});
