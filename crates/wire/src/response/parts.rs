//! Cuts a stream of server-sent events where its events end.
//!
//! Many clients of SageMaker take each part of a response stream for one event, and lose what does not begin or end with
//! one. So a part is made of each event, however the engine's bytes came: what comes of an event is held until it is
//! complete, which no client could use before. Joined, the parts are what came.
//!
//! Edge cases: an event longer than [`EVENT_BYTES_MAX`] is not held any longer, and goes on in the pieces it comes in.
//! Where a piece ends between the two characters of a line end that ends an event, the event is complete, and the second
//! character begins the next part.

use memchr::memchr2;

/// Bytes of an event that are held at most.
pub const EVENT_BYTES_MAX: usize = 256 * 1024;

/// Cuts one stream.
#[derive(Default)]
pub struct EventCutter {
    /// The beginning of an event that is not complete.
    held: Vec<u8>,
    /// Something stands in the line that the stream is in.
    in_line: bool,
    /// A carriage return came last.
    after_return: bool,
}

impl std::fmt::Debug for EventCutter {
    /// Not the text that is held.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventCutter").field("held_bytes", &self.held.len()).finish_non_exhaustive()
    }
}

impl EventCutter {
    /// Takes the next bytes, cut anywhere; gives each event that is complete.
    pub fn feed(&mut self, mut piece: &[u8], mut event: impl FnMut(&[u8])) {
        while let Some(end) = self.end_of_event(piece) {
            let (before, after) = piece.split_at(end);
            if self.held.is_empty() {
                event(before);
            } else {
                self.held.extend_from_slice(before);
                event(&self.held);
                self.held.clear();
            }
            piece = after;
        }
        self.held.extend_from_slice(piece);
        if self.held.len() > EVENT_BYTES_MAX {
            event(&self.held);
            self.held.clear();
        }
    }

    /// What is left of an event that will not be complete; empty if nothing is.
    #[must_use]
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    /// Where the event that the stream is in ends, if it does in this piece; else all of it is looked at.
    fn end_of_event(&mut self, piece: &[u8]) -> Option<usize> {
        let &first = piece.first()?;
        let mut at = usize::from(std::mem::take(&mut self.after_return) && first == b'\n');
        while let Some(length) = memchr2(b'\r', b'\n', &piece[at..]) {
            let has_text = std::mem::take(&mut self.in_line) || length > 0;
            let is_return = piece[at + length] == b'\r';
            at += length + 1;
            match piece.get(at) {
                Some(b'\n') if is_return => at += 1,
                None => self.after_return = is_return,
                Some(_) => {}
            }
            if !has_text {
                return Some(at);
            }
        }
        self.in_line |= at < piece.len();
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let (mut cutter, mut parts) = (EventCutter::default(), Vec::new());
        let mut add = |part: &[u8]| parts.push(String::from_utf8_lossy(part).into_owned());
        pieces.into_iter().for_each(|piece| cutter.feed(piece, &mut add));
        let rest = cutter.rest();
        if !rest.is_empty() {
            add(&rest);
        }
        parts
    }

    const EVENTS: [&str; 6] = [
        "data: {\"a\":1}\n\n",
        "event: x\r\ndata: b\u{20ac}c\r\n\r\n",
        ": comment\r\r",
        "data: d\ndata: e\r\n\n",
        "\n",
        "data: [DONE]\n\n",
    ];

    #[test]
    fn each_event_is_a_part_wherever_the_stream_is_cut() {
        let stream = EVENTS.concat();
        assert_eq!(cut([stream.as_bytes()]), EVENTS);
        // Within the line end that ends an event the first character is enough.
        let inside = stream.find("\r\n\r\n").unwrap() + 3;
        for at in (0..=stream.len()).filter(|&at| at != inside) {
            assert_eq!(cut([&stream.as_bytes()[..at], &stream.as_bytes()[at..]]), EVENTS, "cut at {at}");
        }
        let parts = cut([&stream.as_bytes()[..inside], &stream.as_bytes()[inside..]]);
        assert_eq!((&*parts[1], &*parts[2]), ("event: x\r\ndata: b\u{20ac}c\r\n\r", "\n: comment\r\r"));
    }

    #[test]
    fn what_is_left_is_given_and_what_is_too_long_is_not_held() {
        assert_eq!(cut([&b"data: a\n\ndata: b"[..], b"c"]), ["data: a\n\n", "data: bc"]);
        let long = vec![b'x'; EVENT_BYTES_MAX];
        assert_eq!(cut([&long[..], b"y", b"z\n\n"]).iter().map(String::len).collect::<Vec<_>>(), [long.len() + 1, 3]);
    }

    proptest! {
        #[test]
        fn joined_parts_are_the_stream(
            stream in "[a\r\n]{0,40}",
            sizes in proptest::collection::vec(1usize..9, 1..20),
        ) {
            let (mut rest, mut pieces) = (stream.as_bytes(), Vec::new());
            for size in sizes {
                let (piece, after) = rest.split_at(size.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(cut(pieces).concat(), stream);
        }
    }
}
