//! Many settings of one strategy on the same arrivals, and which of them to take.
//!
//! The best cell of a grid is partly luck, and its neighbours may be bad. So what is recommended is a *plateau*: the
//! largest set of neighbouring cells that are no worse than the best by more than [`TOLERANCE`], or whose difference
//! from it may be chance (paired, 95 %); and of that the cell that is farthest from its edge, so that traffic may change
//! a little without anybody noticing.

mod axis;
mod keys;
mod plateau;
mod report;

pub use self::axis::Axis;
pub use self::keys::{KeyShape, key_shapes};
pub use self::report::SweepReport;

use self::plateau::Grid;
use super::bootstrap::{self, Sample};
use super::comparison::{Case, Question, in_parallel, sample};
use super::contender::Contender;
use super::job::Jobs;
use super::measures::Measures;
use super::outcome::Run;
use super::sim::{Setting, simulate};
use crate::InvalidOption;

/// By how much a cell of the plateau may be worse than the best, as a part of the best.
pub const TOLERANCE: f64 = 0.05;
/// Cells of a sweep, at most.
pub const CELLS_MAX: usize = 2_000;
/// First tokens of all cells together that are kept for telling differences from chance.
const KEPT_MAX: usize = 50_000_000;

/// What a sweep tries to make small or large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// 90th percentile of TTFT, small.
    TtftP90,
    /// 99th percentile of TTFT, small.
    TtftP99,
    /// Median TTFT, small.
    TtftP50,
    /// Mean TTFT, small.
    TtftMean,
    /// Answers a second that keep the limits, many.
    Goodput,
    /// Output tokens a second, many.
    Throughput,
}

impl Objective {
    /// The names users write: those of the metrics.
    pub const NAMES: [(&'static str, Self); 6] = [
        ("p90_ttft_ms", Self::TtftP90),
        ("p99_ttft_ms", Self::TtftP99),
        ("median_ttft_ms", Self::TtftP50),
        ("mean_ttft_ms", Self::TtftMean),
        ("request_goodput", Self::Goodput),
        ("output_throughput", Self::Throughput),
    ];

    /// The name.
    pub fn as_str(self) -> &'static str {
        Self::NAMES.iter().find(|(_, objective)| *objective == self).map_or("", |(name, _)| name)
    }

    /// The value of a cell.
    pub fn of(self, measures: &Measures) -> f64 {
        let percentile = |percent: f64| {
            let found = measures.ttft_ms.percentiles.iter().find(|(known, _)| *known == percent);
            found.map_or(f64::INFINITY, |(_, value)| *value)
        };
        match self {
            Self::Goodput => measures.request_goodput().unwrap_or(0.0),
            Self::Throughput => measures.output_throughput(),
            // Nothing answered is not fast.
            _ if measures.answered == 0 => f64::INFINITY,
            Self::TtftP90 => percentile(90.0),
            Self::TtftP99 => percentile(99.0),
            Self::TtftP50 => measures.ttft_ms.median,
            Self::TtftMean => measures.ttft_ms.mean,
        }
    }

    /// What is to be small: the value, or less it.
    fn cost(self, value: f64) -> f64 {
        if matches!(self, Self::Goodput | Self::Throughput) { -value } else { value }
    }

    /// The interval of a difference, where there is one for this objective.
    fn interval(self, changes: &bootstrap::Changes) -> Option<bootstrap::Interval> {
        match self {
            Self::TtftP90 => Some(changes.ttft_p90),
            Self::TtftP99 => Some(changes.ttft_p99),
            Self::TtftP50 => Some(changes.ttft_p50),
            Self::TtftMean => Some(changes.ttft_mean),
            Self::Goodput | Self::Throughput => None,
        }
    }
}

/// One combination of settings.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Which value of each axis.
    pub place: Vec<usize>,
    /// The strategy with its settings.
    pub contender: Contender,
    /// What it came to.
    pub measures: Measures,
    /// The objective.
    pub objective: f64,
    /// Whether it is as good as the best, as far as can be told.
    pub is_good: bool,
    /// Whether it belongs to the plateau.
    pub is_plateau: bool,
}

/// All combinations, the last axis running fastest.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The axes.
    pub axes: Vec<Axis>,
    /// What was tried to make small or large.
    pub objective: Objective,
    /// The cells.
    pub cells: Vec<Cell>,
    /// The cell with the best objective.
    pub best: usize,
    /// The cell to take.
    pub recommended: usize,
}

