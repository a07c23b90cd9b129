//! Draws. Only arithmetic that is the same everywhere: that of `f64`, and `libm`'s functions.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What is drawn: a stream of its own for each, so that none follows from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Arrival = 1,
    Choice = 2,
    Length = 3,
    Output = 4,
    Pause = 5,
    BurstArrival = 6,
    BurstLength = 7,
}

/// A stream of draws.
#[derive(Debug, Clone)]
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    /// The draws for a purpose; `index` tells sessions apart, and is below 2^56.
    pub(super) fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream((purpose as u64) << 56 | index);
        Self(rng)
    }

    /// Above 0, below 1.
    pub(super) fn unit(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Below `count`, which is above 0.
    pub(super) fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(count)) >> 64) as u64
    }

    /// Exponential with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -libm::log(self.unit())
    }

    /// Lognormal with this mean and this standard deviation of its logarithm.
    pub(super) fn lognormal(&mut self, mean: f64, spread: f64) -> f64 {
        mean * libm::exp(spread * self.normal() - spread * spread / 2.0)
    }

    /// Standard normal, by Box and Muller.
    pub(super) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Gamma with this shape (above 0) and mean 1, by Marsaglia and Tsang (ACM TOMS 26(3), 2000).
    pub(super) fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            // Gamma(a) = Gamma(a + 1) x U^(1/a), each divided by its shape.
            let more = self.gamma(shape + 1.0) * (shape + 1.0);
            return more * libm::pow(self.unit(), 1.0 / shape) / shape;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / libm::sqrt(9.0 * d);
        loop {
            let x = self.normal();
            let v = 1.0 + c * x;
            let v = v * v * v;
            if v > 0.0 && libm::log(self.unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
                return d * v / shape;
            }
        }
    }
}

/// Ranks whose popularity falls with their number to the power of `alpha`.
#[derive(Debug, Clone)]
pub(super) struct Zipf {
    /// Popularity of each rank and all before it.
    upto: Vec<f64>,
}

impl Zipf {
    pub(super) fn new(count: u32, alpha: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=count).map(|rank| {
            sum += libm::pow(f64::from(rank), -alpha);
            sum
        });
        Self { upto: weights.collect() }
    }

    /// A rank, from 0 on.
    pub(super) fn draw(&self, dice: &mut Dice) -> u64 {
        let all = self.upto.last().copied().unwrap_or(0.0);
        let at = dice.unit() * all;
        self.upto.partition_point(|&upto| upto <= at).min(self.upto.len().saturating_sub(1)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Series;

    fn draws(draw: impl Fn(&mut Dice) -> f64) -> Series {
        let mut dice = Dice::new(3, Purpose::Length, 0);
        (0..40_000).map(|_| draw(&mut dice)).collect()
    }

    #[test]
    fn draws_have_the_mean_and_spread_of_their_distribution() {
        for (name, series, mean, std) in [
            ("unit", draws(Dice::unit), 0.5, 0.2887),
            ("exponential", draws(Dice::exponential), 1.0, 1.0),
            ("normal", draws(Dice::normal), 0.0, 1.0),
            ("lognormal", draws(|dice| dice.lognormal(100.0, 0.5)), 100.0, 53.3),
            ("bursty", draws(|dice| dice.gamma(0.25)), 1.0, 2.0),
            ("regular", draws(|dice| dice.gamma(4.0)), 1.0, 0.5),
            ("below", draws(|dice| dice.below(10) as f64), 4.5, 2.872),
        ] {
            assert!((series.mean() - mean).abs() < 0.03 * std, "{name}: mean {}", series.mean());
            assert!((series.std() - std).abs() < 0.03 * std, "{name}: std {}", series.std());
        }
    }

    #[test]
    fn popularity_falls_with_the_rank() {
        let (zipf, mut dice) = (Zipf::new(100, 1.0), Dice::new(1, Purpose::Choice, 0));
        let mut counts = [0_u32; 100];
        for _ in 0..100_000 {
            counts[zipf.draw(&mut dice) as usize] += 1;
        }
        // 1 / (1 + 1/2 + ... + 1/100) = 0.1928.
        assert!((f64::from(counts[0]) / 100_000.0 - 0.1928).abs() < 0.005);
        assert!((f64::from(counts[0]) / f64::from(counts[9]) - 10.0).abs() < 1.0);
        assert_eq!(Zipf::new(1, 5.0).draw(&mut dice), 0);
    }
}
