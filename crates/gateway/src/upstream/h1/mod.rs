//! HTTP/1.1 towards replicas: one request on one connection, written and read by the task that waits for the answer.
//!
//! There is no task beside it, no channel and no copy: the head is written from the client's headers, the body from the
//! pieces in which it came, and the answer's pieces are parts of the buffer they were read into. What is known here and
//! in no general client: whether a byte of the request was written at all, so that a request which did not leave can
//! go elsewhere.
//!
//! What an answer's bytes mean is [`kvroute_wire::http1`]'s; where one breaks the rules the exchange fails and the
//! connection is not used again.

mod body;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::{Method, Response};
use kvroute_wire::http1::{AnswerHead, Malformed};
use smallvec::SmallVec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

pub(super) use self::body::Body;
use super::body::Pieces;
use crate::server::timer::Timer;

/// Room that is made for what is read: two of the largest records of TLS.
const READ_BYTES: usize = 32 << 10;
/// Pieces that one write takes at most.
const SLICES_MAX: usize = 16;

/// Both directions of a connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Stream for T {}

/// A connection that is used for one request at a time.
pub(super) struct Connection<S> {
    stream: S,
    /// What was read and not looked at yet. Empty between requests.
    read: BytesMut,
    /// For the head of an answer.
    timer: Timer,
}

/// A request that is being written.
pub(super) struct Request {
    head: Bytes,
    /// What is left of the body, the next piece last.
    pieces: SmallVec<[Bytes; 4]>,
    was_begun: bool,
    /// Why no more can be written. An answer may have come before, or may still.
    failed: Option<io::Error>,
    /// Whether an answer has a body at all.
    is_head: bool,
}

/// Why an exchange failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// The connection.
    Io(io::Error),
    /// It ended before the answer did.
    Ended,
    /// No answer came in time.
    Late,
    /// The answer breaks a rule.
    Malformed(Malformed),
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct NoAnswer {
    pub(super) error: Error,
    /// Whether anything of the request may have been written.
    pub(super) was_begun: bool,
}

impl Request {
    /// A request with this head, as [`kvroute_wire::http1::write_request`] makes it.
    pub(super) fn new(method: &Method, head: Bytes, body: Pieces) -> Self {
        let mut pieces = body.into_pieces();
        pieces.reverse();
        Self { head, pieces, was_begun: false, failed: None, is_head: method == Method::HEAD }
    }

    fn is_written(&self) -> bool {
        self.head.is_empty() && self.pieces.is_empty()
    }

    /// The beginning of what is left, as far as one write takes it.
    fn slices(&self) -> SmallVec<[io::IoSlice<'_>; SLICES_MAX]> {
        let body = self.pieces.iter().rev().map(|piece| &piece[..]);
        let parts = std::iter::once(&self.head[..]).chain(body).filter(|part| !part.is_empty());
        parts.take(SLICES_MAX).map(io::IoSlice::new).collect()
    }

    fn advance(&mut self, mut written: usize) {
        self.was_begun |= written > 0;
        let of_head = written.min(self.head.len());
        self.head.advance(of_head);
        written -= of_head;
        while let Some(piece) = self.pieces.last_mut() {
            if written < piece.len() {
                piece.advance(written);
                return;
            }
            written -= piece.len();
            self.pieces.pop();
        }
    }

    /// Writes what can be written. That no more can be is no error yet: replicas that refuse a body early say so and
    /// close.
    fn poll_write<S: Stream>(&mut self, stream: &mut S, cx: &mut Context<'_>) {
        while !self.is_written() && self.failed.is_none() {
            let wrote = Pin::new(&mut *stream).poll_write_vectored(cx, &self.slices());
            match wrote {
                Poll::Ready(Ok(0)) => self.failed = Some(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(written)) => self.advance(written),
                Poll::Ready(Err(error)) => self.failed = Some(error),
                Poll::Pending => return,
            }
        }
        if self.failed.is_none() {
            // TLS keeps records that the socket had no room for. Without it this does nothing.
            if let Poll::Ready(Err(error)) = Pin::new(stream).poll_flush(cx) {
                self.failed = Some(error);
            }
        }
    }
}

impl<S: Stream> Connection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, read: BytesMut::new(), timer: Timer::default() }
    }

    /// Both directions.
    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    /// Whether nothing was read that belongs to no answer.
    fn is_clean(&self) -> bool {
        self.read.is_empty()
    }

    /// Reads once; gives how much.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read.capacity() - self.read.len() < READ_BYTES / 4 {
            self.read.reserve(READ_BYTES);
        }
        pin!(self.stream.read_buf(&mut self.read)).poll(cx)
    }

    /// Sends the request and reads the head of its answer, which must come within `limit`.
    pub(super) async fn exchange(
        mut self,
        mut request: Request,
        limit: Duration,
    ) -> Result<Response<Body<S>>, NoAnswer> {
        self.timer.stop();
        let head = poll_fn(|cx| {
            request.poll_write(&mut self.stream, cx);
            loop {
                match AnswerHead::parse(&mut self.read, request.is_head) {
                    Ok(Some(head)) => return Poll::Ready(Ok(head)),
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Err(Error::Malformed(error))),
                }
                match self.poll_read(cx) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(Error::Ended)),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(Error::Io(error))),
                    Poll::Pending => return self.timer.poll_over(limit, cx).map(|()| Err(Error::Late)),
                }
            }
        })
        .await;
        match head {
            Ok(AnswerHead { response, framing, keeps_alive }) => {
                Ok(response.map(|()| Body::new(self, request, framing, keeps_alive)))
            }
            Err(error) => {
                let error = request.failed.map_or(error, Error::Io);
                Err(NoAnswer { error, was_begun: request.was_begun })
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Ended => f.write_str("the connection was closed"),
            Self::Late => f.write_str("no answer in time"),
            Self::Malformed(malformed) => malformed.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl<S> fmt::Debug for Connection<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("unread_bytes", &self.read.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("was_begun", &self.was_begun).finish_non_exhaustive()
    }
}
