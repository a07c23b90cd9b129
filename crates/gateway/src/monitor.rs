//! Watches every replica: asks for its health, and reads the metrics of its engine.
//!
//! One task a replica, started when the replica appears and ended when it goes, so a removed replica is not asked again.
//! Health decides between ready and down only; a replica that was set to drain stays so. Counters of requests are
//! nobody's business here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Limited};
use kvroute_core::fleet::{Live, State};
use kvroute_feeds::engine_metrics::{self, EngineMetrics};
use tokio::task::AbortHandle;

use crate::config::{Health, Scrape};
use crate::snapshot::Snapshot;
use crate::upstream::body::Pieces;
use crate::upstream::client::Client;
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
    client: Client,
    health: Health,
    scrape: Scrape,
}

impl Monitors {
    /// Watches the replicas of `snapshot` and no others.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) {
        let mut before = std::mem::take(&mut self.tasks);
        for (_, _, replica) in snapshot.replicas() {
            let watch = Watch {
                live: replica.live.clone(),
                target: snapshot.target(replica.target).clone(),
                client: snapshot.client.clone(),
                health: snapshot.config.health.clone(),
                scrape: snapshot.config.metrics_scrape.clone(),
            };
            let key = Arc::as_ptr(&replica.live) as usize;
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
        loop {
            match self.get(path, self.health.timeout_ms).await {
                Ok(_) => {
                    (failures, successes) = (0, successes + 1);
                    if successes >= self.health.successes {
                        self.change(State::Down, State::Ready, "answers health checks");
                    }
                }
                Err(why) => {
                    (failures, successes) = (failures + 1, 0);
                    if failures >= self.health.failures && self.change(State::Ready, State::Down, &why) {
                        // Whatever ends its health checks most likely ended its cache.
                        self.live.cache.clear();
                    }
                }
            }
            has_looked.store(true, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(self.health.interval_ms)).await;
        }
    }

    /// Moves the replica from one state to another; says whether it did.
    fn change(&self, from: State, to: State, why: &str) -> bool {
        let changed = self.live.state() == from && self.live.set_state(to) == from;
        if changed {
            let replica = self.target.replica.to_str().unwrap_or_default();
            tracing::warn!(replica, url = %self.target.url, state = to.as_str(), why, "replica changed state");
        }
        changed
    }

    async fn scrape_forever(self) {
        if !self.scrape.enabled {
            return;
        }
        loop {
            let page = self.get("/metrics", self.scrape.timeout_ms).await;
            let now = Instant::now();
            let read = page.ok().map(|page| (now, engine_metrics::parse(&String::from_utf8_lossy(&page))));
            let before = self.target.engine.set(read);
            if let Some((_, metrics)) = read {
                self.learn(before.map(|(_, metrics)| metrics), metrics);
            }
            tokio::time::sleep(Duration::from_millis(self.scrape.interval_ms)).await;
        }
    }

    /// Fits the cache view to what the engine says of itself.
    fn learn(&self, before: Option<EngineMetrics>, now: EngineMetrics) {
        let before = before.unwrap_or_default();
        if now.kv_tokens != before.kv_tokens
            && let Some(tokens) = now.kv_tokens
        {
            self.live.cache.resize(tokens);
        }
        if before.process_start_seconds.is_some() && now.process_start_seconds != before.process_start_seconds {
            tracing::info!(url = %self.target.url, "engine restarted, its cache view starts empty");
            self.live.cache.clear();
        }
    }

    /// The body of a good answer, or in a few words why there is none.
    async fn get(&self, path: &str, timeout_ms: u64) -> Result<Vec<u8>, String> {
        let path = PathAndQuery::try_from(path).map_err(|error| error.to_string())?;
        let uri = self.target.uri(&path).ok_or("the url and the path make no address")?;
        let mut request = Request::new(Pieces::default());
        *request.uri_mut() = uri;
        request.headers_mut().insert(header::USER_AGENT, HeaderValue::from_static("kvroute"));
        if let Some(key) = &self.target.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, key.clone());
        }
        let timeout = Duration::from_millis(timeout_ms);
        let answer = async {
            let response = self.client.send(request, timeout).await.map_err(|error| error.to_string())?;
            if !response.status().is_success() {
                return Err(format!("answers {}", response.status()));
            }
            let body = Limited::new(response.into_body(), engine_metrics::PAGE_BYTES_MAX).collect().await;
            body.map(|body| body.to_bytes().to_vec()).map_err(|error| error.to_string())
        };
        tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| Err(format!("no answer in {timeout_ms} ms")))
    }
}
