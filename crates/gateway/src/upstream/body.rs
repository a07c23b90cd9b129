//! The body of a request to a replica: the bytes the client sent, in the pieces in which they came, never copied. It
//! can be sent again, since pieces are shared.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use smallvec::SmallVec;

/// Pieces below this size are put together.
const SMALL_BYTES: usize = 2_048;

/// A body in pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces {
    pieces: SmallVec<[Bytes; 4]>,
    /// Small pieces after the first, put together: a body sent in one-byte chunks must not cost a pointer a byte.
    tail: BytesMut,
    sent: usize,
    remaining: u64,
}

impl Pieces {
    /// Adds a piece at the end.
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.remaining += piece.len() as u64;
        if piece.len() < SMALL_BYTES && !self.pieces.is_empty() {
            self.tail.extend_from_slice(&piece);
            return;
        }
        self.end_tail();
        self.pieces.push(piece);
    }

    /// No more pieces follow.
    pub(crate) fn complete(mut self) -> Self {
        self.end_tail();
        self
    }

    /// The pieces, in order, none of them empty.
    pub(crate) fn into_pieces(self) -> SmallVec<[Bytes; 4]> {
        self.pieces
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(std::mem::take(&mut self.tail).freeze());
        }
    }

    /// The pieces in their order.
    pub(crate) fn slices(&self) -> &[Bytes] {
        &self.pieces
    }

    /// Bytes in all.
    pub(crate) fn len(&self) -> u64 {
        self.remaining
    }

    /// The first `n` bytes, or all there are; copied only where they do not lie in one piece.
    pub(crate) fn first(&self, n: usize) -> std::borrow::Cow<'_, [u8]> {
        match self.pieces.first() {
            None => (&[][..]).into(),
            Some(piece) if piece.len() >= n => piece[..n].into(),
            Some(piece) if self.pieces.len() == 1 => piece[..].into(),
            Some(_) => {
                let mut bytes = Vec::with_capacity(n.min(self.remaining as usize));
                for piece in &self.pieces {
                    bytes.extend_from_slice(&piece[..piece.len().min(n - bytes.len())]);
                }
                bytes.into()
            }
        }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(piece) = self.pieces.get(self.sent).cloned() else { return Poll::Ready(None) };
        self.sent += 1;
        self.remaining -= piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.sent == self.pieces.len()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_are_the_same_however_the_body_came() {
        let text = b"abcdefghij";
        for cut in 0..=text.len() {
            let mut pieces = Pieces::default();
            for piece in [&text[..cut], &text[cut..]] {
                if !piece.is_empty() {
                    pieces.push(Bytes::copy_from_slice(piece));
                }
            }
            let pieces = pieces.complete();
            for n in [0, 1, 5, 10, 99] {
                assert_eq!(*pieces.first(n), text[..n.min(10)], "cut at {cut}, first {n}");
            }
            assert_eq!(pieces.len(), 10);
        }
    }

    #[test]
    fn a_body_of_tiny_chunks_is_put_together() {
        let mut pieces = Pieces::default();
        for _ in 0..100_000 {
            pieces.push(Bytes::from_static(b"x"));
        }
        let pieces = pieces.complete();
        assert_eq!((pieces.len(), pieces.pieces.len()), (100_000, 2));
    }
}
