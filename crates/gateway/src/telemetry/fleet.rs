//! The variants' and replicas' metrics, read from the snapshot in force at each scrape.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kvroute_core::breaker::Verdict;
use kvroute_core::fleet::{Endpoint, Replica, Variant};
use kvroute_core::live::{Duty, Health, Live};
use kvroute_feeds::engine_metrics::EngineMetrics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::names::{self, Kind, Metric};
use super::{ReplicaLabels, base_name, metric_type, series};
use crate::clock::Clock;
use crate::snapshot::Snapshot;

/// Reads the fleet.
pub(super) struct FleetCollector {
    snapshot: Arc<ArcSwap<Snapshot>>,
    clock: Arc<Clock>,
}

/// What is known of one replica at the scrape.
struct Row {
    labels: ReplicaLabels,
    in_flight: f64,
    pending_prefill_tokens: f64,
    routed: u64,
    share: f64,
    ideal_share: f64,
    ready: f64,
    cache_blocks: f64,
    engine: Option<EngineMetrics>,
}

impl FleetCollector {
    pub(super) fn new(snapshot: Arc<ArcSwap<Snapshot>>, clock: Arc<Clock>) -> Self {
        Self { snapshot, clock }
    }
}

impl fmt::Debug for FleetCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetCollector")
    }
}

impl Collector for FleetCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let snapshot = self.snapshot.load();
        let now_us = self.clock.moment().now_us;
        series::encode(&mut encoder, &snapshot)?;
        let rows: Vec<Row> = snapshot.replicas().map(|(e, v, r)| row(&snapshot, now_us, e, v, r)).collect();
        let mut gauge = |metric: Metric, value: &dyn Fn(&Row) -> Option<f64>| {
            family(&mut encoder, metric, rows.iter().filter_map(|row| Some((&row.labels, value(row)?))))
        };
        gauge(names::IN_FLIGHT, &|row| Some(row.in_flight))?;
        gauge(names::PENDING_PREFILL, &|row| Some(row.pending_prefill_tokens))?;
        gauge(names::ROUTED, &|row| Some(row.routed as f64))?;
        gauge(names::SHARE, &|row| Some(row.share))?;
        gauge(names::IDEAL_SHARE, &|row| Some(row.ideal_share))?;
        gauge(names::READY, &|row| Some(row.ready))?;
        gauge(names::CACHE_BLOCKS, &|row| Some(row.cache_blocks))?;
        gauge(names::ENGINE_UP, &|row| Some(f64::from(u8::from(row.engine.is_some()))))?;
        // What the engine does not tell has no series: absent is not zero.
        gauge(names::ENGINE_RUNNING, &|row| row.engine?.running)?;
        gauge(names::ENGINE_WAITING, &|row| row.engine?.waiting)?;
        gauge(names::ENGINE_KV_USAGE, &|row| row.engine?.kv_usage_ratio)?;
        gauge(names::ENGINE_KV_TOKENS, &|row| Some(row.engine?.kv_tokens? as f64))
    }
}

fn row(snapshot: &Snapshot, now_us: u64, endpoint: &Endpoint, variant: &Variant, replica: &Replica) -> Row {
    let routed_in_all: u64 = variant.replicas.iter().map(|r| r.live.load.routed()).sum();
    let weight_in_all: f64 = variant.replicas.iter().map(|r| r.weight).sum();
    let load = &replica.live.load;
    Row {
        labels: ReplicaLabels {
            endpoint: endpoint.name.clone(),
            variant: variant.name.clone(),
            replica: replica.id.clone(),
        },
        in_flight: f64::from(load.in_flight()),
        pending_prefill_tokens: load.pending_prefill_tokens() as f64,
        routed: load.routed(),
        share: load.routed() as f64 / routed_in_all.max(1) as f64,
        ideal_share: replica.weight / weight_in_all,
        ready: f64::from(u8::from(is_ready(&replica.live, now_us))),
        cache_blocks: replica.live.cache.blocks() as f64,
        engine: snapshot.target(replica.target).engine.get().map(|(_, metrics)| metrics),
    }
}

/// Whether it takes requests as one that is well.
fn is_ready(live: &Live, now_us: u64) -> bool {
    let is_ejected = matches!(live.breaker.standing(now_us).verdict, Verdict::Ejected { .. });
    live.duty() == Duty::Ready && live.health() == Health::Up && !is_ejected
}

fn family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: Metric,
    rows: impl Iterator<Item = (&'a ReplicaLabels, f64)>,
) -> Result<(), fmt::Error> {
    let help = metric.help.trim_end_matches('.');
    let mut descriptor = encoder.encode_descriptor(base_name(metric), help, None, metric_type(metric))?;
    for (labels, value) in rows {
        let series = descriptor.encode_family(labels)?;
        match metric.kind {
            Kind::Counter => ConstCounter::new(value as u64).encode(series)?,
            Kind::Gauge | Kind::Histogram => ConstGauge::new(value).encode(series)?,
        }
    }
    Ok(())
}
