//! What is to be written: text that is made here, and pieces of an answer that are not copied.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use kvroute_wire::http1::write_chunk_size;
use smallvec::SmallVec;
use tokio::io::AsyncWrite;

/// Pieces up to this size are copied: that costs less than a part of their own.
const COPY_BYTES_MAX: usize = 1_024;
/// With so much waiting no more is asked for.
const FULL_BYTES: usize = 64 << 10;
/// Of the memory for text, what is kept for the next answer.
const KEPT_BYTES: usize = 4 << 10;
/// Parts that one write takes at most.
const PARTS_MAX: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// All of the text, kept until everything is written.
    text: Vec<u8>,
    parts: SmallVec<[Part; 8]>,
    /// What was written: whole parts, and bytes of the one after them.
    written: (usize, usize),
    bytes: usize,
}

#[derive(Debug)]
enum Part {
    Text(Range<usize>),
    Piece(Bytes),
}

impl Outgoing {
    /// Adds what `write` appends.
    pub(super) fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.text.len();
        write(&mut self.text);
        let end = self.text.len();
        self.bytes += end - begin;
        match self.parts.last_mut() {
            Some(Part::Text(range)) => range.end = end,
            _ => self.parts.push(Part::Text(begin..end)),
        }
    }

    /// Adds a piece of a body.
    pub(super) fn piece(&mut self, piece: Bytes) {
        if piece.len() <= COPY_BYTES_MAX {
            self.text(|text| text.extend_from_slice(&piece));
        } else {
            self.bytes += piece.len();
            self.parts.push(Part::Piece(piece));
        }
    }

    /// Adds a piece of a body as a chunk.
    pub(super) fn chunk(&mut self, piece: Bytes) {
        self.text(|text| write_chunk_size(text, piece.len()));
        self.piece(piece);
        self.text(|text| text.extend_from_slice(b"\r\n"));
    }

    /// Whether enough waits.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= FULL_BYTES || self.parts.len() + 2 > PARTS_MAX
    }

    fn slices(&self) -> SmallVec<[io::IoSlice<'_>; PARTS_MAX]> {
        let (parts, bytes) = self.written;
        let mut slices = SmallVec::new();
        for (i, part) in self.parts[parts..].iter().take(PARTS_MAX).enumerate() {
            let whole = match part {
                Part::Text(range) => &self.text[range.clone()],
                Part::Piece(piece) => piece,
            };
            slices.push(io::IoSlice::new(if i == 0 { &whole[bytes..] } else { whole }));
        }
        slices
    }

    fn advance(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        let (parts, of_part) = &mut self.written;
        while let Some(part) = self.parts.get(*parts) {
            let left = match part {
                Part::Text(range) => range.len(),
                Part::Piece(piece) => piece.len(),
            } - *of_part;
            if bytes < left {
                *of_part += bytes;
                return;
            }
            bytes -= left;
            (*parts, *of_part) = (*parts + 1, 0);
        }
    }

    /// Writes all that waits.
    pub(super) fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.bytes > 0 {
            let wrote = Pin::new(&mut *stream).poll_write_vectored(cx, &self.slices());
            match ready!(wrote)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.advance(written),
            }
        }
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES);
        self.parts.clear();
        self.written = (0, 0);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn everything_is_written_in_its_order_however_little_is_taken_at_a_time() {
        for room_bytes in [1, 3, 700, 1 << 20] {
            let (mut near, mut far) = tokio::io::duplex(room_bytes);
            let (small, large) = (vec![b's'; COPY_BYTES_MAX], vec![b'l'; COPY_BYTES_MAX + 1]);
            let mut expected = Vec::new();
            let mut out = Outgoing::default();
            let written = tokio::spawn({
                let (small, large) = (Bytes::from(small.clone()), Bytes::from(large.clone()));
                async move {
                    for _ in 0..3 {
                        out.text(|text| text.extend_from_slice(b"head"));
                        out.chunk(small.clone());
                        out.chunk(large.clone());
                        assert!(!out.is_full());
                        out.piece(large.clone());
                        poll_fn(|cx| out.poll_write(&mut near, cx)).await.unwrap();
                    }
                }
            });
            for _ in 0..3 {
                for part in [&b"head400\r\n"[..], &small, b"\r\n401\r\n", &large, b"\r\n", &large] {
                    expected.extend_from_slice(part);
                }
            }
            let mut got = Vec::new();
            far.read_to_end(&mut got).await.unwrap();
            written.await.unwrap();
            assert!(got == expected, "with room for {room_bytes}");
        }
    }

    #[test]
    fn it_is_full_with_much_or_with_many() {
        let mut out = Outgoing::default();
        out.piece(Bytes::from(vec![0; FULL_BYTES - 1]));
        assert!(!out.is_full());
        out.text(|text| text.push(0));
        assert!(out.is_full());
        let mut out = Outgoing::default();
        while !out.is_full() {
            out.chunk(Bytes::from(vec![0; COPY_BYTES_MAX + 1]));
        }
        assert!(out.parts.len() <= PARTS_MAX + 1 && out.bytes < FULL_BYTES);
    }
}
