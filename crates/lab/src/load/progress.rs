//! How far a run is, for whoever watches.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar: tenths of a percent.
const BAR_STEPS: u64 = 1_000;

/// What the run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Sending requests that are not measured.
    Warmup,
    /// Measuring.
    Measure,
}

/// The state of a run at one moment. Counts are those of the current phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// What the run is doing.
    pub phase: Phase,
    /// Since the start of the phase.
    pub elapsed: Duration,
    /// Time limit of the phase, if any.
    pub duration_max: Option<Duration>,
    /// Requests to send at most.
    pub total: u64,
    /// Requests that succeeded.
    pub served: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that have not ended.
    pub in_flight: u64,
}

/// Something that watches a run. `()` does not.
///
/// Called in the loop that sends requests, a few times a second at most and once at the end of each
/// phase: it must not block.
pub trait Progress: Send {
    /// The run has come this far.
    fn update(&mut self, snapshot: &Snapshot);
}

impl Progress for () {
    fn update(&mut self, _snapshot: &Snapshot) {}
}

impl Snapshot {
    /// Part of the phase that is over, 0..1: by requests or by time, whichever is further.
    pub fn fraction(&self) -> f64 {
        let ended = (self.served + self.failed) as f64 / self.total.max(1) as f64;
        let timed = self
            .duration_max
            .map_or(0.0, |limit| self.elapsed.as_secs_f64() / limit.as_secs_f64().max(f64::MIN_POSITIVE));
        ended.max(timed).min(1.0)
    }
}

/// A bar on standard error. Draws nothing where that is no terminal.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar with a label before it.
    pub fn new(label: &str) -> Self {
        let bar = ProgressBar::new(BAR_STEPS);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {percent:>3} %  {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(label.to_owned());
        Self { bar }
    }
}

impl Progress for Bar {
    fn update(&mut self, snapshot: &Snapshot) {
        self.bar.set_position((snapshot.fraction() * BAR_STEPS as f64) as u64);
        let doing = match snapshot.phase {
            Phase::Warmup => "warm-up, ",
            Phase::Measure => "",
        };
        let Snapshot { served, failed, in_flight, .. } = snapshot;
        let line = format!("{doing}{served} served, {in_flight} in flight, {failed} failed");
        self.bar.set_message(line);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_by_requests_or_by_time_whichever_is_further() {
        let snapshot = |served, failed, elapsed_s, limit_s: Option<u64>| Snapshot {
            phase: Phase::Measure,
            elapsed: Duration::from_secs(elapsed_s),
            duration_max: limit_s.map(Duration::from_secs),
            total: 100,
            served,
            failed,
            in_flight: 0,
        };
        assert_eq!(snapshot(20, 5, 1, None).fraction(), 0.25);
        assert_eq!(snapshot(20, 5, 6, Some(10)).fraction(), 0.6);
        assert_eq!(snapshot(0, 0, 99, Some(10)).fraction(), 1.0);
        assert_eq!(snapshot(0, 0, 1, Some(0)).fraction(), 1.0);
    }
}
