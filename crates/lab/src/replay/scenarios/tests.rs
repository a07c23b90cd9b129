//! The tables, smaller than they are, and the bytes of one of them.

use kvroute_core::hash;

use super::*;
use crate::replay::{Contender, Question, Report, Source, compare};

fn report(name: &str, strategies: &str, shorten: impl FnOnce(&mut Setting)) -> Report {
    let scenario = Scenario::by_name(name).unwrap();
    let mut setting = (scenario.setting)();
    shorten(&mut setting);
    let mut contenders = Contender::list(strategies).unwrap();
    contenders.iter_mut().for_each(|contender| contender.prefix_length = Some(scenario.prefix_length));
    let question = Question { contenders, setting, percentiles: vec![50.0, 90.0, 99.0], goodput: None, threads: 2 };
    let cases = [scenario.case(1, &[scenario.prefix_length]).unwrap()];
    let columns = compare(&cases, &question, &|_, _| {}).unwrap();
    let source = Source { name: scenario.name.to_owned(), format: "generated".to_owned(), digest: None };
    Report::new(columns, question, &cases, source)
}

/// The release build is held against the same file by the figures.
#[test]
fn a_published_table_gives_the_committed_bytes() {
    let json = serde_json::to_vec(&report("llm-d-37", "random,prefix_aware", |_| {}).json()).unwrap();
    assert_eq!(format!("{:016x}", hash::bytes(&json, 0)), include_str!("llm-d-37.digest").trim());
}

#[test]
fn ten_minutes_of_amazons_table_show_what_the_hour_shows() {
    let report = report("aws-8k", "random,prefix_aware", |setting| setting.end_us = 600_000_000);
    let [random, ours] = &report.columns[..] else { panic!("two strategies") };
    let changes = ours.changes.unwrap();
    assert!(changes.ttft_p50.value < -65.0 && changes.ttft_p90.value < -30.0, "{changes:?}");
    let hits = [random, ours].map(|column| column.measures.locality.delivered_ratio());
    assert!((0.2..0.32).contains(&hits[0]) && (0.72..0.84).contains(&hits[1]), "{hits:?}");
}

#[test]
fn every_scenario_has_strategies_that_there_are_and_a_name_of_its_own() {
    let mut names: Vec<&str> = Scenario::ALL.iter().map(|scenario| scenario.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Scenario::ALL.len());
    for scenario in Scenario::ALL {
        assert!(Contender::list(&scenario.strategies.join(",")).is_ok(), "{}", scenario.name);
        let first: Vec<_> = scenario.records(3).take(50).collect();
        assert_eq!(first, scenario.records(3).take(50).collect::<Vec<_>>());
        assert_ne!(first, scenario.records(4).take(50).collect::<Vec<_>>());
    }
}
