//! Replays of real traces, where they lie beside the repository; without them these tests say so and pass.

use kvroute_engine::model::Preset;
use kvroute_lab::replay::{
    Clock, Contender, Cut, FleetSpec, Jobs, Pacing, PrepareOptions, Run, Served, Setting, prepare, simulate,
};
use kvroute_lab::trace::{ReadOptions, TraceReader};

use crate::shared_traces::trace;

fn jobs(name: &str, requests_max: u64) -> Option<Jobs> {
    let options = ReadOptions { records_max: Some(requests_max), ..ReadOptions::default() };
    let reader = TraceReader::open(&[trace(name)?], options).unwrap();
    let options = PrepareOptions { prefix_lengths: vec![1_024], ..PrepareOptions::default() };
    Some(prepare(reader.map(Result::unwrap), &options).unwrap())
}

fn run(jobs: &Jobs, pacing: Pacing, strategy: &str) -> Run {
    let fleet = FleetSpec::of(8, Preset::default());
    let setting = Setting { fleet, pacing, end_us: u64::MAX, events: Vec::new(), cut: Cut::Before(0) };
    let contender: Contender = strategy.parse().unwrap();
    let run = simulate(jobs, &setting, &contender, 1, &mut |_| {}).unwrap();
    assert_eq!(run.served.len(), jobs.list.len());
    assert!(run.served.iter().all(Served::is_answered), "{strategy}");
    run
}

fn hit_ratio(jobs: &Jobs, run: &Run) -> f64 {
    let delivered: u64 = run.served.iter().map(|served| u64::from(served.delivered_tokens)).sum();
    delivered as f64 / jobs.list.iter().map(|job| u64::from(job.input_tokens)).sum::<u64>() as f64
}

#[test]
fn on_a_chat_trace_placement_by_prefix_finds_three_times_what_chance_does() {
    let Some(jobs) = jobs("mooncake/conversation_trace.jsonl.gz", 4_000) else { return };
    let pacing = Pacing::Open(Clock::Trace { speed: 1.0 });
    let [random, ours] =
        ["random", "prefix_aware:prefix_length=1024"].map(|name| hit_ratio(&jobs, &run(&jobs, pacing, name)));
    assert!(random < 0.11 && ours > 0.2 && ours > 2.5 * random, "{random} {ours}");
}

#[test]
fn sessions_of_coding_agents_wait_for_their_answers_whatever_the_strategy() {
    let Some(jobs) = jobs("weka/weka_subset60_mooncake512.jsonl.gz", 1_200) else { return };
    for name in ["session", "llm_d_sticky", "lmetric"] {
        let run = run(&jobs, Pacing::Sessions(Clock::Trace { speed: 1.0 }), name);
        assert!(hit_ratio(&jobs, &run) > 0.85, "{name}");
        let mut ended = vec![0; jobs.sessions.len()];
        for served in &run.served {
            let session = jobs.list[served.job as usize].session_place as usize;
            assert!(served.sent_us >= ended[session], "{name}");
            ended[session] = served.ended_us;
        }
    }
}
