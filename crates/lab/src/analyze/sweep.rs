//! Prefix lengths and thresholds, tried on the trace.
//!
//! Lengths are compared at a threshold that lets homes keep what is theirs; then thresholds at the length that is best;
//! and if that says that homes should keep more, lengths once more. Advice is taken from plateaus: estimates are noisy
//! (which replica is home to the two hottest keys alone makes 10 % and more), so a cost is judged with its neighbours.

use super::corpus::Corpus;
use super::cuts::{self, Cut};
use super::fleet::{Estimate, Fleet, Rule, estimate};
use super::repeats::Repeats;

/// Costs within this factor of the best are as good.
const PLATEAU: f64 = 1.05;
const SEEDS: u64 = 5;
/// Thresholds that are tried.
const THRESHOLDS: [u32; 11] = [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256];

/// A threshold and what it would do at the advised length.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Limit {
    /// Requests in flight at which a home is left.
    pub concurrency_threshold: u32,
    /// What the fleet would do. *Simulated.*
    pub estimate: Estimate,
}

/// All lengths and thresholds that were tried.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Sweep {
    /// The shortest first.
    pub cuts: Vec<Cut>,
    /// The one advised, if any may be set.
    pub advised: Option<usize>,
    /// The first and the last that are about as good.
    pub plateau: Option<(usize, usize)>,
    /// At the advised length, the lowest first; empty where the trace has no times.
    pub limits: Vec<Limit>,
    /// The threshold advised, at which lengths were compared.
    pub concurrency_threshold: u32,
    /// Placement at random. *Simulated*, as is all that follows from estimates.
    pub random: Estimate,
    /// Placement by load alone.
    pub least_outstanding: Estimate,
    /// Requests that were looked at, from the beginning of the trace.
    pub requests: usize,
    /// Seeds that were averaged over.
    pub seeds: u64,
}

impl Sweep {
    /// Tries everything. `threshold_min` is the least threshold that may be advised; `progress` is told which part is
    /// done, 0..1. `names_max` bounds the names that all estimates together look at.
    pub fn of(
        corpus: &Corpus,
        repeats: &Repeats,
        fleet: &Fleet,
        threshold_min: u32,
        names_max: usize,
        mut progress: impl FnMut(f64),
    ) -> Self {
        let mut cuts: Vec<Cut> = cuts::candidates(corpus, repeats)
            .into_iter()
            .map(|(prefix_length, lines)| Cut::new(corpus, prefix_length, lines))
            .collect();
        let trials = Trials::new(corpus, fleet, names_max / (cuts.len() * 2 + THRESHOLDS.len() + 3));
        trials.lengths(&mut cuts, threshold_min);
        progress(0.4);
        let advised = |cuts: &[Cut]| cuts::plateau(cuts).map(|plateau| cuts::advised(cuts, plateau));
        let mut limits = Vec::new();
        let mut threshold = threshold_min;
        if let Some(cut) = advised(&cuts).map(|index| &cuts[index])
            && cut.estimate.ttft_mean_ms.is_some()
        {
            limits = trials.thresholds(cut.lines, threshold_min);
            progress(0.7);
            threshold = advised_threshold(&limits, threshold_min);
        }
        if threshold > threshold_min {
            trials.lengths(&mut cuts, threshold);
        }
        Self {
            advised: advised(&cuts),
            plateau: cuts::plateau(&cuts),
            cuts,
            limits,
            concurrency_threshold: threshold,
            random: trials.of(Rule::Random),
            least_outstanding: trials.of(Rule::LeastOutstanding),
            requests: trials.requests,
            seeds: trials.seeds,
        }
    }

    /// The advised cut.
    pub fn advised(&self) -> Option<&Cut> {
        self.advised.map(|index| &self.cuts[index])
    }
}

/// Estimates on one trace and fleet.
struct Trials<'a> {
    corpus: &'a Corpus,
    fleet: &'a Fleet,
    requests: usize,
    seeds: u64,
}

