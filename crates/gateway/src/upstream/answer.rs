//! The body of a replica's answer, on whichever connection it comes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::connect::Stream;
use super::h1;
use super::h2::Place;
use super::origin::Origin;

/// See the module. Dropped before its end it breaks the request off, so that the replica stops.
#[derive(Debug)]
pub(crate) struct Answer(Kind);

#[derive(Debug)]
enum Kind {
    /// On an HTTP/1.1 connection, which goes back to its origin with the last byte.
    Alone { body: Box<h1::Body<Stream>>, origin: Arc<Origin> },
    /// On an HTTP/2 connection that others use too.
    Shared { body: Incoming, _place: Place },
}

/// Why an answer is not complete.
#[derive(Debug)]
pub(crate) enum AnswerError {
    /// On an HTTP/1.1 connection.
    Alone(h1::Error),
    /// On an HTTP/2 connection.
    Shared(hyper::Error),
}

impl Answer {
    /// One that comes on a connection of its own.
    pub(super) fn alone(body: h1::Body<Stream>, origin: &Arc<Origin>) -> Self {
        let mut kind = Kind::Alone { body: Box::new(body), origin: origin.clone() };
        kind.let_go();
        Self(kind)
    }

    /// Whether nothing but the end of its connection marks its end.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(&self.0, Kind::Alone { body, .. } if body.ends_with_connection())
    }

    /// One that comes on a connection that others use too.
    pub(super) fn shared(body: Incoming, place: Place) -> Self {
        Self(Kind::Shared { body, _place: place })
    }
}

impl Kind {
    /// Gives the connection back if it is not needed any more.
    fn let_go(&mut self) {
        if let Self::Alone { body, origin } = self
            && let Some(connection) = body.spent()
        {
            origin.keep(connection);
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let frame = match &mut self.0 {
            Kind::Alone { body, .. } => ready!(body.poll_frame(cx)).map(|frame| frame.map_err(AnswerError::Alone)),
            Kind::Shared { body, .. } => {
                ready!(Pin::new(body).poll_frame(cx)).map(|frame| frame.map_err(AnswerError::Shared))
            }
        };
        self.0.let_go();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Alone { body, .. } => body.is_end(),
            Kind::Shared { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Alone { body, .. } => body.size_hint(),
            Kind::Shared { body, .. } => body.size_hint(),
        }
    }
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone(error) => error.fmt(f),
            Self::Shared(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AnswerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Alone(error) => Some(error),
            Self::Shared(error) => Some(error),
        }
    }
}
