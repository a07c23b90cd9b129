//! Means, deviations and percentiles.
//!
//! Percentiles interpolate linearly between the two nearest values, and the deviation divides by *n*:
//! what numpy does by default, so that numbers agree with those of vLLM's benchmark on the same data.

/// Values in ascending order, with what reports say about them.
///
/// An empty series reads as zero throughout, as in the tools whose output this follows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    ascending: Vec<f64>,
}

/// What a report says about one metric.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean: f64,
    /// Population standard deviation.
    pub std: f64,
    /// 50th percentile.
    pub median: f64,
    /// `(percentile, value)` in the order asked for.
    pub percentiles: Vec<(f64, f64)>,
}

impl FromIterator<f64> for Series {
    /// Takes the finite values.
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut ascending: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        ascending.sort_by(f64::total_cmp);
        Self { ascending }
    }
}

impl Series {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.ascending.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ascending.is_empty()
    }

    /// Arithmetic mean.
    pub fn mean(&self) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        self.ascending.iter().sum::<f64>() / self.len() as f64
    }

    /// Population standard deviation.
    pub fn std(&self) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let mean = self.mean();
        let squares: f64 = self.ascending.iter().map(|v| (v - mean).powi(2)).sum();
        (squares / self.len() as f64).sqrt()
    }

    /// The value below which `percent` (0..100, clamped) of the values lie.
    pub fn percentile(&self, percent: f64) -> f64 {
        let Some(last) = self.ascending.len().checked_sub(1) else {
            return 0.0;
        };
        let position = percent.clamp(0.0, 100.0) / 100.0 * last as f64;
        let below = self.ascending[position.floor() as usize];
        let above = self.ascending[position.ceil() as usize];
        below + (above - below) * position.fract()
    }

    /// All of it.
    pub fn summary(&self, percents: &[f64]) -> Summary {
        Summary {
            mean: self.mean(),
            std: self.std(),
            median: self.percentile(50.0),
            percentiles: percents.iter().map(|&p| (p, self.percentile(p))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_values_agree_with_numpy() {
        let series: Series = [4.0, 1.0, 3.0, 2.0].into_iter().collect();
        let cases = [(0.0, 1.0), (50.0, 2.5), (90.0, 3.7), (99.0, 3.97), (100.0, 4.0)];
        for (percent, value) in cases {
            assert!((series.percentile(percent) - value).abs() < 1e-12, "{percent}");
        }
        assert!((series.std() - 1.25_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn an_empty_series_reads_as_zero() {
        let series: Series = [f64::NAN].into_iter().collect();
        assert_eq!(series.summary(&[99.0]).percentiles, [(99.0, 0.0)]);
        assert_eq!((series.mean(), series.std()), (0.0, 0.0));
    }

    /// The k-th smallest value by counting, without sorting.
    fn kth_smallest(values: &[f64], k: usize) -> f64 {
        let fits = |v: f64| {
            let smaller = values.iter().filter(|&&w| w < v).count();
            let not_larger = values.iter().filter(|&&w| w <= v).count();
            smaller <= k && k < not_larger
        };
        values.iter().copied().find(|&v| fits(v)).unwrap()
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_counting(
            values in prop::collection::vec(0.0_f64..1e6, 1..60),
            percent in 0.0_f64..=100.0,
        ) {
            let series: Series = values.iter().copied().collect();
            let position = percent / 100.0 * (values.len() - 1) as f64;
            let low = kth_smallest(&values, position as usize);
            let high = kth_smallest(&values, (position as usize + 1).min(values.len() - 1));
            let expected = low * (1.0 - position.fract()) + high * position.fract();
            prop_assert!((series.percentile(percent) - expected).abs() < 1e-6);
        }
    }
}
