//! What a stream tells does not depend on how it is cut, nor does what a filter leaves of it.
#![no_main]

use bytes::Bytes;
use kvroute_fuzz::{chunks, split};
use kvroute_wire::response::{EventCutter, EventFacts, SseFilter, SseReader, StreamFacts, StreamObserver, Usage};
use libfuzzer_sys::fuzz_target;

type Observed = (Vec<EventFacts>, Option<Usage>, Option<String>, [bool; 4]);

fn observed(bytes: &[u8], cut: u8, limit: usize) -> Observed {
    let (mut observer, mut events) = (StreamObserver::new(limit), vec![]);
    for chunk in chunks(bytes, cut) {
        observer.feed(chunk, |facts| events.push(facts));
    }
    let told = [observer.has_content(), observer.has_error(), observer.is_done(), observer.is_overlong()];
    (events, observer.usage(), observer.response_id().map(str::to_owned), told)
}

/// Without the events that only bring usage.
fn filtered(bytes: &[u8], cut: u8, limit: usize) -> Vec<u8> {
    let (mut filter, mut facts, mut out) = (SseFilter::new(limit), StreamFacts::new(), vec![]);
    for chunk in chunks(bytes, cut) {
        let chunk = Bytes::copy_from_slice(chunk);
        filter.feed(&chunk, |event| !facts.event(&event).usage_only, |piece| out.extend_from_slice(&piece));
    }
    out.extend_from_slice(&filter.finish());
    out
}

fn events(bytes: &[u8], keep: impl Fn(&EventFacts) -> bool) -> Vec<Vec<u8>> {
    let (mut reader, mut facts, mut out) = (SseReader::new(usize::MAX), StreamFacts::new(), vec![]);
    let outcome = reader.feed(bytes, |event| {
        if keep(&facts.event(&event)) {
            out.push(event.data.to_vec());
        }
    });
    assert!(outcome.is_ok());
    out
}

/// The parts of a native stream, joined.
fn parts(bytes: &[u8], cut: u8) -> Vec<u8> {
    let (mut cutter, mut out) = (EventCutter::default(), vec![]);
    for chunk in chunks(bytes, cut) {
        cutter.feed(chunk, |part| out.extend_from_slice(part));
    }
    out.extend_from_slice(&cutter.rest());
    out
}

fuzz_target!(|data: &[u8]| {
    let Some((variant, cut, bytes)) = split(data) else { return };
    let limit = if variant < 128 { 1 << 20 } else { usize::from(variant) - 100 };
    assert_eq!(observed(bytes, 0, limit), observed(bytes, cut, limit));
    assert_eq!(parts(bytes, cut), bytes);
    let left = filtered(bytes, cut, limit);
    assert_eq!(filtered(bytes, 0, limit), left);
    if variant < 128 && !bytes.starts_with(b"\xEF\xBB\xBF") {
        // A byte order mark goes with the first event; what is first then may begin with another, which is none there.
        assert_eq!(events(&left, |_| true), events(bytes, |facts| !facts.usage_only));
    }
});
