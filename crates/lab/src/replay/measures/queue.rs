//! Requests in flight and waiting over time, from when each arrived, began and ended.

use super::{Jobs, Setting};
use crate::replay::outcome::{Ending, Run, Served};

/// Requests that had arrived and that no engine had begun with, all replicas together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Queue {
    /// Mean over time.
    pub mean: f64,
    /// The most.
    pub max: u32,
}

impl Queue {
    pub(super) fn of(runs: &[(&Jobs, &Run)], setting: &Setting) -> Self {
        let mut queue = Self::default();
        let (mut area, mut length) = (0.0, 0.0);
        for (_, run) in runs {
            let from_us = super::counted(run, setting).map(|served| served.sent_us).min().unwrap_or(0);
            let placed = run.served.iter().filter(|served| is_placed(served));
            let steps = steps(placed.map(|served| (served.sent_us, served.scheduled_us)));
            walk(&steps, run.end_us, |count, start_us, end_us| {
                let lasts_us = end_us.saturating_sub(start_us.max(from_us));
                if lasts_us > 0 {
                    queue.max = queue.max.max(count);
                    area += f64::from(count) * lasts_us as f64;
                    length += lasts_us as f64;
                }
            });
        }
        queue.mean = if length > 0.0 { area / length } else { 0.0 };
        queue
    }
}

/// Of each replica the 99th percentile of its requests in flight, over the time of all runs.
pub(super) fn in_flight_p99(runs: &[(&Jobs, &Run)], replicas: usize) -> Vec<u32> {
    let mut spans: Vec<Vec<(u32, u64)>> = vec![Vec::new(); replicas];
    for (_, run) in runs {
        let mut stays: Vec<Vec<(u64, u64)>> = vec![Vec::new(); replicas];
        for served in run.served.iter().filter(|served| is_placed(served)) {
            stays[served.replica as usize].push((served.sent_us, served.ended_us));
        }
        for (spans, stays) in spans.iter_mut().zip(stays) {
            let steps = steps(stays.into_iter());
            walk(&steps, run.end_us, |count, start_us, end_us| spans.push((count, end_us - start_us)));
        }
    }
    spans.into_iter().map(percentile_99).collect()
}

fn is_placed(served: &Served) -> bool {
    matches!(served.ending, Ending::Answered | Ending::Lost)
}

fn percentile_99(mut spans: Vec<(u32, u64)>) -> u32 {
    spans.sort_unstable();
    let total: u64 = spans.iter().map(|(_, us)| us).sum();
    let mut passed = 0;
    let at = spans.iter().find(|(_, us)| {
        passed += us;
        u128::from(passed) * 100 >= u128::from(total) * 99
    });
    at.map_or(0, |(count, _)| *count)
}

/// Times at which a count goes up or down, for stays from one time to another.
pub(in crate::replay) fn steps(stays: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, i32)> {
    let mut steps: Vec<(u64, i32)> = stays.flat_map(|(from, to)| [(from, 1), (to, -1)]).collect();
    steps.sort_unstable();
    steps
}

/// Tells each count with the span of time in which it stands.
pub(in crate::replay) fn walk(steps: &[(u64, i32)], end_us: u64, mut tell: impl FnMut(u32, u64, u64)) {
    let (mut count, mut since_us) = (0i32, 0);
    for &(at_us, step) in steps {
        if at_us > since_us {
            tell(count.max(0) as u32, since_us, at_us);
            since_us = at_us;
        }
        count += step;
    }
    if end_us > since_us {
        tell(count.max(0) as u32, since_us, end_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_for_the_time_between_their_steps() {
        let steps = steps([(0, 10), (5, 20), (5, 5), (20, 30)].into_iter());
        let mut told = Vec::new();
        walk(&steps, 40, |count, from, to| told.push((count, from, to)));
        assert_eq!(told, [(1, 0, 5), (2, 5, 10), (1, 10, 20), (1, 20, 30), (0, 30, 40)]);
        assert_eq!(percentile_99(vec![(9, 1), (1, 99)]), 1);
        assert_eq!(percentile_99(vec![(9, 2), (1, 98)]), 9);
        assert_eq!(percentile_99(Vec::new()), 0);
    }
}
