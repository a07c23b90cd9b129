//! One small run, reported in every form.

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::load::{FailureKind, LoadOptions};

fn record(ttft_us: u64, replica: u16, decision: u16) -> Record {
    Record {
        scheduled_us: 1_000,
        sent_us: 2_500,
        queued_us: 500,
        ttft_us,
        e2e_us: ttft_us + 40_000,
        prompt_tokens: 100,
        cached_tokens: None,
        output_tokens: 5,
        replica: Some(replica),
        decision: Some(decision),
        failure: None,
        gaps_us: [10_000; 4].into(),
    }
}

/// Four served requests, one failed, one cut.
fn outcome() -> Outcome {
    let mut outcome = Outcome::new(&LoadOptions::default());
    for name in ["r1", "r2"] {
        outcome.replicas.intern(name);
    }
    for reason in ["cold", "prefix_hit", "spill_cost"] {
        outcome.decisions.intern(reason);
    }
    outcome.records =
        vec![record(100_000, 0, 0), record(20_000, 0, 1), record(30_000, 1, 2), record(50_000, 0, 1), record(0, 1, 0)];
    outcome.records[1].cached_tokens = Some(96);
    outcome.records[3].cached_tokens = Some(64);
    outcome.records[4].failure = Some(FailureKind::Status(503));
    let refused = FailureCount { count: 1, example: "no replica is ready".to_owned() };
    outcome.failures = BTreeMap::from([(FailureKind::Status(503), refused)]);
    for _ in 0..16 {
        outcome.gaps_us.saturating_record(10_000);
    }
    outcome.cut = 1;
    outcome.duration = Duration::from_millis(2_000);
    outcome.in_flight_peak = 3;
    outcome.seed = 7;
    outcome.pacing.request_rate = 2.5;
    outcome.pacing.max_concurrency = Some(3);
    outcome
}

fn options() -> ReportOptions {
    ReportOptions {
        percentiles: vec![90.0, 99.9],
        goodput: "ttft:60 tpot:50".parse().ok(),
        command: Some("kvroute load --seed 7".to_owned()),
        metadata: vec![("model_id".to_owned(), "m".to_owned()), ("duration".to_owned(), "forged".to_owned())],
        detailed: true,
    }
}

#[test]
fn the_table_has_the_shape_of_vllms() {
    let expected = concat!(
        "============ Serving Benchmark Result ============\n",
        "Successful requests:                     4\n",
        "Failed requests:                         1\n",
        "Requests cut at the end:                 1\n",
        "Maximum request concurrency:             3\n",
        "Request rate configured (RPS):           2.50\n",
        "Benchmark duration (s):                  2.00\n",
        "Total input tokens:                      400\n",
        "Total generated tokens:                  20\n",
        "Request throughput (req/s):              2.00\n",
        "Request goodput (req/s):                 1.50\n",
        "Output token throughput (tok/s):         10.00\n",
        "Peak concurrent requests:                3\n",
        "Total token throughput (tok/s):          210.00\n",
        "---------------Time to First Token----------------\n",
        "Mean TTFT (ms):                          50.00\n",
        "Median TTFT (ms):                        40.00\n",
        "P90 TTFT (ms):                           85.00\n",
        "P99.9 TTFT (ms):                         99.85\n",
        "-----Time per Output Token (excl. 1st token)------\n",
        "Mean TPOT (ms):                          10.00\n",
        "Median TPOT (ms):                        10.00\n",
        "P90 TPOT (ms):                           10.00\n",
        "P99.9 TPOT (ms):                         10.00\n",
        "---------------Inter-token Latency----------------\n",
        "Mean ITL (ms):                           10.00\n",
        "Median ITL (ms):                         10.00\n",
        "P90 ITL (ms):                            10.00\n",
        "P99.9 ITL (ms):                          10.00\n",
        "----------------End-to-end Latency----------------\n",
        "Mean E2EL (ms):                          90.00\n",
        "Median E2EL (ms):                        80.00\n",
        "P90 E2EL (ms):                           125.00\n",
        "P99.9 E2EL (ms):                         139.85\n",
        "----------------Cache Hit Details-----------------\n",
        "Total prompt tokens:                     400\n",
        "Cached tokens:                           160\n",
        "Cache hit rate (%):                      40.00\n",
        "---------------------Schedule---------------------\n",
        "Loop:                                    open\n",
        "Burstiness:                              1.00\n",
        "Seed:                                    7\n",
        "Mean Schedule Lag (ms):                  1.50\n",
        "Median Schedule Lag (ms):                1.50\n",
        "P90 Schedule Lag (ms):                   1.50\n",
        "P99.9 Schedule Lag (ms):                 1.50\n",
        "Mean Client Queue Time (ms):             0.50\n",
        "Median Client Queue Time (ms):           0.50\n",
        "P90 Client Queue Time (ms):              0.50\n",
        "P99.9 Client Queue Time (ms):            0.50\n",
        "----------------------Router----------------------\n",
        "Share of r1 (%):                         75.00\n",
        "Share of r2 (%):                         25.00\n",
        "Decisions cold:                          1\n",
        "Decisions prefix_hit:                    2\n",
        "Decisions spill_cost:                    1\n",
        "---------------------Failures---------------------\n",
        "status_503:                              1\n",
        "  no replica is ready\n",
        "==================================================\n",
    );
    let table = Report::new(&outcome(), &options()).to_string();
    assert_eq!(table, expected, "\n{table}");
}

