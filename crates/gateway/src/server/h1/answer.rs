//! An answer on its way to the client: its head with whatever of its body is there, then each piece as it comes.
//!
//! What is there is written at once and together; nothing waits for more. A body that fails, or has another length than
//! was said, ends the connection in the middle, so that the client can see it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Body;
use kvroute_wire::http1::AnswerBody;
use parking_lot::Mutex;

use super::io::Io;
use super::outgoing::Outgoing;
use crate::response::body::ResponseBody;

/// How writing an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// All of it is on its way.
    Whole,
    /// The client has left.
    Gone,
    /// Its body broke off, or has not the length that was said.
    Broken,
}

/// Writes what is in `out`, and the body, which is framed like this.
pub(super) async fn write(io: &Arc<Mutex<Io>>, out: &mut Outgoing, framing: AnswerBody, body: ResponseBody) -> Written {
    let mut writing = Writing { framing, is_ended: false, is_broken: false, bytes: 0 };
    if framing == AnswerBody::Absent || body.is_end_stream() {
        writing.end(out);
    }
    let mut body = pin!(body);
    poll_fn(|cx| writing.poll(io, out, body.as_mut(), cx)).await
}

struct Writing {
    framing: AnswerBody,
    is_ended: bool,
    is_broken: bool,
    /// Of the body, so far.
    bytes: u64,
}

impl Writing {
    fn poll(
        &mut self,
        io: &Mutex<Io>,
        out: &mut Outgoing,
        mut body: Pin<&mut ResponseBody>,
        cx: &mut Context<'_>,
    ) -> Poll<Written> {
        loop {
            while !self.is_ended && !out.is_full() {
                match body.as_mut().poll_frame(cx) {
                    Poll::Pending => break,
                    Poll::Ready(None) => self.end(out),
                    Poll::Ready(Some(Err(error))) => {
                        tracing::debug!(error, "an answer broke off");
                        (self.is_ended, self.is_broken) = (true, true);
                    }
                    // Trailers are not passed on: a client must ask for them, and none does.
                    Poll::Ready(Some(Ok(frame))) => {
                        if let Ok(piece) = frame.into_data() {
                            self.piece(piece, out);
                        }
                        if body.is_end_stream() {
                            self.end(out);
                        }
                    }
                }
            }
            let was_full = out.is_full();
            let mut io = io.lock();
            match out.poll_write(io.stream(), cx) {
                Poll::Ready(Err(_)) => return Poll::Ready(Written::Gone),
                Poll::Ready(Ok(())) if self.is_broken => return Poll::Ready(Written::Broken),
                Poll::Ready(Ok(())) if self.is_ended => return Poll::Ready(Written::Whole),
                Poll::Ready(Ok(())) if was_full => {}
                _ => return io.poll_gone(cx).map(|()| Written::Gone),
            }
        }
    }

    fn piece(&mut self, piece: Bytes, out: &mut Outgoing) {
        if piece.is_empty() {
            return;
        }
        self.bytes += piece.len() as u64;
        match self.framing {
            AnswerBody::Chunked => out.chunk(piece),
            AnswerBody::UntilClose => out.piece(piece),
            AnswerBody::Length(length) if self.bytes <= length => out.piece(piece),
            // More would be taken for the next answer.
            AnswerBody::Length(_) | AnswerBody::Absent => (self.is_ended, self.is_broken) = (true, true),
        }
    }

    fn end(&mut self, out: &mut Outgoing) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        match self.framing {
            AnswerBody::Chunked => out.text(|text| text.extend_from_slice(b"0\r\n\r\n")),
            AnswerBody::Length(length) => self.is_broken = self.bytes != length,
            AnswerBody::UntilClose | AnswerBody::Absent => {}
        }
    }
}
