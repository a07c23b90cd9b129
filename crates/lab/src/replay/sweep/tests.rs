//! A sweep over a small trace.

use std::sync::Arc;

use kvroute_engine::model::Preset;

use super::*;
use crate::replay::LengthUnit;
use crate::replay::{Clock, Cut, FleetSpec, Pacing, PrepareOptions, prepare};
use crate::trace::{Blocks, Content, Record};

/// Everybody begins with one block; the second one tells twelve services apart.
fn cases() -> Vec<Case> {
    let record = |n: u64| Record {
        at_ms: Some(n as f64 * 60.0),
        content: Content::Blocks(Blocks { ids: [0, 10 + n % 12, 100 + n % 12, 1_000 + n].into(), tokens: 512 }),
        input_tokens: Some(2_048),
        output_tokens: Some(30),
        ..Record::default()
    };
    let options = PrepareOptions { prefix_lengths: vec![512, 1_024, 2_048], ..PrepareOptions::default() };
    let jobs = prepare((0..600).map(record), &options).unwrap();
    vec![Case { seed: 1, jobs: Arc::new(jobs) }]
}

fn question() -> Question {
    let setting = Setting {
        fleet: FleetSpec::of(4, Preset::default()),
        pacing: Pacing::Open(Clock::Trace { speed: 1.0 }),
        end_us: u64::MAX,
        events: Vec::new(),
        cut: Cut::Before(60),
    };
    let contenders = vec!["prefix_aware".parse().unwrap()];
    Question { contenders, setting, percentiles: vec![50.0, 90.0, 99.0], goodput: None, threads: 2 }
}

#[test]
fn a_length_within_what_all_share_and_one_beyond_what_repeats_are_told_from_the_right_one() {
    let axes = [Axis::new("prefix_length", [512, 1_024, 2_048]), Axis::new("concurrency_threshold", [2, 16, 64, 256])];
    let sweep = sweep(&cases(), &question(), &axes, Objective::TtftP90, &|_, _| {}).unwrap();
    assert_eq!((sweep.cells.len(), &sweep.cells[7].place), (12, &vec![1, 3]));
    let take = &sweep.cells[sweep.recommended];
    assert_eq!(
        take.contender.prefix_length,
        Some(1_024),
        "{:?}",
        sweep.cells.iter().map(|c| c.objective).collect::<Vec<_>>()
    );
    assert!(take.is_plateau && sweep.cells[sweep.best].objective <= take.objective);
}

#[test]
fn keys_are_counted_for_each_length() {
    let shapes = key_shapes(&cases()[0].jobs, &[512, 1_024, 2_048]);
    assert_eq!(shapes.iter().map(|shape| shape.keys).collect::<Vec<_>>(), [1, 12, 600]);
    assert_eq!(shapes[0].largest_key_ratio, 1.0);
    let ceilings: Vec<f64> = shapes.iter().map(|shape| (shape.hit_ceiling.unwrap() * 100.0).round()).collect();
    assert_eq!(ceilings, [74.0, 74.0, 0.0], "the rest of each prompt is unique");
}

#[test]
fn axes_are_read_back_from_what_they_print_and_refused_with_what_is_wrong() {
    let axis: Axis = "prefix_length=1024,2048".parse().unwrap();
    assert_eq!(axis.to_string().parse(), Ok(axis));
    for text in ["", "prefix_length", "prefix_length=", "=1", "x=1,,2"] {
        assert!(text.parse::<Axis>().is_err(), "{text}");
    }
    for (text, says) in
        [("users=3", "another kind"), ("replicas=0", "above 0"), ("speed=x", "above 0"), ("colour=1", "its settings")]
    {
        let axis: Axis = text.parse().unwrap();
        let refused = sweep(&cases(), &question(), &[axis], Objective::TtftP90, &|_, _| {}).unwrap_err();
        assert!(refused.to_string().contains(says), "{refused}");
    }
    let many = Axis::new("prefix_length", 0..50_000);
    assert!(
        sweep(&cases(), &question(), &[many], Objective::TtftP90, &|_, _| {}).unwrap_err().to_string().contains("2000")
    );
}

#[test]
fn more_replicas_never_hurt_and_the_report_names_what_to_take() {
    let axes = [Axis::new("replicas", [1, 2, 4])];
    let sweep = sweep(&cases(), &question(), &axes, Objective::TtftMean, &|_, _| {}).unwrap();
    assert!(sweep.cells[0].objective >= sweep.cells[2].objective);
    let report = SweepReport {
        sweep,
        keys: Vec::new(),
        unit: LengthUnit::Tokens,
        source: "t".to_owned(),
        assumptions: vec!["x".to_owned()],
        command: None,
    };
    assert!(report.table().contains("Take replicas="), "{}", report.table());
    assert_eq!(report.json()["cells"].as_array().map(Vec::len), Some(3));
}
