//! Values to places along an axis, and the marks on it.

use crate::analyze::words::{amount, milliseconds, percent};

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// 0..1 as percent.
    Percent,
    /// A large number.
    Amount,
    /// Milliseconds.
    Milliseconds,
    /// Seconds since a beginning.
    Seconds,
    /// US dollars.
    Dollars,
}

impl Format {
    pub(super) fn write(self, value: f64) -> String {
        match self {
            Self::Percent => percent(value),
            Self::Amount if value != 0.0 && value.abs() < 10.0 && value.fract() != 0.0 => format!("{value:.1}"),
            Self::Amount => amount(value),
            Self::Milliseconds => milliseconds(value),
            Self::Seconds if value >= 3_600.0 => {
                format!("{}:{:02} h", (value / 3_600.0) as u64, (value % 3_600.0 / 60.0) as u64)
            }
            Self::Seconds if value >= 60.0 => format!("{}:{:02}", (value / 60.0) as u64, (value % 60.0) as u64),
            Self::Seconds => format!("{value:.0} s"),
            Self::Dollars => format!("${value:.2}"),
        }
    }
}

/// An axis.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) format: Format,
    min: f64,
    max: f64,
    is_log: bool,
}

impl Axis {
    /// From zero to what holds all values.
    pub(super) fn from_zero(label: &str, format: Format, values: impl Iterator<Item = f64>) -> Self {
        let max = values.filter(|v| v.is_finite()).fold(0.0, f64::max);
        let max = if max > 0.0 { max } else { 1.0 };
        Self { label: label.to_owned(), format, min: 0.0, max: round_up(max), is_log: false }
    }

    /// From 0 to 100 %.
    pub(super) fn parts(label: &str) -> Self {
        Self { label: label.to_owned(), format: Format::Percent, min: 0.0, max: 1.0, is_log: false }
    }

    /// From the least value to the greatest, in equal factors. Values are above 0.
    pub(super) fn log(label: &str, format: Format, values: impl Iterator<Item = f64>) -> Self {
        let (mut min, mut max) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|v| v.is_finite() && *v > 0.0) {
            (min, max) = (min.min(value), max.max(value));
        }
        if max <= 0.0 {
            (min, max) = (1.0, 10.0);
        }
        if max < min * 2.0 {
            (min, max) = (min / 2.0, max * 2.0);
        }
        Self { label: label.to_owned(), format, min, max, is_log: true }
    }

    /// Where a value lies, 0..1.
    pub(super) fn at(&self, value: f64) -> f64 {
        let at = if self.is_log {
            (value.max(self.min) / self.min).log10() / (self.max / self.min).log10()
        } else {
            (value - self.min) / (self.max - self.min)
        };
        at.clamp(0.0, 1.0)
    }

    /// Values to be marked: round ones, about `count` of them.
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        if self.is_log { self.ticks_log(count) } else { self.ticks_linear(count) }
    }

    fn ticks_linear(&self, count: usize) -> Vec<f64> {
        let step = match self.format {
            Format::Seconds => round_seconds((self.max - self.min) / count.max(1) as f64),
            _ => round_step((self.max - self.min) / count.max(1) as f64),
        };
        let steps = ((self.max - self.min) / step * (1.0 + 1e-9)).floor() as usize;
        (0..=steps).map(|i| self.min + i as f64 * step).collect()
    }

    fn ticks_log(&self, count: usize) -> Vec<f64> {
        let decades = (self.max / self.min).log10();
        let factors: &[f64] = if decades * 3.0 <= count as f64 * 1.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = self.min.log10().floor() as i32;
        let last = self.max.log10().ceil() as i32;
        let every = ((f64::from(last - first) / count.max(1) as f64).ceil() as usize).max(1);
        (first..=last)
            .step_by(every)
            .flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)))
            .filter(|&tick| tick >= self.min * 0.999 && tick <= self.max * 1.001)
            .collect()
    }
}

/// The next of 1, 2, 2.5, 5, 10, ... from `value` on.
fn round_step(value: f64) -> f64 {
    let power = 10f64.powi(value.max(f64::MIN_POSITIVE).log10().floor() as i32);
    let factor = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|factor| factor * power >= value * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// A little more than `value`, round enough to be the end of an axis.
fn round_up(value: f64) -> f64 {
    let step = round_step(value / 5.0);
    (value / step * (1.0 - 1e-9)).ceil() * step
}

fn round_seconds(value: f64) -> f64 {
    const STEPS: [f64; 14] =
        [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0];
    STEPS.into_iter().find(|&step| step >= value).unwrap_or_else(|| round_step(value / 3_600.0) * 3_600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_few_and_inside() {
        let axes = [
            Axis::from_zero("", Format::Amount, [0.0, 7.3].into_iter()),
            Axis::parts(""),
            Axis::log("", Format::Amount, [512.0, 9.9e7].into_iter()),
            Axis::log("", Format::Milliseconds, [100.0, 900.0].into_iter()),
            Axis::log("", Format::Amount, std::iter::empty()),
            Axis::from_zero("", Format::Seconds, [0.0, 3_540.0].into_iter()),
            Axis::from_zero("", Format::Amount, [f64::NAN, f64::INFINITY].into_iter()),
            Axis::from_zero("", Format::Amount, [1e-12].into_iter()),
        ];
        for axis in axes {
            let ticks = axis.ticks(5);
            assert!((1..=12).contains(&ticks.len()), "{axis:?} {ticks:?}");
            assert!(ticks.iter().all(|&tick| (0.0..=1.0).contains(&axis.at(tick))), "{axis:?} {ticks:?}");
            assert!(ticks.windows(2).all(|pair| axis.at(pair[0]) < axis.at(pair[1])), "{axis:?} {ticks:?}");
        }
    }

    #[test]
    fn equal_factors_are_equally_far_on_a_log_axis() {
        let axis = Axis::log("", Format::Amount, [1.0, 10_000.0].into_iter());
        assert!((axis.at(100.0) - 0.5).abs() < 1e-12 && (axis.at(10.0) - 0.25).abs() < 1e-12);
        assert_eq!((axis.at(0.0), axis.at(1e9)), (0.0, 1.0));
    }
}
