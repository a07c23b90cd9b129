//! What is counted of variants and replicas.
//!
//! The instruments belong to what they count, as its load does: snapshots share them, and the page shows those of the
//! snapshot in force. So what is gone from the configuration is gone from the page, and a request that was placed before
//! writes where nobody looks any more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kvroute_core::decision::Reason;
use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::names::{self, Metric};
use super::repeats::{Repeats, SUM_EVERY};
use super::{ReplicaLabels, VariantLabels, base_name, metric_type};
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

/// What a place writes to: its variant's instruments and its replica's.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) variant: Arc<VariantSeries>,
    pub(crate) replica: Arc<ReplicaSeries>,
}

/// What is counted of one variant.
#[derive(Debug)]
pub(crate) struct VariantSeries {
    pub(crate) requests: Table<Ended, Counter>,
    /// By strategy.
    pub(crate) ttft: Table<&'static str, Histogram>,
    pub(crate) inter_token: Histogram,
    pub(crate) duration: Histogram,
    /// By where the number is from.
    pub(crate) prompt_tokens: Table<&'static str, Counter>,
    /// By where the number is from, and stage.
    pub(crate) prefix_tokens: Table<(&'static str, &'static str), Counter>,
}

/// What is counted of one replica.
#[derive(Debug)]
pub(crate) struct ReplicaSeries {
    pub(crate) retries: Counter,
    /// What the log says of requests that failed there.
    pub(crate) failures: Arc<Repeats>,
    /// By reason.
    spills: Table<&'static str, Counter>,
}

/// How a request ended, and why it had gone there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ended {
    pub(crate) strategy: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) outcome: &'static str,
    /// The status that the client got.
    pub(crate) code: u16,
}

/// Instruments by what tells them apart, each made when it is first used.
#[derive(Debug)]
pub(crate) struct Table<K, M> {
    rows: Mutex<BTreeMap<K, M>>,
    fresh: fn() -> M,
}

impl<K: Ord + Copy, M: Clone> Table<K, M> {
    fn new(fresh: fn() -> M) -> Self {
        Self { rows: Mutex::default(), fresh }
    }

    /// The instrument of this key.
    pub(crate) fn of(&self, key: K) -> M {
        self.rows.lock().entry(key).or_insert_with(self.fresh).clone()
    }

    fn rows(&self) -> Vec<(K, M)> {
        self.rows.lock().iter().map(|(key, instrument)| (*key, instrument.clone())).collect()
    }
}

impl Default for VariantSeries {
    fn default() -> Self {
        Self {
            requests: Table::new(Counter::default),
            ttft: Table::new(|| Histogram::new(TTFT_BUCKETS)),
            inter_token: Histogram::new(INTER_TOKEN_BUCKETS),
            duration: Histogram::new(DURATION_BUCKETS),
            prompt_tokens: Table::new(Counter::default),
            prefix_tokens: Table::new(Counter::default),
        }
    }
}

impl Default for ReplicaSeries {
    fn default() -> Self {
        Self { retries: Counter::default(), failures: Repeats::new(SUM_EVERY), spills: Table::new(Counter::default) }
    }
}

impl ReplicaSeries {
    /// A request left this home because of load.
    pub(crate) fn spilled(&self, reason: Reason) {
        self.spills.of(reason.as_str()).inc();
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    endpoint: Arc<str>,
    variant: Arc<str>,
    strategy: &'static str,
    reason: &'static str,
    outcome: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StrategyLabels {
    endpoint: Arc<str>,
    variant: Arc<str>,
    strategy: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SpillLabels {
    endpoint: Arc<str>,
    variant: Arc<str>,
    replica: Arc<str>,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TokenLabels {
    endpoint: Arc<str>,
    variant: Arc<str>,
    usage: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StageLabels {
    endpoint: Arc<str>,
    variant: Arc<str>,
    usage: &'static str,
    stage: &'static str,
}

/// Writes what is counted of the variants and replicas of a snapshot.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let variants: Vec<(&VariantLabels, &VariantSeries)> = snapshot.variant_series().collect();
    let replicas: Vec<(&ReplicaLabels, &ReplicaSeries)> = snapshot.replica_series().collect();

    family(encoder, names::REQUESTS, &variants, |labels, series| {
        let rows = series.requests.rows().into_iter();
        let VariantLabels { endpoint, variant } = labels;
        rows.map(|(Ended { strategy, reason, outcome, code }, counter)| {
            let (endpoint, variant) = (endpoint.clone(), variant.clone());
            (RequestLabels { endpoint, variant, strategy, reason, outcome, code }, counter)
        })
        .collect()
    })?;
    family(encoder, names::RETRIES, &replicas, |labels, series| vec![(labels.clone(), series.retries.clone())])?;
    family(encoder, names::TTFT, &variants, |VariantLabels { endpoint, variant }, series| {
        let rows = series.ttft.rows().into_iter().map(|(strategy, histogram)| {
            (StrategyLabels { endpoint: endpoint.clone(), variant: variant.clone(), strategy }, histogram)
        });
        rows.collect()
    })?;
    family(encoder, names::INTER_TOKEN, &variants, |labels, series| {
        vec![(labels.clone(), series.inter_token.clone())]
    })?;
    family(encoder, names::DURATION, &variants, |labels, series| vec![(labels.clone(), series.duration.clone())])?;
    family(encoder, names::PROMPT_TOKENS, &variants, |VariantLabels { endpoint, variant }, series| {
        let rows = series.prompt_tokens.rows().into_iter().map(|(usage, counter)| {
            (TokenLabels { endpoint: endpoint.clone(), variant: variant.clone(), usage }, counter)
        });
        rows.collect()
    })?;
    family(encoder, names::PREFIX_TOKENS, &variants, |VariantLabels { endpoint, variant }, series| {
        let rows = series.prefix_tokens.rows().into_iter().map(|((usage, stage), counter)| {
            (StageLabels { endpoint: endpoint.clone(), variant: variant.clone(), usage, stage }, counter)
        });
        rows.collect()
    })?;
    family(encoder, names::SPILLS, &replicas, |labels, series| {
        let rows = series.spills.rows().into_iter().map(|(reason, counter)| {
            let ReplicaLabels { endpoint, variant, replica } = labels.clone();
            (SpillLabels { endpoint, variant, replica, reason }, counter)
        });
        rows.collect()
    })
}

/// Writes one family: of each owner the instruments that `rows` gives, with their labels.
fn family<O, S, L: EncodeLabelSet, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: Metric,
    owners: &[(&O, &S)],
    rows: impl Fn(&O, &S) -> Vec<(L, M)>,
) -> fmt::Result {
    let help = metric.help.trim_end_matches('.');
    let mut descriptor = encoder.encode_descriptor(base_name(metric), help, None, metric_type(metric))?;
    for (owner, series) in owners {
        for (labels, instrument) in rows(owner, series) {
            instrument.encode(descriptor.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
