//! The body of a request, on whichever connection it comes.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;

use crate::server::h1;
use crate::server::timer::Timer;

/// How much of a refused body is taken, and for how long.
pub(crate) const DISCARD_BYTES_MAX: u64 = 64 << 20;
pub(crate) const DISCARD_TIME: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// On an HTTP/1.1 connection. What is not read of it is the connection's business.
    Alone(h1::Body),
    /// On an HTTP/2 connection, with others.
    Shared(Incoming, Timer),
}

/// Why a body does not come to its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// On an HTTP/1.1 connection.
    Alone(h1::BodyError),
    /// On an HTTP/2 connection.
    Shared(hyper::Error),
    /// Nothing of it came for too long.
    Idle,
}

impl RequestBody {
    /// Whether nothing more comes.
    pub(super) fn is_end(&self) -> bool {
        match self {
            Self::Alone(body) => body.is_end(),
            Self::Shared(body, _) => body.is_end_stream(),
        }
    }

    /// How many bytes are to come at least.
    pub(super) fn bytes_left(&self) -> u64 {
        match self {
            Self::Alone(body) => body.bytes_left(),
            Self::Shared(body, _) => body.size_hint().lower(),
        }
    }

    /// The next piece, never empty; none at the end. An error where none comes for `idle`.
    pub(super) async fn piece(&mut self, idle: Duration) -> Option<Result<Bytes, BodyError>> {
        poll_fn(|cx| match self {
            Self::Alone(body) => body.poll_piece(idle, cx).map_err(|error| match error {
                h1::BodyError::Idle => BodyError::Idle,
                error => BodyError::Alone(error),
            }),
            Self::Shared(body, timer) => poll_shared(body, timer, idle, cx),
        })
        .await
    }

    /// Takes what a refused client still sends, within limits: closing on it would reset the connection, and most clients
    /// then report the reset in place of the refusal.
    pub(super) fn discard(self) {
        let Self::Shared(body, mut timer) = self else { return };
        let mut body = Box::pin(body);
        tokio::spawn(tokio::time::timeout(DISCARD_TIME, async move {
            let mut bytes_left = DISCARD_BYTES_MAX;
            let mut next = async || poll_fn(|cx| poll_shared(&mut body, &mut timer, DISCARD_TIME, cx)).await;
            while let Some(Ok(piece)) = next().await {
                let Some(rest) = bytes_left.checked_sub(piece.len() as u64) else { break };
                bytes_left = rest;
            }
        }));
    }
}

fn poll_shared(
    body: &mut Incoming,
    timer: &mut Timer,
    idle: Duration,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, BodyError>>> {
    loop {
        let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
            ready!(timer.poll_over(idle, cx));
            return Poll::Ready(Some(Err(BodyError::Idle)));
        };
        let piece = match frame.transpose() {
            Ok(None) => return Poll::Ready(None),
            Ok(Some(frame)) => frame.into_data().unwrap_or_default(),
            Err(error) => return Poll::Ready(Some(Err(BodyError::Shared(error)))),
        };
        // HTTP/2 has frames without data, with which a client could keep itself waited for.
        if !piece.is_empty() {
            timer.stop();
            return Poll::Ready(Some(Ok(piece)));
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alone(error) => error.fmt(f),
            Self::Shared(error) => error.fmt(f),
            Self::Idle => f.write_str("nothing came for too long"),
        }
    }
}

impl std::error::Error for BodyError {}
