//! The one place where the engine meets real time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::model::Micros;

/// Maps real time to the model's virtual time, which runs `speed` times as fast from zero on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    started: Instant,
    started_unix: Duration,
    speed: f64,
}

impl Clock {
    /// Virtual time zero is now. `speed` is above zero.
    // The model takes time as an argument; this is whoever gives it.
    #[allow(clippy::disallowed_methods)]
    pub(super) fn start(speed: f64) -> Self {
        let started_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_unix, speed }
    }

    /// The virtual time of this moment.
    pub(super) fn now(&self) -> Micros {
        Micros((self.started.elapsed().as_secs_f64() * 1e6 * self.speed) as u64)
    }

    /// Returns when virtual time has come to `at`, up to a millisecond late.
    pub(super) async fn sleep_until(&self, at: Micros) {
        tokio::time::sleep_until(self.started + self.real(at)).await;
    }

    /// Real seconds between two virtual moments; 0 if `later` is earlier.
    pub(super) fn real_seconds(&self, earlier: Micros, later: Micros) -> f64 {
        later.0.saturating_sub(earlier.0) as f64 / 1e6 / self.speed
    }

    /// Unix time of a virtual moment, in seconds.
    pub(super) fn unix_seconds(&self, at: Micros) -> f64 {
        (self.started_unix + self.real(at)).as_secs_f64()
    }

    /// Unix time of the start.
    pub(super) fn started_unix(&self) -> Duration {
        self.started_unix
    }

    /// Real time from the start to a virtual moment, a year at most: a sleep that long is for ever,
    /// and more could not be added to an instant everywhere.
    fn real(&self, at: Micros) -> Duration {
        const YEAR_SECONDS: f64 = 365.0 * 86_400.0;
        Duration::from_secs_f64((at.0 as f64 / 1e6 / self.speed).min(YEAR_SECONDS))
    }
}
