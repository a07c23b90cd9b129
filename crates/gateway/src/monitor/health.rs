//! Asks an engine whether it is well.
//!
//! An engine that is busy answers late. So a check that got no answer in time counts as good if an answer to a request
//! has begun since the last one; and an engine that only is late is *unresponsive*, not *down*: it still gets requests
//! where nobody else can take them. Its cache view is forgotten when it refuses connections, or is being worked on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kvroute_core::live::Health;

use super::{Unwell, Watch};

impl Watch {
    pub(super) async fn check_forever(self, has_looked: Arc<AtomicBool>) {
        let path = self.health.path_for(self.target.api);
        let (mut failures, mut successes) = (0, 0);
        let mut answers = self.live.answers();
        loop {
            if self.is_worked_on() {
                // Whatever it was before, it has to show anew.
                self.live.set_health(Health::Warming);
                self.live.cache.clear();
                (failures, successes) = (0, 0);
                tokio::time::sleep(Duration::from_millis(self.health.interval_ms)).await;
                continue;
            }
            let answer = self.get(path, self.health.timeout_ms).await;
            let is_alive = std::mem::replace(&mut answers, self.live.answers()) != self.live.answers();
            let found = match answer {
                Err(Unwell::Late(_)) if is_alive => Ok(()),
                answer => answer.map(drop),
            };
            match found {
                Ok(()) => {
                    (failures, successes) = (0, successes + 1);
                    if successes >= self.health.successes {
                        self.found(Health::Up, "answers health checks");
                    }
                }
                Err(unwell) => {
                    (failures, successes) = (failures + 1, 0);
                    if failures >= self.health.failures {
                        self.found(unwell.health(), unwell.why());
                    }
                }
            }
            has_looked.store(true, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(self.health.interval_ms)).await;
        }
    }

    fn found(&self, health: Health, why: &str) {
        let before = self.live.set_health(health);
        if before == health {
            return;
        }
        let replica = self.target.replica.to_str().unwrap_or_default();
        let (from, to) = (before.as_str(), health.as_str());
        if health == Health::Up {
            tracing::info!(replica, url = %self.target.url, from, to, "replica is well");
        } else {
            tracing::warn!(replica, url = %self.target.url, from, to, why, "replica is not well");
        }
        if health == Health::Down {
            // Whatever refuses connections, or says that it is not well, most likely lost its cache.
            self.live.cache.clear();
        }
    }
}
