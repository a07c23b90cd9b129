//! Takes whole events out of a stream and leaves every other byte of it as it was.
//!
//! It exists for one feature: where the gateway has asked an engine for usage that the client did not ask for, the event
//! that brings it must not reach the client. A relay that wrote events anew would change streams in ways nobody asked
//! for; this one passes slices of the chunks that it gets, and keeps back only an event that is not complete.
//!
//! Edge cases:
//! - Comments before an event pass at once, whatever becomes of the event, so that a keep-alive is not held up.
//! - What the stream ends in the middle of comes out of [`SseFilter::finish`]: it is no event, but it was sent.
//! - After an event that is longer than the limit everything passes, and [`SseFilter::is_overlong`] says so.

use bytes::Bytes;

use super::sse::{SseEvent, SseReader};

/// Filters one stream.
#[derive(Debug)]
pub struct SseFilter {
    reader: SseReader,
    /// The bytes that have come since `held_from`: an event that is not complete.
    held: Vec<u8>,
    held_from: u64,
    /// An event was taken out whose empty line ended with CR, so an LF that follows belongs to it.
    drops_lf: bool,
}

impl SseFilter {
    /// A filter at the beginning of a stream that keeps back at most `event_bytes_max` bytes.
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Self {
        Self { reader: SseReader::new(event_bytes_max), held: Vec::new(), held_from: 0, drops_lf: false }
    }

    /// Takes the next bytes of the stream, asks `keep` about every event they complete, and gives what may pass to
    /// `pass`, in order and never empty.
    pub fn feed(&mut self, chunk: &Bytes, mut keep: impl FnMut(SseEvent<'_>) -> bool, mut pass: impl FnMut(Bytes)) {
        if chunk.is_empty() {
            return;
        }
        let chunk_at = self.held_from + self.held.len() as u64;
        let chunk_end = chunk_at + chunk.len() as u64;
        // Up to here the stream has been dealt with.
        let mut done = self.held_from;
        if std::mem::take(&mut self.drops_lf) && chunk[0] == b'\n' {
            done = chunk_at + 1;
        }
        let held = std::mem::take(&mut self.held);
        let mut pass_range = |start: u64, end: u64| pass_bytes(&held, chunk, chunk_at, (start, end), &mut pass);
        // The reader keeps telling that an event was overlong.
        let _ = self.reader.feed(chunk, |event| {
            let range = event.range.clone();
            if !keep(event) {
                pass_range(done, range.start);
                done = range.end;
            }
        });
        let pending_from = if self.reader.is_overlong() { chunk_end } else { self.reader.pending_from() };
        pass_range(done, pending_from);
        self.drops_lf = done == chunk_end && self.reader.is_after_cr();
        self.hold(held, chunk, chunk_at, pending_from.max(done));
    }

    /// What was kept back when the stream ended.
    #[must_use]
    pub fn finish(self) -> Bytes {
        self.held.into()
    }

    /// An event was longer than the limit, and nothing is taken out any more.
    #[must_use]
    pub fn is_overlong(&self) -> bool {
        self.reader.is_overlong()
    }

    /// Keeps what has come from `from` on.
    fn hold(&mut self, mut held: Vec<u8>, chunk: &[u8], chunk_at: u64, from: u64) {
        if from < chunk_at {
            // The event that was not complete goes on.
            held.extend_from_slice(chunk);
        } else {
            held.clear();
            held.extend_from_slice(&chunk[index(from - chunk_at)..]);
            self.held_from = from;
        }
        self.held = held;
    }
}

/// Passes the bytes of the stream from `start` to `end`: those before the chunk, at `chunk_at`, are the held ones.
fn pass_bytes(held: &[u8], chunk: &Bytes, chunk_at: u64, (start, end): (u64, u64), pass: &mut impl FnMut(Bytes)) {
    if start >= end {
        return;
    }
    if start < chunk_at {
        let held_from = chunk_at - held.len() as u64;
        pass(Bytes::copy_from_slice(&held[index(start - held_from)..index(end.min(chunk_at) - held_from)]));
    }
    if end > chunk_at {
        pass(chunk.slice(index(start.saturating_sub(chunk_at))..index(end - chunk_at)));
    }
}

/// A distance inside one chunk or the held bytes, which fits.
fn index(distance: u64) -> usize {
    usize::try_from(distance).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_sizes, chunks};

