//! Server-sent events, as a client reads them.
//!
//! Bytes arrive in pieces cut anywhere: within a line, within a character, between `\r` and `\n`. Only
//! `data` matters here; event names, ids, retry times and comments are skipped. An event counts when
//! its empty line has come (WHATWG HTML 9.2.6), so a stream cut within an event yields no half of it.

use super::failure::{Failure, FailureKind};

/// Bytes of one event's data, and of one line. Chunks of a completion are far smaller.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// Splits a byte stream into the data of its events.
#[derive(Debug, Default)]
pub(super) struct SseReader {
    /// The line being read, without its end.
    line: Vec<u8>,
    /// Data of the event being read; lines are joined by `\n`.
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was `\r`, so a `\n` belongs to it.
    after_cr: bool,
    /// A line has ended already, so a byte-order mark is no longer possible.
    past_first_line: bool,
}

impl SseReader {
    /// Reads on, calling `event` with the data of each complete event. Stops at its first failure.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut event: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|b| matches!(b, b'\r' | b'\n')) else {
                return self.extend_line(bytes);
            };
            self.extend_line(&bytes[..end])?;
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(&mut event)?;
        }
        Ok(())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.line.len() + bytes.len() > EVENT_BYTES_MAX {
            return Err(Failure::new(FailureKind::TooLarge, "event line too long"));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, event: &mut impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut line = self.line.as_slice();
        if !std::mem::replace(&mut self.past_first_line, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                event(&self.data)?;
            }
            self.data.clear();
        } else if let Some(value) = data_field(line) {
            if self.data.len() + value.len() >= EVENT_BYTES_MAX {
                return Err(Failure::new(FailureKind::TooLarge, "event too long"));
            }
            if std::mem::replace(&mut self.has_data, true) {
                self.data.push(b'\n');
            }
            self.data.extend_from_slice(value);
        }
        self.line.clear();
        Ok(())
    }
}

/// The value of a `data` line: what follows the colon and one space, nothing for a bare `data`.
fn data_field(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    match rest.split_first() {
        None => Some(rest),
        Some((b':', value)) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events_of<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
        let mut reader = SseReader::default();
        let mut events = Vec::new();
        for piece in pieces {
            let read = reader.push(piece, |data| {
                events.push(data.to_vec());
                Ok(())
            });
            read.unwrap();
        }
        events
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        let cases: [(&str, &[&str]); 10] = [
            ("data: a\n\ndata: b\n\n", &["a", "b"]),
            ("data: a\r\n\r\ndata: b\r\rdata:c\n\n", &["a", "b", "c"]),
            ("data: a\ndata: b\n\n", &["a\nb"]),
            ("data:  a\n\n", &[" a"]),
            ("data\n\n", &[""]),
            (": comment\n\nevent: x\nid: 1\n\n", &[]),
            ("event: x\ndata: a\nretry: 5\n\n", &["a"]),
            ("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["a"]),
            ("database: a\n\ndata: cut off\n", &[]),
            ("\n\n\ndata: [DONE]\n\n\n", &["[DONE]"]),
        ];
        for (stream, expected) in cases {
            let events = events_of([stream.as_bytes()]);
            let events: Vec<_> = events.iter().map(|e| str::from_utf8(e).unwrap()).collect();
            assert_eq!(events, expected, "{stream:?}");
        }
    }

    #[test]
    fn an_endless_line_or_event_is_refused() {
        let line = vec![b'x'; EVENT_BYTES_MAX + 1];
        let refused = SseReader::default().push(&line, |_| Ok(()));
        assert_eq!(refused.unwrap_err().kind, FailureKind::TooLarge);

        let mut reader = SseReader::default();
        let line = format!("data: {}\n", "y".repeat(1 << 16));
        let refused = (0..20).find_map(|_| reader.push(line.as_bytes(), |_| Ok(())).err());
        assert_eq!(refused.unwrap().kind, FailureKind::TooLarge);
    }

    /// Splits a whole stream into lines first and events second.
    fn oracle(stream: &str) -> Vec<Vec<u8>> {
        let unified = stream.replace("\r\n", "\n").replace('\r', "\n");
        let mut blocks: Vec<Vec<&str>> = vec![Vec::new()];
        let mut lines: Vec<&str> = unified.split('\n').collect();
        lines.pop();
        for line in lines {
            match line {
                "" => blocks.push(Vec::new()),
                line => blocks.last_mut().unwrap().push(line),
            }
        }
        blocks.pop();
        let data = |line: &&str| match line.split_once(':') {
            Some(("data", value)) => Some(value.strip_prefix(' ').unwrap_or(value).to_owned()),
            None if *line == "data" => Some(String::new()),
            _ => None,
        };
        let joined = |block: &Vec<&str>| {
            let values: Vec<String> = block.iter().filter_map(data).collect();
            (!values.is_empty()).then(|| values.join("\n").into_bytes())
        };
        blocks.iter().filter_map(joined).collect()
    }

    proptest! {
        #[test]
        fn any_cut_of_any_stream_gives_the_same_events(
            parts in prop::collection::vec(
                prop::sample::select(vec!["data: ", "data:", "data", "x", ":", " ", "\n", "\r", "\r\n", "\n\n", "é"]),
                0..40,
            ),
            cuts in prop::collection::vec(0_usize..120, 0..10),
        ) {
            let stream = parts.concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(stream.len())).collect();
            cuts.extend([0, stream.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|w| &stream.as_bytes()[w[0]..w[1]]);
            prop_assert_eq!(events_of(pieces), oracle(&stream));
        }
    }
}
