//! One address of an engine, and the connections to it: HTTP/1.1 ones that are kept for the next request, or HTTP/2 ones
//! that many requests share.
//!
//! A kept connection may be closed by the replica at the moment in which the next request is written to it. That it had
//! been unused for a while tells that case from a replica that dies on a request.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::{HeaderValue, Response};
use parking_lot::Mutex;

use super::answer::Answer;
use super::connect::{Connector, Stream};
use super::h1::{self, NoAnswer};
use super::h2;
use super::outgoing::Outgoing;
use super::tls::Tls;
use crate::config::{Config, ReplicaUrl};

/// How long a connection is unused before its loss may mean that it had been closed.
const KEPT_UNUSED: Duration = Duration::from_secs(1);
/// Kept connections are looked through this often in the time for which they are kept.
const SWEEPS: u32 = 4;
/// But not more often than this.
const SWEEP_MIN: Duration = Duration::from_millis(10);

/// All addresses, so that those of one configuration are those of the next.
#[derive(Clone, Debug)]
pub(crate) struct Origins(Arc<Registry>);

#[derive(Debug)]
struct Registry {
    settings: Settings,
    tls: Tls,
    known: Mutex<HashMap<Key, Weak<Origin>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    connect_ms: u64,
    pool_idle_ms: u64,
}

/// What makes two addresses one: connections do not depend on the base path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    authority: String,
    is_tls: bool,
    http2: bool,
}

/// See the module.
pub(crate) struct Origin {
    connector: Connector,
    http2: bool,
    host: HeaderValue,
    pool_idle: Duration,
    idle: Mutex<Idle>,
    shared: h2::Shared,
}

/// Connections that nobody uses now, the one that was used last at the end.
#[derive(Debug, Default)]
struct Idle {
    kept: Vec<Kept>,
    /// Whether a task looks through them.
    is_swept: bool,
}

#[derive(Debug)]
struct Kept {
    connection: h1::Connection<Stream>,
    since: Instant,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum SendError {
    /// No connection could be made, or it was lost before anything was written: another replica may be tried.
    Connect(Cause),
    /// The connection was lost before the answer's first byte.
    Lost {
        /// How.
        error: Cause,
        /// It had been kept unused for a while before this request.
        was_kept: bool,
    },
    /// The answer switches to a protocol that nobody asked for.
    Upgrade,
    /// No first byte in time.
    FirstByteTimeout,
}

/// What went wrong on a connection.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

impl SendError {
    /// Whether it is certain that no byte of the request left.
    pub(crate) fn nothing_was_sent(&self) -> bool {
        matches!(self, Self::Connect(_))
    }
}

impl Origins {
    pub(crate) fn new(config: &Config) -> Self {
        let (settings, tls) = (Settings::of(config), Tls::new(&config.replica_tls));
        Self(Arc::new(Registry { settings, tls, known: Mutex::default() }))
    }

    /// Whether ones made with this configuration would behave alike.
    pub(crate) fn keeps_to(&self, config: &Config) -> bool {
        self.0.settings == Settings::of(config) && *self.0.tls.settings() == config.replica_tls
    }

    /// The origin of this address.
    pub(crate) fn at(&self, url: &ReplicaUrl, http2: bool) -> Arc<Origin> {
        let key = Key { authority: url.authority(), is_tls: url.is_tls, http2 };
        let mut known = self.0.known.lock();
        if let Some(origin) = known.get(&key).and_then(Weak::upgrade) {
            return origin;
        }
        known.retain(|_, origin| origin.strong_count() > 0);
        let settings = &self.0.settings;
        let origin = Arc::new(Origin {
            connector: Connector::new(url, http2, &self.0.tls, Duration::from_millis(settings.connect_ms)),
            http2,
            host: HeaderValue::try_from(&key.authority).expect("a checked host and port fit a header"),
            pool_idle: Duration::from_millis(settings.pool_idle_ms),
            idle: Mutex::default(),
            shared: h2::Shared::default(),
        });
        known.insert(key, Arc::downgrade(&origin));
        origin
    }
}

impl Settings {
    fn of(config: &Config) -> Self {
        Self { connect_ms: config.timeouts.connect_ms, pool_idle_ms: config.timeouts.pool_idle_ms }
    }
}

impl Origin {
    /// Sends a request; gives the answer's head within `first_byte`, its body still to come.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: Outgoing<'_>,
        first_byte: Duration,
    ) -> Result<Response<Answer>, SendError> {
        let answer = if self.http2 {
            within(first_byte, Box::pin(self.shared.send(&self.connector, request))).await
        } else {
            self.send_alone(request, first_byte).await
        };
        match answer {
            Ok(response) if response.status().is_informational() => Err(SendError::Upgrade),
            answer => answer,
        }
    }