/// Runs all combinations of the axes for the question's first strategy.
///
/// # Errors
/// If there are too many combinations, or one of them cannot be run.
pub fn sweep(
    cases: &[Case],
    question: &Question,
    axes: &[Axis],
    objective: Objective,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Sweep, InvalidOption> {
    let combinations = combinations(axes)?;
    let Some(base) = question.contenders.first() else {
        return Err(InvalidOption::new("strategy", "names none"));
    };
    let jobs: usize = cases.iter().map(|case| case.jobs.list.len()).sum();
    let is_kept = jobs.saturating_mul(combinations.len()) <= KEPT_MAX;
    let done = std::sync::atomic::AtomicUsize::new(0);
    let results = in_parallel(&combinations, question.threads, |place| {
        let (mut setting, mut contender) = (question.setting.clone(), base.clone());
        for (axis, at) in axes.iter().zip(place) {
            axis.apply(*at, &mut setting, &mut contender)?;
        }
        let (measures, sample) = measured(cases, question, &setting, &contender, is_kept)?;
        let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        progress(done, combinations.len());
        let objective = objective.of(&measures);
        let cell = Cell { place: place.clone(), contender, measures, objective, is_good: false, is_plateau: false };
        Ok((cell, sample))
    })?;
    let (cells, samples): (Vec<Cell>, Vec<Option<Sample>>) = results.into_iter().unzip();
    Ok(judged(axes, objective, cells, &samples, cases[0].seed))
}

fn measured(
    cases: &[Case],
    question: &Question,
    setting: &Setting,
    contender: &Contender,
    is_kept: bool,
) -> Result<(Measures, Option<Sample>), InvalidOption> {
    let runs: Vec<Run> = cases
        .iter()
        .map(|case| simulate(&case.jobs, setting, contender, case.seed, &mut |_| {}))
        .collect::<Result<_, _>>()?;
    let pairs: Vec<(&Jobs, &Run)> = cases.iter().map(|case| &*case.jobs).zip(&runs).collect();
    let measures = Measures::of(&pairs, setting, &question.percentiles, question.goodput.as_ref());
    Ok((measures, is_kept.then(|| sample(cases, &runs, setting))))
}

/// Finds the best cell, those as good, their plateau and its middle.
fn judged(axes: &[Axis], objective: Objective, mut cells: Vec<Cell>, samples: &[Option<Sample>], seed: u64) -> Sweep {
    let costs: Vec<f64> = cells.iter().map(|cell| objective.cost(cell.objective)).collect();
    let best = (0..cells.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap_or(0);
    let limit = costs[best] + costs[best].abs() * TOLERANCE;
    let may_be_chance = |index: usize| {
        let (best, this) = (samples[best].as_ref()?, samples[index].as_ref()?);
        let interval = objective.interval(&bootstrap::changes(best, this, seed)?)?;
        Some(interval.covers_zero())
    };
    for (index, cell) in cells.iter_mut().enumerate() {
        cell.is_good = costs[index] <= limit || may_be_chance(index) == Some(true);
    }
    let sizes: Vec<usize> = axes.iter().map(|axis| axis.values.len()).collect();
    let good: Vec<bool> = cells.iter().map(|cell| cell.is_good).collect();
    let (plateau, recommended) = Grid { sizes: &sizes, good: &good, costs: &costs }.plateau(best);
    plateau.iter().for_each(|index| cells[*index].is_plateau = true);
    Sweep { axes: axes.to_vec(), objective, cells, best, recommended }
}

/// Places of all combinations, the last axis running fastest.
fn combinations(axes: &[Axis]) -> Result<Vec<Vec<usize>>, InvalidOption> {
    let count = axes.iter().try_fold(1usize, |count, axis| count.checked_mul(axis.values.len()));
    let count = count.filter(|count| (1..=CELLS_MAX).contains(count)).ok_or_else(|| {
        InvalidOption::new("axis", format!("there are more than {CELLS_MAX} combinations, or none; give fewer values"))
    })?;
    let place = |mut index: usize| {
        let mut place = vec![0; axes.len()];
        for (at, axis) in place.iter_mut().zip(axes).rev() {
            (*at, index) = (index % axis.values.len(), index / axis.values.len());
        }
        place
    };
    Ok((0..count).map(place).collect())
}

#[cfg(test)]
mod tests;
