//! What a strategy came to, in numbers.
//!
//! Latencies and hits are those of requests that count (after the warm-up) and were answered; what was not answered is
//! counted beside them. Several seeds are pooled: percentiles are over all their requests, rates over all their time.
//!
//! Throughput counts answers that ended in the window: from the first request that counts until the replay's end time,
//! or the last answer where there is none.

mod queue;
mod recovery;

use std::collections::BTreeMap;

use kvroute_engine::model::Preset;

pub use self::queue::Queue;
pub(super) use self::queue::{steps, walk};
pub use self::recovery::Recovery;
use super::job::Jobs;
use super::outcome::{Ending, Run, Served};
use super::sim::Setting;
use crate::report::Goodput;
use crate::stats::{Series, Summary};

/// See the module.
#[derive(Debug, Clone)]
pub struct Measures {
    /// Requests that count.
    pub counted: u64,
    /// Of those, the answered.
    pub answered: u64,
    /// Of those, the ones whose replica went away.
    pub lost: u64,
    /// Of those, the ones that nobody could take.
    pub refused: u64,
    /// Of those, the ones that no engine can run.
    pub too_long: u64,
    /// Time to first token, milliseconds.
    pub ttft_ms: Summary,
    /// Time between tokens, milliseconds.
    pub itl_ms: Summary,
    /// Time per output token after the first, milliseconds.
    pub tpot_ms: Summary,
    /// Time to the last token, milliseconds.
    pub e2el_ms: Summary,
    /// Length of the window, seconds, all seeds together.
    pub window_s: f64,
    /// Answers that ended in the window.
    pub completed_in_window: u64,
    /// Of those, the ones that kept the limits; `None` without limits.
    pub good_in_window: Option<u64>,
    /// Their prompt tokens.
    pub input_tokens_in_window: u64,
    /// Their tokens.
    pub output_tokens_in_window: u64,
    /// Tokens of all answers, the warm-up's too: what the GPU time was spent on.
    pub output_tokens_all: u64,
    /// Where prompt tokens were.
    pub locality: Locality,
    /// Of each replica that ever was, in order: its id, its share of the counted requests, 0..1, and the 99th percentile
    /// of its requests in flight over time.
    pub shares: Vec<Share>,
    /// Counted requests by the router's reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Part of them that left their home because of load, 0..1.
    pub spill_ratio: f64,
    /// Requests that waited.
    pub queue: Queue,
    /// GPU time.
    pub gpu: Gpu,
    /// Times that engines took a running request's memory away.
    pub preemptions: u64,
    /// How the first seed's run got over each event.
    pub recoveries: Vec<Recovery>,
}

/// Prompt tokens of the counted requests, and where they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Locality {
    /// All of them.
    pub prompt_tokens: u64,
    /// Held by some replica, by the router's belief.
    pub available_tokens: u64,
    /// Held by the chosen one, by the router's belief.
    pub captured_tokens: u64,
    /// Reused by the engine.
    pub delivered_tokens: u64,
}

/// A replica's part.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// Its id.
    pub replica: String,
    /// Of the counted requests, 0..1.
    pub ratio: f64,
    /// 99th percentile over time of its requests in flight.
    pub in_flight_p99: u32,
}

/// GPU time, in seconds, of all seeds together. A replica's GPUs are told by its preset's name (`tp8`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Gpu {
    /// That the fleet was there.
    pub present_s: f64,
    /// In which it computed.
    pub busy_s: f64,
    /// That computing the delivered tokens of counted requests would have taken: saved by the caches.
    pub prefill_saved_s: f64,
}

impl Locality {
    /// A part of the prompt tokens, 0..1.
    pub fn ratio(&self, tokens: u64) -> f64 {
        if self.prompt_tokens == 0 { 0.0 } else { tokens as f64 / self.prompt_tokens as f64 }
    }

    /// The hit rate.
    pub fn delivered_ratio(&self) -> f64 {
        self.ratio(self.delivered_tokens)
    }
}