    /// On an HTTP/1.1 connection of its own.
    async fn send_alone(
        self: &Arc<Self>,
        request: Outgoing<'_>,
        mut first_byte: Duration,
    ) -> Result<Response<Answer>, SendError> {
        let request = request.into_h1(&self.host);
        let now = Instant::now();
        let kept = self.take(now);
        let was_kept = kept.as_ref().is_some_and(|kept| now.duration_since(kept.since) >= KEPT_UNUSED);
        let connection = match kept {
            Some(kept) => kept.connection,
            // Boxed, as whatever is not on the usual path: a request's state is moved about, and should be small.
            None => {
                let connected = async { self.connector.connect().await.map_err(SendError::Connect) };
                let stream = within(first_byte, Box::pin(connected)).await?;
                first_byte = first_byte.saturating_sub(now.elapsed());
                h1::Connection::new(stream)
            }
        };
        match connection.exchange(request, first_byte).await {
            Ok(response) => Ok(response.map(|body| Answer::alone(body, self))),
            Err(NoAnswer { error: h1::Error::Late, .. }) => Err(SendError::FirstByteTimeout),
            Err(failed) if failed.was_begun => Err(SendError::Lost { error: failed.error.into(), was_kept }),
            Err(failed) => Err(SendError::Connect(failed.error.into())),
        }
    }

    /// A kept connection that is still good: the one that was used last, so that those that are not needed grow old.
    fn take(&self, now: Instant) -> Option<Kept> {
        let mut idle = self.idle.lock();
        while let Some(kept) = idle.kept.pop() {
            if self.is_good(&kept, now) {
                return Some(kept);
            }
        }
        None
    }

    fn is_good(&self, kept: &Kept, now: Instant) -> bool {
        now.duration_since(kept.since) < self.pool_idle && kept.connection.stream().is_quiet()
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep(self: &Arc<Self>, connection: h1::Connection<Stream>) {
        if self.pool_idle.is_zero() {
            return;
        }
        let mut idle = self.idle.lock();
        idle.kept.push(Kept { connection, since: Instant::now() });
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), self.pool_idle));
        }
    }
}

/// What comes in time.
async fn within<T>(limit: Duration, future: impl Future<Output = Result<T, SendError>>) -> Result<T, SendError> {
    tokio::time::timeout(limit, future).await.unwrap_or(Err(SendError::FirstByteTimeout))
}

/// Closes kept connections that have been unused for too long, or were closed by the replica.
async fn sweep(origin: Weak<Origin>, pool_idle: Duration) {
    loop {
        tokio::time::sleep((pool_idle / SWEEPS).max(SWEEP_MIN)).await;
        let Some(origin) = origin.upgrade() else { return };
        let (mut idle, now) = (origin.idle.lock(), Instant::now());
        idle.kept.retain(|kept| origin.is_good(kept, now));
        if idle.kept.is_empty() {
            idle.is_swept = false;
            return;
        }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("host", &self.host).field("http2", &self.http2).finish_non_exhaustive()
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(error) => write!(f, "cannot connect: {}", innermost(error.as_ref())),
            Self::Lost { error, .. } => write!(f, "connection lost: {}", innermost(error.as_ref())),
            Self::Upgrade => f.write_str("protocol switched unasked"),
            Self::FirstByteTimeout => f.write_str("no answer in time"),
        }
    }
}

/// The error that is the cause of all others: libraries say what failed and hide why in its sources.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a (dyn std::error::Error + 'static) {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error
}
