//! What the gateway tells about itself, for Prometheus.
//!
//! A registry of its own, handed in by constructor: no globals. Labels have bounded values only: names from the
//! configuration, never anything a client sent. What belongs to a variant or a replica is read from the snapshot in force
//! at each scrape, so what is removed leaves no series behind.

mod fleet;
pub mod names;
mod repeats;
mod series;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use kvroute_core::decision::Decision;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{self, Registry};

use self::names::{Kind, Metric};
pub(crate) use self::series::{Ended, ReplicaSeries, Series, VariantSeries};
use crate::clock::Clock;
use crate::request::Refusal;
use crate::request::call::Api;
use crate::snapshot::Snapshot;

const DECISION_BUCKETS: [f64; 12] = [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 1e-1];

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct VariantLabels {
    pub(crate) endpoint: Arc<str>,
    pub(crate) variant: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
pub(crate) struct ReplicaLabels {
    pub(crate) endpoint: Arc<str>,
    pub(crate) variant: Arc<str>,
    pub(crate) replica: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RefusalLabels {
    pub(crate) code: u16,
    pub(crate) kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct DecisionLabels {
    pub(crate) strategy: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ReasonLabels {
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

impl VariantLabels {
    pub(crate) fn of(replica: &ReplicaLabels) -> Self {
        Self { endpoint: replica.endpoint.clone(), variant: replica.variant.clone() }
    }
}

/// The gateway's metrics.
#[derive(Debug)]
pub(crate) struct Telemetry {
    registry: Registry,
    pub(crate) client_connections: Gauge,
    pub(crate) bodies_bytes: Gauge,
    pub(crate) refused: Family<RefusalLabels, Counter>,
    pub(crate) decision: Family<DecisionLabels, Histogram>,
    pub(crate) unscanned: Family<ReasonLabels, Counter>,
    reload_ok: Gauge,
    reload_time: Gauge,
}

impl Telemetry {
    /// Metrics of a gateway whose snapshot in force is at `snapshot`.
    pub(crate) fn new(snapshot: Arc<ArcSwap<Snapshot>>, clock: Arc<Clock>) -> Self {
        let mut r = Registry::default();
        let build: Family<BuildLabels, Gauge> = register(&mut r, names::BUILD, Family::default());
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        r.register_collector(Box::new(fleet::FleetCollector::new(snapshot, clock)));
        let telemetry = Self {
            client_connections: register(&mut r, names::CLIENT_CONNECTIONS, Gauge::default()),
            bodies_bytes: register(&mut r, names::BODIES, Gauge::default()),
            refused: register(&mut r, names::REFUSED, Family::default()),
            decision: register(
                &mut r,
                names::DECISION,
                Family::new_with_constructor(|| Histogram::new(DECISION_BUCKETS)),
            ),
            unscanned: register(&mut r, names::UNSCANNED, Family::default()),
            reload_ok: register(&mut r, names::RELOAD_OK, Gauge::default()),
            reload_time: register(&mut r, names::RELOAD_TIME, Gauge::default()),
            registry: r,
        };
        telemetry.reloaded(true);
        telemetry
    }

    /// A request was answered without asking a replica.
    pub(crate) fn refused(&self, refusal: &Refusal, api: Api) {
        self.refused.get_or_create(&RefusalLabels { code: refusal.code(api), kind: refusal.name() }).inc();
    }

    /// A prompt could not be read.
    pub(crate) fn unscanned(&self, reason: &'static str) {
        self.unscanned.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// A decision was taken.
    pub(crate) fn decided(&self, decision: &Decision, took: Duration) {
        let strategy = decision.strategy.as_str();
        self.decision.get_or_create(&DecisionLabels { strategy }).observe(took.as_secs_f64());
    }

    /// The configuration was loaded, or could not be.
    pub(crate) fn reloaded(&self, successfully: bool) {
        self.reload_ok.set(i64::from(successfully));
        if successfully {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.reload_time.set(now.as_secs() as i64);
        }
    }

    /// The page.
    pub(crate) fn page(&self) -> Result<String, fmt::Error> {
        let mut page = String::with_capacity(16 << 10);
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

fn register<M: registry::Metric + Clone>(registry: &mut Registry, metric: Metric, instrument: M) -> M {
    registry.register(base_name(metric), metric.help.trim_end_matches('.'), instrument.clone());
    instrument
}

/// The name as the client library wants it: it adds `_total` to counters itself, and a full stop to the help.
fn base_name(metric: Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => metric.name.trim_end_matches("_total"),
        Kind::Gauge | Kind::Histogram => metric.name,
    }
}

fn metric_type(metric: Metric) -> MetricType {
    match metric.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    }
}
