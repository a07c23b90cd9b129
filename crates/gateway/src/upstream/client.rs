//! Connections to replicas: kept alive, reused, without Nagle's delay.

use std::fmt;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::body::Pieces;
use crate::config::Timeouts;

/// A pool of connections.
#[derive(Clone, Debug)]
pub(crate) struct Client(legacy::Client<HttpConnector, Pieces>);

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum SendError {
    /// No connection could be made: nothing was sent, so another replica may be tried.
    Connect(legacy::Error),
    /// The connection was lost before the answer's first byte.
    Lost(legacy::Error),
    /// The answer switches to a protocol that nobody asked for.
    Upgrade,
    /// No first byte in time.
    FirstByteTimeout,
}

impl Client {
    pub(crate) fn new(timeouts: &Timeouts) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_millis(timeouts.connect_ms)));
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_millis(timeouts.pool_idle_ms))
            .build(connector);
        Self(client)
    }

    /// Sends a request; gives the answer's head, its body still to come.
    pub(crate) async fn send(
        &self,
        request: Request<Pieces>,
        first_byte: Duration,
    ) -> Result<Response<Incoming>, SendError> {
        match tokio::time::timeout(first_byte, self.0.request(request)).await {
            Ok(Ok(response)) if response.status().is_informational() => Err(SendError::Upgrade),
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_connect() => Err(SendError::Connect(error)),
            Ok(Err(error)) => Err(SendError::Lost(error)),
            Err(_) => Err(SendError::FirstByteTimeout),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) | Self::Lost(error) => {
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
