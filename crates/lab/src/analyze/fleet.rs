//! A quick estimate of what a fleet would do with the trace under one rule of placement. *Simulated.*
//!
//! Each replica has an LRU cache of its own and computes prompts one after the other, at the speed of the engine preset;
//! an answer then takes its tokens' time. That leaves out batching, chunked prefill and preemption: it is for comparing
//! prefix lengths in a second, and `kvroute replay`, which runs the engine model, is what decides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kvroute_core::hash;
use kvroute_core::moment::Entropy;
use kvroute_engine::model::Preset;

use super::corpus::Corpus;
use super::lru::Lru;
use super::reuse::ratio;

/// The fleet that advice is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fleet {
    /// Replicas, at least 1.
    pub replicas: u32,
    /// KV tokens of one replica.
    pub kv_tokens: u64,
    /// How fast it computes.
    pub preset: Preset,
    /// Milliseconds a generated token takes.
    pub token_ms: f64,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// To any replica.
    Random,
    /// To the replica with the fewest requests in flight.
    LeastOutstanding,
    /// To the home of its key, the name after so many lines of the grid, or to the least outstanding replica while the
    /// home has `threshold` requests in flight.
    Key {
        /// Lines of the grid that make the key.
        lines: usize,
        /// In flight at which the home is left.
        threshold: u32,
    },
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// Part of the prompt tokens that was reused, 0..1.
    pub reused_ratio: f64,
    /// Requests of the busiest replica, as part of all, 0..1.
    pub share_max: f64,
    /// Computed tokens of the busiest replica over those of a mean one, 1 or more.
    pub work_max: f64,
    /// Requests that left their home, as part of all, 0..1.
    pub spilled_ratio: f64,
    /// Mean time to first token, milliseconds; `None` where the trace has no times.
    pub ttft_mean_ms: Option<f64>,
    /// 90th percentile of it.
    pub ttft_p90_ms: Option<f64>,
    /// Requests in flight on a replica, on average over the trace.
    pub in_flight_mean: Option<f64>,
}

impl Estimate {
    /// What it costs, to be compared with others of the same trace; less is better.
    pub fn cost(&self) -> f64 {
        match (self.ttft_mean_ms, self.ttft_p90_ms) {
            (Some(mean), Some(p90)) => mean + p90,
            // Without times: the work of the busiest replica.
            _ => (1.0 - self.reused_ratio) * self.work_max,
        }
    }

    /// The mean of several.
    pub fn mean_of(all: &[Self]) -> Self {
        let n = all.len().max(1) as f64;
        let mean = |value: fn(&Self) -> f64| all.iter().map(value).sum::<f64>() / n;
        let told = |value: fn(&Self) -> Option<f64>| -> Option<f64> {
            let values: Option<Vec<f64>> = all.iter().map(value).collect();
            values.filter(|values| !values.is_empty()).map(|values| values.iter().sum::<f64>() / n)
        };
        Self {
            reused_ratio: mean(|e| e.reused_ratio),
            share_max: mean(|e| e.share_max),
            work_max: mean(|e| e.work_max),
            spilled_ratio: mean(|e| e.spilled_ratio),
            ttft_mean_ms: told(|e| e.ttft_mean_ms),
            ttft_p90_ms: told(|e| e.ttft_p90_ms),
            in_flight_mean: told(|e| e.in_flight_mean),
        }
    }
}

/// The requests in the order of their arrival, or of the trace where it has no times.
pub fn arrivals(corpus: &Corpus) -> Vec<u32> {
    let mut order: Vec<u32> = (0..corpus.requests.len() as u32).collect();
    if is_timed(corpus) {
        let at = |index: &u32| corpus.requests[*index as usize].at_ms.unwrap_or(0.0);
        order.sort_by(|a, b| at(a).total_cmp(&at(b)));
    }
    order
}

fn is_timed(corpus: &Corpus) -> bool {
    corpus.requests.iter().all(|request| request.at_ms.is_some())
}

