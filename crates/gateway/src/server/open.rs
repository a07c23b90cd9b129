//! The connections of one listener: they are told when to end, and waited for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_draining: AtomicBool,
    open: Mutex<Open>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    last_id: u64,
    /// How each is woken, once it has said so.
    wakers: HashMap<u64, Option<Waker>>,
}

/// One of them, for as long as it is open.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    id: u64,
}

impl Connections {
    /// One more.
    pub(super) fn open(&self) -> Connection {
        let mut open = self.0.open.lock();
        open.last_id += 1;
        let id = open.last_id;
        open.wakers.insert(id, None);
        Connection { shared: self.0.clone(), id }
    }

    /// Tells all to end, and waits until they have.
    pub(super) async fn drain(self) {
        self.0.is_draining.store(true, Ordering::Relaxed);
        let wakers: Vec<Waker> = self.0.open.lock().wakers.values().flatten().cloned().collect();
        wakers.into_iter().for_each(Waker::wake);
        loop {
            let closed = self.0.closed.notified();
            if self.0.open.lock().wakers.is_empty() {
                return;
            }
            closed.await;
        }
    }
}

impl Connection {
    /// Has the task of `cx` woken when it is to end. Once is enough: a task stays the same.
    pub(super) fn listen(&self, cx: &Context<'_>) {
        self.shared.open.lock().wakers.insert(self.id, Some(cx.waker().clone()));
    }

    /// Whether it is to end as soon as it can.
    pub(super) fn is_to_end(&self) -> bool {
        self.shared.is_draining.load(Ordering::Relaxed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.open.lock().wakers.remove(&self.id);
        self.shared.closed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn draining_wakes_those_that_wait_and_ends_with_the_last() {
        let connections = Connections::default();
        let (idle, busy) = (connections.open(), connections.open());
        let waits = tokio::spawn(async move {
            let mut has_listened = false;
            poll_fn(|cx| {
                if !std::mem::replace(&mut has_listened, true) {
                    idle.listen(cx);
                }
                if idle.is_to_end() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
        tokio::task::yield_now().await;
        let drained = tokio::spawn(connections.drain());
        waits.await.unwrap();
        tokio::task::yield_now().await;
        assert!(!drained.is_finished() && busy.is_to_end());
        drop(busy);
        drained.await.unwrap();
    }
}
