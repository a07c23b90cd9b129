//! Watches every engine: asks for its health, reads its metrics, and where that is wanted its list of models.
//!
//! A task for each, started when the engine appears and ended when it goes, so a removed replica is not asked again. An
//! engine that is being worked on (duty `maint`) is not asked either: whatever it did then would say nothing, and a
//! machine that is taken apart should find no noise in its logs.

mod health;
mod told;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use kvroute_core::discovery::Discovery;
use kvroute_core::live::{Duty, Health, Live};
use kvroute_feeds::engine_metrics;
use tokio::task::AbortHandle;

use crate::config::{Health as HealthSettings, Scrape};
use crate::snapshot::{Engine, Snapshot};
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
    tasks: [AbortHandle; 3],
}

/// What is watched and how. A change of any of it starts the watch anew.
#[derive(Clone, Debug)]
struct Watch {
    /// Whose duty counts.
    replica: Arc<Live>,
    live: Arc<Live>,
    target: Arc<Target>,
    /// Where it is told which adapters it lists, if anybody wants to know.
    discovery: Option<Arc<Discovery>>,
    health: HealthSettings,
    scrape: Scrape,
}

impl Monitors {
    /// Watches the replicas of `snapshot` and no others.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) {
        snapshot.discoveries().for_each(|(discovery, engines)| discovery.follow(engines));
        let mut before = std::mem::take(&mut self.tasks);
        for Engine { replica, live, target, discovery } in snapshot.engines() {
            let watch = Watch {
                replica: replica.clone(),
                live: live.clone(),
                target: target.clone(),
                discovery: discovery.cloned(),
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
        let list = tokio::spawn(watch.clone().list_forever()).abort_handle();
        Self { watch, has_looked, tasks: [health, scrape, list] }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Watch {
    fn is_same(&self, other: &Self) -> bool {
        self.target.is_same(&other.target)
            && self.discovery.as_ref().map(Arc::as_ptr) == other.discovery.as_ref().map(Arc::as_ptr)
            && self.health == other.health
            && self.scrape == other.scrape
    }

    /// Whether the engine is to be left alone.
    fn is_worked_on(&self) -> bool {
        self.replica.duty() == Duty::Maint
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
