//! The body of a request, read from its connection by whoever answers it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use kvroute_wire::http1::Malformed;
use parking_lot::Mutex;

use super::io::Io;

/// See the module. It shares its connection with the task that serves it; the lock is never waited for, since whoever
/// answers runs in that task.
#[derive(Debug)]
pub(crate) struct Body(pub(super) Arc<Mutex<Io>>);

/// Why a body does not come to its end.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// None of it came for too long.
    Idle,
    /// The connection failed.
    Io(io::Error),
    /// It was closed.
    Ended,
    /// Its framing is none.
    Malformed(Malformed),
}

impl Body {
    /// The next piece, never empty; none at the end. An error where none came for `idle`, after which it may go on.
    pub(crate) fn poll_piece(&self, idle: Duration, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.0.lock().poll_piece(idle, cx)
    }

    /// Whether nothing more comes.
    pub(crate) fn is_end(&self) -> bool {
        self.0.lock().is_body_taken()
    }

    /// How many bytes are to come at least.
    pub(crate) fn bytes_left(&self) -> u64 {
        self.0.lock().body_bytes_left()
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("nothing came for too long"),
            Self::Io(error) => error.fmt(f),
            Self::Ended => f.write_str("the connection was closed"),
            Self::Malformed(malformed) => malformed.fmt(f),
        }
    }
}

impl std::error::Error for BodyError {}
