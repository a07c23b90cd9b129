//! Bytes to rows: the pieces of a file that a format reads one at a time.
//!
//! A row is a line; or, where the file is one JSON document, an element of its array or a value of those that follow each
//! other over several lines. Which of them it is tell the first bytes. No row is longer than [`ROW_BYTES_MAX`]: a longer
//! one is passed over, and told as such.

use std::io::{self, Read};

use memchr::{memchr, memchr_iter};

/// Longest row, bytes.
pub(super) const ROW_BYTES_MAX: usize = 64 << 20;

/// Bytes asked for at a time.
const READ_BYTES: usize = 256 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How a file is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// At the ends of its lines.
    Lines,
    /// At the ends of JSON values that stand behind each other.
    Values,
    /// At the ends of the elements of one JSON array.
    Elements,
}

/// A row.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    /// The line on which it begins, from 1 on.
    pub(super) line: u64,
    /// Its bytes, without white space around it; `None` if there were more than [`ROW_BYTES_MAX`].
    pub(super) bytes: Option<&'a [u8]>,
}

/// Cuts one file.
#[derive(Debug)]
pub(super) struct Rows {
    buffer: Vec<u8>,
    /// Where in the buffer the row begins.
    start: usize,
    cut: Option<Cut>,
    /// The line on which the row begins.
    line: u64,
    at_end: bool,
    row_bytes_max: usize,
}

