//! What follows from an analysis, in plain sentences.

mod findings;

use super::cuts::Cut;
use super::serialisation::WORTH;
use super::settings::Settings;
use super::words::{count, milliseconds, percent, points, small};
use super::{Analysis, Reuse};

/// Part of the prompt tokens that prefix-aware placement must reuse more than random placement to be worth it.
const GAIN_MIN: f64 = 0.03;
/// Part of the prompt tokens below which hardly anything repeats.
const REPEATS_MIN: f64 = 0.05;
/// The threshold over the mean in flight. Below 2 to 3 a home is left so often that nothing is reused (simulated: at the
/// mean itself hits fall to those of random placement).
const THRESHOLD_OVER_MEAN: f64 = 2.5;
/// Mean TTFT of a fleet whose queues only grow.
const CANNOT_KEEP_UP_MS: f64 = 60_000.0;
/// Bursts of a few equal beginnings are normal on an idle fleet.
const THRESHOLD_MIN: u32 = 8;
const THRESHOLD_MAX: u32 = 1024;

/// Whether prefix-aware routing pays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pays {
    /// It does.
    Yes,
    /// Hardly.
    Little,
    /// It does not.
    No,
    /// The trace cannot tell.
    #[default]
    Unknown,
}

/// What `concurrency_threshold` should be.
fn advised_threshold(analysis: &Analysis) -> u32 {
    match &analysis.reuse {
        Some(reuse) => reuse.sweep.concurrency_threshold,
        None => threshold(analysis.demand.as_ref().map(|demand| demand.in_flight_mean)),
    }
}

/// What to do.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Advice {
    /// Whether it pays.
    pub pays: Pays,
    /// The same in a sentence, with the reason.
    pub verdict: String,
    /// What to know, the most important first.
    pub findings: Vec<Finding>,
    /// Questions that this trace cannot answer, and why.
    pub refused: Vec<String>,
    /// What to set; `None` where the trace cannot tell.
    pub settings: Option<Settings>,
    /// The same, as a configuration for kvroute.
    pub kvroute_yaml: Option<String>,
    /// The same, as SageMaker's `RoutingConfig`.
    pub sagemaker_routing_config: Option<serde_json::Value>,
}

/// Something to know.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What it is about.
    pub topic: Topic,
    /// Whether something should be done about it.
    pub is_warning: bool,
    /// What was found, and what to do.
    pub text: String,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// What repeats.
    Repeats,
    /// `prefix_length`.
    PrefixLength,
    /// `concurrency_threshold`.
    ConcurrencyThreshold,
    /// A key that is more than a replica's share.
    HotPrefix,
    /// Shared, but shorter than a KV block.
    Blocks,
    /// KV memory.
    Memory,
    /// How prompts are written.
    Serialisation,
    /// How much there is to do.
    Load,
    /// What the trace itself is.
    Trace,
}

/// `concurrency_threshold` for so many requests in flight on a replica, on average.
pub fn threshold(in_flight_mean: Option<f64>) -> u32 {
    let wanted = (in_flight_mean.unwrap_or(0.0) * THRESHOLD_OVER_MEAN).ceil();
    (wanted as u32).clamp(THRESHOLD_MIN, THRESHOLD_MAX)
}

impl Advice {
    pub(super) fn of(analysis: &Analysis) -> Self {
        let (pays, verdict) = verdict(analysis);
        let settings = settings(analysis, pays);
        Self {
            pays,
            verdict,
            findings: findings::all(analysis),
            refused: refused(analysis),
            kvroute_yaml: settings.as_ref().map(Settings::yaml),
            sagemaker_routing_config: settings.as_ref().map(Settings::routing_config),
            settings,
        }
    }
}

fn verdict(analysis: &Analysis) -> (Pays, String) {
    let Some(reuse) = &analysis.reuse else {
        let why = if analysis.load.requests == 0 {
            "there is no request in this trace"
        } else {
            "this trace tells how long prompts are, not what is in them"
        };
        return (Pays::Unknown, format!("Whether prefix-aware routing pays cannot be told: {why}."));
    };
    let limits = &reuse.limits;
    let random = reuse.sweep.random.reused_ratio;
    if analysis.fleet.replicas < 2 {
        return (Pays::No, "There is nothing to route: the fleet has one replica (see --replicas).".to_owned());
    }
    let not = |why: String| (Pays::No, format!("Your traffic will not gain, because {why}."));
    if limits.infinite < REPEATS_MIN {
        let infinite = percent(limits.infinite);
        return not(format!("hardly anything repeats: even a cache that never forgets would reuse {infinite} of it"));
    }
    if reuse.rounding.cached_ratio < REPEATS_MIN && reuse.rounding.repeated_ratio >= REPEATS_MIN {
        let block = count(u64::from(analysis.fleet.block_tokens));
        return not(format!("what repeats is shorter than the engine's KV block of {block} tokens"));
    }
    let Some(cut) = reuse.sweep.advised() else {
        return not("every prompt is shorter than the shortest prefix_length".to_owned());
    };
    let gain = cut.estimate.reused_ratio - random;
    let fleet = format!("{} replicas", small(analysis.fleet.replicas as usize));
    if gain < GAIN_MIN {
        return not(why_no_gain(reuse, cut, &fleet));
    }
    let times = latency(reuse, cut);
    let is_slower = matches!(&times, Some((is_slower, _)) if *is_slower);
    let times = times.map_or_else(String::new, |(_, text)| text);
    let (reused, at_most) = (percent(cut.estimate.reused_ratio), percent(limits.infinite));
    let by = points(gain);
    let reused = format!(
        "over {fleet} it would reuse {reused} of the prompt tokens where random placement reuses {} (+{by}; nothing can \
         reuse more than {at_most}){times}",
        percent(random)
    );
    if is_slower {
        return (Pays::Little, format!("Prefix-aware routing would save work but hardly time: {reused}."));
    }
    (Pays::Yes, format!("Prefix-aware routing should pay: {reused}."))
}

