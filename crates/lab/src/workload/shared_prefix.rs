//! Many prompts that begin with one of few long texts.
//!
//! The shape of retrieval, few-shot and agent traffic, and of the published benchmarks of
//! prefix-aware routing: a long system text (the prefix), then a short question (the suffix).

use std::time::Duration;

use super::{
    BYTES_PER_TOKEN, Next, Request, Workload,
    body::{BodyOptions, Role},
    hit_ratio_affine, hit_ratio_random, order,
    text::{Purpose, TOKENS_MAX, TOKENS_MIN, stream, text},
};
use crate::InvalidOption;

/// Most requests of a run: the order is held in memory, four bytes each.
const REQUESTS_MAX: f64 = 10_000_000.0;
/// Steepest Zipf law; beyond, the first prefix takes everything.
const ZIPF_ALPHA_MAX: f64 = 10.0;

/// Shape of a [`SharedPrefix`] workload.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedPrefixOptions {
    /// Number of different prefixes, at least 1.
    pub prefixes: u32,
    /// Tokens of a prefix, 4..1,048,576 (as all lengths of texts here).
    pub prefix_tokens: u32,
    /// Tokens of the question after the prefix. No two are equal.
    pub suffix_tokens: u32,
    /// Tokens of an answer, at least 1.
    pub output_tokens: u32,
    /// Mean number of requests for a prefix, at least 1. The run has `prefixes` times as many.
    pub uses_per_prefix: f64,
    /// Popularity falls with rank to this power, 0..10. Without it all prefixes are equally popular.
    pub zipf_alpha: Option<f64>,
    /// Prefixes in use at a time, at least 1: about the number of requests between two uses of the
    /// same one. Not used with `zipf_alpha`, where all prefixes are in use all the time.
    pub live_prefixes: u32,
}

impl Default for SharedPrefixOptions {
    fn default() -> Self {
        Self {
            prefixes: 200,
            prefix_tokens: 2_048,
            suffix_tokens: 128,
            output_tokens: 128,
            uses_per_prefix: 5.5,
            zipf_alpha: None,
            live_prefixes: 50,
        }
    }
}

/// The workload. See [`SharedPrefixOptions`].
#[derive(Debug, Clone)]
pub struct SharedPrefix {
    options: SharedPrefixOptions,
    body: BodyOptions,
    seed: u64,
    uses: Vec<u32>,
    /// Prefix of each request.
    order: Vec<u32>,
    sent: usize,
}

impl SharedPrefixOptions {
    /// Share of the prompt tokens that belong to prefixes, 0..1.
    pub fn prefix_share(&self) -> f64 {
        let prefix = f64::from(self.prefix_tokens);
        prefix / (prefix + f64::from(self.suffix_tokens))
    }

    fn check(&self) -> Result<(), InvalidOption> {
        let within = InvalidOption::unless_within;
        within("prefixes", self.prefixes.into(), 1..=u32::MAX.into())?;
        let tokens = TOKENS_MIN..=TOKENS_MAX;
        within("prefix_tokens", self.prefix_tokens.into(), tokens.clone())?;
        within("suffix_tokens", self.suffix_tokens.into(), tokens)?;
        within("output_tokens", self.output_tokens.into(), 1..=TOKENS_MAX)?;
        within("live_prefixes", self.live_prefixes.into(), 1..=u32::MAX.into())?;
        if self.uses_per_prefix.is_nan() || self.uses_per_prefix < 1.0 {
            return Err(InvalidOption::new("uses_per_prefix", "must be at least 1"));
        }
        if f64::from(self.prefixes) * self.uses_per_prefix > REQUESTS_MAX {
            let problem = format!("more than {REQUESTS_MAX} requests in all");
            return Err(InvalidOption::new("uses_per_prefix", problem));
        }
        match self.zipf_alpha {
            Some(alpha) if !(0.0..=ZIPF_ALPHA_MAX).contains(&alpha) => {
                let problem = format!("{alpha} is not within 0..{ZIPF_ALPHA_MAX}");
                Err(InvalidOption::new("zipf_alpha", problem))
            }
            _ => Ok(()),
        }
    }
}

