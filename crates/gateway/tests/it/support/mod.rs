//! What the tests are made of: a gateway, engines that answer by a script, clients.
//!
//! Every operation here that waits for somebody else is bounded in time, so no test can hang.

mod bodies;
mod client;
mod gateway;
mod metrics;
mod upstream;
mod wire;

use std::future::Future;
use std::time::{Duration, Instant};

pub(crate) use self::bodies::{
    DONE, EVENT_STREAM, chat, completion, content, invocations, invocations_stream, streamed_chat, usage,
};
pub(crate) use self::client::{Answer, Call, get, post, post_with, request};
pub(crate) use self::gateway::{Gateway, replicas};
pub(crate) use self::metrics::Page;
pub(crate) use self::upstream::{Arrived, Gate, Refusing, Reply, Upstream};
pub(crate) use self::wire::{Head, Wire};

/// How long anything that happens at once may take on a busy machine.
const SOON_S: u64 = 8;

/// The future's output.
///
/// # Panics
/// It takes longer than `seconds`.
pub(crate) async fn within<F: Future>(seconds: u64, future: F) -> F::Output {
    match tokio::time::timeout(Duration::from_secs(seconds), future).await {
        Ok(output) => output,
        Err(_) => panic!("not done within {seconds} s"),
    }
}

/// The future's output, which must come soon.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    within(SOON_S, future).await
}

/// Waits until `condition` holds; `what` names it if it does not within `seconds`.
pub(crate) async fn until_within(seconds: u64, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {seconds} s: {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Waits until `condition` holds, which must be soon.
pub(crate) async fn until(what: &str, condition: impl AsyncFnMut() -> bool) {
    until_within(SOON_S, what, condition).await;
}
