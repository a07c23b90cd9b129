//! What an analysis finds in real traces, against reference values that were computed independently.
//!
//! The traces are not part of the project: where `../shared/traces` is missing, these tests say so and pass.

use std::sync::Arc;

use kvroute_lab::analyze::advice::{Pays, Topic};
use kvroute_lab::analyze::corpus::{Builder, Corpus, Limits};
use kvroute_lab::analyze::reuse::Distances;
use kvroute_lab::analyze::{Analysis, Analyzer, Options, belady};
use kvroute_lab::replay::{
    Case, Clock, Column, Contender, FleetSpec, Pacing, PrepareOptions, Question, Setting, Warmup, compare, prepare,
};
use kvroute_lab::trace::{ReadOptions, Record, TraceReader};

use crate::shared_traces::trace;

const CONVERSATION: &str = "mooncake/conversation_trace.jsonl.gz";
const SYNTHETIC: &str = "mooncake/synthetic_trace.jsonl.gz";
const TOOLAGENT: &str = "toolagent/mooncake_trace_1000.jsonl.gz";
const WEKA: &str = "weka/weka_le128k_235s_gap30_mooncake512.jsonl.gz";
const WEKA_60: &str = "weka/weka_subset60_mooncake512.jsonl.gz";

fn records(name: &str) -> Option<impl Iterator<Item = Record>> {
    let reader = TraceReader::open(&[trace(name)?], ReadOptions::default()).unwrap();
    Some(reader.map(Result::unwrap))
}

fn corpus(name: &str) -> Option<Corpus> {
    let mut builder = Builder::new(Limits::default());
    records(name)?.for_each(|record| builder.push(&record).unwrap());
    Some(builder.finish(0.25))
}

fn analysis(name: &str) -> Option<Analysis> {
    let limits = Limits { estimated_names_max: 20_000_000, ..Limits::default() };
    let mut analyzer = Analyzer::new(Options { limits, ..Options::default() });
    records(name)?.for_each(|record| analyzer.push(&record));
    Some(analyzer.finish(|_| {}))
}

fn assert_within_half_a_point(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 0.005, "{what}: {found:.4} instead of {expected}");
}

#[test]
fn what_a_cache_that_never_forgets_reuses_agrees_with_the_reference() {
    for (name, expected) in
        [(CONVERSATION, 0.3736), (SYNTHETIC, 0.6512), (TOOLAGENT, 0.3907), (WEKA, 0.9543), (WEKA_60, 0.9556)]
    {
        let Some(corpus) = corpus(name) else { continue };
        assert_within_half_a_point(Distances::of(&corpus).hit_ratio_infinite(), expected, name);
    }
}

#[test]
fn what_an_lru_cache_of_a_size_reuses_agrees_with_the_reference() {
    let sizes = [1_350_000, 3_000_000, 10_000_000];
    let reference =
        [(CONVERSATION, [0.06, 0.139, 0.291]), (SYNTHETIC, [0.18, 0.315, 0.577]), (WEKA, [0.118, 0.394, 0.954])];
    for (name, expected) in reference {
        let Some(corpus) = corpus(name) else { continue };
        let distances = Distances::of(&corpus);
        for (tokens, expected) in sizes.into_iter().zip(expected) {
            let what = format!("{name} with {tokens} tokens");
            assert_within_half_a_point(distances.hit_ratio(corpus.grid.steps(tokens)), expected, &what);
        }
    }
}

#[test]
fn what_all_caches_as_one_reuse_by_lru_and_by_belady_agrees_with_the_reference() {
    for (name, lru, best) in [(CONVERSATION, 0.286, 0.374), (SYNTHETIC, 0.566, 0.651)] {
        let Some(corpus) = corpus(name) else { continue };
        let blocks = corpus.grid.steps(9_450_000);
        assert_within_half_a_point(Distances::of(&corpus).hit_ratio(blocks), lru, name);
        assert_within_half_a_point(belady::hit_ratio(&corpus, blocks), best, name);
    }
}