/// GPUs of a replica, as the preset's name tells.
pub fn gpus(preset: &Preset) -> f64 {
    let tp = preset.name.split('-').find_map(|part| part.strip_prefix("tp")?.parse::<u32>().ok());
    f64::from(tp.unwrap_or(1))
}

impl Measures {
    /// Of one run a seed, each with its jobs.
    pub fn of(runs: &[(&Jobs, &Run)], setting: &Setting, percents: &[f64], limits: Option<&Goodput>) -> Self {
        let counted = || runs.iter().flat_map(|(_, run)| counted(run, setting));
        let answered = || counted().filter(|served| served.is_answered());
        let count = |ending| counted().filter(|served| served.ending == ending).count() as u64;
        let ms =
            |value: fn(&Served) -> u64| -> Series { answered().map(|served| value(served) as f64 / 1e3).collect() };
        let tpot_ms: Series = answered().filter_map(|served| Some(served.tpot_us()? / 1e3)).collect();
        let mut reasons: BTreeMap<&'static str, u64> = BTreeMap::new();
        counted().for_each(|served| *reasons.entry(served.reason.as_str()).or_default() += 1);
        let spilled = counted().filter(|served| served.reason.is_spill()).count();
        let total = counted().count();
        let window = Window::of(runs, setting, limits);
        Self {
            counted: total as u64,
            answered: count(Ending::Answered),
            lost: count(Ending::Lost),
            refused: count(Ending::Refused),
            too_long: count(Ending::TooLong),
            ttft_ms: ms(Served::ttft_us).summary(percents),
            itl_ms: gaps(runs, percents),
            tpot_ms: tpot_ms.summary(percents),
            e2el_ms: ms(Served::e2e_us).summary(percents),
            window_s: window.s,
            completed_in_window: window.completed,
            good_in_window: limits.map(|_| window.good),
            input_tokens_in_window: window.input_tokens,
            output_tokens_in_window: window.output_tokens,
            output_tokens_all: runs.iter().flat_map(|(_, run)| &run.served).map(|s| u64::from(s.output_tokens)).sum(),
            locality: locality(runs, setting),
            shares: shares(setting, runs),
            spill_ratio: spilled as f64 / total.max(1) as f64,
            reasons,
            queue: Queue::of(runs, setting),
            gpu: gpu(setting, runs),
            preemptions: runs.iter().map(|(_, run)| run.preemptions).sum(),
            recoveries: runs.first().map(|(jobs, run)| recovery::of(jobs, run)).unwrap_or_default(),
        }
    }

    /// Output tokens a second.
    pub fn output_throughput(&self) -> f64 {
        self.a_second(self.output_tokens_in_window)
    }

    /// Answers a second.
    pub fn request_throughput(&self) -> f64 {
        self.a_second(self.completed_in_window)
    }

    /// Answers a second that kept the limits.
    pub fn request_goodput(&self) -> Option<f64> {
        self.good_in_window.map(|good| self.a_second(good))
    }

    /// The largest share over the mean of all replicas that got a request or could have.
    pub fn share_max_to_mean(&self) -> f64 {
        let largest = self.shares.iter().map(|share| share.ratio).fold(0.0, f64::max);
        largest * self.shares.len() as f64
    }

    fn a_second(&self, amount: u64) -> f64 {
        if self.window_s > 0.0 { amount as f64 / self.window_s } else { 0.0 }
    }
}

/// Requests that count, in the order of arrival.
pub(super) fn counted<'a>(run: &'a Run, setting: &Setting) -> impl Iterator<Item = &'a Served> {
    let cut = setting.cut;
    run.served.iter().filter(move |served| cut.counts(served.job, served.sent_us))
}

/// Tokens of a prompt.
pub(super) fn input_tokens(jobs: &Jobs, served: &Served) -> u64 {
    u64::from(jobs.list[served.job as usize].input_tokens)
}

/// Sums over the window of each run.
#[derive(Default)]
struct Window {
    s: f64,
    completed: u64,
    good: u64,
    input_tokens: u64,
    output_tokens: u64,
}

