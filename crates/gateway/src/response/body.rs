//! The body of an answer to a client: text of our own, or a replica's answer on its way.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;

use super::patience::Watched;
use super::relay::Relay;

/// Why a body cannot be given to its end.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// Complete.
    Full(Full<Bytes>),
    /// Still arriving. Boxed, since most of it is state that answers of our own do not have.
    Relay(Box<Relay>),
    /// Still arriving, and given up when it is left unread.
    Watched(Watched),
}

impl ResponseBody {
    /// A complete body.
    pub(crate) fn full(text: impl Into<Bytes>) -> Self {
        Self::Full(Full::new(text.into()))
    }

    /// Given up when it is left unread for `limit`, where it is not complete.
    pub(crate) fn watched(self, limit: Duration) -> Self {
        match self {
            Self::Relay(relay) if !relay.is_end_stream() => Self::Watched(Watched::new(relay, limit)),
            body => body,
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Full(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Relay(relay) => relay.poll_frame(cx),
            Self::Watched(watched) => watched.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(body) => body.is_end_stream(),
            Self::Relay(relay) => relay.is_end_stream(),
            Self::Watched(watched) => watched.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(body) => body.size_hint(),
            Self::Relay(relay) => relay.size_hint(),
            Self::Watched(watched) => watched.size_hint(),
        }
    }
}
