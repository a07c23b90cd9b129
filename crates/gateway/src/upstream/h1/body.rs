//! The body of an answer, read as it is asked for.

use std::fmt;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use kvroute_wire::http1::{Framing, Part};

use super::{Connection, Error, Request, Stream};

/// See the module. It holds its connection: dropped before its end, it closes it, and the replica stops.
pub(in crate::upstream) struct Body<S> {
    connection: Option<Connection<S>>,
    /// What may still have to be written while the answer comes.
    request: Request,
    framing: Framing,
    keeps_alive: bool,
}

impl<S: Stream> Body<S> {
    pub(super) fn new(connection: Connection<S>, request: Request, framing: Framing, keeps_alive: bool) -> Self {
        Self { connection: Some(connection), request, framing, keeps_alive }
    }

    /// Whether all of it has been given.
    pub(in crate::upstream) fn is_end(&self) -> bool {
        self.framing.is_done()
    }

    /// Its connection, once all of it has been given and if another request can be sent there.
    pub(in crate::upstream) fn spent(&mut self) -> Option<Connection<S>> {
        let connection = self.connection.take_if(|_| self.framing.is_done())?;
        (self.keeps_alive && self.request.is_written() && connection.is_clean()).then_some(connection)
    }

    /// Whether nothing but the end of the connection marks its end.
    pub(in crate::upstream) fn ends_with_connection(&self) -> bool {
        matches!(self.framing, Framing::Connection)
    }

    /// How much is left.
    pub(in crate::upstream) fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Known(left) => SizeHint::with_exact(left),
            Framing::Done => SizeHint::with_exact(0),
            Framing::Chunked(_) | Framing::Connection => SizeHint::default(),
        }
    }

    /// The next part.
    pub(in crate::upstream) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
        if !self.request.is_written() {
            self.request.poll_write(&mut connection.stream, cx);
        }
        loop {
            match self.framing.next(&mut connection.read) {
                Ok(Some(Part::Data(piece))) => return Poll::Ready(Some(Ok(Frame::data(piece)))),
                Ok(Some(Part::Trailers(trailers))) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Ok(None) if self.framing.is_done() => return Poll::Ready(None),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(Error::Malformed(error)))),
            }
            match ready!(connection.poll_read(cx)) {
                Ok(0) if matches!(self.framing, Framing::Connection) => {
                    self.framing = Framing::Done;
                    return Poll::Ready(None);
                }
                Ok(0) => return Poll::Ready(Some(Err(Error::Ended))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(Error::Io(error)))),
            }
        }
    }
}

impl<S> fmt::Debug for Body<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("framing", &self.framing).finish_non_exhaustive()
    }
}
