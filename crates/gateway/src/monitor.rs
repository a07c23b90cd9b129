//! Watches every engine: asks for its health, and reads its metrics.
//!
//! One task each, started when the engine appears and ended when it goes, so a removed replica is not asked again.
//!
//! An engine that is busy answers late. So a check that got no answer in time counts as good if an answer to a request
//! has begun since the last one; and an engine that only is late is *unresponsive*, not *down*: it still gets requests
//! where nobody else can take them. Its cache view is forgotten when the engine has restarted, or refuses connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use kvroute_core::live::{Health, Live};
use kvroute_feeds::engine_metrics::{self, EngineMetrics};
use tokio::task::AbortHandle;

use crate::config::{Health as HealthSettings, Scrape};
use crate::snapshot::Snapshot;
use crate::upstream::origin::SendError;
use crate::upstream::target::Target;

/// The tasks that watch the replicas of the snapshot in force.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    tasks: HashMap<usize, Monitor>,
}

#[derive(Debug)]
struct Monitor {
    watch: Watch,
    has_looked: Arc<AtomicBool>,
    tasks: [AbortHandle; 2],
}

/// What is watched and how. A change of any of it starts the watch anew.
#[derive(Clone, Debug)]
struct Watch {
    live: Arc<Live>,
    target: Arc<Target>,
    health: HealthSettings,
    scrape: Scrape,
}

impl Monitors {
    /// Watches the replicas of `snapshot` and no others.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) {
        let mut before = std::mem::take(&mut self.tasks);
        for (_, live, target) in snapshot.engines() {
            let watch = Watch {
                live: live.clone(),
                target: target.clone(),
                health: snapshot.config.health.clone(),
                scrape: snapshot.config.metrics_scrape.clone(),
            };
            let key = Arc::as_ptr(live) as usize;
            let monitor = match before.remove(&key) {
                Some(monitor) if monitor.watch.is_same(&watch) => monitor,
                Some(monitor) => Monitor::start(watch, monitor.has_looked.clone()),
                None => Monitor::start(watch, Arc::default()),
            };
            self.tasks.insert(key, monitor);
        }
    }

    /// Whether every replica has been asked at least once.
    pub(crate) fn all_have_looked(&self) -> bool {
        self.tasks.values().all(|monitor| monitor.has_looked.load(Ordering::Relaxed))
    }
}

impl Monitor {
    fn start(watch: Watch, has_looked: Arc<AtomicBool>) -> Self {
        let health = tokio::spawn(watch.clone().check_forever(has_looked.clone())).abort_handle();
        let scrape = tokio::spawn(watch.clone().scrape_forever()).abort_handle();
        Self { watch, has_looked, tasks: [health, scrape] }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Watch {
    fn is_same(&self, other: &Self) -> bool {
        self.target.is_same(&other.target) && self.health == other.health && self.scrape == other.scrape
    }

    async fn check_forever(self, has_looked: Arc<AtomicBool>) {
        let path = self.health.path_for(self.target.api);
        let (mut failures, mut successes) = (0, 0);
        let mut answers = self.live.answers();
        loop {
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

    async fn scrape_forever(self) {
        if !self.scrape.enabled {
            self.target.engine.set(None);
            return;
        }
        let mut known = EngineMetrics::default();
        loop {
            let page = self.get("/metrics", self.scrape.timeout_ms).await.ok();
            let read = page.map(|page| engine_metrics::parse(&String::from_utf8_lossy(&page)));
            self.target.engine.set(read.map(|metrics| (Instant::now(), metrics)));
            if let Some(now) = read {
                self.learn(&mut known, now);
            }
            tokio::time::sleep(Duration::from_millis(self.scrape.interval_ms)).await;
        }
    }

    /// Fits the cache view to what the engine says of itself. `known` is the last that it said of each thing.
    fn learn(&self, known: &mut EngineMetrics, now: EngineMetrics) {
        if let Some(tokens) = now.kv_tokens
            && known.kv_tokens.replace(tokens) != Some(tokens)
        {
            self.live.cache.resize(tokens);
        }
        if let Some(started) = now.process_start_seconds
            && known.process_start_seconds.replace(started).is_some_and(|before| before != started)
        {
            tracing::info!(url = %self.target.url, "engine restarted, its cache view starts empty");
            self.live.cache.clear();
        }
    }

    /// The body of a good answer.
    async fn get(&self, path: &str, timeout_ms: u64) -> Result<Vec<u8>, Unwell> {
        let timeout = Duration::from_millis(timeout_ms);
        let answer = async {
            let response = self.target.get(path, timeout).await.map_err(|error| match error {
                SendError::FirstByteTimeout => Unwell::Late(error.to_string()),
                error => Unwell::Refuses(error.to_string()),
            })?;
            if !response.status().is_success() {
                return Err(Unwell::Refuses(format!("answers {}", response.status())));
            }
            let body = Limited::new(response.into_body(), engine_metrics::PAGE_BYTES_MAX).collect().await;
            body.map(|body| body.to_bytes().to_vec()).map_err(|error| Unwell::Refuses(error.to_string()))
        };
        let late = || Unwell::Late(format!("no answer in {timeout_ms} ms"));
        tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| Err(late()))
    }
}

/// Why an engine gave no good answer.
#[derive(Debug)]
enum Unwell {
    /// It did not answer in time.
    Late(String),
    /// It cannot be reached, or says itself that it is not well.
    Refuses(String),
}

impl Unwell {
    fn health(&self) -> Health {
        match self {
            Self::Late(_) => Health::Unresponsive,
            Self::Refuses(_) => Health::Down,
        }
    }

    fn why(&self) -> &str {
        match self {
            Self::Late(why) | Self::Refuses(why) => why,
        }
    }
}
