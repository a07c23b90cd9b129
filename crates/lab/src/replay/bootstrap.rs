//! How sure a difference is: a paired bootstrap.
//!
//! Both strategies saw the same arrivals, so what is drawn again and again is arrivals, for both at once. Requests that
//! arrive together share their queues, so not single requests are drawn but stretches of the trace, of all seeds. The
//! interval holds 95 % of what the difference then comes to; where it covers zero, there is no telling.

use kvroute_core::moment::Entropy;

use super::job::Jobs;
use super::measures::{counted, input_tokens};
use super::outcome::Run;
use super::sim::Setting;

/// A difference against the first strategy, and the interval that holds 95 % of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// As measured.
    pub value: f64,
    /// 2.5 % of what was drawn lies below.
    pub low: f64,
    /// 2.5 % of what was drawn lies above.
    pub high: f64,
}

impl Interval {
    /// Whether there may be no difference.
    pub fn covers_zero(&self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }
}

/// Differences against the first strategy. Of times in percent, of the hit rate in points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Changes {
    /// Mean TTFT.
    pub ttft_mean: Interval,
    /// Median TTFT.
    pub ttft_p50: Interval,
    /// 90th percentile of TTFT.
    pub ttft_p90: Interval,
    /// 99th percentile of TTFT.
    pub ttft_p99: Interval,
    /// Prompt tokens delivered from caches.
    pub delivered: Interval,
}

/// Stretches of a trace, at most.
const STRETCHES: usize = 40;
/// Requests of a stretch, at least.
const STRETCH_MIN: usize = 10;

/// One strategy's counted answers, by the stretch that they belong to.
pub(super) struct Sample {
    /// TTFT in milliseconds, ascending, with the stretch.
    ttft: Vec<(f64, u32)>,
    /// Of each stretch: prompt tokens, and those delivered.
    tokens: Vec<(u64, u64)>,
}

impl Sample {
    /// One run a seed, with its jobs.
    pub(super) fn of<'a>(runs: impl Iterator<Item = (&'a Jobs, &'a Run)>, setting: &Setting) -> Self {
        let mut sample = Self { ttft: Vec::new(), tokens: Vec::new() };
        for (jobs, run) in runs {
            let stretches = (jobs.list.len() / STRETCH_MIN).clamp(1, STRETCHES);
            let first = sample.tokens.len() as u32;
            sample.tokens.resize(sample.tokens.len() + stretches, (0, 0));
            for served in counted(run, setting).filter(|served| served.is_answered()) {
                let stretch = first + (served.job as usize * stretches / jobs.list.len()) as u32;
                sample.ttft.push((served.ttft_us() as f64 / 1e3, stretch));
                let (all, delivered) = &mut sample.tokens[stretch as usize];
                *all += input_tokens(jobs, served);
                *delivered += u64::from(served.delivered_tokens);
            }
        }
        sample.ttft.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        sample
    }

    /// What the sample comes to if each stretch is there so many times.
    fn weighed(&self, weights: &[u32]) -> [f64; 5] {
        let total: u64 = self.ttft.iter().map(|(_, stretch)| u64::from(weights[*stretch as usize])).sum();
        let ranks = [50u64, 90, 99].map(|percent| total * percent / 100);
        let (mut passed, mut sum, mut next) = (0, 0.0, 0);
        let mut at = [0.0; 3];
        for (ms, stretch) in &self.ttft {
            let weight = weights[*stretch as usize];
            passed += u64::from(weight);
            sum += ms * f64::from(weight);
            while next < ranks.len() && passed > ranks[next] {
                at[next] = *ms;
                next += 1;
            }
        }
        let weighed = |pick: fn(&(u64, u64)) -> u64| -> u64 {
            self.tokens.iter().zip(weights).map(|(tokens, weight)| pick(tokens) * u64::from(*weight)).sum()
        };
        let (all, delivered) = (weighed(|tokens| tokens.0), weighed(|tokens| tokens.1));
        [sum / total.max(1) as f64, at[0], at[1], at[2], delivered as f64 / all.max(1) as f64 * 100.0]
    }
}