fn why_no_gain(reuse: &Reuse, cut: &Cut, fleet: &str) -> String {
    let limits = &reuse.limits;
    let random = percent(reuse.sweep.random.reused_ratio);
    if limits.pooled_lru < 0.5 * limits.infinite {
        return format!(
            "KV memory is too small: of the {} of the prompt tokens that repeat, all caches together would still hold {} \
             when they come again",
            percent(limits.infinite),
            percent(limits.pooled_lru)
        );
    }
    if reuse.sweep.random.reused_ratio > 0.8 * limits.pooled_lru.max(f64::MIN_POSITIVE) {
        return format!(
            "every replica soon holds what repeats: over {fleet} random placement already reuses {random} of the prompt \
             tokens, perfect placement would {}",
            percent(limits.pooled_lru)
        );
    }
    format!(
        "no fixed prefix length gathers what repeats: the best reuses {}, random placement {random}",
        percent(cut.estimate.reused_ratio)
    )
}

/// Whether the advised cut is slower than placement by load, and a sentence about TTFT.
fn latency(reuse: &Reuse, cut: &Cut) -> Option<(bool, String)> {
    let (mean, p90) = (cut.estimate.ttft_mean_ms?, cut.estimate.ttft_p90_ms?);
    let (random, load) = (&reuse.sweep.random, &reuse.sweep.least_outstanding);
    if random.ttft_mean_ms? > CANNOT_KEEP_UP_MS && mean < CANNOT_KEEP_UP_MS {
        let text = format!(
            "; by a quick simulation, mean TTFT is {} (P90 {}), and with random placement the fleet cannot keep up",
            milliseconds(mean),
            milliseconds(p90)
        );
        return Some((false, text));
    }
    let text = format!(
        "; mean TTFT {} instead of {} (P90 {} instead of {}), by a quick simulation",
        milliseconds(mean),
        milliseconds(random.ttft_mean_ms?),
        milliseconds(p90),
        milliseconds(random.ttft_p90_ms?),
    );
    Some((mean > load.ttft_mean_ms? && p90 > load.ttft_p90_ms?, text))
}

fn refused(analysis: &Analysis) -> Vec<String> {
    let mut refused = Vec::new();
    match analysis.kind {
        "lengths" => refused.push(
            "What repeats, what can be reused and which prefix_length fits: the trace holds lengths only. Record prompts, \
             or names of their blocks."
                .to_owned(),
        ),
        "hashes" => refused.push(
            "Whether prompts are written alike (JSON bytes, volatile lines, order of messages): the trace holds names of \
             blocks, not text. Lengths are in tokens on the blocks' grid; characters are an estimate at four a token."
                .to_owned(),
        ),
        _ => {}
    }
    if analysis.load.requests > 0 && analysis.load.rate_per_s.is_none() {
        refused.push("concurrency_threshold and latencies: the trace does not tell when requests arrived.".to_owned());
    }
    refused
}

fn settings(analysis: &Analysis, pays: Pays) -> Option<Settings> {
    let cut = analysis.reuse.as_ref()?.sweep.advised();
    let lines = analysis.serialisation.as_ref().filter(|found| found.first_line_ratio >= WORTH);
    match (pays, cut) {
        (Pays::Unknown, _) => None,
        (Pays::Yes | Pays::Little, Some(cut)) => Some(Settings {
            strategy: "prefix_aware",
            prefix_length: Some(cut.prefix_length),
            prefix_tokens: Some(cut.tokens),
            concurrency_threshold: Some(advised_threshold(analysis)),
            key_skip_lines: lines.map_or_else(Vec::new, |found| found.first_line_beginnings.clone()),
        }),
        _ => Some(Settings {
            strategy: "least_outstanding",
            prefix_length: None,
            prefix_tokens: None,
            concurrency_threshold: None,
            key_skip_lines: Vec::new(),
        }),
    }
}