/// Sends requests, in the order of their arrival, through the fleet.
pub fn estimate(corpus: &Corpus, requests: &[u32], fleet: &Fleet, rule: Rule, seed: u64) -> Estimate {
    let mut run = Run::new(corpus, fleet, seed);
    let is_timed = is_timed(corpus);
    for &index in requests {
        run.request(index as usize, rule, is_timed);
    }
    run.finish(requests, is_timed)
}

struct Run<'a> {
    corpus: &'a Corpus,
    fleet: &'a Fleet,
    seed: u64,
    entropy: Entropy,
    replicas: Vec<Replica>,
    /// Ends of requests (microseconds, so that they have an order), and where.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    ttfts_ms: Vec<f64>,
    reused: u64,
    units: u64,
    spilled: u64,
    busy_ms: f64,
}

struct Replica {
    cache: Lru,
    free_at_ms: f64,
    in_flight: u32,
    requests: u64,
    computed_tokens: u64,
}

impl<'a> Run<'a> {
    fn new(corpus: &'a Corpus, fleet: &'a Fleet, seed: u64) -> Self {
        let capacity = corpus.grid.steps(fleet.kv_tokens);
        let replica = || Replica {
            cache: Lru::new(capacity),
            free_at_ms: f64::NEG_INFINITY,
            in_flight: 0,
            requests: 0,
            computed_tokens: 0,
        };
        Self {
            corpus,
            fleet,
            seed,
            entropy: Entropy::new(hash::finish(seed)),
            replicas: (0..fleet.replicas.max(1)).map(|_| replica()).collect(),
            ends: BinaryHeap::new(),
            ttfts_ms: Vec::new(),
            reused: 0,
            units: 0,
            spilled: 0,
            busy_ms: 0.0,
        }
    }

    fn request(&mut self, index: usize, rule: Rule, is_timed: bool) {
        let request = &self.corpus.requests[index];
        let at_ms = request.at_ms.unwrap_or(0.0);
        if is_timed {
            self.end_before(at_ms);
        }
        let place = self.place(index, rule);
        let names = self.corpus.names(index);
        let replica = &mut self.replicas[place];
        let matched = replica.cache.matched(names);
        replica.cache.insert(names);
        let reused = self.corpus.units_of(index, matched);
        self.reused += reused;
        self.units += u64::from(request.size);
        // The last token is computed in any case: an engine needs it to have an answer.
        let cached = self.corpus.grid.tokens(reused).min(u64::from(request.input_tokens).saturating_sub(1));
        let computed = u64::from(request.input_tokens) - cached;
        replica.requests += 1;
        replica.computed_tokens += computed;
        if !is_timed {
            return;
        }
        let begin_ms = replica.free_at_ms.max(at_ms);
        replica.free_at_ms = begin_ms + prefill_ms(&self.fleet.preset, computed as f64, cached as f64);
        let first_ms = replica.free_at_ms + self.fleet.preset.overhead_ms;
        let end_ms = first_ms + f64::from(request.output_tokens.unwrap_or(0)) * self.fleet.token_ms;
        replica.in_flight += 1;
        self.ttfts_ms.push(first_ms - at_ms);
        self.busy_ms += end_ms - at_ms;
        self.ends.push(Reverse((microseconds(end_ms), place as u32)));
    }

    fn end_before(&mut self, at_ms: f64) {
        let now = microseconds(at_ms);
        while let Some(&Reverse((end, place))) = self.ends.peek()
            && end <= now
        {
            self.ends.pop();
            self.replicas[place as usize].in_flight -= 1;
        }
    }

    fn place(&mut self, index: usize, rule: Rule) -> usize {
        match rule {
            Rule::Random => self.entropy.below(self.replicas.len() as u32) as usize,
            Rule::LeastOutstanding => self.least_outstanding(),
            Rule::Key { lines, threshold } => {
                let Some((tenant, name)) = self.corpus.key(index, lines) else { return self.least_outstanding() };
                let key = hash::mix(hash::mix(self.seed, u64::from(tenant)), u64::from(name));
                let score = |replica: &usize| hash::mix(key, *replica as u64);
                let home = (0..self.replicas.len()).max_by_key(score).unwrap_or(0);
                if self.replicas[home].in_flight < threshold {
                    return home;
                }
                self.spilled += 1;
                self.least_outstanding()
            }
        }
    }