/// How far a JSON value has been looked at.
#[derive(Debug, Default)]
struct Scan {
    /// Bytes of it.
    seen: usize,
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self::with_limit(ROW_BYTES_MAX)
    }

    fn with_limit(row_bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, cut: None, line: 1, at_end: false, row_bytes_max }
    }

    /// The next row that is not empty.
    pub(super) fn next(&mut self, read: &mut impl Read) -> io::Result<Option<Row<'_>>> {
        let cut = match self.cut {
            Some(cut) => cut,
            None => self.decide(read)?,
        };
        match cut {
            Cut::Lines => self.next_line(read),
            Cut::Values | Cut::Elements => self.next_value(read, cut),
        }
    }

    /// What the file is, by its beginning. Consumes what comes before its first row.
    fn decide(&mut self, read: &mut impl Read) -> io::Result<Cut> {
        while self.buffer.len() < BYTE_ORDER_MARK.len() && self.fill(read)? {}
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.start = BYTE_ORDER_MARK.len();
        }
        let first = self.skip_white(read)?;
        let cut = match first {
            Some(b'[') if self.begins_array(read)? => {
                self.start += 1;
                Cut::Elements
            }
            Some(b'{') if !self.first_line_is_a_value(read)? => Cut::Values,
            _ => Cut::Lines,
        };
        self.cut = Some(cut);
        Ok(cut)
    }

    /// What begins with a bracket is an array of objects, or a line of a log that begins with a time in brackets.
    fn begins_array(&mut self, read: &mut impl Read) -> io::Result<bool> {
        let mut at = 1;
        loop {
            match self.buffer.get(self.start + at).copied() {
                Some(byte) if byte.is_ascii_whitespace() => at += 1,
                Some(byte) => return Ok(matches!(byte, b'{' | b'[' | b']')),
                None if at > self.row_bytes_max || !self.fill(read)? => return Ok(false),
                None => {}
            }
        }
    }

    fn first_line_is_a_value(&mut self, read: &mut impl Read) -> io::Result<bool> {
        let line = self.find_newline(read)?;
        let end = line.unwrap_or(self.buffer.len());
        let line = &self.buffer[self.start..end];
        let whole = serde_json::from_slice::<serde::de::IgnoredAny>(line);
        // A first line that is damaged is not the beginning of a document that spans lines.
        Ok(!matches!(whole, Err(error) if error.is_eof()))
    }

    /// Where the line ends, looking no further than the limit.
    fn find_newline(&mut self, read: &mut impl Read) -> io::Result<Option<usize>> {
        let mut seen = self.start;
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[seen..]) {
                return Ok(Some(seen + at));
            }
            // Filling moves the row to the beginning of the buffer.
            let scanned = self.buffer.len() - self.start;
            if scanned > self.row_bytes_max || !self.fill(read)? {
                return Ok(None);
            }
            seen = self.start + scanned;
        }
    }

    fn next_line(&mut self, read: &mut impl Read) -> io::Result<Option<Row<'_>>> {
        loop {
            let newline = self.find_newline(read)?;
            let line = self.line;
            let end = match newline {
                Some(end) => end,
                None if self.buffer.len() - self.start > self.row_bytes_max => {
                    self.pass_line(read)?;
                    return Ok(Some(Row { line, bytes: None }));
                }
                None => self.buffer.len(),
            };
            let range = self.start..end;
            self.start = (end + 1).min(self.buffer.len());
            self.line += u64::from(newline.is_some());
            if !self.buffer[range.clone()].trim_ascii().is_empty() {
                let is_long = range.len() > self.row_bytes_max;
                let bytes = (!is_long).then(|| self.buffer[range].trim_ascii());
                return Ok(Some(Row { line, bytes }));
            }
            if newline.is_none() {
                return Ok(None);
            }
        }
    }

    /// Drops the rest of a line that is too long.
    fn pass_line(&mut self, read: &mut impl Read) -> io::Result<()> {
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[self.start..]) {
                self.start += at + 1;
                self.line += 1;
                return Ok(());
            }
            self.start = self.buffer.len();
            if !self.fill(read)? {
                return Ok(());
            }
        }
    }

    fn next_value(&mut self, read: &mut impl Read, cut: Cut) -> io::Result<Option<Row<'_>>> {
        loop {
            match self.skip_white(read)? {
                None => return Ok(None),
                Some(b',') => self.start += 1,
                // Nothing is expected after an array; whatever comes is read as lines.
                Some(b']') if cut == Cut::Elements => {
                    self.start += 1;
                    self.cut = Some(Cut::Lines);
                    return self.next_line(read);
                }
                Some(_) => break,
            }
        }
        let line = self.line;
        let mut scan = Scan::default();
        let mut is_long = false;
        loop {
            let ended = scan.feed(&self.buffer[self.start + scan.seen..]);
            if scan.seen > self.row_bytes_max {
                is_long = true;
                self.take(scan.seen);
                scan.seen = 0;
            }
            if ended || !self.fill(read)? {
                break;
            }
        }
        let range = self.start..self.start + scan.seen;
        self.take(scan.seen);
        Ok(Some(Row { line, bytes: (!is_long).then(|| self.buffer[range].trim_ascii()) }))
    }

    /// The first byte that is not white space; what comes before it is gone.
    fn skip_white(&mut self, read: &mut impl Read) -> io::Result<Option<u8>> {
        loop {
            let rest = &self.buffer[self.start..];
            let white = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let first = rest.get(white).copied();
            self.take(white);
            if first.is_some() || !self.fill(read)? {
                return Ok(first);
            }
        }
    }

    /// Leaves bytes behind, and counts their lines.
    fn take(&mut self, bytes: usize) {
        let taken = &self.buffer[self.start..self.start + bytes];
        self.line += memchr_iter(b'\n', taken).count() as u64;
        self.start += bytes;
    }

    /// Reads more; `false` at the end of the file. What was left behind is dropped, so the row moves to the beginning.
    fn fill(&mut self, read: &mut impl Read) -> io::Result<bool> {
        if self.at_end {
            return Ok(false);
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + READ_BYTES, 0);
        let read = loop {
            match read.read(&mut self.buffer[before..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        self.at_end = read? == 0;
        Ok(!self.at_end)
    }
}

impl Scan {
    /// Looks at more of the value; `true` once it is whole.
    fn feed(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            if self.in_string {
                self.seen += 1;
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                // The end of the array that a plain value stands in, or of the value itself.
                b',' | b']' | b'}' if self.depth == 0 && self.seen > 0 => return true,
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.seen += 1;
                        return true;
                    }
                }
                _ => {}
            }
            self.seen += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte or a few at a time.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(out.len()).min(self.0.len());
            let (now, later) = self.0.split_at(size);
            out[..size].copy_from_slice(now);
            self.0 = later;
            Ok(size)
        }
    }

    fn rows(text: &str, step: usize, row_bytes_max: usize) -> Vec<(u64, Option<String>)> {
        let (mut rows, mut read, mut found) =
            (Rows::with_limit(row_bytes_max), Drip(text.as_bytes(), step), Vec::new());
        while let Some(row) = rows.next(&mut read).unwrap() {
            found.push((row.line, row.bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())));
        }
        found
    }

    #[test]
    fn a_file_is_cut_into_rows_with_their_lines_however_it_arrives() {
        let cases: &[(&str, &[(u64, &str)])] = &[
            ("", &[]),
            ("\n \n", &[]),
            ("{\"a\":1}\n\n{\"a\":2}", &[(1, "{\"a\":1}"), (3, "{\"a\":2}")]),
            ("\u{feff}{\"a\":1}\r\n{\"a\":2}\r\n", &[(1, "{\"a\":1}"), (2, "{\"a\":2}")]),
            ("{bad\n{\"a\":2}\n", &[(1, "{bad"), (2, "{\"a\":2}")]),
            ("a,b\n1,2\n", &[(1, "a,b"), (2, "1,2")]),
            ("[{\"a\":1},\n{\"a\":[2]}]\n", &[(1, "{\"a\":1}"), (2, "{\"a\":[2]}")]),
            ("[\n  {\"a\": \"]},{\\\"\"},\n  7, \"x\"\n]", &[(2, "{\"a\": \"]},{\\\"\"}"), (3, "7"), (3, "\"x\"")]),
            ("{\n \"a\": {\"b\": 1}\n}\n{\n \"a\": 2}", &[(1, "{\n \"a\": {\"b\": 1}\n}"), (4, "{\n \"a\": 2}")]),
            ("[2026-08-01 10:00:00] INFO x\n[y\n", &[(1, "[2026-08-01 10:00:00] INFO x"), (2, "[y")]),
            ("[]", &[]),
            ("{\n\"a\": [1", &[(1, "{\n\"a\": [1")]),
        ];
        for (text, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|&(line, row)| (line, Some(row.to_owned()))).collect();
            for step in [1, 2, 3, 7, 1 << 20] {
                assert_eq!(rows(text, step, 1 << 20), expected, "{text:?} by {step}");
            }
        }
    }

    #[test]
    fn a_row_that_is_too_long_is_passed_over_and_told() {
        let long = "x".repeat(2_000_000);
        let lines = format!("{{\"a\":1}}\n{{\"{long}\":1}}\n{{\"a\":3}}\n");
        let array = format!("[{{\"a\":1}},\n{{\"{long}\":1}},\n{{\"a\":3}}]");
        for text in [lines, array] {
            for step in [1000, 1 << 20] {
                let found = rows(&text, step, 1000);
                let expected = [(1, Some("{\"a\":1}".to_owned())), (2, None), (3, Some("{\"a\":3}".to_owned()))];
                assert_eq!(found, expected);
            }
        }
    }
}
