//! Says of what happens again and again once what it is, and then how often.
//!
//! When an engine dies every request on it fails, and a line for each would bury what else the log has to say.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Between two sums.
pub(crate) const SUM_EVERY: Duration = Duration::from_secs(5);

/// One kind of thing that may happen often.
#[derive(Debug)]
pub(crate) struct Repeats {
    every: Duration,
    /// How often it has happened since something was said of it; `None` while nothing needs to be said.
    unsaid: Mutex<Option<u64>>,
}

impl Repeats {
    pub(crate) fn new(every: Duration) -> Arc<Self> {
        Arc::new(Self { every, unsaid: Mutex::new(None) })
    }

    /// It has happened. `say` is called at once if nothing was said of it lately; else it is counted, and `say_more` is
    /// told how many have come together, at the end of each time in which some did. Must be called within a runtime.
    pub(crate) fn happened(self: &Arc<Self>, say: impl FnOnce(), say_more: impl Fn(u64) + Send + 'static) {
        {
            let mut unsaid = self.unsaid.lock();
            if let Some(count) = &mut *unsaid {
                *count += 1;
                return;
            }
            *unsaid = Some(0);
        }
        say();
        let repeats = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(repeats.every).await;
                match repeats.take() {
                    Some(0) | None => return,
                    Some(more) => say_more(more),
                }
            }
        });
    }

    /// How often it has happened since the last sum; after none, nothing is counted any more.
    fn take(&self) -> Option<u64> {
        let mut unsaid = self.unsaid.lock();
        let count = unsaid.take();
        *unsaid = count.filter(|count| *count > 0).map(|_| 0);
        count
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    async fn next(said: &mut UnboundedReceiver<u64>) -> u64 {
        tokio::time::timeout(Duration::from_secs(8), said.recv()).await.expect("soon").expect("somebody may say more")
    }

    #[tokio::test]
    async fn the_first_is_told_at_once_and_then_how_many_until_there_are_none() {
        let repeats = Repeats::new(Duration::from_millis(20));
        let (say, mut said) = unbounded_channel();
        let happens = |times: u64| {
            for _ in 0..times {
                let (first, more) = (say.clone(), say.clone());
                repeats
                    .happened(|| first.send(0).expect("it is heard"), move |sum| more.send(sum).expect("it is heard"));
            }
        };
        for _ in 0..2 {
            happens(5);
            assert_eq!(next(&mut said).await, 0, "the first");
            assert_eq!(next(&mut said).await, 4, "and four more");
            happens(3);
            assert_eq!(next(&mut said).await, 3, "not a first one again");
            while repeats.unsaid.lock().is_some() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}