    fn least_outstanding(&mut self) -> usize {
        let least = self.replicas.iter().map(|replica| replica.in_flight).min().unwrap_or(0);
        let ties = self.replicas.iter().filter(|replica| replica.in_flight == least).count();
        let nth = self.entropy.below(ties as u32) as usize;
        let mut of_least = self.replicas.iter().enumerate().filter(|(_, replica)| replica.in_flight == least);
        of_least.nth(nth).map_or(0, |(place, _)| place)
    }

    fn finish(mut self, requests: &[u32], is_timed: bool) -> Estimate {
        let count = requests.len();
        let computed: u64 = self.replicas.iter().map(|replica| replica.computed_tokens).sum();
        let computed_max = self.replicas.iter().map(|replica| replica.computed_tokens).max().unwrap_or(0);
        let requests_max = self.replicas.iter().map(|replica| replica.requests).max().unwrap_or(0);
        let mut estimate = Estimate {
            reused_ratio: ratio(self.reused, self.units),
            share_max: ratio(requests_max, count as u64),
            work_max: ratio(computed_max * self.replicas.len() as u64, computed).max(1.0),
            spilled_ratio: ratio(self.spilled, count as u64),
            ..Estimate::default()
        };
        if let (true, [first, .., last]) = (is_timed, requests) {
            let at = |index: u32| self.corpus.requests[index as usize].at_ms.unwrap_or(0.0);
            let span_ms = at(*last) - at(*first);
            self.ttfts_ms.sort_unstable_by(f64::total_cmp);
            estimate.ttft_mean_ms = Some(self.ttfts_ms.iter().sum::<f64>() / count as f64);
            estimate.ttft_p90_ms = Some(self.ttfts_ms[(count - 1) * 9 / 10]);
            let replicas = self.replicas.len() as f64;
            estimate.in_flight_mean = (span_ms > 0.0).then(|| self.busy_ms / span_ms / replicas);
        }
        estimate
    }
}

fn microseconds(ms: f64) -> u64 {
    (ms.max(0.0) * 1e3) as u64
}

/// Milliseconds to compute `tokens` of a prompt after `cached` others, on an engine that does nothing else.
pub fn prefill_ms(preset: &Preset, tokens: f64, cached: f64) -> f64 {
    let cost = &preset.prefill;
    let context = cached + tokens / 2.0;
    preset.prefill_scale * (cost.base_ms + cost.per_token_ms * tokens + cost.per_token_context_ms * tokens * context)
}

#[cfg(test)]
mod tests {
    use super::super::corpus::{Builder, Limits};
    use super::super::sample::{at, blocks};
    use super::*;
    use crate::workload::{hit_ratio_affine, hit_ratio_random};

    fn fleet(replicas: u32) -> Fleet {
        Fleet { replicas, kv_tokens: 1 << 40, preset: Preset::default(), token_ms: 10.0 }
    }

    /// `prefixes` beginnings of 15 blocks, each used `uses` times, interleaved; every prompt ends with a block of its own.
    fn shared_prefix(prefixes: u64, uses: u64) -> Corpus {
        let mut builder = Builder::new(Limits::default());
        for use_ in 0..uses {
            for prefix in 0..prefixes {
                let ids: Vec<u64> =
                    (0..15).map(|block| prefix * 100 + block).chain([1 << 40 | prefix << 8 | use_]).collect();
                builder.push(&at(blocks(&ids, 16 * 512), (use_ * prefixes + prefix) as f64 * 100.0, 10)).unwrap();
            }
        }
        builder.finish(0.25)
    }

