//! Strategies side by side on the same arrivals.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::bootstrap::{self, Changes, Sample};
use super::contender::Contender;
use super::job::Jobs;
use super::measures::Measures;
use super::outcome::{FleetMark, Run};
use super::series::Series;
use super::sim::{Setting, simulate};
use crate::InvalidOption;
use crate::report::Goodput;

/// One sequence of arrivals: a trace is the same for every seed, what is generated is not.
#[derive(Debug, Clone)]
pub struct Case {
    /// Seed of decisions, and of arrivals where they are drawn.
    pub seed: u64,
    /// The requests.
    pub jobs: Arc<Jobs>,
}

/// What is compared, and how it is reported.
#[derive(Debug, Clone)]
pub struct Question {
    /// Strategies; the others are compared with the first. Not empty.
    pub contenders: Vec<Contender>,
    /// What is simulated.
    pub setting: Setting,
    /// Percentiles of latencies, 0..100.
    pub percentiles: Vec<f64>,
    /// Limits that a request must keep to count as good.
    pub goodput: Option<Goodput>,
    /// Simulations at a time, at least one.
    pub threads: usize,
}

/// One strategy's column.
#[derive(Debug, Clone)]
pub struct Column {
    /// The strategy.
    pub contender: Contender,
    /// What it came to.
    pub measures: Measures,
    /// Against the first strategy; `None` for that itself.
    pub changes: Option<Changes>,
    /// For plots.
    pub series: Series,
    /// What happened to the fleet in the first seed's run.
    pub marks: Vec<FleetMark>,
}

/// Runs every strategy over every case. `progress` is told how many requests have arrived in all, of how many.
///
/// # Errors
/// If an option cannot be used; the first one that is found.
pub fn compare(
    cases: &[Case],
    question: &Question,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Column>, InvalidOption> {
    let Some((first, others)) = question.contenders.split_first() else {
        return Err(InvalidOption::new("strategies", "names none"));
    };
    let counter = Counter::new(cases, question.contenders.len(), progress);
    let run = |contender: &Contender, case: &Case| -> Result<Run, InvalidOption> {
        counter.watched(|tell| simulate(&case.jobs, &question.setting, contender, case.seed, tell))
    };
    let first_runs = in_parallel(cases, question.threads, |case| run(first, case))?;
    let first_sample = sample(cases, &first_runs, &question.setting);
    let first = column(cases, question, first, &first_runs, None);
    drop(first_runs);
    // Runs are dropped as soon as they are summed up: those of all strategies together would be most of the memory.
    let others = in_parallel(others, question.threads, |contender| {
        let runs: Vec<Run> = cases.iter().map(|case| run(contender, case)).collect::<Result<_, _>>()?;
        let changes = bootstrap::changes(&first_sample, &sample(cases, &runs, &question.setting), cases[0].seed);
        Ok(column(cases, question, contender, &runs, changes))
    })?;
    Ok([first].into_iter().chain(others).collect())
}

/// The answers of one run a case.
pub(super) fn sample(cases: &[Case], runs: &[Run], setting: &Setting) -> Sample {
    Sample::of(cases.iter().map(|case| &*case.jobs).zip(runs), setting)
}

fn column(
    cases: &[Case],
    question: &Question,
    contender: &Contender,
    runs: &[Run],
    changes: Option<Changes>,
) -> Column {
    let (setting, jobs) = (&question.setting, &*cases[0].jobs);
    let all: Vec<(&Jobs, &Run)> = cases.iter().map(|case| &*case.jobs).zip(runs).collect();
    let prefix_length = contender.prefix_length.unwrap_or(jobs.unit.prefix_length_default());
    Column {
        contender: contender.clone(),
        measures: Measures::of(&all, setting, &question.percentiles, question.goodput.as_ref()),
        changes,
        series: Series::of(jobs, setting, &runs[0], prefix_length),
        marks: runs[0].marks.clone(),
    }
}

/// Adds up the progress of simulations that run side by side.
struct Counter<'a> {
    done: AtomicUsize,
    total: usize,
    progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl<'a> Counter<'a> {
    fn new(cases: &[Case], contenders: usize, progress: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        let total = cases.iter().map(|case| case.jobs.list.len()).sum::<usize>() * contenders;
        Self { done: AtomicUsize::new(0), total, progress }
    }

    fn watched<T>(&self, work: impl FnOnce(&mut dyn FnMut(usize)) -> T) -> T {
        let mut before = 0;
        work(&mut |arrived| {
            let more = arrived - std::mem::replace(&mut before, arrived);
            let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
            (self.progress)(done, self.total);
        })
    }
}

/// Results in the order of `items`, whoever is ready first.
pub(super) fn in_parallel<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> Result<T, InvalidOption> + Sync,
) -> Result<Vec<T>, InvalidOption> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<T, InvalidOption>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some((item, result)) = items.get(place).zip(results.get(place)) else { break };
                    *result.lock() = Some(work(item));
                }
            });
        }
    });
    results.into_iter().filter_map(Mutex::into_inner).collect()
}
