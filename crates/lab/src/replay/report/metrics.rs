//! A column's numbers by name: what JSON, CSV and conditions call them.
//!
//! Names and definitions are those of vLLM's serving benchmark where it has the metric.

use super::Report;
use crate::replay::comparison::Column;
use crate::stats::Summary;

/// Every number of a column, in a fixed order. Ratios are 0..1.
pub(super) fn of(report: &Report, column: &Column) -> Vec<(String, Option<f64>)> {
    let m = &column.measures;
    let mut all: Vec<(String, Option<f64>)> = Vec::new();
    let mut push = |name: &str, value: Option<f64>| all.push((name.to_owned(), value));
    push("completed", Some(m.answered as f64));
    push("failed", Some((m.lost + m.refused + m.too_long) as f64));
    push("lost", Some(m.lost as f64));
    push("refused", Some(m.refused as f64));
    push("too_long", Some(m.too_long as f64));
    push("duration", Some(m.window_s));
    push("total_input_tokens", Some(m.input_tokens_in_window as f64));
    push("total_output_tokens", Some(m.output_tokens_in_window as f64));
    push("request_throughput", Some(m.request_throughput()));
    push("output_throughput", Some(m.output_throughput()));
    push("request_goodput", m.request_goodput());
    for (name, summary) in [("ttft", &m.ttft_ms), ("itl", &m.itl_ms), ("tpot", &m.tpot_ms), ("e2el", &m.e2el_ms)] {
        push_summary(&mut push, name, summary, m.answered > 0);
    }
    let locality = &m.locality;
    push("prompt_tokens", Some(locality.prompt_tokens as f64));
    push("available_ratio", Some(locality.ratio(locality.available_tokens)));
    push("captured_ratio", Some(locality.ratio(locality.captured_tokens)));
    push("delivered_ratio", Some(locality.delivered_ratio()));
    let shares = || m.shares.iter().map(|share| share.ratio);
    push("share_min", shares().min_by(f64::total_cmp));
    push("share_max", shares().max_by(f64::total_cmp));
    push("share_max_to_mean", Some(m.share_max_to_mean()));
    push("spill_ratio", Some(m.spill_ratio));
    push("queue_mean", Some(m.queue.mean));
    push("queue_max", Some(f64::from(m.queue.max)));
    push("in_flight_p99_max", m.shares.iter().map(|share| f64::from(share.in_flight_p99)).max_by(f64::total_cmp));
    push("preemptions", Some(m.preemptions as f64));
    push("gpu_s", Some(m.gpu.present_s));
    push("gpu_busy_s", Some(m.gpu.busy_s));
    push("gpu_prefill_saved_s", Some(m.gpu.prefill_saved_s));
    push("usd_per_million_output_tokens", report.usd_per_million_tokens(column));
    all
}

/// Latencies of nothing are unknown: zero would be the best there is.
fn push_summary(push: &mut impl FnMut(&str, Option<f64>), name: &str, summary: &Summary, is_known: bool) {
    push(&format!("mean_{name}_ms"), is_known.then_some(summary.mean));
    push(&format!("median_{name}_ms"), is_known.then_some(summary.median));
    for (percent, value) in &summary.percentiles {
        push(&format!("p{percent}_{name}_ms"), is_known.then_some(*value));
    }
}
