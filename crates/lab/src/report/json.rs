//! The JSON: vLLM's `--save-result` names at the top, ours under `router`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Report, percent_label};
use crate::{load::Record, stats::Summary};

impl Report {
    /// The report as a JSON object.
    pub fn json(&self) -> Value {
        let mut top = Map::new();
        for (name, value) in &self.options.metadata {
            top.insert(name.clone(), json!(value));
        }
        self.volume_fields(&mut top);
        let metrics =
            [("ttft", &self.ttft_ms), ("tpot", &self.tpot_ms), ("itl", &self.itl_ms), ("e2el", &self.e2el_ms)];
        for (name, metric) in metrics {
            summary_fields(&mut top, name, metric);
        }
        if self.options.detailed {
            self.detail_fields(&mut top);
        }
        top.insert("router".to_owned(), self.router_fields());
        Value::Object(top)
    }

    fn volume_fields(&self, top: &mut Map<String, Value>) {
        let rate = self.pacing.request_rate;
        let fields = json!({
            "tool": "kvroute",
            "version": env!("CARGO_PKG_VERSION"),
            "command": self.options.command,
            "seed": self.seed,
            "loop": self.pacing.loop_kind().name(),
            // Not a JSON number, and written so by vLLM.
            "request_rate": if rate.is_finite() { json!(rate) } else { json!("inf") },
            "burstiness": self.pacing.burstiness,
            "max_concurrency": self.pacing.max_concurrency,
            "duration": self.duration_s,
            "completed": self.completed,
            "failed": self.failed,
            "cut": self.cut,
            "total_input_tokens": self.input_tokens,
            "total_output_tokens": self.output_tokens,
            "request_throughput": self.request_throughput(),
            "request_goodput": self.request_goodput,
            "output_throughput": self.output_throughput(),
            "total_token_throughput": self.total_token_throughput(),
            "max_concurrent_requests": self.in_flight_peak,
        });
        if let Value::Object(fields) = fields {
            top.extend(fields);
        }
    }

    fn router_fields(&self) -> Value {
        let failures: BTreeMap<&str, u64> =
            self.failures.iter().map(|(label, failure)| (label.as_str(), failure.count)).collect();
        let mut fields = Map::new();
        summary_fields(&mut fields, "client_queue", &self.client_queue_ms);
        summary_fields(&mut fields, "schedule_lag", &self.schedule_lag_ms);
        let ours = json!({
            "shares": self.shares,
            "decisions": self.decisions,
            "cached_tokens": self.cached_tokens,
            "cached_ratio": self.cached_ratio(),
            "schedule_lag_p99_ms": self.schedule_lag_p99_ms,
            "failures": failures,
        });
        if let Value::Object(ours) = ours {
            fields.extend(ours);
        }
        Value::Object(fields)
    }

    /// One entry a request, in the order in which they ended. Times are seconds, as in vLLM.
    fn detail_fields(&self, top: &mut Map<String, Value>) {
        let each = |value: fn(&Record) -> Value| Value::Array(self.records.iter().map(value).collect());
        let arrays = [
            ("input_lens", each(|r| json!(r.prompt_tokens))),
            ("output_lens", each(|r| json!(r.output_tokens))),
            ("ttfts", each(|r| json!(seconds(r.ttft_us)))),
            ("start_times", each(|r| json!(seconds(r.sent_us)))),
            ("client_queue_times", each(|r| json!(seconds(r.queued_us)))),
            ("schedule_lags", each(|r| json!(seconds(r.lag_us())))),
            ("cached_tokens", each(|r| json!(r.cached_tokens))),
            ("errors", each(|r| json!(r.failure.map(|kind| kind.to_string()).unwrap_or_default()))),
        ];
        for (name, array) in arrays {
            top.insert(name.to_owned(), array);
        }
        if self.records.iter().any(|record| !record.gaps_us.is_empty()) {
            let gaps = each(|r| r.gaps_us.iter().map(|&gap| seconds(gap.into())).collect());
            top.insert("itls".to_owned(), gaps);
        }
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// `mean_ttft_ms`, `median_ttft_ms`, `std_ttft_ms`, `p99_ttft_ms`.
fn summary_fields(fields: &mut Map<String, Value>, name: &str, metric: &Summary) {
    let mut insert = |statistic: &str, value: f64| {
        fields.insert(format!("{statistic}_{name}_ms"), json!(value));
    };
    insert("mean", metric.mean);
    insert("median", metric.median);
    insert("std", metric.std);
    for &(percent, value) in &metric.percentiles {
        insert(&format!("p{}", percent_label(percent)), value);
    }
}