impl Window {
    fn of(runs: &[(&Jobs, &Run)], setting: &Setting, limits: Option<&Goodput>) -> Self {
        let mut window = Self::default();
        for (jobs, run) in runs {
            let Some(from_us) = counted(run, setting).map(|served| served.sent_us).min() else { continue };
            let to_us = run.end_us.min(setting.end_us);
            window.s += to_us.saturating_sub(from_us) as f64 / 1e6;
            let ended = |served: &&Served| served.is_answered() && (from_us..=to_us).contains(&served.ended_us);
            for served in run.served.iter().filter(ended) {
                window.completed += 1;
                window.good += u64::from(limits.is_some_and(|limits| is_good(limits, served)));
                window.input_tokens += input_tokens(jobs, served);
                window.output_tokens += u64::from(served.output_tokens);
            }
        }
        window
    }
}

fn is_good(limits: &Goodput, served: &Served) -> bool {
    limits.kept_within(served.ttft_us() as f64, served.tpot_us(), served.e2e_us() as f64)
}

fn gaps(runs: &[(&Jobs, &Run)], percents: &[f64]) -> Summary {
    let mut all = super::outcome::gaps();
    for (_, run) in runs {
        // Both have the same bounds.
        let _ = all.add(&run.gaps_us);
    }
    crate::report::gap_summary(&all, percents)
}

fn locality(runs: &[(&Jobs, &Run)], setting: &Setting) -> Locality {
    let mut sum = Locality::default();
    for (jobs, run) in runs {
        for served in counted(run, setting).filter(|served| served.is_answered()) {
            sum.prompt_tokens += input_tokens(jobs, served);
            sum.available_tokens += u64::from(served.available_tokens);
            sum.captured_tokens += u64::from(served.captured_tokens);
            sum.delivered_tokens += u64::from(served.delivered_tokens);
        }
    }
    sum
}

fn shares(setting: &Setting, runs: &[(&Jobs, &Run)]) -> Vec<Share> {
    let Some((_, first)) = runs.iter().max_by_key(|(_, run)| run.replicas.len()) else { return Vec::new() };
    let mut requests = vec![0u64; first.replicas.len()];
    let placed = |served: &&Served| served.ending != Ending::Refused;
    for (_, run) in runs {
        counted(run, setting).filter(placed).for_each(|served| requests[served.replica as usize] += 1);
    }
    let total = requests.iter().sum::<u64>().max(1) as f64;
    let in_flight = queue::in_flight_p99(runs, requests.len());
    let shares = first.replicas.iter().zip(&requests).zip(in_flight);
    shares
        .map(|((replica, requests), in_flight_p99)| Share {
            replica: replica.clone(),
            ratio: *requests as f64 / total,
            in_flight_p99,
        })
        .collect()
}

fn gpu(setting: &Setting, runs: &[(&Jobs, &Run)]) -> Gpu {
    let groups = &setting.fleet.groups;
    let initial: Vec<&Preset> =
        groups.iter().flat_map(|group| std::iter::repeat_n(&group.preset, group.count as usize)).collect();
    // Replicas that join are like the first group's.
    let preset = |number: usize| initial.get(number).copied().unwrap_or(&groups[0].preset);
    let mut gpu = Gpu::default();
    for (_, run) in runs {
        for number in 0..run.replicas.len() {
            let gpus = gpus(preset(number));
            gpu.present_s += run.present_us[number] as f64 / 1e6 * gpus;
            gpu.busy_s += run.busy_us[number] as f64 / 1e6 * gpus;
        }
        for served in counted(run, setting).filter(|served| served.is_answered()) {
            let preset = preset(served.replica as usize);
            let tokens = f64::from(served.delivered_tokens);
            let (each, pairs) = (preset.prefill.per_token_ms, preset.prefill.per_token_context_ms);
            let ms = preset.prefill_scale * (each * tokens + pairs * tokens * tokens / 2.0);
            gpu.prefill_saved_s += ms / 1e3 * gpus(preset);
        }
    }
    gpu
}
