//! What a load run is asked to do.

use std::time::Duration;

use crate::InvalidOption;

/// Requests in flight where the options set no limit. A server that never answers would otherwise
/// collect sockets at the request rate until the process has none left.
pub(super) const IN_FLIGHT_MAX: usize = 16_384;
/// Largest `max_concurrency`; no machine has the ports for more towards one address.
const CONCURRENCY_MAX: usize = 65_536;

/// Where requests are sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// `http://host:port`, optionally with a path that goes before `path`. Plain HTTP only.
    pub base_url: String,
    /// Path of every request; see [`crate::workload::Route::path`].
    pub path: String,
    /// Headers of every request, in addition to the content type. Values may be secret and are kept
    /// out of reports and debug output.
    pub headers: Vec<(String, String)>,
    /// Header that carries the name of the conversation, for workloads that have some.
    pub session_header: Option<String>,
}

/// When requests are sent. The meaning of each field is that of vLLM's benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Pacing {
    /// Requests a second, above zero; infinite for no schedule.
    pub request_rate: f64,
    /// Shape of the gamma distribution of the gaps, above zero: 1 is a Poisson process, less is
    /// burstier, more is more even. Only used with a finite rate.
    pub burstiness: f64,
    /// Most requests in flight, 1..65536. Without it 16,384.
    pub max_concurrency: Option<usize>,
    /// Pause of a user between an answer and the next request. Closed loop only.
    pub think: Duration,
}

/// Which of the two loops a pacing makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopKind {
    /// On a schedule, whatever the answers do.
    Open,
    /// Each user waits for its answer.
    Closed,
    /// Everything at once.
    Burst,
}

/// A load run.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadOptions {
    /// Where to.
    pub target: Target,
    /// How fast.
    pub pacing: Pacing,
    /// Requests to send at most, at least 1. Also the bound of the run's memory, at about a hundred
    /// bytes each.
    pub requests_max: usize,
    /// Time after which no further request is sent.
    pub duration_max: Option<Duration>,
    /// Time that requests in flight get after `duration_max`. Those not ended by then are cut.
    pub drain_max: Duration,
    /// Requests sent before the run, not measured; see [`crate::workload::Workload::warmup`].
    pub warmups: usize,
    /// Time from sending to the end of the answer after which a request has failed.
    pub request_timeout: Duration,
    /// Seed of the schedule.
    pub seed: u64,
    /// Whether to keep every gap between tokens in the records, for vLLM's `itls` array: four bytes a
    /// token.
    pub keep_gaps: bool,
}

impl Default for Target {
    fn default() -> Self {
        Self {
            base_url: "http://127.0.0.1:8780".to_owned(),
            path: "/v1/chat/completions".to_owned(),
            headers: Vec::new(),
            session_header: None,
        }
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Target")
            .field("base_url", &self.base_url)
            .field("path", &self.path)
            .field("headers", &names)
            .field("session_header", &self.session_header)
            .finish()
    }
}

impl Default for Pacing {
    fn default() -> Self {
        Self { request_rate: f64::INFINITY, burstiness: 1.0, max_concurrency: None, think: Duration::ZERO }
    }
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            target: Target::default(),
            pacing: Pacing::default(),
            requests_max: 1_000,
            duration_max: None,
            drain_max: Duration::ZERO,
            warmups: 0,
            request_timeout: Duration::from_secs(600),
            seed: 0,
            keep_gaps: false,
        }
    }
}

impl Pacing {
    /// Which loop this is.
    pub fn loop_kind(&self) -> LoopKind {
        match (self.request_rate.is_finite(), self.max_concurrency) {
            (true, _) => LoopKind::Open,
            (false, Some(_)) => LoopKind::Closed,
            (false, None) => LoopKind::Burst,
        }
    }

    pub(super) fn in_flight_max(&self) -> usize {
        self.max_concurrency.unwrap_or(IN_FLIGHT_MAX)
    }
}

impl LoopKind {
    /// `open`, `closed` or `burst`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Burst => "burst",
        }
    }
}

impl LoadOptions {
    pub(super) fn check(&self) -> Result<(), InvalidOption> {
        let pacing = &self.pacing;
        if pacing.request_rate.is_nan() || pacing.request_rate <= 0.0 {
            return Err(InvalidOption::new("request_rate", "must be above zero"));
        }
        if pacing.burstiness.is_nan() || pacing.burstiness <= 0.0 {
            return Err(InvalidOption::new("burstiness", "must be above zero"));
        }
        let users = pacing.max_concurrency.unwrap_or(1) as u64;
        InvalidOption::unless_within("max_concurrency", users, 1..=CONCURRENCY_MAX as u64)?;
        if self.requests_max == 0 {
            return Err(InvalidOption::new("requests_max", "must be at least 1"));
        }
        if self.request_timeout.is_zero() {
            return Err(InvalidOption::new("request_timeout", "must be above zero"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_concurrency_tell_the_loop() {
        let cases = [
            (5.0, None, LoopKind::Open),
            (5.0, Some(3), LoopKind::Open),
            (f64::INFINITY, Some(3), LoopKind::Closed),
            (f64::INFINITY, None, LoopKind::Burst),
        ];
        for (request_rate, max_concurrency, kind) in cases {
            let pacing = Pacing { request_rate, max_concurrency, ..Pacing::default() };
            assert_eq!(pacing.loop_kind(), kind);
        }
    }

    #[test]
    fn options_out_of_range_are_refused_by_name() {
        let with = |change: fn(&mut LoadOptions)| {
            let mut options = LoadOptions::default();
            change(&mut options);
            options.check().unwrap_err().option
        };
        assert_eq!(with(|o| o.pacing.request_rate = 0.0), "request_rate");
        assert_eq!(with(|o| o.pacing.request_rate = f64::NAN), "request_rate");
        assert_eq!(with(|o| o.pacing.burstiness = -1.0), "burstiness");
        let no_users = with(|o| o.pacing.max_concurrency = Some(0));
        assert_eq!(no_users, "max_concurrency");
        let crowd = with(|o| o.pacing.max_concurrency = Some(usize::MAX));
        assert_eq!(crowd, "max_concurrency");
        assert_eq!(with(|o| o.requests_max = 0), "requests_max");
        let no_time = with(|o| o.request_timeout = Duration::ZERO);
        assert_eq!(no_time, "request_timeout");
        assert_eq!(LoadOptions::default().check(), Ok(()));
    }

    #[test]
    fn header_values_stay_out_of_debug_output() {
        let target = Target { headers: vec![("authorization".to_owned(), "hunter2".to_owned())], ..Target::default() };
        let shown = format!("{target:?}");
        assert!(shown.contains("authorization") && !shown.contains("hunter2"));
    }
}