#[test]
fn the_toolagent_traces_system_prompts_are_named_with_what_a_length_below_them_would_do() {
    let Some(analysis) = analysis(TOOLAGENT) else { return };
    let systems: Vec<(f64, u64)> = analysis
        .reuse
        .as_ref()
        .unwrap()
        .repeats
        .system_prompts()
        .iter()
        .map(|branch| ((branch.share * 100.0).round(), branch.to_tokens))
        .collect();
    assert_eq!(systems, [(49.0, 512), (36.0, 6144), (15.0, 2560)]);
    let text = |topic: Topic| -> String {
        let found = analysis.advice.findings.iter().filter(|finding| finding.topic == topic);
        found.map(|finding| finding.text.as_str()).collect::<Vec<_>>().join(" ")
    };
    for part in
        ["49 % of the requests begin with the same 512 tokens", "36 % with another 6,144", "15 % with another 2,560"]
    {
        assert!(text(Topic::Repeats).contains(part), "{}", text(Topic::Repeats));
    }
    for part in ["512 tokens or less the 49 % (3.9 times)", "6,144 tokens or less the 36 % (2.9 times)"] {
        assert!(text(Topic::PrefixLength).contains(part), "{}", text(Topic::PrefixLength));
    }
    assert_eq!(analysis.advice.pays, Pays::Yes);
}

#[test]
fn where_all_requests_begin_alike_the_advised_length_is_behind_that() {
    let Some(analysis) = analysis(CONVERSATION) else { return };
    let reuse = analysis.reuse.as_ref().unwrap();
    assert_eq!((reuse.repeats.root.share, reuse.repeats.root.to_tokens), (1.0, 512));
    let advised = reuse.sweep.advised().unwrap();
    assert!((1024..=4096).contains(&advised.tokens), "{advised:?}");
    assert!(advised.estimate.reused_ratio > 0.95 * reuse.limits.pooled_lru, "{advised:?}");
}

/// Lengths in tokens and thresholds of a full sweep.
const LENGTHS: [u32; 10] = [512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384];
const THRESHOLDS: [u32; 5] = [4, 8, 16, 32, 64];

fn replayed(contenders: Vec<Contender>) -> Vec<Column> {
    let mut prefix_lengths: Vec<u32> = contenders.iter().filter_map(|contender| contender.prefix_length).collect();
    prefix_lengths.sort_unstable();
    prefix_lengths.dedup();
    let options = PrepareOptions { prefix_lengths, ..PrepareOptions::default() };
    let jobs = prepare(records(TOOLAGENT).unwrap(), &options).unwrap();
    let setting = Setting {
        fleet: FleetSpec::of(Options::default().replicas, Options::default().preset),
        pacing: Pacing::Open(Clock::Trace { speed: 1.0 }),
        end_us: u64::MAX,
        events: Vec::new(),
        cut: Warmup::default().cut(jobs.list.len(), u64::MAX),
    };
    let question = Question { contenders, setting, percentiles: vec![50.0, 90.0, 99.0], goodput: None, threads: 2 };
    compare(&[Case { seed: 1, jobs: Arc::new(jobs) }], &question, &|_, _| {}).unwrap()
}

fn prefix_aware(length: u32, threshold: u32) -> Contender {
    let text = format!("prefix_aware:prefix_length={length}:concurrency_threshold={threshold}");
    text.parse().unwrap()
}

#[test]
fn the_advice_for_the_toolagent_trace_replayed_costs_hardly_more_than_the_best_of_a_full_sweep() {
    let Some(analysis) = analysis(TOOLAGENT) else { return };
    let settings = analysis.advice.settings.unwrap();
    let advised = prefix_aware(settings.prefix_tokens.unwrap() as u32, settings.concurrency_threshold.unwrap());
    let cells = LENGTHS.iter().flat_map(|&length| THRESHOLDS.map(|threshold| prefix_aware(length, threshold)));
    let p90 = |column: &Column| column.measures.ttft_ms.percentiles.iter().find(|p| p.0 == 90.0).unwrap().1;
    let sweep = replayed(cells.collect());
    let best = sweep.iter().min_by(|a, b| p90(a).total_cmp(&p90(b))).unwrap().contender.clone();
    if best == advised {
        return;
    }
    let pair = replayed(vec![best.clone(), advised]);
    let change = pair[1].changes.as_ref().unwrap().ttft_p90;
    assert!(
        change.value <= 5.0 || change.low <= 0.0,
        "{:.0} ms, and {best} has {:.0} ms: {change:?}",
        p90(&pair[1]),
        p90(&pair[0])
    );
}
