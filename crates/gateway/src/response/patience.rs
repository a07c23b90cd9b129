//! An answer on one of many streams of an HTTP/2 connection, given up when its client leaves it unread for too long.
//!
//! A client may read its other streams all the while, so the connection tells nothing, and the HTTP library does not ask
//! for a body that there is no room for. Hence a watcher beside it, which takes the answer away.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::body::BoxError;
use super::relay::Relay;

/// See the module.
#[derive(Debug)]
pub(crate) struct Watched {
    state: Arc<Mutex<State>>,
    watcher: AbortHandle,
}

#[derive(Debug)]
struct State {
    /// None once it was given up.
    relay: Option<Box<Relay>>,
    /// When a piece was handed out after which nothing was asked for yet.
    unread_since: Option<Instant>,
}

impl Watched {
    /// The answer, given up once nothing of it was asked for within `limit`. Must be called within a runtime.
    pub(crate) fn new(relay: Box<Relay>, limit: Duration) -> Self {
        let state = Arc::new(Mutex::new(State { relay: Some(relay), unread_since: Some(Instant::now()) }));
        let watcher = tokio::spawn(watch(state.clone(), limit)).abort_handle();
        Self { state, watcher }
    }

    pub(crate) fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut state = self.state.lock();
        let Some(relay) = &mut state.relay else {
            return Poll::Ready(Some(Err("the answer was left unread for too long".into())));
        };
        let frame = relay.poll_frame(cx);
        state.unread_since = frame.is_ready().then(Instant::now);
        frame
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.state.lock().relay.as_ref().is_some_and(|relay| relay.is_end_stream())
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.state.lock().relay.as_ref().map(|relay| relay.size_hint()).unwrap_or_default()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

async fn watch(state: Arc<Mutex<State>>, limit: Duration) {
    loop {
        let unread = {
            let mut state = state.lock();
            let unread = state.unread_since.map_or(Duration::ZERO, |since| since.elapsed());
            if unread >= limit {
                state.relay = None;
                return;
            }
            unread
        };
        tokio::time::sleep(limit - unread).await;
    }
}