    #[test]
    fn placement_agrees_with_the_closed_form_within_a_point() {
        const SHARE: f64 = 15.0 / 16.0;
        for (uses, replicas) in [(5, 7), (6, 7), (5, 2), (20, 16)] {
            let corpus = shared_prefix(2_000, uses);
            let run = |rule| estimate(&corpus, &arrivals(&corpus), &fleet(replicas), rule, 1).reused_ratio;
            let random = hit_ratio_random(uses as f64, replicas, SHARE);
            assert!((run(Rule::Random) - random).abs() < 0.01, "{uses} {replicas}: {random}");
            let affine = hit_ratio_affine(uses as f64, SHARE);
            let key = Rule::Key { lines: 8, threshold: u32::MAX };
            assert!((run(key) - affine).abs() < 0.01, "{uses} {replicas}: {affine}");
        }
    }

    #[test]
    fn a_hot_key_spills_at_its_threshold_and_without_one_takes_a_replica() {
        let mut builder = Builder::new(Limits::default());
        for i in 0..400 {
            builder.push(&at(blocks(&[1, 2, 1000 + i], 1536), i as f64 * 20.0, 100)).unwrap();
        }
        let corpus = builder.finish(0.25);
        let run = |threshold| estimate(&corpus, &arrivals(&corpus), &fleet(4), Rule::Key { lines: 2, threshold }, 1);
        let (free, held) = (run(u32::MAX), run(4));
        assert_eq!((free.share_max, free.spilled_ratio), (1.0, 0.0));
        assert!(held.share_max < 0.5 && held.spilled_ratio > 0.5, "{held:?}");
        assert!(held.ttft_p90_ms < free.ttft_p90_ms);
    }

    #[test]
    fn the_same_seed_gives_the_same_estimate_and_no_times_give_no_latencies() {
        let corpus = shared_prefix(50, 4);
        let run = |seed| estimate(&corpus, &arrivals(&corpus), &fleet(3), Rule::Random, seed);
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let mut builder = Builder::new(Limits::default());
        builder.push(&blocks(&[1], 512)).unwrap();
        let corpus = builder.finish(0.25);
        let untimed = estimate(&corpus, &[0], &fleet(3), Rule::LeastOutstanding, 1);
        assert_eq!((untimed.ttft_mean_ms, untimed.in_flight_mean, untimed.share_max), (None, None, 1.0));
    }

    #[test]
    fn a_trace_whose_requests_are_not_in_order_is_sent_in_order() {
        let ordered = shared_prefix(50, 4);
        let mut builder = Builder::new(Limits::default());
        for i in (0..40u64).rev() {
            builder.push(&at(blocks(&[i], 512), i as f64 * 1_000.0, 10)).unwrap();
        }
        let corpus = builder.finish(0.25);
        let found = estimate(&corpus, &arrivals(&corpus), &fleet(2), Rule::LeastOutstanding, 1);
        assert!(found.ttft_p90_ms.unwrap() < 200.0, "{found:?}");
        assert!(arrivals(&ordered).is_sorted());
    }

    #[test]
    fn requests_in_flight_are_those_of_littles_law() {
        // 10 requests a second over 2 replicas; each is there for its prefill, the overhead and 100 tokens of 10 ms.
        let mut builder = Builder::new(Limits::default());
        for i in 0..2_000u64 {
            builder.push(&at(blocks(&[i], 512), i as f64 * 100.0, 100)).unwrap();
        }
        let corpus = builder.finish(0.25);
        let found = estimate(&corpus, &arrivals(&corpus), &fleet(2), Rule::LeastOutstanding, 1);
        let stay_ms = prefill_ms(&Preset::default(), 512.0, 0.0) + Preset::default().overhead_ms + 1000.0;
        let expected = 10.0 / 2.0 * stay_ms / 1000.0;
        let in_flight = found.in_flight_mean.unwrap();
        assert!((in_flight / expected - 1.0).abs() < 0.02, "{in_flight} {expected}");
    }
}
