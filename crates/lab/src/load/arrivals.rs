//! The open loop's schedule: gaps drawn from a gamma distribution.
//!
//! With shape `burstiness` and mean `1 / rate`, as in vLLM's benchmark, so that the same flags mean the
//! same traffic. Drawn by Marsaglia and Tsang's method (ACM TOMS 26(3), 2000).

use std::time::Duration;

use rand_chacha::{ChaCha8Rng, rand_core::Rng};

use crate::workload::arrival_stream;

/// Longest gap. Keeps absurd draws (a burstiness near zero) within what a clock can add up.
const GAP_S_MAX: f64 = 1e6;

/// Times at which requests should leave, since the start of the run; never descending.
#[derive(Debug, Clone)]
pub(super) struct Arrivals {
    rng: ChaCha8Rng,
    shape: f64,
    gap_mean_s: f64,
    at: Duration,
}

impl Arrivals {
    /// `rate` and `burstiness` are above zero, `rate` is finite.
    pub(super) fn new(rate: f64, burstiness: f64, seed: u64) -> Self {
        Self { rng: arrival_stream(seed), shape: burstiness, gap_mean_s: 1.0 / rate, at: Duration::ZERO }
    }

    fn gap_s(&mut self) -> f64 {
        if self.shape.is_infinite() {
            return self.gap_mean_s;
        }
        self.gap_mean_s * gamma(&mut self.rng, self.shape) / self.shape
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // `min` also turns what is not a number into the longest gap.
        let gap_s = self.gap_s().min(GAP_S_MAX);
        self.at = self.at.saturating_add(Duration::from_secs_f64(gap_s));
        Some(self.at)
    }
}

/// A draw from the gamma distribution of this shape and scale 1.
fn gamma(rng: &mut ChaCha8Rng, shape: f64) -> f64 {
    if shape < 1.0 {
        // Gamma(a) = Gamma(a + 1) x U^(1/a).
        return gamma(rng, shape + 1.0) * open_unit(rng).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && open_unit(rng).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A draw from the standard normal distribution, by Box and Muller.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * open_unit(rng).ln()).sqrt();
    radius * (std::f64::consts::TAU * open_unit(rng)).cos()
}

/// A number strictly between 0 and 1.
fn open_unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Series;

    fn gaps_s(rate: f64, burstiness: f64) -> Series {
        let times: Vec<f64> = Arrivals::new(rate, burstiness, 5).take(20_000).map(|at| at.as_secs_f64()).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn gaps_have_the_mean_and_spread_of_their_gamma_distribution() {
        for (rate, burstiness) in [(10.0, 1.0), (200.0, 0.25), (3.0, 4.0), (50.0, 0.5)] {
            let gaps = gaps_s(rate, burstiness);
            let mean = gaps.mean() * rate;
            let variation = gaps.std() / gaps.mean() * f64::sqrt(burstiness);
            assert!((0.95..1.05).contains(&mean), "{rate} {burstiness}: {mean}");
            let spread = format!("{rate} {burstiness}: {variation}");
            assert!((0.95..1.05).contains(&variation), "{spread}");
        }
    }

    #[test]
    fn the_poisson_process_has_an_exponential_median() {
        let median = gaps_s(1.0, 1.0).percentile(50.0);
        assert!((median - std::f64::consts::LN_2).abs() < 0.03, "{median}");
    }

    #[test]
    fn infinite_burstiness_is_even_spacing() {
        let gaps = gaps_s(8.0, f64::INFINITY);
        assert_eq!((gaps.percentile(0.0), gaps.percentile(100.0)), (0.125, 0.125));
    }

    #[test]
    fn times_never_descend_and_extreme_settings_stay_finite() {
        for (rate, burstiness) in [(1e-9, 1e-3), (1e12, 1e6), (1e-300, 1e-300)] {
            let times: Vec<_> = Arrivals::new(rate, burstiness, 1).take(100).collect();
            assert!(times.is_sorted(), "{rate} {burstiness}");
        }
    }
}
