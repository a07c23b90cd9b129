//! The JSON.

use serde_json::{Map, Value, json};

use super::{Report, metrics};
use crate::replay::bootstrap::{Changes, Interval};
use crate::replay::comparison::Column;

/// Version of the shape. A field that goes or changes its meaning makes it another.
const VERSION: u32 = 1;

impl Report {
    /// All of it.
    pub fn json(&self) -> Value {
        let setting = &self.question.setting;
        let group = |group: &crate::replay::Group| {
            json!({
                "replicas": group.count,
                "preset": group.preset.name,
                "weight": group.weight,
                "gpus_per_replica": crate::replay::gpus(&group.preset),
                "kv_tokens": group.preset.kv_tokens,
                "overhead_ms": group.preset.overhead_ms,
                "prefill_scale": group.preset.prefill_scale,
            })
        };
        json!({
            "kvroute_replay": VERSION,
            "simulated": true,
            "version": env!("CARGO_PKG_VERSION"),
            "command": self.command,
            "seeds": self.seeds,
            "source": { "name": self.source.name, "format": self.source.format, "digest": self.source.digest },
            "trace": self.shape,
            "prefix_length_unit": self.unit.as_str(),
            "block_tokens": self.block_tokens,
            "fleet": {
                "groups": setting.fleet.groups.iter().map(group).collect::<Vec<_>>(),
                "cold_start_s": setting.fleet.cold_start_us as f64 / 1e6,
                "events": setting.events.iter().map(ToString::to_string).collect::<Vec<_>>(),
            },
            "arrivals": setting.pacing.describe(),
            "warmup": setting.cut.to_string(),
            "assumptions": self.assumptions,
            "goodput": self.question.goodput.map(|limits| {
                json!({ "ttft_ms": limits.ttft_ms, "tpot_ms": limits.tpot_ms, "e2el_ms": limits.e2el_ms })
            }),
            "gpu_hour_usd": self.price.map(|price| price.gpu_hour_usd),
            "strategies": self.columns.iter().map(|column| self.strategy(column)).collect::<Vec<_>>(),
        })
    }

    fn strategy(&self, column: &Column) -> Value {
        let m = &column.measures;
        let contender = &column.contender;
        let routing = contender.routing(contender.prefix_length.unwrap_or(self.unit.prefix_length_default()));
        let metrics: Map<String, Value> =
            metrics::of(self, column).into_iter().map(|(name, value)| (name, json!(value.map(rounded)))).collect();
        let shares = m.shares.iter().map(|share| {
            json!({ "replica": share.replica, "share": rounded(share.ratio), "in_flight_p99": share.in_flight_p99 })
        });
        let recoveries = m.recoveries.iter().map(|recovery| {
            json!({
                "event": recovery.event,
                "at_s": recovery.at_s,
                "p90_ttft_ms_before": recovery.ttft_p90_before_ms.map(rounded),
                "p90_ttft_ms_worst": recovery.ttft_p90_worst_ms.map(rounded),
                "delivered_ratio_before": recovery.hit_ratio_before.map(rounded),
                "delivered_ratio_worst": recovery.hit_ratio_worst.map(rounded),
                "recovered_s": recovery.recovered_s,
            })
        });
        let marks = column
            .marks
            .iter()
            .map(|mark| json!({ "at_s": mark.at_us as f64 / 1e6, "what": mark.what, "is_event": mark.is_event }));
        json!({
            "name": contender.to_string(),
            "rule": contender.name(),
            "is_baseline": contender.is_baseline(),
            "prefix_length": routing.prefix_aware.prefix_length,
            "concurrency_threshold": (!contender.is_baseline()).then_some(routing.prefix_aware.concurrency_threshold),
            "metrics": metrics,
            "reasons": m.reasons,
            "shares": shares.collect::<Vec<_>>(),
            "changes": column.changes.as_ref().map(changes),
            "recoveries": recoveries.collect::<Vec<_>>(),
            "marks": marks.collect::<Vec<_>>(),
            "series": column.series,
        })
    }
}

/// To six decimals: what differs beyond is no difference, and files are shorter.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn changes(changes: &Changes) -> Value {
    let interval = |interval: Interval| json!({ "value": rounded(interval.value), "low": rounded(interval.low), "high": rounded(interval.high) });
    json!({
        "mean_ttft_percent": interval(changes.ttft_mean),
        "median_ttft_percent": interval(changes.ttft_p50),
        "p90_ttft_percent": interval(changes.ttft_p90),
        "p99_ttft_percent": interval(changes.ttft_p99),
        "delivered_points": interval(changes.delivered),
    })
}