impl SharedPrefix {
    /// Draws the order of the run. Fails when an option is out of its range.
    pub fn new(options: SharedPrefixOptions, body: BodyOptions, seed: u64) -> Result<Self, InvalidOption> {
        options.check()?;
        let mut rng = stream(seed, Purpose::Order, 0);
        let (prefixes, mean) = (options.prefixes, options.uses_per_prefix);
        let (uses, order) = match options.zipf_alpha {
            Some(alpha) => {
                let uses = order::zipf_uses(prefixes, mean, alpha);
                let order = order::shuffled(&uses, &mut rng);
                (uses, order)
            }
            None => {
                let uses = order::even_uses(prefixes, mean);
                let order = order::windowed(&uses, options.live_prefixes, &mut rng);
                (uses, order)
            }
        };
        Ok(Self { options, body, seed, uses, order, sent: 0 })
    }

    /// Hit ratio at best: every prefix computed once and kept. Counts tokens of prefixes only; block
    /// granularity of the engine takes a little off.
    pub fn hit_ceiling(&self) -> f64 {
        self.per_use(|uses| hit_ratio_affine(uses, self.options.prefix_share()))
    }

    /// Hit ratio to expect of random placement over this many replicas (at least 1) without evictions.
    pub fn hit_at_random(&self, replicas: u32) -> f64 {
        let share = self.options.prefix_share();
        self.per_use(|uses| hit_ratio_random(uses, replicas, share))
    }

    /// Mean over all requests of a ratio that depends on how often their prefix is used.
    fn per_use(&self, ratio: impl Fn(f64) -> f64) -> f64 {
        let hits: f64 = self.uses.iter().map(|&uses| f64::from(uses) * ratio(f64::from(uses))).sum();
        hits / self.order.len() as f64
    }

    fn request(&self, ticket: u64, prefix: &str, suffix: &str) -> Request {
        let messages = [(Role::System, prefix), (Role::User, suffix)];
        Request {
            ticket,
            body: self.body.build(messages.into_iter(), self.options.output_tokens),
            prompt_tokens: ((prefix.len() + suffix.len()) / BYTES_PER_TOKEN) as u32,
            ready_at: Duration::ZERO,
            session: None,
            keep_answer: false,
        }
    }
}

impl Workload for SharedPrefix {
    fn next(&mut self, _now: Duration) -> Next {
        let Some(&prefix) = self.order.get(self.sent) else {
            return Next::Exhausted;
        };
        let ticket = self.sent as u64;
        self.sent += 1;
        let (seed, options) = (self.seed, &self.options);
        let prefix = text(seed, Purpose::Prefix, prefix.into(), options.prefix_tokens);
        let suffix = text(seed, Purpose::Suffix, ticket, options.suffix_tokens);
        Next::Request(self.request(ticket, &prefix, &suffix))
    }

    fn finished(&mut self, _ticket: u64, _answer: Option<&str>, _now: Duration) {}

    fn warmup(&self, index: u64) -> Request {
        let tokens = self.options.prefix_tokens + self.options.suffix_tokens;
        let prompt = text(self.seed, Purpose::Warmup, index, tokens);
        let (prefix, suffix) = prompt.split_at(self.options.prefix_tokens as usize * BYTES_PER_TOKEN);
        self.request(index, prefix, suffix)
    }

