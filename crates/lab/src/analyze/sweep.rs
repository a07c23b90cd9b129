//! Prefix lengths and thresholds, tried on the trace.
//!
//! Every length is tried with every threshold. The advised length is taken from the row of the least threshold that may be
//! advised; the threshold from the column of that length; and if that says that homes should keep more, the length from
//! the threshold's row. Advice is taken from plateaus: estimates are noisy (which replica is home to the two hottest keys
//! alone makes 10 % and more), so a cost is judged with its neighbours.

use super::corpus::Corpus;
use super::cuts::{self, Cut};
use super::fleet::{Estimate, Fleet, Rule, arrivals, estimate};
use super::repeats::Repeats;

/// Costs within this factor of the best are as good.
const PLATEAU: f64 = 1.05;
const SEEDS: u64 = 5;
/// Thresholds that are tried.
const THRESHOLDS: [u32; 7] = [4, 8, 16, 32, 64, 128, 256];

/// A threshold and what it would do.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Row {
    /// Requests in flight at which a home is left.
    pub concurrency_threshold: u32,
    /// What the fleet would do, for every length. *Simulated.*
    pub estimates: Vec<Estimate>,
}

/// All lengths and thresholds that were tried.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Sweep {
    /// The shortest first, at the advised threshold.
    pub cuts: Vec<Cut>,
    /// The one advised, if any may be set.
    pub advised: Option<usize>,
    /// The first and the last that are about as good.
    pub plateau: Option<(usize, usize)>,
    /// Every threshold with every length, the lowest first. One row where the trace has no times.
    pub grid: Vec<Row>,
    /// The threshold advised.
    pub concurrency_threshold: u32,
    /// Placement at random. *Simulated*, as is all that follows from estimates.
    pub random: Estimate,
    /// Placement by load alone.
    pub least_outstanding: Estimate,
    /// Requests that were looked at, in the order of their arrival.
    pub requests: usize,
    /// Seeds that were averaged over.
    pub seeds: u64,
}

impl Sweep {
    /// Tries everything. `threshold_min` is the least threshold that may be advised; `names_max` bounds the names that all
    /// estimates together look at; `progress` is told which part is done, 0..1.
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
        let thresholds = thresholds(corpus, threshold_min);
        let trials = Trials::new(corpus, fleet, names_max / (cuts.len() * thresholds.len() + 2));
        let mut grid = Vec::new();
        for (done, &threshold) in thresholds.iter().enumerate() {
            let of_cut = |cut: &Cut| trials.of(Rule::Key { lines: cut.lines, threshold });
            grid.push(Row { concurrency_threshold: threshold, estimates: cuts.iter().map(of_cut).collect() });
            progress((done + 1) as f64 / (thresholds.len() + 1) as f64);
        }
        let mut threshold = threshold_min;
        take_row(&mut cuts, &grid, threshold);
        if let Some(length) = advised(&cuts) {
            threshold = advised_threshold(&grid, length, threshold_min);
            take_row(&mut cuts, &grid, threshold);
        }
        Self {
            advised: advised(&cuts),
            plateau: cuts::plateau(&cuts),
            cuts,
            grid,
            concurrency_threshold: threshold,
            random: trials.of(Rule::Random),
            least_outstanding: trials.of(Rule::LeastOutstanding),
            requests: trials.requests.len(),
            seeds: trials.seeds,
        }
    }

    /// The advised cut.
    pub fn advised(&self) -> Option<&Cut> {
        self.advised.map(|index| &self.cuts[index])
    }
}

fn advised(cuts: &[Cut]) -> Option<usize> {
    cuts::plateau(cuts).map(|plateau| cuts::advised(cuts, plateau))
}

/// Thresholds to try, ascending, `threshold_min` among them. Without times nothing is in flight, and one is enough.
fn thresholds(corpus: &Corpus, threshold_min: u32) -> Vec<u32> {
    if corpus.requests.iter().any(|request| request.at_ms.is_none()) {
        return vec![threshold_min];
    }
    let mut all = THRESHOLDS.to_vec();
    all.push(threshold_min);
    all.sort_unstable();
    all.dedup();
    all
}

/// Gives the cuts their estimates at a threshold of the grid; at the next above, if it is not in it.
fn take_row(cuts: &mut [Cut], grid: &[Row], threshold: u32) {
    let row = grid.iter().find(|row| row.concurrency_threshold >= threshold).or(grid.last());
    for (cut, estimate) in cuts.iter_mut().zip(row.map_or(&[][..], |row| &row.estimates)) {
        cut.estimate = *estimate;
    }
}

/// Estimates on one trace and fleet.
struct Trials<'a> {
    corpus: &'a Corpus,
    fleet: &'a Fleet,
    requests: Vec<u32>,
    seeds: u64,
}

impl<'a> Trials<'a> {
    /// As many seeds, and as much of the trace, as one rule may look at.
    fn new(corpus: &'a Corpus, fleet: &'a Fleet, names_max: usize) -> Self {
        let seeds = (names_max / corpus.names_total().max(1)).clamp(1, SEEDS as usize) as u64;
        let mut requests = arrivals(corpus);
        let mut names_left = names_max;
        let fits = requests.iter().take_while(|&&index| {
            names_left = names_left.saturating_sub(corpus.names(index as usize).len());
            names_left > 0
        });
        let fits = fits.count().max(1);
        requests.truncate(fits);
        Self { corpus, fleet, requests, seeds }
    }

    fn of(&self, rule: Rule) -> Estimate {
        let of_seed = |seed| estimate(self.corpus, &self.requests, self.fleet, rule, seed);
        Estimate::mean_of(&(0..self.seeds).map(of_seed).collect::<Vec<_>>())
    }
}

/// Twice the lowest of the plateau, as far as the plateau goes, and not below `threshold_min`: low enough to share a hot
/// key out early, and not at the edge of the cliff.
fn advised_threshold(grid: &[Row], length: usize, threshold_min: u32) -> u32 {
    let costs: Vec<f64> = grid.iter().map(|row| row.estimates[length].cost()).collect();
    let Some((first, last)) = plateau(&costs) else { return threshold_min };
    let [lowest, highest] = [first, last].map(|index| grid[index].concurrency_threshold);
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
        let row = |(concurrency_threshold, mean)| {
            let estimate = Estimate { ttft_mean_ms: Some(mean), ttft_p90_ms: Some(mean), ..Estimate::default() };
            Row { concurrency_threshold, estimates: vec![estimate] }
        };
        let grid: Vec<Row> = [(4, 90.0), (8, 50.0), (16, 20.0), (32, 20.0), (64, 20.0), (128, 20.0)].map(row).into();
        for (least, advised) in [(4, 64), (100, 100), (500, 500)] {
            assert_eq!(advised_threshold(&grid, 0, least), advised, "{least}");
        }
    }
}
