//! What a replay must be true to.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvroute_core::decision::Reason;
use kvroute_core::routing::Strategy;
use kvroute_engine::model::Preset;

use super::*;
use crate::trace::{Blocks, Content, Record};

const BLOCK: u32 = 512;

/// `count` requests of 4 shared blocks of one of `prefixes` and one of their own, one every `gap_ms`.
fn records(count: u64, prefixes: u64, gap_ms: f64) -> Vec<Record> {
    let record = |n: u64| {
        let prefix = (n * 7_919 / 13) % prefixes;
        let ids: Arc<[u64]> = (0..4).map(|block| prefix * 4 + block).chain([1_000_000 + n]).collect();
        Record {
            at_ms: Some(n as f64 * gap_ms),
            content: Content::Blocks(Blocks { ids, tokens: BLOCK }),
            input_tokens: Some(5 * BLOCK),
            output_tokens: Some(20),
            ..Record::default()
        }
    };
    (0..count).map(record).collect()
}

fn jobs(records: Vec<Record>) -> Jobs {
    let options = PrepareOptions { prefix_lengths: vec![1_024], ..PrepareOptions::default() };
    prepare(records, &options).unwrap()
}

fn setting(replicas: u32) -> Setting {
    Setting {
        fleet: FleetSpec::of(replicas, Preset::default()),
        pacing: Pacing::Open(Clock::Trace { speed: 1.0 }),
        end_us: u64::MAX,
        events: Vec::new(),
        cut: Cut::Before(0),
    }
}

fn run(jobs: &Jobs, setting: &Setting, contender: &str) -> Run {
    simulate(jobs, setting, &contender.parse().unwrap(), 1, &mut |_| {}).unwrap()
}

fn hit_ratio(jobs: &Jobs, run: &Run) -> f64 {
    let hits: u64 = run.served.iter().map(|served| u64::from(served.delivered_tokens)).sum();
    let all: u64 = run.served.iter().map(|served| u64::from(jobs.list[served.job as usize].input_tokens)).sum();
    hits as f64 / all as f64
}