#[test]
fn a_run_without_any_request_still_has_a_table_and_json() {
    let outcome = Outcome::new(&LoadOptions::default());
    let report = Report::new(&outcome, &ReportOptions::default());
    let table = report.to_string();
    assert!(table.contains("Cached tokens:                           not reported\n"));
    assert!(!table.contains("P50 ") && !table.contains("Queue"), "no row says nothing new");
    assert!(!table.contains("Router") && !table.contains("NaN") && !table.contains("inf"));
    let json = report.json();
    assert_eq!(json["request_throughput"], 0.0);
    assert_eq!(json["request_rate"], "inf");
    assert_eq!(json["router"]["cached_ratio"], serde_json::Value::Null);
}

#[test]
fn the_json_has_vllms_names_and_ours_under_router() {
    let json = Report::new(&outcome(), &options()).json();
    let expected = [
        ("/model_id", json!("m")),
        ("/duration", json!(2.0)),
        ("/completed", json!(4)),
        ("/failed", json!(1)),
        ("/cut", json!(1)),
        ("/total_input_tokens", json!(400)),
        ("/total_output_tokens", json!(20)),
        ("/request_throughput", json!(2.0)),
        ("/request_goodput", json!(1.5)),
        ("/output_throughput", json!(10.0)),
        ("/total_token_throughput", json!(210.0)),
        ("/max_concurrent_requests", json!(3)),
        ("/request_rate", json!(2.5)),
        ("/loop", json!("open")),
        ("/command", json!("kvroute load --seed 7")),
        ("/mean_ttft_ms", json!(50.0)),
        ("/median_ttft_ms", json!(40.0)),
        ("/p90_ttft_ms", json!(85.0)),
        ("/mean_tpot_ms", json!(10.0)),
        ("/std_tpot_ms", json!(0.0)),
        ("/mean_e2el_ms", json!(90.0)),
        ("/ttfts", json!([0.1, 0.02, 0.03, 0.05, 0.0])),
        ("/input_lens", json!([100, 100, 100, 100, 100])),
        ("/errors", json!(["", "", "", "", "status_503"])),
        ("/itls/0", json!([0.01, 0.01, 0.01, 0.01])),
        ("/router/shares", json!({"r1": 0.75, "r2": 0.25})),
        ("/router/decisions", json!({"cold": 1, "prefix_hit": 2, "spill_cost": 1})),
        ("/router/cached_ratio", json!(0.4)),
        ("/router/schedule_lag_p99_ms", json!(1.5)),
        ("/router/mean_client_queue_ms", json!(0.5)),
        ("/router/failures", json!({"status_503": 1})),
    ];
    for (pointer, value) in expected {
        assert_eq!(json.pointer(pointer), Some(&value), "{pointer}");
    }
    for metric in ["ttft", "tpot", "itl", "e2el"] {
        for statistic in ["mean", "median", "std", "p90", "p99.9"] {
            let name = format!("{statistic}_{metric}_ms");
            assert!(json[&name].is_f64(), "{name}");
        }
    }
}

#[test]
fn arrays_are_left_out_unless_asked_for() {
    let json = Report::new(&outcome(), &ReportOptions::default()).json();
    for name in ["ttfts", "itls", "errors", "input_lens"] {
        assert_eq!(json.get(name), None, "{name}");
    }
}

#[test]
fn a_strategy_counts_spills_and_the_replicas_that_answered_nothing() {
    let strategy = StrategyResult::of("kv_aware", &outcome(), Some(2));
    assert_eq!(strategy.shares, Some((0.25, 0.75)));
    assert_eq!(strategy.spill_ratio, Some(0.25));
    assert_eq!(strategy.cached_ratio, Some(0.4));
    assert_eq!(strategy.output_tok_s, 10.0);
    assert_eq!(strategy.ttft_p50_ms, Some(40.0));
    assert_eq!(strategy.failed, 1);
    let of_three = StrategyResult::of("kv_aware", &outcome(), Some(3));
    assert_eq!(of_three.shares, Some((0.0, 0.75)));
    let unknown = StrategyResult::of("x", &Outcome::new(&LoadOptions::default()), Some(3));
    assert_eq!((unknown.shares, unknown.spill_ratio), (None, None));
    assert_eq!(unknown.ttft_p50_ms, None, "nothing served is not fast");
}

proptest! {
    #[test]
    fn gap_percentiles_are_within_a_thousandth_of_the_nearest_rank(
        mut gaps in prop::collection::vec(1_u64..10_000_000, 1..200),
        percent in 1.0_f64..=100.0,
    ) {
        let mut outcome = Outcome::new(&LoadOptions::default());
        for &gap in &gaps {
            outcome.gaps_us.saturating_record(gap);
        }
        gaps.sort_unstable();
        let rank = ((percent / 100.0 * gaps.len() as f64).ceil() as usize).max(1);
        // A position that lies on a rank may fall to either side of it by rounding.
        let (low, high) = (gaps[rank - 1], gaps[rank.min(gaps.len() - 1)]);
        let (_, found_ms) = gap_summary(&outcome.gaps_us, &[percent]).percentiles[0];
        let found_us = found_ms * 1e3;
        prop_assert!(found_us >= low as f64 * 0.999 - 1.0, "{found_us} {low}");
        prop_assert!(found_us <= high as f64 * 1.001 + 1.0, "{found_us} {high}");
    }
}

#[test]
fn percents_are_named_as_short_as_possible() {
    assert_eq!(percent_label(99.0), "99");
    assert_eq!(percent_label(99.9), "99.9");
}