/// Differences of `this` against `first`, both of the same seeds; `None` where one of them answered nothing.
pub(super) fn changes(first: &Sample, this: &Sample, seed: u64) -> Option<Changes> {
    let stretches = first.tokens.len();
    if first.ttft.is_empty() || this.ttft.is_empty() || stretches != this.tokens.len() {
        return None;
    }
    let difference = |weights: &[u32]| {
        let (before, after) = (first.weighed(weights), this.weighed(weights));
        let mut differences = [0.0; 5];
        for (place, difference) in differences.iter_mut().enumerate() {
            *difference = match place {
                4 => after[4] - before[4],
                _ if before[place] > 0.0 => (after[place] / before[place] - 1.0) * 100.0,
                _ => 0.0,
            };
        }
        differences
    };
    let draws = if first.ttft.len() > 100_000 { 100 } else { 400 };
    let mut entropy = Entropy::new(seed ^ 0x626f_6f74_7374_7261);
    let drawn: Vec<[f64; 5]> = (0..draws)
        .map(|_| {
            let mut weights = vec![0; stretches];
            (0..stretches).for_each(|_| weights[entropy.below(stretches as u32) as usize] += 1);
            difference(&weights)
        })
        .collect();
    let measured = difference(&vec![1; stretches]);
    let interval = |place: usize| {
        let series: crate::stats::Series = drawn.iter().map(|differences| differences[place]).collect();
        Interval { value: measured[place], low: series.percentile(2.5), high: series.percentile(97.5) }
    };
    Some(Changes {
        ttft_mean: interval(0),
        ttft_p50: interval(1),
        ttft_p90: interval(2),
        ttft_p99: interval(3),
        delivered: interval(4),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 stretches of 50 requests around these milliseconds, with one stretch far off.
    fn sample(ms: f64, spread: f64, far_off: f64) -> Sample {
        let mut entropy = Entropy::new(ms.to_bits());
        let mut ttft = Vec::new();
        for stretch in 0..40u32 {
            let extra = if stretch == 3 { far_off } else { 0.0 };
            (0..50).for_each(|_| ttft.push((ms + spread * entropy.unit() + extra, stretch)));
        }
        ttft.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        Sample { ttft, tokens: vec![(100, 30); 40] }
    }

    #[test]
    fn a_clear_difference_excludes_zero_and_chance_does_not() {
        let (slow, fast, like) = (sample(100.0, 50.0, 0.0), sample(60.0, 50.0, 0.0), sample(100.01, 50.0, 0.0));
        let clear = changes(&slow, &fast, 1).unwrap();
        assert!(clear.ttft_p50.high < -25.0 && clear.ttft_p90.high < 0.0, "{clear:?}");
        assert!((clear.ttft_p50.value + 32.0).abs() < 3.0, "{clear:?}");
        let chance = changes(&slow, &like, 1).unwrap();
        assert!(chance.ttft_p50.covers_zero() && chance.ttft_mean.covers_zero(), "{chance:?}");
        assert_eq!(chance.delivered, Interval { value: 0.0, low: 0.0, high: 0.0 });
    }

    #[test]
    fn what_one_stretch_makes_of_the_mean_is_not_taken_for_sure() {
        let changes = changes(&sample(100.0, 5.0, 0.0), &sample(100.0, 5.0, 400.0), 2).unwrap();
        assert!(changes.ttft_mean.value > 8.0 && changes.ttft_mean.low <= 0.1, "{changes:?}");
        assert!(changes.ttft_p50.value < 2.0, "{changes:?}");
    }

    #[test]
    fn of_nothing_there_is_no_difference() {
        let nothing = Sample { ttft: Vec::new(), tokens: vec![(0, 0); 40] };
        assert_eq!(changes(&sample(1.0, 1.0, 0.0), &nothing, 1), None);
    }
}
