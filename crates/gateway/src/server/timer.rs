//! A deadline that is moved far more often than it passes.
//!
//! Registering a timer and taking it back costs more than most of what a request does. So one timer stays registered,
//! and only the deadline is remembered: a timer that fires too early is set to the time that is left.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Timer {
    /// Made when somebody waits for the first time.
    sleep: Option<Pin<Box<Sleep>>>,
    /// When the wait is over; none while nobody waits.
    deadline: Option<Instant>,
}

impl Timer {
    /// What was waited for has come: the next wait has all of its time.
    pub(crate) fn stop(&mut self) {
        self.deadline = None;
    }

    /// Ready once a wait has lasted for `limit`, which begins now if none has begun.
    pub(crate) fn poll_over(&mut self, limit: Duration, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + limit);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_wait_has_its_own_limit_whatever_the_ones_before_had() {
        let mut timer = Timer::default();
        let s = Duration::from_secs;
        for (limit_s, is_ended_after_s) in
            [(10, Some(4)), (10, None), (10, Some(9)), (3, None), (30, Some(29)), (5, None)]
        {
            let begun = Instant::now();
            match is_ended_after_s {
                None => {
                    poll_fn(|cx| timer.poll_over(s(limit_s), cx)).await;
                    assert_eq!(begun.elapsed().as_secs(), limit_s);
                }
                Some(after_s) => {
                    let waited = poll_fn(|cx| timer.poll_over(s(limit_s), cx));
                    assert!(tokio::time::timeout(s(after_s), waited).await.is_err());
                    assert_eq!(begun.elapsed().as_secs(), after_s);
                }
            }
            timer.stop();
        }
    }
}