impl<'a> Trials<'a> {
    /// As many seeds, and as much of the trace, as one rule may look at.
    fn new(corpus: &'a Corpus, fleet: &'a Fleet, names_max: usize) -> Self {
        let seeds = (names_max / corpus.names_total().max(1)).clamp(1, SEEDS as usize) as u64;
        let mut names_left = names_max;
        let fits = (0..corpus.requests.len()).take_while(|&index| {
            names_left = names_left.saturating_sub(corpus.names(index).len());
            names_left > 0
        });
        Self { corpus, fleet, requests: fits.count().max(1), seeds }
    }

    fn of(&self, rule: Rule) -> Estimate {
        let of_seed = |seed| estimate(self.corpus, self.requests, self.fleet, rule, seed);
        Estimate::mean_of(&(0..self.seeds).map(of_seed).collect::<Vec<_>>())
    }

    fn lengths(&self, cuts: &mut [Cut], threshold: u32) {
        for cut in cuts {
            cut.estimate = self.of(Rule::Key { lines: cut.lines, threshold });
        }
    }

    fn thresholds(&self, lines: usize, threshold_min: u32) -> Vec<Limit> {
        let mut thresholds = THRESHOLDS.to_vec();
        thresholds.push(threshold_min);
        thresholds.sort_unstable();
        thresholds.dedup();
        let limit =
            |threshold| Limit { concurrency_threshold: threshold, estimate: self.of(Rule::Key { lines, threshold }) };
        thresholds.into_iter().map(limit).collect()
    }
}

/// Twice the lowest of the plateau, as far as the plateau goes, and not below `threshold_min`: low enough to share a hot
/// key out early, and not at the edge of the cliff.
fn advised_threshold(limits: &[Limit], threshold_min: u32) -> u32 {
    let costs: Vec<f64> = limits.iter().map(|limit| limit.estimate.cost()).collect();
    let Some((first, last)) = plateau(&costs) else { return threshold_min };
    let [lowest, highest] = [first, last].map(|index| limits[index].concurrency_threshold);
    (2 * lowest).min(highest).max(threshold_min)
}

/// The first and the last of the neighbours that cost about as little as the best of `costs`.
pub(super) fn plateau(costs: &[f64]) -> Option<(usize, usize)> {
    let smooth: Vec<f64> = (0..costs.len()).map(|at| smoothed(costs, at)).collect();
    let best = (0..costs.len()).min_by(|&a, &b| smooth[a].total_cmp(&smooth[b]))?;
    let is_good = |at: &usize| smooth[*at] <= smooth[best] * PLATEAU;
    let first = (0..=best).rev().take_while(is_good).last()?;
    let last = (best..costs.len()).take_while(is_good).last()?;
    Some((first, last))
}

/// A cost with those beside it, which count half.
fn smoothed(costs: &[f64], at: usize) -> f64 {
    let (mut sum, mut weight) = (2.0 * costs[at], 2.0);
    for beside in [at.checked_sub(1), Some(at + 1)].into_iter().flatten().filter_map(|beside| costs.get(beside)) {
        sum += beside;
        weight += 1.0;
    }
    sum / weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lucky_cost_is_no_plateau() {
        let costs = [9.0, 9.0, 6.5, 9.0, 7.0, 7.0, 7.0, 7.0, 9.0];
        assert_eq!(plateau(&costs), Some((5, 6)));
        assert_eq!(plateau(&[1.0]), Some((0, 0)));
        assert_eq!(plateau(&[]), None);
    }

    #[test]
    fn the_threshold_is_twice_the_lowest_good_one_and_not_below_the_least() {
        let limit = |(threshold, mean)| Limit {
            concurrency_threshold: threshold,
            estimate: Estimate { ttft_mean_ms: Some(mean), ttft_p90_ms: Some(mean), ..Estimate::default() },
        };
        let limits: Vec<Limit> =
            [(4, 90.0), (8, 50.0), (16, 20.0), (32, 20.0), (64, 20.0), (128, 20.0)].map(limit).into();
        for (least, advised) in [(4, 64), (100, 100), (500, 500)] {
            assert_eq!(advised_threshold(&limits, least), advised, "{least}");
        }
    }
}
