//! One client's connection: what came and was not looked at yet, and how far the request under way is.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use kvroute_wire::http1::{BadRequest, Framing, Part, RequestHead, RequestReader};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::body::BodyError;
use crate::server::ConnectionLimits;
use crate::server::open::Connection;
use crate::server::stall::Watched;
use crate::server::timer::Timer;

/// Room for what comes first; later, as much as the request before took.
const READ_BYTES: usize = 16 << 10;
/// Room for one read at most.
const READ_BYTES_MAX: usize = 64 << 10;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What a client's connection begins with, if it speaks HTTP/2 without having asked.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// See the module.
#[derive(Debug)]
pub(in crate::server) struct Io {
    stream: Watched<TcpStream>,
    limits: ConnectionLimits,
    read: BytesMut,
    /// Room to make for a read where the request does not say how much comes.
    room_bytes: usize,
    /// What the request under way has taken.
    taken_bytes: usize,
    reader: RequestReader,
    /// Whether something of the next head, or in front of it, has come.
    has_begun: bool,
    /// What is left of the request's body.
    framing: Framing,
    /// The body ended before its end, or is none: nothing that follows is a request.
    is_broken: bool,
    /// What is left to be said before the client sends its body.
    interim: &'static [u8],
    /// For whatever is waited for from the client: only one thing is at a time.
    timer: Timer,
}

impl Io {
    pub(in crate::server) fn new(stream: Watched<TcpStream>, limits: ConnectionLimits) -> Self {
        Self {
            stream,
            limits,
            read: BytesMut::new(),
            room_bytes: READ_BYTES,
            taken_bytes: 0,
            reader: RequestReader::new(limits.head_bytes_max),
            has_begun: false,
            framing: Framing::Done,
            is_broken: false,
            interim: b"",
            timer: Timer::default(),
        }
    }

    /// The connection, and what was read of it.
    pub(in crate::server) fn into_parts(self) -> (Watched<TcpStream>, Bytes) {
        (self.stream, self.read.freeze())
    }

    pub(super) fn stream(&mut self) -> &mut Watched<TcpStream> {
        &mut self.stream
    }

    /// Whether the request's body has been taken to its end.
    pub(super) fn is_body_taken(&self) -> bool {
        self.framing.is_done()
    }

    /// Whether what is left of the body may still come: it is sound, and the client knows that it is wanted.
    pub(super) fn is_body_coming(&self) -> bool {
        !self.is_broken && self.interim.is_empty() && !self.framing.is_done()
    }

    /// Whether there is something that belongs to no request yet.
    pub(super) fn has_more(&self) -> bool {
        !self.read.is_empty()
    }

    /// How much is left of the body at least.
    pub(super) fn body_bytes_left(&self) -> u64 {
        match self.framing {
            Framing::Known(left) => left,
            Framing::Chunked(_) | Framing::Connection | Framing::Done => 0,
        }
    }

