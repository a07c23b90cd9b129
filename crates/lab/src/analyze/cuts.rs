//! How long a prefix makes a good key.
//!
//! `prefix_aware` places a request by one fixed cut of its prompt. Too short, and everything has one key and one replica
//! all the work; too long, and each prompt has a key of its own and nothing meets what it could reuse. Every length is
//! tried on the trace with the fleet's own caches ([`fleet`](super::fleet)), and the advice is the middle of the lengths
//! that are about as good as the best one, not the best one of a noisy row.

use std::collections::HashMap;

use super::corpus::Corpus;
use super::fleet::Estimate;
use super::repeats::Repeats;
use super::reuse::ratio;
use super::sweep;

/// What `prefix_length` may be, in characters (the range of SageMaker's `PrefixLength`).
pub const PREFIX_LENGTH: std::ops::RangeInclusive<u32> = 1024..=65_536;

/// Lengths that are tried, in characters; those between which a system prompt ends are added.
const LENGTHS: [u32; 14] =
    [512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152, 65_536];
/// How far behind the end of a system prompt a length is tried.
const BEHIND_CHARACTERS: u32 = 256;
/// Difference in reuse that does not matter: half a point.
const REUSED_ALIKE: f64 = 0.005;
/// A key with this part of the requests is not advised while a longer cut divides it.
const HOT: f64 = 0.5;

/// A prefix length and what it would do.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Cut {
    /// In characters of message text; an estimate for traces of tokens or hashes.
    pub prefix_length: u32,
    /// In tokens.
    pub tokens: u64,
    /// Lines of the grid.
    #[serde(skip)]
    pub lines: usize,
    /// Whether `prefix_length` may be set to it.
    pub is_allowed: bool,
    /// Different keys.
    pub keys: usize,
    /// Requests of the most used key, as part of all, 0..1.
    pub key_share_max: f64,
    /// What the fleet would do. *Simulated.*
    pub estimate: Estimate,
}

impl Cut {
    /// What it does to keys, yet without an estimate.
    pub(super) fn new(corpus: &Corpus, prefix_length: u32, lines: usize) -> Self {
        let (keys, key_share_max) = keys(corpus, lines);
        Self {
            prefix_length,
            tokens: corpus.grid.tokens(lines as u64 * u64::from(corpus.grid.step)),
            lines,
            is_allowed: PREFIX_LENGTH.contains(&prefix_length),
            keys,
            key_share_max,
            estimate: Estimate::default(),
        }
    }
}

/// Prefix lengths and their lines of the grid, without those that cut at the same line.
pub(super) fn candidates(corpus: &Corpus, repeats: &Repeats) -> Vec<(u32, usize)> {
    let step = f64::from(corpus.grid.step);
    let characters_per_unit = characters_per_unit(corpus);
    let mut lengths = LENGTHS.to_vec();
    for branch in repeats.system_prompts() {
        let end = (branch.to_units as f64 * characters_per_unit) as u32;
        if end > 0 && end < *PREFIX_LENGTH.end() {
            lengths.push((end + 1).next_multiple_of(BEHIND_CHARACTERS).max(*PREFIX_LENGTH.start()));
        }
    }
    lengths.sort_unstable();
    let longest = (0..corpus.requests.len()).map(|index| corpus.names(index).len()).max().unwrap_or(0);
    let mut all: Vec<(u32, usize)> = Vec::new();
    for length in lengths {
        let lines = (f64::from(length) / characters_per_unit / step) as usize;
        let is_new = all.last().is_none_or(|&(_, before)| before < lines);
        // The first that is longer than every prompt stands for all after it.
        let is_enough = all.last().is_some_and(|&(_, before)| before >= longest);
        if lines > 0 && is_new && !is_enough {
            // Exactly the line, so that what is said in tokens and in characters is one length.
            let exact = (lines as f64 * step * characters_per_unit).round() as u32;
            let exact = if exact < *PREFIX_LENGTH.start() { exact } else { exact.min(*PREFIX_LENGTH.end()) };
            all.push((exact, lines));
        }
    }
    all
}

/// Characters of one unit of the grid.
fn characters_per_unit(corpus: &Corpus) -> f64 {
    match corpus.grid.unit {
        super::corpus::Unit::Characters => 1.0,
        super::corpus::Unit::Tokens => super::CHARACTERS_PER_TOKEN,
    }
}

/// Different keys, and the most used one's part of the requests.
fn keys(corpus: &Corpus, lines: usize) -> (usize, f64) {
    let mut uses: HashMap<(u32, u32), u64> = HashMap::new();
    for index in 0..corpus.requests.len() {
        if let Some(key) = corpus.key(index, lines) {
            *uses.entry(key).or_default() += 1;
        }
    }
    (uses.len(), ratio(uses.values().copied().max().unwrap_or(0), corpus.requests.len() as u64))
}

