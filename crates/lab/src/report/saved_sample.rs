//! A saved replay for tests.

use serde_json::{Value, json};

/// A report of two strategies and one of another router, in the shape of `kvroute replay --json`.
pub(super) fn sample() -> Value {
    json!({
        "kvroute_replay": 1, "simulated": true, "version": "0.1.0", "command": "kvroute replay trace.jsonl --json a.json",
        "seeds": [1, 2], "source": {"name": "trace</script>.jsonl", "format": "mooncake", "digest": "abc"},
        "trace": {"requests": 1000, "sessions": 1000, "prompt_tokens": 9_792_030, "output_tokens": 199_000, "span_s": 177.0,
            "prompt_tokens_histogram": [[512, 10], [1024, 200], [8192, 790]], "output_tokens_histogram": [[64, 400], [512, 600]],
            "turns_histogram": [[1, 1000]]},
        "prefix_length_unit": "tokens", "block_tokens": 16,
        "fleet": {"groups": [{"replicas": 8, "preset": "llama-3.1-70b-h100-tp8"}], "events": ["60s:add=1"]},
        "arrivals": "as recorded", "warmup": "", "assumptions": ["the first 10 % are not counted"], "gpu_hour_usd": 4.0,
        "strategies": [strategy("random", false, 3000.0, 0.30), strategy("prefix_aware", false, 1900.0, 0.38),
            strategy("lmetric", true, 1500.0, 0.39)],
    })
}

fn strategy(name: &str, is_baseline: bool, p90: f64, hit: f64) -> Value {
    let is_first = name == "random";
    let interval = json!({"value": (p90 / 3000.0 - 1.0) * 100.0, "low": -45.0, "high": -30.0});
    json!({
        "name": name, "rule": name, "is_baseline": is_baseline, "prefix_length": 1024, "concurrency_threshold": 8,
        "metrics": {"median_ttft_ms": p90 / 4.0, "p90_ttft_ms": p90, "p99_ttft_ms": p90 * 2.0, "median_e2el_ms": p90,
            "p90_e2el_ms": p90 * 2.0, "p99_e2el_ms": p90 * 4.0, "available_ratio": 0.39, "captured_ratio": hit + 0.005,
            "delivered_ratio": hit, "prompt_tokens": 9_792_030.0, "share_min": 0.1, "share_max": 0.3, "share_max_to_mean": 2.4,
            "spill_ratio": 0.1, "output_throughput": 1100.0, "failed": 0.0, "gpu_s": 1416.0, "gpu_busy_s": 700.0,
            "gpu_prefill_saved_s": hit * 100.0, "usd_per_million_output_tokens": 63.0, "p50_unknown": null},
        "reasons": {}, "shares": (0..8).map(|i| json!({"replica": format!("r{i}"), "share": 0.1 + f64::from(i) * 0.01,
            "in_flight_p99": 9.0})).collect::<Vec<_>>(),
        "changes": if is_first { Value::Null } else { json!({"p90_ttft_percent": interval, "median_ttft_percent": interval,
            "p99_ttft_percent": interval}) },
        "recoveries": [{"event": "add=1", "at_s": 60.0, "p90_ttft_ms_before": 900.0, "p90_ttft_ms_worst": 2100.0,
            "hit_ratio_before": 0.3, "hit_ratio_worst": 0.2, "recovered_s": 40.0}],
        "marks": [{"at_s": 60.0, "what": "add r9", "is_event": true}, {"at_s": 90.0, "what": "r9 serves", "is_event": false}],
        "series": {
            "ttft_cdf": (0..600).map(|i| [p90 * (f64::from(i) / 540.0).powi(2) + 60.0, f64::from(i) / 599.0]).collect::<Vec<_>>(),
            "over_time": {"step_s": 1.0, "arrivals": [], "hit_ratio": (0..177).map(|i| if i == 50 { Value::Null } else {
                json!(hit * (1.0 - 0.5 / f64::from(i + 1))) }).collect::<Vec<_>>(),
                "spill_ratio": (0..177).map(|i| f64::from(i % 5) / 20.0).collect::<Vec<_>>(), "ttft_p50_ms": [],
                "ttft_p90_ms": (0..177).map(|i| p90 * (1.0 + f64::from(i % 7) / 10.0)).collect::<Vec<_>>(),
                "in_flight": [], "waiting": []},
            "spill_by_rank": if name == "prefix_aware" { json!([[361, 90], [12, 1], [4, 0]]) } else { json!([]) },
        },
    })
}