fn events(texts: &[&str]) -> Vec<FleetEvent> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn every_request_is_answered_once_in_full_whatever_the_strategy() {
    let jobs = jobs(records(400, 20, 30.0));
    for contender in Contender::all_core().chain(Contender::all_baselines()) {
        let run = run(&jobs, &setting(4), &contender.to_string());
        let mut answered: Vec<u32> = run.served.iter().filter(|served| served.is_answered()).map(|s| s.job).collect();
        answered.sort_unstable();
        assert_eq!(answered, (0..400).collect::<Vec<u32>>(), "{contender}");
        assert!(run.served.iter().all(|served| served.output_tokens == 20), "{contender}");
        let in_order =
            |s: &Served| s.sent_us <= s.scheduled_us && s.scheduled_us < s.first_us && s.first_us < s.ended_us;
        assert!(run.served.iter().all(in_order), "{contender}");
        assert_eq!(run.gaps_us.len(), 400 * 19, "{contender}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let jobs = jobs(records(300, 20, 30.0));
    for contender in Contender::all_core().chain(Contender::all_baselines()) {
        let run = |seed| simulate(&jobs, &setting(4), &contender, seed, &mut |_| {}).unwrap().served;
        assert_eq!(run(7), run(7), "{contender}");
    }
    let random = |seed| simulate(&jobs, &setting(4), &Contender::core(Strategy::Random), seed, &mut |_| {}).unwrap();
    assert_ne!(random(7).served, random(8).served);
}

#[test]
fn hits_are_those_of_the_closed_form() {
    // 100 prefixes, about 5 uses each, nothing evicted: 4 of 5 blocks are shared.
    let mut uses: BTreeMap<u64, f64> = BTreeMap::new();
    let list = records(500, 100, 2_000.0);
    for record in &list {
        let Content::Blocks(blocks) = &record.content else { panic!("blocks") };
        *uses.entry(blocks.ids[0]).or_default() += 1.0;
    }
    let jobs = jobs(list);
    let weighted = |ratio: fn(f64) -> f64| uses.values().map(|k| k / 500.0 * ratio(*k)).sum::<f64>();
    let affine = weighted(|k| crate::workload::hit_ratio_affine(k, 0.8));
    let random = weighted(|k| crate::workload::hit_ratio_random(k, 7, 0.8));
    let measured = hit_ratio(&jobs, &run(&jobs, &setting(7), "prefix_aware"));
    assert!((measured - affine).abs() < 0.01, "{measured} {affine}");
    let seeds = 0..8;
    let of_seed = |seed| {
        let run = simulate(&jobs, &setting(7), &Contender::core(Strategy::Random), seed, &mut |_| {}).unwrap();
        hit_ratio(&jobs, &run)
    };
    let measured = seeds.map(of_seed).sum::<f64>() / 8.0;
    assert!((measured - random).abs() < 0.01, "{measured} {random}");
}

#[test]
fn what_is_delivered_was_captured_and_what_is_captured_was_available_where_nothing_is_evicted() {
    let jobs = jobs(records(300, 20, 300.0));
    let run = run(&jobs, &setting(4), "random");
    assert!(run.served.iter().all(|s| s.captured_tokens <= s.available_tokens));
    assert!(run.served.iter().all(|s| s.delivered_tokens == s.captured_tokens), "the belief is the truth");
    assert!(run.served.iter().any(|s| s.captured_tokens < s.available_tokens), "random misses what others hold");
}

#[test]
fn a_turn_waits_for_the_answer_before_it_and_for_its_delay() {
    let turn =
        |n: u64, delay_ms| Record { session: Some("s".into()), delay_ms, ..records(8, 8, 1.0)[n as usize].clone() };
    let jobs = jobs(vec![turn(0, None), turn(1, Some(700.0)), turn(2, None)]);
    let sessions = Setting { pacing: Pacing::Sessions(Clock::Trace { speed: 1.0 }), ..setting(2) };
    let served = run(&jobs, &sessions, "random").served;
    assert_eq!(served[1].sent_us, served[0].ended_us + 700_000);
    assert_eq!(served[2].sent_us, served[1].ended_us, "its own time is long over");
    let open = run(&jobs, &setting(2), "random").served;
    assert_eq!(open[2].sent_us, 2_000);
}

#[test]
fn in_a_closed_loop_no_more_are_in_flight_than_there_are_users() {
    let jobs = jobs(records(200, 20, 1.0));
    let closed = Setting { pacing: Pacing::Closed { users: 6, ramp_us: 1_000 }, ..setting(3) };
    let run = run(&jobs, &closed, "prefix_aware");
    assert_eq!(run.served.len(), 200);
    let open_at = |us: u64| run.served.iter().filter(|s| s.sent_us <= us && us < s.ended_us).count();
    let most = run.served.iter().map(|served| open_at(served.sent_us)).max();
    assert_eq!(most, Some(6));
    let hour = Setting { end_us: 2_000_000, ..closed };
    let cut = super::tests::run(&jobs, &hour, "prefix_aware");
    assert!(
        cut.served.len() < 200 && cut.served.iter().all(|served| served.sent_us < 2_000_000 && served.is_answered())
    );
}

#[test]
fn a_replica_that_joins_serves_after_its_cold_start_and_one_that_leaves_ends_what_it_has() {
    let jobs = jobs(records(600, 30, 50.0));
    let mut scaling = setting(3);
    scaling.fleet.cold_start_us = 4_000_000;
    scaling.events = events(&["5s:add=1", "20s:remove=2"]);
    let run = run(&jobs, &scaling, "prefix_aware");
    assert!(run.served.iter().all(Served::is_answered), "scaling loses nothing");
    let by = |number| run.served.iter().filter(move |served| served.replica == number);
    assert!(by(3).next().is_some() && by(3).all(|served| (9_000_000..=20_000_000).contains(&served.sent_us)));
    assert!(by(2).all(|served| served.sent_us <= 20_000_000) && by(0).any(|served| served.sent_us > 20_000_000));
    assert_eq!(run.replicas, ["r1", "r2", "r3", "r4"]);
    assert_eq!(
        run.marks.iter().map(|mark| mark.what.as_str()).collect::<Vec<_>>(),
        ["r4 joins", "r4 serves", "r4 leaves", "r3 leaves"]
    );
    assert!(run.present_us[3] < run.present_us[0]);
}

#[test]
fn a_replica_that_dies_loses_what_it_has_and_comes_back_with_an_empty_cache() {
    let jobs = jobs(records(600, 3, 40.0));
    let mut dying = setting(3);
    dying.fleet.cold_start_us = 2_000_000;
    dying.events = events(&["10s:restart=r2"]);
    for contender in Contender::all_core().chain(Contender::all_baselines()) {
        let run = run(&jobs, &dying, &contender.to_string());
        let lost: Vec<&Served> = run.served.iter().filter(|served| served.ending == Ending::Lost).collect();
        assert!(lost.iter().all(|served| served.replica == 1 && served.ended_us == 10_000_000), "{contender}");
        let during = |served: &&Served| (10_000_001..12_000_000).contains(&served.sent_us);
        assert!(run.served.iter().filter(during).all(|served| served.replica != 1), "{contender}");
        if let Some(first_back) = run.served.iter().find(|s| s.replica == 1 && s.sent_us >= 12_000_000) {
            assert_eq!((first_back.delivered_tokens, first_back.captured_tokens), (0, 0), "{contender}");
        }
        assert_eq!(run.served.iter().filter(|served| served.is_answered()).count() + lost.len(), 600);
    }
}

#[test]
fn a_deploy_takes_one_replica_after_the_other_and_loses_nothing() {
    let jobs = jobs(records(900, 30, 50.0));
    let mut deploying = setting(3);
    deploying.fleet.cold_start_us = 3_000_000;
    deploying.events = events(&["5s:deploy"]);
    let run = run(&jobs, &deploying, "least_outstanding");
    assert!(run.served.iter().all(Served::is_answered));
    let marks: Vec<&str> = run.marks.iter().map(|mark| mark.what.as_str()).collect();
    assert_eq!(
        marks,
        ["deploy of 3 replicas begins", "r1 drains", "r1 serves", "r2 drains", "r2 serves", "r3 drains", "r3 serves"]
    );
}

#[test]
fn an_event_that_names_no_replica_is_refused_and_without_replicas_requests_are() {
    let jobs = jobs(records(20, 3, 100.0));
    let mut wrong = setting(1);
    wrong.events = events(&["1s:restart=r9"]);
    let refused = simulate(&jobs, &wrong, &Contender::core(Strategy::Random), 1, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("r9"), "{refused}");
    wrong.events = events(&["1s:remove=1"]);
    let run = run(&jobs, &wrong, "random");
    assert!(run.served.iter().all(|served| served.is_answered() == (served.sent_us <= 1_000_000)), "{:?}", run.served);
    assert!(run.served.iter().any(|served| served.ending == Ending::Refused));
}

#[test]
fn the_threshold_spills_and_one_key_stays_at_home_below_it() {
    let jobs = jobs(records(300, 1, 20.0));
    let shares = |contender: &str| {
        let run = run(&jobs, &setting(4), contender);
        let spilled = run.served.iter().filter(|served| served.reason.is_spill()).count();
        let used: std::collections::BTreeSet<u32> = run.served.iter().map(|served| served.replica).collect();
        (used.len(), spilled)
    };
    assert_eq!(shares("prefix_aware:prefix_length=1024:concurrency_threshold=1024"), (1, 0));
    let (used, spilled) = shares("prefix_aware:prefix_length=1024:concurrency_threshold=2");
    assert!(used == 4 && spilled > 50, "{used} {spilled}");
}

#[test]
fn what_does_not_fit_an_engine_is_said_to_be_too_long() {
    let mut long = records(3, 3, 100.0);
    long[1].input_tokens = Some(200_000);
    let run = run(&jobs(long), &setting(2), "round_robin");
    let endings: Vec<Ending> = run.served.iter().map(|served| served.ending).collect();
    assert_eq!(endings, [Ending::Answered, Ending::TooLong, Ending::Answered]);
    assert!(run.served.iter().all(|served| served.reason == Reason::Load));
}

#[test]
fn a_trace_without_times_needs_a_rate_or_users() {
    let timeless: Vec<Record> =
        records(50, 5, 1.0).into_iter().map(|record| Record { at_ms: None, ..record }).collect();
    let jobs = jobs(timeless);
    let refused = simulate(&jobs, &setting(2), &Contender::core(Strategy::Random), 1, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("--users"), "{refused}");
    let paced = Setting { pacing: Pacing::Open(Clock::Poisson { rate: 10.0 }), ..setting(2) };
    let run = run(&jobs, &paced, "random");
    let span_s = run.served.last().unwrap().sent_us as f64 / 1e6;
    assert!((3.0..8.0).contains(&span_s), "{span_s}");
}

/// S97: what was recorded in the middle of a run met warm caches, and a replay of it starts with empty ones.
#[test]
fn a_cold_start_is_not_held_against_a_fleet_that_was_warm() {
    let all = records(1_200, 60, 50.0);
    let whole = run(&jobs(all.clone()), &setting(4), "prefix_aware");
    let jobs = jobs(all[600..].to_vec());
    let half = run(&jobs, &setting(4), "prefix_aware");
    let hits = |run: &Run, from: u32| {
        let counted = |served: &&Served| Cut::Before(from).counts(served.job, served.sent_us);
        let delivered: Vec<u32> = run.served.iter().filter(counted).map(|served| served.delivered_tokens).collect();
        delivered.iter().map(|tokens| f64::from(*tokens)).sum::<f64>() / delivered.len() as f64
    };
    let (recorded, cold, warmed) = (hits(&whole, 840), hits(&half, 0), hits(&half, 240));
    assert!(cold < recorded * 0.95, "{cold} {recorded}");
    assert!((warmed / recorded - 1.0).abs() < 0.01, "{warmed} {recorded}");
}