/// The first and the last of the neighbours that cost about as little as the best.
pub(super) fn plateau(cuts: &[Cut]) -> Option<(usize, usize)> {
    let allowed: Vec<usize> = (0..cuts.len()).filter(|&index| cuts[index].is_allowed).collect();
    let is_divided = |index: &usize| cuts[*index].key_share_max < HOT;
    let divided: Vec<usize> = allowed.iter().copied().filter(is_divided).collect();
    // Where no length divides the hottest key, the one that leaves it smallest must do.
    let among: Vec<usize> = if divided.is_empty() {
        let share = |index: &usize| cuts[*index].key_share_max;
        let least = allowed.iter().map(share).min_by(f64::total_cmp)?;
        allowed.into_iter().filter(|index| share(index) <= least * 1.05).collect()
    } else {
        divided
    };
    let costs: Vec<f64> = among.iter().map(|&index| cuts[index].estimate.cost()).collect();
    sweep::plateau(&costs).map(|(first, last)| (among[first], among[last]))
}

/// Of a plateau, the middle of the neighbours that reuse about as much as the best of it: where latencies do not tell
/// lengths apart, saved work does.
pub(super) fn advised(cuts: &[Cut], (first, last): (usize, usize)) -> usize {
    let reused = |index: usize| cuts[index].estimate.reused_ratio;
    let best = (first..=last).max_by(|&a, &b| reused(a).total_cmp(&reused(b))).unwrap_or(first);
    let is_good = |index: &usize| reused(*index) >= reused(best) - REUSED_ALIKE;
    let from = (first..=best).rev().take_while(is_good).last().unwrap_or(best);
    let to = (best..=last).take_while(is_good).last().unwrap_or(best);
    from.midpoint(to)
}

#[cfg(test)]
mod tests {
    use kvroute_engine::model::Preset;

    use super::super::corpus::{Builder, Limits};
    use super::super::fleet::Fleet;
    use super::super::sample::{at, blocks, text};
    use super::super::sweep::Sweep;
    use super::*;

    fn sweep(corpus: &Corpus) -> Sweep {
        let fleet = Fleet { replicas: 4, kv_tokens: 1 << 30, preset: Preset::default(), token_ms: 10.0 };
        Sweep::of(corpus, &Repeats::of(corpus), &fleet, 8, 1_000_000, |_| {})
    }

    /// A shared system prompt of `system` blocks, then 40 documents of 4 blocks, each asked about 10 times.
    fn service(system: u64) -> Corpus {
        let mut builder = Builder::new(Limits::default());
        for ask in 0..10u64 {
            for document in 0..40u64 {
                let ids = (0..system)
                    .chain((0..4).map(|b| 1000 + document * 10 + b))
                    .chain([1_000_000 + ask * 40 + document]);
                let ids: Vec<u64> = ids.collect();
                let time = (ask * 40 + document) as f64 * 150.0;
                builder.push(&at(blocks(&ids, ids.len() as u32 * 512), time, 50)).unwrap();
            }
        }
        builder.finish(0.25)
    }

    #[test]
    fn the_advice_is_never_a_cut_that_leaves_everything_one_key() {
        for system in [1, 2, 4] {
            let sweep = sweep(&service(system));
            let advised = sweep.advised().unwrap();
            assert!(advised.tokens > system * 512, "{system}: {advised:?}");
            assert!(advised.tokens <= (system + 4) * 512, "{system}: longer than what documents share: {advised:?}");
            assert_eq!((advised.keys, sweep.cuts[0].keys), (40, 1));
        }
    }

    #[test]
    fn a_trace_without_times_is_judged_by_the_work_of_the_busiest_replica() {
        let mut builder = Builder::new(Limits::default());
        for i in 0..200u64 {
            let document = i % 20;
            let ids: Vec<u64> =
                [0, 1].into_iter().chain((0..4).map(|b| 1000 + document * 10 + b)).chain([10_000 + i]).collect();
            builder.push(&blocks(&ids, 7 * 512)).unwrap();
        }
        let advised = sweep(&builder.finish(0.25)).advised().unwrap().clone();
        assert_eq!((advised.keys, advised.estimate.ttft_mean_ms), (20, None));
    }

    #[test]
    fn lengths_beside_the_end_of_a_system_prompt_are_tried() {
        let mut builder = Builder::new(Limits::default());
        for i in 0..50 {
            builder.push(&text(&format!("{}{}", "s".repeat(4_200), format!("{i:04}").repeat(300)))).unwrap();
        }
        let corpus = builder.finish(0.25);
        let lengths: Vec<u32> = sweep(&corpus).cuts.iter().map(|cut| cut.prefix_length).collect();
        assert!(lengths.contains(&4096) && lengths.contains(&4352), "{lengths:?}");
        assert!(lengths.iter().rev().skip(1).all(|&length| length < 5_500), "{lengths:?}");
    }

    #[test]
    fn where_nothing_divides_the_prompts_there_is_still_advice() {
        let mut builder = Builder::new(Limits::default());
        for i in 0..20 {
            builder.push(&at(text(&"x".repeat(3_000)), f64::from(i), 1)).unwrap();
        }
        let sweep = sweep(&builder.finish(0.25));
        assert_eq!(sweep.advised().unwrap().keys, 1);
    }

    #[test]
    fn a_prompt_shorter_than_every_length_that_may_be_set_is_its_own_key() {
        let mut builder = Builder::new(Limits::default());
        for i in 0..20 {
            builder.push(&at(text(&format!("{i:>300}")), f64::from(i), 1)).unwrap();
        }
        let sweep = sweep(&builder.finish(0.25));
        assert!(sweep.cuts.len() <= 2, "{:?}", sweep.cuts);
    }
}
