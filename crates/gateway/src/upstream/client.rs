//! Connections to replicas: kept alive, reused, without Nagle's delay.

use std::fmt;
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::body::Pieces;
use super::connect::{KeptConnector, Served};
use crate::config::Timeouts;

/// How long a connection is unused before its loss may mean that it had been closed.
const KEPT_UNUSED: Duration = Duration::from_secs(1);

/// A pool of connections.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pool: legacy::Client<KeptConnector, Pieces>,
    connect_ms: u64,
    pool_idle_ms: u64,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum SendError {
    /// No connection could be made: nothing was sent, so another replica may be tried.
    Connect(legacy::Error),
    /// The connection was lost before the answer's first byte.
    Lost {
        /// How.
        error: legacy::Error,
        /// It had been kept unused for a while before this request.
        was_kept: bool,
    },
    /// The answer switches to a protocol that nobody asked for.
    Upgrade,
    /// No first byte in time.
    FirstByteTimeout,
}

impl SendError {
    /// Whether it is certain that no byte of the request left.
    pub(crate) fn nothing_was_sent(&self) -> bool {
        matches!(self, Self::Connect(_))
    }
}

impl Client {
    pub(crate) fn new(timeouts: &Timeouts) -> Self {
        let connector = KeptConnector::new(Duration::from_millis(timeouts.connect_ms));
        let pool = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_millis(timeouts.pool_idle_ms))
            .build(connector);
        Self { pool, connect_ms: timeouts.connect_ms, pool_idle_ms: timeouts.pool_idle_ms }
    }

    /// Whether the two behave alike.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.connect_ms, self.pool_idle_ms) == (other.connect_ms, other.pool_idle_ms)
    }

    /// Whether one made with these would behave alike.
    pub(crate) fn keeps_to(&self, timeouts: &Timeouts) -> bool {
        (self.connect_ms, self.pool_idle_ms) == (timeouts.connect_ms, timeouts.pool_idle_ms)
    }

    /// Sends a request; gives the answer's head, its body still to come.
    pub(crate) async fn send(
        &self,
        request: Request<Pieces>,
        first_byte: Duration,
    ) -> Result<Response<Incoming>, SendError> {
        let sent = Instant::now();
        match tokio::time::timeout(first_byte, self.pool.request(request)).await {
            Ok(Ok(response)) if response.status().is_informational() => Err(SendError::Upgrade),
            Ok(Ok(response)) => {
                Served::of(response.extensions()).mark();
                Ok(response)
            }
            Ok(Err(error)) if error.is_connect() => Err(SendError::Connect(error)),
            Ok(Err(error)) => {
                let last = error.connect_info().and_then(Served::last);
                let was_kept = last.is_some_and(|last| sent.duration_since(last) >= KEPT_UNUSED);
                Err(SendError::Lost { error, was_kept })
            }
            Err(_) => Err(SendError::FirstByteTimeout),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) | Self::Lost { error, .. } => {
                let what = if matches!(self, Self::Connect(_)) { "cannot connect" } else { "connection lost" };
                write!(f, "{what}")?;
                // hyper says what failed and hides why in its sources.
                let mut source = std::error::Error::source(error);
                while let Some(error) = source {
                    if error.source().is_none() {
                        write!(f, ": {error}")?;
                    }
                    source = error.source();
                }
                Ok(())
            }
            Self::Upgrade => f.write_str("protocol switched unasked"),
            Self::FirstByteTimeout => f.write_str("no answer in time"),
        }
    }
}
