//! Events out of a `text/event-stream`, by the WHATWG grammar.
//!
//! Lines end with LF, CR or CRLF; a byte order mark before the first line is ignored; a line that begins with a colon is
//! a comment; several `data` lines are joined with LF; an event ends at an empty line and is dropped if it has no `data`
//! line. `id` and `retry` mean nothing to a relay and are ignored. An event that the stream ends in the middle of does
//! not count. Reads may cut anywhere.
//!
//! An event that lies in one chunk and has one `data` line is given without copying. What must be kept between chunks is
//! bounded: where an event, from its first line on, is longer than the limit, the reader gives up for good, and says so,
//! since it can no longer tell where events are.

use std::fmt;
use std::ops::Range;

use memchr::memchr2;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event` field; empty where absent, which means `message`.
    pub event_type: &'a [u8],
    /// The `data` lines, joined with LF.
    pub data: &'a [u8],
    /// Where it is in the stream: from its first line that is no comment to after the empty line. The LF of a CRLF is
    /// part of it only if it came together with the CR.
    pub range: Range<u64>,
}

/// An event was longer than the limit; no further event is found in this stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlong {
    /// The limit in bytes.
    pub event_bytes_max: usize,
}

impl fmt::Display for Overlong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.event_bytes_max;
        write!(f, "an event of the stream is longer than {limit} bytes and is not looked into: raise the limit")
    }
}

impl std::error::Error for Overlong {}

/// The `data` of the event being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    Absent,
    /// One line, at this range of the current chunk.
    InChunk {
        start: usize,
        end: usize,
    },
    /// In `SseReader::data`.
    Kept,
}

/// Finds the events of one stream.
#[derive(Debug)]
pub struct SseReader {
    event_bytes_max: usize,
    /// Bytes of the stream before the current chunk.
    offset: u64,
    /// Where the current line begins in the stream.
    line_start: u64,
    /// Where the current event begins in the stream, once it has a line that is no comment.
    event_start: Option<u64>,
    /// The beginning of a line that the last chunk ended in.
    line: Vec<u8>,
    data: Vec<u8>,
    data_is: Data,
    event_type: Vec<u8>,
    /// The last line ended with CR, so an LF that follows belongs to it.
    after_cr: bool,
    first_line: bool,
    overlong: bool,
}

impl SseReader {
    /// A reader at the beginning of a stream that keeps at most `event_bytes_max` bytes of an event.
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            offset: 0,
            line_start: 0,
            event_start: None,
            line: Vec::new(),
            data: Vec::new(),
            data_is: Data::Absent,
            event_type: Vec::new(),
            after_cr: false,
            first_line: true,
            overlong: false,
        }
    }

    /// Takes the next bytes and calls `on_event` for every event they complete.
    ///
    /// # Errors
    /// This chunk or an earlier one made an event longer than the limit.
    pub fn feed(&mut self, chunk: &[u8], mut on_event: impl FnMut(SseEvent<'_>)) -> Result<(), Overlong> {
        let mut at = 0;
        while !self.overlong && at < chunk.len() {
            if std::mem::take(&mut self.after_cr) && chunk[at] == b'\n' {
                at += 1;
                self.line_start += 1;
                continue;
            }
            let Some(found) = memchr2(b'\n', b'\r', &chunk[at..]) else {
                self.keep_line(chunk, at);
                break;
            };
            let end = at + found;
            self.after_cr = chunk[end] == b'\r';
            self.line_complete(chunk, at, end, &mut on_event);
            at = end + 1;
            self.line_start = self.offset + at as u64;
        }
        self.keep_data(chunk);
        self.offset += chunk.len() as u64;
        if self.overlong { Err(Overlong { event_bytes_max: self.event_bytes_max }) } else { Ok(()) }
    }

    /// An event was longer than the limit.
    #[must_use]
    pub fn is_overlong(&self) -> bool {
        self.overlong
    }

    /// Where in the stream the event begins that is not complete yet, or the line that may begin one.
    pub(super) fn pending_from(&self) -> u64 {
        self.event_start.unwrap_or(self.line_start)
    }

    /// The last byte was a CR, so an LF that follows belongs to it.
    pub(super) fn is_after_cr(&self) -> bool {
        self.after_cr
    }

    /// The line is `self.line` and then `chunk[start..end]`.
    fn line_complete(&mut self, chunk: &[u8], start: usize, end: usize, on_event: &mut impl FnMut(SseEvent<'_>)) {
        if self.line.is_empty() {
            if self.fits(end) {
                let mut start = start;
                if std::mem::take(&mut self.first_line) && chunk[start..end].starts_with(b"\xEF\xBB\xBF") {
                    start += 3;
                }
                let event_end = self.event_end(chunk, end);
                self.field(chunk, start..end, event_end, on_event);
            }
            return;
        }
        if self.keep_line(&chunk[..end], start) {
            self.keep_data(chunk);
            let line = std::mem::take(&mut self.line);
            let bom = std::mem::take(&mut self.first_line) && line.starts_with(b"\xEF\xBB\xBF");
            let event_end = self.event_end(chunk, end);
            self.field(&line, if bom { 3 } else { 0 }..line.len(), event_end, on_event);
            // The line is not a place that data may stay in; its memory is used again.
            self.keep_data(&line);
            self.line = line;
            self.line.clear();
        }
    }

    /// Where in the stream an event ends whose last line ends at `end` of the chunk.
    fn event_end(&self, chunk: &[u8], end: usize) -> u64 {
        let line_end = if chunk[end..].starts_with(b"\r\n") { 2 } else { 1 };
        self.offset + end as u64 + line_end
    }

    /// A complete line, at `at` of `buffer`; `event_end` is where the event ends if it does so here.
    fn field(&mut self, buffer: &[u8], at: Range<usize>, event_end: u64, on_event: &mut impl FnMut(SseEvent<'_>)) {
        let Range { start, end } = at;
        let line = &buffer[start..end];
        if line.is_empty() {
            self.dispatch(buffer, event_end, on_event);
            return;
        }
        if line[0] != b':' {
            self.event_start.get_or_insert(self.line_start);
        }
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let mut value = (colon + 1).min(line.len());
        if line.get(value) == Some(&b' ') {
            value += 1;
        }
        match &line[..colon] {
            b"data" => self.data_line(buffer, start + value, end),
            b"event" => {
                self.event_type.clear();
                self.event_type.extend_from_slice(&line[value..]);
            }
            _ => {}
        }
    }

    fn data_line(&mut self, buffer: &[u8], start: usize, end: usize) {
        if self.data_is == Data::Absent {
            self.data_is = Data::InChunk { start, end };
            return;
        }
        self.keep_data(buffer);
        self.data.push(b'\n');
        self.data.extend_from_slice(&buffer[start..end]);
    }

    fn dispatch(&mut self, buffer: &[u8], event_end: u64, on_event: &mut impl FnMut(SseEvent<'_>)) {
        let data = match self.data_is {
            Data::Absent => None,
            Data::InChunk { start, end } => Some(&buffer[start..end]),
            Data::Kept => Some(&self.data[..]),
        };
        let start = self.event_start.take();
        if let (Some(data), Some(start)) = (data, start) {
            on_event(SseEvent { event_type: &self.event_type, data, range: start..event_end });
        }
        self.data_is = Data::Absent;
        self.data.clear();
        self.event_type.clear();
    }

    /// Moves data that lies in `buffer` to where it outlives it.
    fn keep_data(&mut self, buffer: &[u8]) {
        if let Data::InChunk { start, end } = self.data_is {
            self.data.extend_from_slice(&buffer[start..end]);
            self.data_is = Data::Kept;
        }
    }

    /// Keeps `chunk[start..]`, a piece of a line that is not complete in its chunk; `false` when it is too long.
    fn keep_line(&mut self, chunk: &[u8], start: usize) -> bool {
        let fits = self.fits(chunk.len());
        if fits {
            self.line.extend_from_slice(&chunk[start..]);
        }
        fits
    }

    /// The event may reach up to `end` of the chunk; otherwise everything kept is let go.
    fn fits(&mut self, end: usize) -> bool {
        if self.offset + end as u64 - self.pending_from() > self.event_bytes_max as u64 {
            self.overlong = true;
            (self.line, self.data, self.event_type) = Default::default();
            self.data_is = Data::Absent;
        }
        !self.overlong
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_sizes, chunks};

    type Event = (String, String);

    fn read(stream: &[u8], sizes: &[usize], event_bytes_max: usize) -> (Vec<Event>, bool) {
        let mut reader = SseReader::new(event_bytes_max);
        let mut events = vec![];
        let (mut overlong, mut before) = (false, 0);
        for chunk in chunks(stream, sizes) {
            let outcome = reader.feed(chunk, |event| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                let lines = &stream[event.range.start as usize..event.range.end as usize];
                assert!(lines.ends_with(b"\n") || lines.ends_with(b"\r"), "an event ends with its empty line");
                assert!(event.range.start >= before, "events follow each other");
                before = event.range.end;
                events.push((text(event.event_type), text(event.data)));
            });
            overlong = outcome.is_err();
        }
        (events, overlong)
    }

    /// The grammar over a whole stream, as the standard words it.
    fn oracle(stream: &str) -> Vec<Event> {
        let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
        let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
        let mut lines: Vec<&str> = stream.split('\n').collect();
        lines.pop();
        let (mut events, mut data, mut event_type) = (vec![], String::new(), String::new());
        for line in lines {
            if line.is_empty() {
                if let Some(data) = data.strip_suffix('\n') {
                    events.push((event_type.clone(), data.to_owned()));
                }
                data.clear();
                event_type.clear();
            } else {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "data" => data = data + value + "\n",
                    "event" => value.clone_into(&mut event_type),
                    _ => {}
                }
            }
        }
        events
    }

    fn any_stream() -> impl Strategy<Value = String> {
        let token = prop_oneof![
            4 => prop::sample::select(vec!["\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n"]).prop_map(str::to_owned),
            4 => prop::sample::select(vec![
                "data", "data:", "data: ", "data:  x", "data: {\"a\":1}", ": comment", ":", "event: e", "event:", "id: 1",
                "retry: 5", "datax: 1", " data: 1", "\u{feff}", "data: [DONE]", "data:é漢😀",
            ]).prop_map(str::to_owned),
            1 => "[a-z: \r\n]{0,6}",
        ];
        (prop::bool::ANY, prop::collection::vec(token, 0..30))
            .prop_map(|(bom, tokens)| if bom { "\u{feff}".to_owned() } else { String::new() } + &tokens.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// S37: however a stream is cut, its events are those of the whole.
        #[test]
        fn any_cut_gives_the_events_of_the_standard(stream in any_stream(), sizes in any_sizes()) {
            prop_assert_eq!(read(stream.as_bytes(), &sizes, 1 << 20), (oracle(&stream), false));
        }

        #[test]
        fn the_limit_does_not_depend_on_the_cut(stream in any_stream(), sizes in any_sizes(), limit in 0usize..40) {
            let whole = read(stream.as_bytes(), &[], limit);
            prop_assert_eq!(read(stream.as_bytes(), &sizes, limit), whole.clone());
            prop_assert!(oracle(&stream).starts_with(&whole.0));
        }
    }

    #[test]
    fn an_event_in_one_chunk_is_not_copied() {
        let chunk = b": c\n\ndata: one\n\ndata:two\r\n\r\n";
        let inside = chunk.as_ptr_range();
        let mut count = 0;
        SseReader::new(100)
            .feed(chunk, |event| {
                assert!(inside.contains(&event.data.as_ptr()));
                count += 1;
            })
            .unwrap();
        assert_eq!(count, 2);
    }

    #[test]
    fn an_overlong_event_silences_the_reader_and_keeps_nothing() {
        let mut reader = SseReader::new(64);
        for _ in 0..10_000 {
            let _ = reader.feed(b"data: endless", |_| unreachable!("no line ends"));
            assert!(reader.line.capacity() + reader.data.capacity() <= 256);
        }
        let error = reader.feed(b"\n\ndata: x\n\n", |_| unreachable!("silent after giving up")).unwrap_err();
        assert_eq!(error, Overlong { event_bytes_max: 64 });
    }

    #[test]
    fn every_line_of_an_event_counts_toward_its_limit() {
        let stream = format!(": before\nevent: {}\n: x\nid: 1\ndata: 12345678\n\n", "e".repeat(50));
        let limit = stream.len() - ": before\n".len() - "\n".len();
        assert_eq!(read(stream.as_bytes(), &[], limit), (vec![("e".repeat(50), "12345678".to_owned())], false));
        assert_eq!(read(stream.as_bytes(), &[], limit - 2), (vec![], true));
    }

    #[test]
    fn endless_comments_are_no_event() {
        let mut reader = SseReader::new(64);
        for _ in 0..10_000 {
            reader.feed(b": keep-alive\n", |_| unreachable!("a comment is no event")).unwrap();
        }
        let mut seen = 0;
        reader.feed(b"data: x\n\n", |_| seen += 1).unwrap();
        assert_eq!(seen, 1);
    }
}
