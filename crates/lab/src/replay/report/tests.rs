//! One small comparison in every form.

use std::sync::Arc;

use kvroute_core::hash;
use kvroute_engine::model::Preset;
use serde_json::Value;

use super::*;
use crate::replay::{Clock, Contender, Cut, FleetSpec, Pacing, PrepareOptions, Setting, compare, prepare};
use crate::trace::{Blocks, Content, Record};

fn cases(seeds: u64) -> Vec<Case> {
    let record = |n: u64| Record {
        at_ms: Some(n as f64 * 40.0),
        session: Some(format!("s{}", n % 60).into()),
        content: Content::Blocks(Blocks { ids: [n % 30, 100 + n % 60, 1_000 + n].into(), tokens: 512 }),
        input_tokens: Some(1_536),
        output_tokens: Some(10 + (n % 7) as u32),
        ..Record::default()
    };
    let options = PrepareOptions { prefix_lengths: vec![512, 1_024], ..PrepareOptions::default() };
    let jobs = Arc::new(prepare((0..700).map(record), &options).unwrap());
    (1..=seeds).map(|seed| Case { seed, jobs: jobs.clone() }).collect()
}

fn report(strategies: &str, seeds: u64) -> Report {
    let setting = Setting {
        fleet: FleetSpec { cold_start_us: 2_000_000, ..FleetSpec::of(4, Preset::default()) },
        pacing: Pacing::Open(Clock::Trace { speed: 1.0 }),
        end_us: u64::MAX,
        events: vec!["14s:add=1".parse().unwrap(), "20s:restart=r2".parse().unwrap()],
        cut: Cut::Before(70),
    };
    let question = Question {
        contenders: Contender::list(strategies).unwrap(),
        setting,
        percentiles: vec![50.0, 90.0, 99.0],
        goodput: Some("ttft:500 tpot:50".parse().unwrap()),
        threads: 2,
    };
    let cases = cases(seeds);
    let columns = compare(&cases, &question, &|_, _| {}).unwrap();
    let source = Source { name: "small".to_owned(), format: "test".to_owned(), digest: None };
    let mut report = Report::new(columns, question, &cases, source);
    report.price = Some(Price { gpu_hour_usd: 2.0 });
    report
}

/// Equal in debug and release builds, on every platform and for any number of threads. What changes it changes every
/// result that anybody has kept: say so in the changelog.
#[test]
fn the_same_seed_gives_the_same_bytes_in_every_build() {
    let json = serde_json::to_vec(&report("all", 2).json()).unwrap();
    assert_eq!(format!("{:016x}", hash::bytes(&json, 0)), "048b98d0f6080d76");
}

#[test]
fn the_number_of_threads_makes_no_difference() {
    let bytes = |threads: usize| {
        let cases = cases(3);
        let mut question = report("random,prefix_aware,lmetric", 1).question;
        question.threads = threads;
        let columns = compare(&cases, &question, &|_, _| {}).unwrap();
        serde_json::to_string(&Report::new(columns, question, &cases, Source::default()).json()).unwrap()
    };
    assert_eq!(bytes(1), bytes(7));
}

#[test]
fn the_json_is_what_its_schema_says() {
    let text = include_str!("../../../../../docs/replay-report.schema.json");
    let schema: Value = serde_json::from_str(text).unwrap();
    let json = report("random,prefix_aware,chwbl", 2).json();
    crate::testing::conforms(&json, &schema, &schema, "report");
}

#[test]
fn the_table_shows_changes_doubts_recoveries_and_that_all_is_simulated() {
    let report = report("random,prefix_aware,round_robin", 1);
    let table = report.table(120, false);
    for said in [
        "small: 700 requests, 1.1 M prompt tokens over 4 simulated replicas",
        "Goodput (req/s)",
        "the first 70 requests of the trace fill them and are not counted",
        "14 s r5 joins",
        "20 s r2 dies",
        "All times are simulated.",
    ] {
        assert!(table.contains(said), "{said}\n{table}");
    }
    assert!(table.lines().all(|line| line.starts_with("- ") || line.chars().count() <= 120), "{table}");
    assert!(table.contains("pt"), "{table}");
    let narrow = report.table(42, false);
    assert_eq!(narrow.matches("TTFT P50 (ms)").count(), 3, "a table a strategy\n{narrow}");
    assert_eq!(report.table(120, true).replace("\x1b[32m", "").replace("\x1b[31m", "").replace("\x1b[0m", ""), table);
}

#[test]
fn markdown_and_csv_have_a_line_a_strategy() {
    let report = report("random,prefix_aware", 1);
    let markdown = report.markdown();
    assert_eq!(markdown.lines().filter(|line| line.starts_with("| `")).count(), 2, "{markdown}");
    assert!(markdown.contains("*Simulated.*"));
    let csv = report.csv();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!((lines.len(), lines[0][0], lines[2][0]), (3, "strategy", "prefix_aware"));
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{csv}");
}

#[test]
fn what_is_in_the_warm_up_counts_for_nothing_and_the_rule_is_stated() {
    let report = report("random", 1);
    let measures = &report.columns[0].measures;
    assert_eq!(measures.counted, 630);
    assert_eq!(measures.answered + measures.lost, 630);
    assert!(report.json()["warmup"].as_str().unwrap().contains("first 70 requests"));
}

#[test]
fn a_condition_is_asked_of_every_strategy_or_of_one() {
    let report = report("random,prefix_aware", 1);
    let violations = |text: &str| text.parse::<Condition>().unwrap().violations(&report).map(|found| found.len());
    assert_eq!(violations("p90_ttft_ms > 0"), Ok(2));
    assert_eq!(violations("prefix_aware.p90_ttft_ms > 0"), Ok(1));
    assert_eq!(violations("delivered_ratio > 1"), Ok(0));
    assert!(violations("p91_ttft_ms > 0").unwrap_err().to_string().contains("p90_ttft_ms"));
    assert!(violations("session.p90_ttft_ms > 0").unwrap_err().to_string().contains("session"));
    let json = report.json();
    let metrics = json["strategies"][0]["metrics"].as_object().unwrap();
    assert!(metrics.keys().all(|name| violations(&format!("{name} > 1e300")).is_ok()), "every metric can be asked for");
}

#[test]
fn latencies_of_nothing_are_unknown_and_not_good() {
    let mut report = report("random", 1);
    report.columns[0].measures.answered = 0;
    let condition: Condition = "p90_ttft_ms > 500".parse().unwrap();
    assert_eq!(condition.violations(&report).unwrap().len(), 1);
    assert_eq!(report.json()["strategies"][0]["metrics"]["p90_ttft_ms"], Value::Null);
}

#[test]
fn every_series_is_short_enough_for_a_report() {
    let json = report("random,prefix_aware", 1).json();
    let mut longest = 0;
    walk(&json, &mut |value| longest = longest.max(value.as_array().map_or(0, Vec::len)));
    assert!((100..=crate::replay::POINTS_MAX).contains(&longest), "{longest}");

    fn walk(value: &Value, tell: &mut impl FnMut(&Value)) {
        tell(value);
        match value {
            Value::Array(list) => list.iter().for_each(|value| walk(value, tell)),
            Value::Object(map) => map.values().for_each(|value| walk(value, tell)),
            _ => {}
        }
    }
}