    fn requests_total(&self) -> u64 {
        self.order.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn small() -> SharedPrefixOptions {
        SharedPrefixOptions {
            prefixes: 30,
            prefix_tokens: 64,
            suffix_tokens: 16,
            output_tokens: 8,
            uses_per_prefix: 5.0,
            zipf_alpha: None,
            live_prefixes: 10,
        }
    }

    fn bodies(options: SharedPrefixOptions, seed: u64) -> Vec<bytes::Bytes> {
        let mut workload = SharedPrefix::new(options, BodyOptions::default(), seed).unwrap();
        std::iter::from_fn(|| match workload.next(Duration::ZERO) {
            Next::Request(request) => Some(request.body),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_everywhere() {
        let zipf = SharedPrefixOptions { zipf_alpha: Some(1.1), ..small() };
        for (options, seed, digest) in
            [(small(), 1, 2_235_089_770), (small(), 2, 1_668_552_973), (zipf, 1, 710_758_394)]
        {
            let mut hasher = crc32fast::Hasher::new();
            for body in bodies(options, seed) {
                hasher.update(&body);
            }
            assert_eq!(hasher.finalize(), digest, "seed {seed}");
        }
    }
    #[test]
    fn each_prefix_is_used_as_often_as_asked_and_no_body_twice() {
        let bodies = bodies(small(), 9);
        assert_eq!(bodies.len(), 150);
        let mut uses: BTreeMap<String, u32> = BTreeMap::new();
        for body in &bodies {
            let body: serde_json::Value = serde_json::from_slice(body).unwrap();
            let prefix = body["messages"][0]["content"].as_str().unwrap();
            assert_eq!(prefix.len(), 64 * 4);
            *uses.entry(prefix.to_owned()).or_default() += 1;
        }
        assert_eq!(uses.len(), 30);
        assert!(uses.values().all(|&n| n == 5), "{uses:?}");
        let unique: BTreeSet<_> = bodies.iter().collect();
        assert_eq!(unique.len(), bodies.len());
    }

    #[test]
    fn warmups_share_nothing_with_the_run() {
        let workload = SharedPrefix::new(small(), BodyOptions::default(), 4).unwrap();
        let run: BTreeSet<_> = bodies(small(), 4).iter().map(|b| head(b)).collect();
        for index in 0..20 {
            let body = workload.warmup(index).body;
            assert!(!run.contains(&head(&body)), "{index}");
        }

        /// The first 64 characters of the prefix.
        fn head(body: &[u8]) -> String {
            let body: serde_json::Value = serde_json::from_slice(body).unwrap();
            body["messages"][0]["content"].as_str().unwrap()[..64].to_owned()
        }
    }

    /// Replays the order against unbounded caches and counts prefix tokens found.
    fn replayed_hit_ratio(workload: &SharedPrefix, mut place: impl FnMut(u32) -> u32) -> f64 {
        let mut held = BTreeSet::new();
        let hits = workload.order.iter().filter(|&&prefix| !held.insert((place(prefix), prefix))).count();
        workload.options.prefix_share() * hits as f64 / workload.order.len() as f64
    }

    #[test]
    fn the_closed_form_is_what_a_replay_of_the_order_finds() {
        let mut options = small();
        options.prefixes = 2_000;
        for uses_per_prefix in [5.0, 5.56] {
            for zipf_alpha in [None, Some(0.8)] {
                options.uses_per_prefix = uses_per_prefix;
                options.zipf_alpha = zipf_alpha;
                let workload = SharedPrefix::new(options.clone(), BodyOptions::default(), 1).unwrap();
                let affine = replayed_hit_ratio(&workload, |prefix| prefix % 7);
                assert!((affine - workload.hit_ceiling()).abs() < 1e-9, "{affine}");
                let mut rng = stream(77, Purpose::Order, 1);
                let random = replayed_hit_ratio(&workload, |_| super::super::text::below(&mut rng, 7));
                let expected = workload.hit_at_random(7);
                assert!((random - expected).abs() < 0.01, "{random} {expected}");
            }
        }
    }

    #[test]
    fn options_out_of_range_are_refused_by_name() {
        let with = |change: fn(&mut SharedPrefixOptions)| {
            let mut options = small();
            change(&mut options);
            SharedPrefix::new(options, BodyOptions::default(), 1).unwrap_err().option
        };
        assert_eq!(with(|o| o.prefixes = 0), "prefixes");
        assert_eq!(with(|o| o.prefix_tokens = 3), "prefix_tokens");
        assert_eq!(with(|o| o.suffix_tokens = u32::MAX), "suffix_tokens");
        assert_eq!(with(|o| o.output_tokens = 0), "output_tokens");
        assert_eq!(with(|o| o.live_prefixes = 0), "live_prefixes");
        assert_eq!(with(|o| o.uses_per_prefix = f64::NAN), "uses_per_prefix");
        assert_eq!(with(|o| o.uses_per_prefix = 1e9), "uses_per_prefix");
        assert_eq!(with(|o| o.zipf_alpha = Some(-1.0)), "zipf_alpha");
    }
}