    /// Filters out every event whose data begins with `drop`.
    fn filtered(stream: &[u8], sizes: &[usize], event_bytes_max: usize) -> (Vec<u8>, bool) {
        let mut filter = SseFilter::new(event_bytes_max);
        let mut out = vec![];
        for chunk in chunks(stream, sizes) {
            let pass = |piece: Bytes| {
                assert!(!piece.is_empty());
                out.extend_from_slice(&piece);
            };
            filter.feed(&Bytes::copy_from_slice(chunk), |event| !event.data.starts_with(b"drop"), pass);
            assert!(filter.held.len() <= event_bytes_max + 2, "what is kept back is bounded");
        }
        let overlong = filter.is_overlong();
        out.extend_from_slice(&filter.finish());
        (out, overlong)
    }

    fn filtered_text(stream: &str) -> String {
        let whole = filtered(stream.as_bytes(), &[], 1 << 16).0;
        for size in 1..5 {
            assert_eq!(filtered(stream.as_bytes(), &[size], 1 << 16).0, whole, "cut by {size}: {stream:?}");
        }
        String::from_utf8(whole).unwrap()
    }

    /// S38: what surrounds an event that is taken out keeps its form.
    #[test]
    fn only_the_event_itself_goes() {
        for (stream, expected) in [
            ("data: a\n\ndata: drop\n\ndata: [DONE]\n\n", "data: a\n\ndata: [DONE]\n\n"),
            ("data: a\r\n\r\ndata: drop\r\n\r\ndata: b\r\n\r\n", "data: a\r\n\r\ndata: b\r\n\r\n"),
            ("data: drop\r\rdata: b\r\r", "data: b\r\r"),
            (": c\nevent: e\nid: 1\ndata: drop\n: d\ndata: x\n\n: e\n\n", ": c\n: e\n\n"),
            ("data: drop\n\n\n\ndata:drop\n\n", "\n\n"),
            ("data: a\ndata: drop\n\n", "data: a\ndata: drop\n\n"),
            ("data: a\n\ndata: drop", "data: a\n\ndata: drop"),
            ("id: 1\n\ndata: drop\n\n", "id: 1\n\n"),
            ("", ""),
        ] {
            assert_eq!(filtered_text(stream), expected, "{stream:?}");
        }
    }

    #[test]
    fn a_comment_is_not_held_up_by_what_follows() {
        let mut filter = SseFilter::new(100);
        let mut passed = vec![];
        filter.feed(&Bytes::from_static(b": keep-alive\ndata: dr"), |_| true, |piece| passed.push(piece));
        assert_eq!(passed, [&b": keep-alive\n"[..]]);
    }

    #[test]
    fn what_passes_is_not_copied() {
        let chunk = Bytes::from_static(b"data: a\n\ndata: drop\n\ndata: b\n\n");
        let mut passed = vec![];
        SseFilter::new(100).feed(&chunk, |event| event.data != b"drop", |piece| passed.push(piece.as_ptr()));
        assert_eq!(passed, [chunk.as_ptr(), chunk[21..].as_ptr()]);
    }

    #[test]
    fn after_an_overlong_event_everything_passes() {
        let stream = format!("data: drop\n\ndata: {}\n\ndata: drop\n\n", "x".repeat(100));
        for sizes in [vec![], vec![1], vec![7]] {
            assert_eq!(filtered(stream.as_bytes(), &sizes, 50), (stream.as_bytes()[12..].to_vec(), true));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn the_cut_makes_no_difference_and_no_other_event_is_touched(
            lines in prop::collection::vec(
                (
                    prop::sample::select(vec!["", "", "data: drop", "data: a", ": c", "event: e", "id: 1", "drop"]),
                    prop::sample::select(vec!["\n", "\n", "\r", "\r\n"]),
                ),
                0..30,
            ),
            sizes in any_sizes(),
            event_bytes_max in prop_oneof![Just(1usize << 16), 1usize..40],
        ) {
            let stream: String = lines.iter().map(|(line, end)| format!("{line}{end}")).collect();
            let whole = filtered(stream.as_bytes(), &[], event_bytes_max);
            prop_assert_eq!(&filtered(stream.as_bytes(), &sizes, event_bytes_max), &whole);
            let (mut kept, mut left) = (vec![], vec![]);
            let mut reader = SseReader::new(1 << 16);
            reader.feed(stream.as_bytes(), |event| kept.push(event.data.to_vec())).unwrap();
            if event_bytes_max == 1 << 16 {
                kept.retain(|data| !data.starts_with(b"drop"));
                SseReader::new(1 << 16).feed(&whole.0, |event| left.push(event.data.to_vec())).unwrap();
                prop_assert_eq!(left, kept);
            }
        }
    }
}
