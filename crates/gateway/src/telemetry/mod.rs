//! What the gateway tells about itself, for Prometheus.
//!
//! A registry of its own, handed in by constructor: no globals. Labels have bounded values only: names from the
//! configuration, never anything a client sent. What belongs to a replica is read from the snapshot at each scrape, or
//! forgotten with it, so a removed replica leaves no series behind.

mod fleet;
pub mod names;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use kvroute_core::decision::{Decision, Reason};
use kvroute_core::fleet::Endpoint;
use kvroute_core::routing::Strategy;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{self, Registry};

use self::names::{Kind, Metric};
use crate::clock::Clock;
use crate::request::Refusal;
use crate::request::call::Api;
use crate::snapshot::Snapshot;

/// vLLM's buckets for the time to the first token, so that the gateway's quantiles line up with the engines'.
const TTFT_BUCKETS: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];
/// vLLM's buckets between tokens.
const INTER_TOKEN_BUCKETS: [f64; 19] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
/// vLLM's buckets of whole requests.
const DURATION_BUCKETS: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];
const DECISION_BUCKETS: [f64; 12] = [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 1e-1];

/// Where a request went and why, as labels.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) endpoint: Arc<str>,
    pub(crate) variant: Arc<str>,
    pub(crate) strategy: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) outcome: &'static str,
    pub(crate) code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct VariantLabels {
    pub(crate) endpoint: Arc<str>,
    pub(crate) variant: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct StrategyLabels {
    pub(crate) endpoint: Arc<str>,
    pub(crate) variant: Arc<str>,
    pub(crate) strategy: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ReplicaLabels {
    pub(crate) endpoint: Arc<str>,
    pub(crate) variant: Arc<str>,
    pub(crate) replica: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct SpillLabels {
    pub(crate) endpoint: Arc<str>,
    pub(crate) variant: Arc<str>,
    pub(crate) replica: Arc<str>,
    pub(crate) reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct TokenLabels {
    pub(crate) endpoint: Arc<str>,
    pub(crate) variant: Arc<str>,
    pub(crate) usage: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct StageLabels {
    pub(crate) endpoint: Arc<str>,
    pub(crate) variant: Arc<str>,
    pub(crate) usage: &'static str,
    pub(crate) stage: &'static str,
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

impl StrategyLabels {
    pub(crate) fn of(replica: &ReplicaLabels, strategy: Strategy) -> Self {
        let VariantLabels { endpoint, variant } = VariantLabels::of(replica);
        Self { endpoint, variant, strategy: strategy.as_str() }
    }
}

impl SpillLabels {
    fn of(replica: &ReplicaLabels, reason: Reason) -> Self {
        let ReplicaLabels { endpoint, variant, replica } = replica.clone();
        Self { endpoint, variant, replica, reason: reason.as_str() }
    }
}

impl TokenLabels {
    pub(crate) fn of(replica: &ReplicaLabels, usage: &'static str) -> Self {
        let VariantLabels { endpoint, variant } = VariantLabels::of(replica);
        Self { endpoint, variant, usage }
    }
}

impl StageLabels {
    pub(crate) fn of(replica: &ReplicaLabels, usage: &'static str, stage: &'static str) -> Self {
        let VariantLabels { endpoint, variant } = VariantLabels::of(replica);
        Self { endpoint, variant, usage, stage }
    }
}

/// The gateway's metrics.
#[derive(Debug)]
pub(crate) struct Telemetry {
    registry: Registry,
    pub(crate) client_connections: Gauge,
    pub(crate) bodies_bytes: Gauge,
    pub(crate) requests: Family<RequestLabels, Counter>,
    pub(crate) refused: Family<RefusalLabels, Counter>,
    pub(crate) retries: Family<ReplicaLabels, Counter>,
    pub(crate) ttft: Family<StrategyLabels, Histogram>,
    pub(crate) inter_token: Family<VariantLabels, Histogram>,
    pub(crate) duration: Family<VariantLabels, Histogram>,
    pub(crate) decision: Family<DecisionLabels, Histogram>,
    pub(crate) prompt_tokens: Family<TokenLabels, Counter>,
    pub(crate) prefix_tokens: Family<StageLabels, Counter>,
    pub(crate) spills: Family<SpillLabels, Counter>,
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
            requests: register(&mut r, names::REQUESTS, Family::default()),
            refused: register(&mut r, names::REFUSED, Family::default()),
            retries: register(&mut r, names::RETRIES, Family::default()),
            ttft: register(&mut r, names::TTFT, Family::new_with_constructor(|| Histogram::new(TTFT_BUCKETS))),
            inter_token: register(
                &mut r,
                names::INTER_TOKEN,
                Family::new_with_constructor(|| Histogram::new(INTER_TOKEN_BUCKETS)),
            ),
            duration: register(
                &mut r,
                names::DURATION,
                Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            ),
            decision: register(
                &mut r,
                names::DECISION,
                Family::new_with_constructor(|| Histogram::new(DECISION_BUCKETS)),
            ),
            prompt_tokens: register(&mut r, names::PROMPT_TOKENS, Family::default()),
            prefix_tokens: register(&mut r, names::PREFIX_TOKENS, Family::default()),
            spills: register(&mut r, names::SPILLS, Family::default()),
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
    pub(crate) fn decided(&self, endpoint: &Endpoint, decision: &Decision, took: Duration) {
        let strategy = decision.strategy.as_str();
        self.decision.get_or_create(&DecisionLabels { strategy }).observe(took.as_secs_f64());
        if let Some(home) = decision.home.filter(|_| decision.reason.is_spill()) {
            let variant = &endpoint.variants[decision.variant];
            let replica = ReplicaLabels {
                endpoint: endpoint.name.clone(),
                variant: variant.name.clone(),
                replica: variant.replicas[home.replica].id.clone(),
            };
            let labels = SpillLabels::of(&replica, decision.reason);
            self.spills.get_or_create(&labels).inc();
        }
    }

    /// The replica is gone, and so are its series.
    pub(crate) fn forget(&self, replica: &ReplicaLabels) {
        self.retries.remove(replica);
        for reason in Reason::ALL.into_iter().filter(|reason| reason.is_spill()) {
            self.spills.remove(&SpillLabels::of(replica, reason));
        }
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
