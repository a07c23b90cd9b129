//! The gateway: what all connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use http::{Response, StatusCode};
use kvroute_core::live::{Duty, Health, Live};
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::config::{self, Change, Config};
use crate::keepers::Keepers;
use crate::models::Lists;
use crate::monitor::Monitors;
use crate::request::RefusalLog;
use crate::request::call::Probe;
use crate::response::body::ResponseBody;
use crate::snapshot::Snapshot;
use crate::telemetry::Telemetry;
use crate::upstream::budget::RetryBudget;

/// The state shared by all connections of one gateway.
#[derive(Debug)]
pub struct Gateway {
    snapshot: Arc<ArcSwap<Snapshot>>,
    telemetry: Arc<Telemetry>,
    clock: Arc<Clock>,
    monitors: Mutex<Monitors>,
    draining: AtomicBool,
    retries: RetryBudget,
    keepers: Keepers,
    refusals: RefusalLog,
    models: Lists,
}

impl Gateway {
    /// A gateway with its first configuration. Must be called within a Tokio runtime: it starts watching the replicas.
    pub(crate) fn start(config: Config) -> Arc<Self> {
        let snapshot = Arc::new(ArcSwap::from_pointee(Snapshot::next(None, config)));
        let clock = Arc::new(Clock::start());
        let telemetry = Arc::new(Telemetry::new(snapshot.clone(), clock.clone()));
        let gateway = Self {
            snapshot,
            telemetry,
            clock,
            monitors: Mutex::default(),
            draining: AtomicBool::new(false),
            retries: RetryBudget::default(),
            keepers: Keepers::default(),
            refusals: RefusalLog::default(),
            models: Lists::default(),
        };
        gateway.monitors.lock().follow(&gateway.snapshot());
        Arc::new(gateway)
    }

    /// Puts a new configuration in force; gives what changed. Requests under way keep what they began with.
    pub fn apply(&self, mut config: Config) -> Vec<Change> {
        let mut monitors = self.monitors.lock(); // one reload at a time
        let before = self.snapshot();
        let changes = config::changes(&before.config, &config);
        config.keep_what_needs_a_restart(&before.config);
        self.snapshot.store(Arc::new(Snapshot::next(Some(&before), config)));
        let now = self.snapshot();
        monitors.follow(&now);
        self.telemetry.reloaded(true);
        changes
    }

    /// A new configuration could not be read; the one in force stays.
    pub fn reload_failed(&self) {
        self.telemetry.reloaded(false);
    }

    /// The metrics page.
    ///
    /// # Errors
    /// Only if a value cannot be written as text.
    pub fn metrics_page(&self) -> Result<String, std::fmt::Error> {
        self.telemetry.page()
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    pub(crate) fn telemetry(&self) -> &Arc<Telemetry> {
        &self.telemetry
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What all retries may cost.
    pub(crate) fn retries(&self) -> &RetryBudget {
        &self.retries
    }

    /// Who keeps what.
    pub(crate) fn keepers(&self) -> &Keepers {
        &self.keepers
    }

    /// What the log says of refusals.
    pub(crate) fn refusals(&self) -> &RefusalLog {
        &self.refusals
    }

    /// What models there were when somebody last asked.
    pub(crate) fn models(&self) -> &Lists {
        &self.models
    }

    /// From now on the gateway says that it is not ready.
    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Answers a question about the gateway itself.
    pub(crate) fn probe(&self, probe: Probe) -> Response<ResponseBody> {
        let (status, text) = match probe {
            Probe::Live => (StatusCode::OK, "ok\n".to_owned()),
            Probe::Ready => match self.not_ready() {
                None => (StatusCode::OK, "ready\n".to_owned()),
                Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
            },
        };
        let mut response = Response::new(ResponseBody::full(text));
        *response.status_mut() = status;
        response
    }

    /// Why no traffic should be sent here, if it should not.
    fn not_ready(&self) -> Option<String> {
        if self.draining.load(Ordering::Relaxed) {
            return Some("draining".to_owned());
        }
        if !self.monitors.lock().all_have_looked() {
            return Some("replicas have not been checked yet".to_owned());
        }
        let snapshot = self.snapshot();
        // A fleet that only answers checks late still serves.
        let serves = |live: &Live| matches!(live.health(), Health::Up | Health::Unresponsive);
        let is_ready = snapshot.engines().any(|engine| engine.replica.duty() == Duty::Ready && serves(engine.live));
        (!is_ready).then(|| "no replica is ready".to_owned())
    }
}