    /// Reads once, as much as there is room for; gives how much, 0 at the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let wanted = match self.framing {
            // One byte more than comes: a read that fills its buffer says nothing of whether there is more.
            Framing::Known(left) => usize::try_from(left).unwrap_or(usize::MAX).min(READ_BYTES_MAX - 1) + 1,
            _ => self.room_bytes,
        };
        if (self.read.capacity() - self.read.len()) * 2 < wanted {
            // Asked first, so that no buffer is held for a client that sends nothing.
            ready!(self.stream.get_ref().poll_read_ready(cx))?;
            self.read.reserve(wanted);
        }
        let read = ready!(pin!(self.stream.get_mut().read_buf(&mut self.read)).poll(cx));
        if let Ok(bytes) = read {
            self.taken_bytes += bytes;
        }
        Poll::Ready(read)
    }

    /// Whether the client begins with HTTP/2; `None` where it begins with nothing.
    pub(in crate::server) fn poll_is_http2(&mut self, open: &Connection, cx: &mut Context<'_>) -> Poll<Option<bool>> {
        loop {
            let compared = self.read.len().min(PREFACE.len());
            if compared > 0 && self.read[..compared] != PREFACE[..compared] {
                return Poll::Ready(Some(false));
            }
            if compared == PREFACE.len() {
                return Poll::Ready(Some(true));
            }
            if ready!(self.poll_more(open, cx)) {
                return Poll::Ready(None);
            }
        }
    }

    /// The next head; none where the connection is over, as between two requests where it is to end.
    pub(super) fn poll_next(
        &mut self,
        spare: &mut HeaderMap,
        open: &Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<RequestHead>, BadRequest>> {
        loop {
            if let Some(head) = self.reader.next(&mut self.read, spare)? {
                self.timer.stop();
                self.has_begun = false;
                return Poll::Ready(Ok(Some(head)));
            }
            if ready!(self.poll_more(open, cx)) {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// Ready with more of a head, or true where none is to be expected.
    fn poll_more(&mut self, open: &Connection, cx: &mut Context<'_>) -> Poll<bool> {
        let is_between = self.read.is_empty();
        match self.poll_fill(cx) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(true),
            Poll::Ready(Ok(_)) => {
                // A head has all of the time, whenever it begins; once, lest empty lines keep a connection for ever.
                if !std::mem::replace(&mut self.has_begun, true) {
                    self.timer.stop();
                }
                Poll::Ready(false)
            }
            Poll::Pending if is_between && open.is_to_end() => Poll::Ready(true),
            Poll::Pending => {
                if is_between {
                    self.read = BytesMut::new();
                }
                self.timer.poll_over(self.limits.idle, cx).map(|()| true)
            }
        }
    }

    /// A request with this head begins.
    pub(super) fn begin(&mut self, framing: Framing, expects_continue: bool) {
        self.framing = framing;
        self.interim = if expects_continue { CONTINUE } else { b"" };
    }

    /// The request was answered, and all of it taken: so much may come again.
    pub(super) fn end(&mut self) {
        let next_bytes = self.read.len();
        let bytes = self.taken_bytes - next_bytes.min(self.taken_bytes);
        self.room_bytes = (bytes + bytes / 8 + 512).clamp(READ_BYTES / 4, READ_BYTES_MAX);
        self.taken_bytes = next_bytes;
    }

    /// The next piece of the body, none at its end; an error where none came for `idle`.
    pub(super) fn poll_piece(
        &mut self,
        idle: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, BodyError>>> {
        let piece = loop {
            match self.framing.next(&mut self.read) {
                Ok(Some(Part::Data(piece))) => break Ok(piece),
                // They say nothing that anybody asks for here.
                Ok(Some(Part::Trailers(_))) => {}
                Ok(None) if self.framing.is_done() => {
                    self.timer.stop();
                    return Poll::Ready(None);
                }
                Ok(None) => match self.poll_fill_body(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) => break Err(error),
                    Poll::Pending => {
                        ready!(self.timer.poll_over(idle, cx));
                        break Err(BodyError::Idle);
                    }
                },
                Err(malformed) => break Err(BodyError::Malformed(malformed)),
            }
        };
        self.timer.stop();
        self.is_broken |= piece.as_ref().is_err_and(|error| !matches!(error, BodyError::Idle));
        Poll::Ready(Some(piece))
    }

    fn poll_fill_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        if self.read.is_empty() {
            while !self.interim.is_empty() {
                match ready!(Pin::new(&mut self.stream).poll_write(cx, self.interim)) {
                    Ok(written) => self.interim = &self.interim[written..],
                    Err(error) => return Poll::Ready(Err(BodyError::Io(error))),
                }
            }
        } else if self.interim.len() == CONTINUE.len() {
            // It has not waited.
            self.interim = b"";
        }
        Poll::Ready(match ready!(self.poll_fill(cx)) {
            Ok(0) => Err(BodyError::Ended),
            Ok(_) => Ok(()),
            Err(error) => Err(BodyError::Io(error)),
        })
    }

    /// Ready when the client has left while it is answered. What it sends in that time is the beginning of its next
    /// request: it waits, and while it does nothing more is read.
    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.framing.is_done() || !self.read.is_empty() {
            return Poll::Pending;
        }
        match self.poll_fill(cx) {
            Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(()),
            Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// What is left of an interim answer that was begun: it must be complete before another one begins.
    pub(super) fn rest_of_interim(&mut self) -> &'static [u8] {
        if self.interim.len() == CONTINUE.len() { b"" } else { std::mem::take(&mut self.interim) }
    }

    /// Reads and drops what comes; gives how much, 0 at the end.
    pub(super) fn poll_drop(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        self.read.clear();
        self.poll_fill(cx).map(|read| read.unwrap_or(0))
    }

    /// Says that nothing more will be sent.
    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(self.stream.shutdown()).poll(cx)
    }

    /// Has the connection end so that the client cannot take it for a clean end.
    pub(super) fn reset(&self) {
        let _ = self.stream.get_ref().set_zero_linger();
    }
}
