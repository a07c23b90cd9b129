//! The least squares, and when they are not to be believed.

use kvroute_engine::model::Preset;

/// One prompt, timed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Its length as the engine counts.
    pub prompt_tokens: u32,
    /// Of these, found cached, if the engine says.
    pub cached_tokens: Option<u32>,
    /// Time to the first token, milliseconds.
    pub ttft_ms: f64,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// For [`Preset::overhead_ms`].
    pub overhead_ms: f64,
    /// For [`Preset::prefill_scale`].
    pub prefill_scale: f64,
    /// Mean of how far the fit is from the samples, as a part of their times.
    pub error_mean_ratio: f64,
    /// The largest.
    pub error_max_ratio: f64,
    /// What the fit says for each sample, milliseconds, in their order.
    pub fitted_ms: Vec<f64>,
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// Something else than a measurement.
    #[error("{failed} of {sent} requests failed: {example}; nothing was fitted")]
    Failed {
        /// Requests.
        sent: usize,
        /// Of which failed.
        failed: usize,
        /// What the first said.
        example: String,
    },
    /// Hits instead of prefill.
    #[error(
        "{cached_tokens} of {prompt_tokens} prompt tokens were found cached, though no prompt was sent before: \
         use another seed, and address the engine itself"
    )]
    Cached {
        /// Found, over all samples.
        cached_tokens: u64,
        /// Sent.
        prompt_tokens: u64,
    },
    /// A line through one point.
    #[error(
        "the lengths differ too little: prompts of {shortest} to {longest} tokens, by the engine's count; \
         the longest must be four times the shortest"
    )]
    TooAlike {
        /// Tokens of the shortest.
        shortest: u32,
        /// Tokens of the longest.
        longest: u32,
    },
    /// The formula does not describe this engine.
    #[error(
        "the fit is poor: off by {:.0} % in the mean and {:.0} % at most (8 % and 25 % are allowed); \
         others may be using the engine, or {preset} is too unlike it",
        100.0 * error_mean_ratio, 100.0 * error_max_ratio
    )]
    Poor {
        /// As [`Calibration::error_mean_ratio`].
        error_mean_ratio: f64,
        /// As [`Calibration::error_max_ratio`].
        error_max_ratio: f64,
        /// Its name.
        preset: &'static str,
    },
    /// Another kind of engine.
    #[error(
        "prefill takes {prefill_scale:.3} times as long as {preset} says, out of 0.1 to 10: take a preset that is nearer"
    )]
    TooUnlike {
        /// As [`Calibration::prefill_scale`].
        prefill_scale: f64,
        /// Its name.
        preset: &'static str,
    },
}

/// Prompt tokens that may be found cached, as a part: the chat template's first block.
const CACHED_RATIO_MAX: f64 = 0.05;
/// Of the longest prompt to the shortest.
const SPREAD_MIN: u32 = 4;
/// More than the error of most presets' own fits, less than that of a wrong model's.
const ERROR_MEAN_RATIO_MAX: f64 = 0.08;
const ERROR_MAX_RATIO_MAX: f64 = 0.25;
const SCALES: std::ops::RangeInclusive<f64> = 0.1..=10.0;

/// Fits `overhead_ms` and `prefill_scale` of the preset to the samples. Those that the preset has already
/// do not matter.
///
/// The overhead is not below zero; where the samples want less, the scale is fitted alone.
///
/// # Errors
///
/// [`CalibrationError`], except that requests failed, which the samples do not tell.
pub fn fit(preset: &Preset, samples: &[Sample]) -> Result<Calibration, CalibrationError> {
    check(samples)?;
    let preset_ms: Vec<f64> = samples.iter().map(|sample| preset.cold_prefill_ms(sample.prompt_tokens)).collect();
    let (overhead_ms, prefill_scale) = least_squares(&preset_ms, samples);
    let fitted_ms: Vec<f64> = preset_ms.iter().map(|ms| overhead_ms + prefill_scale * ms).collect();
    let errors = fitted_ms.iter().zip(samples).map(|(fitted, sample)| (fitted / sample.ttft_ms - 1.0).abs());
    let error_mean_ratio = errors.clone().sum::<f64>() / samples.len() as f64;
    let error_max_ratio = errors.fold(0.0, f64::max);
    // Written so that what is not a number is refused.
    if !(error_mean_ratio <= ERROR_MEAN_RATIO_MAX && error_max_ratio <= ERROR_MAX_RATIO_MAX) {
        return Err(CalibrationError::Poor { error_mean_ratio, error_max_ratio, preset: preset.name });
    }
    if !SCALES.contains(&prefill_scale) {
        return Err(CalibrationError::TooUnlike { prefill_scale, preset: preset.name });
    }
    Ok(Calibration { overhead_ms, prefill_scale, error_mean_ratio, error_max_ratio, fitted_ms })
}

fn check(samples: &[Sample]) -> Result<(), CalibrationError> {
    let prompt_tokens = samples.iter().map(|sample| u64::from(sample.prompt_tokens)).sum();
    let cached_tokens = samples.iter().filter_map(|sample| sample.cached_tokens).map(u64::from).sum();
    if cached_tokens as f64 > CACHED_RATIO_MAX * prompt_tokens as f64 {
        return Err(CalibrationError::Cached { cached_tokens, prompt_tokens });
    }
    let lengths = || samples.iter().map(|sample| sample.prompt_tokens);
    let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    if shortest == 0 || longest / shortest < SPREAD_MIN {
        return Err(CalibrationError::TooAlike { shortest, longest });
    }
    Ok(())
}

/// The line `ttft = a + b x preset`, with `a` not below zero, that is nearest in proportion.
fn least_squares(preset_ms: &[f64], samples: &[Sample]) -> (f64, f64) {
    let (mut w, mut wx, mut wy, mut wxx, mut wxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (&x, sample) in preset_ms.iter().zip(samples) {
        let y = sample.ttft_ms;
        let weight = 1.0 / (y * y);
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    let scale = (w * wxy - wx * wy) / (w * wxx - wx * wx);
    let overhead_ms = (wy - scale * wx) / w;
    if overhead_ms < 0.0 { (0.0, wxy / wxx) } else { (overhead_ms, scale) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: [u32; 6] = [256, 512, 1024, 2048, 4096, 8192];

    /// What an engine of these constants would show, each off by a part.
    fn samples(preset: &Preset, overhead_ms: f64, scale: f64, off: &[f64]) -> Vec<Sample> {
        let lengths = LENGTHS.into_iter().cycle().take(12);
        let timed = lengths.zip(off.iter().cycle()).map(|(prompt_tokens, off)| {
            let ttft_ms = (overhead_ms + scale * preset.cold_prefill_ms(prompt_tokens)) * (1.0 + off);
            Sample { prompt_tokens, cached_tokens: None, ttft_ms }
        });
        timed.collect()
    }

    fn assert_near(got: f64, want: f64, tolerance: f64) {
        assert!((got - want).abs() <= tolerance, "{got} is not {want}");
    }

    #[test]
    fn exact_times_give_the_constants_back() {
        for preset in Preset::ALL {
            for (overhead_ms, scale) in [(40.0, 1.0), (0.0, 0.73), (95.0, 2.5)] {
                // Whatever the preset says of its own is not counted twice.
                let preset = Preset { overhead_ms: 7.0, prefill_scale: 3.0, ..preset };
                let found = fit(&preset, &samples(&preset, overhead_ms, scale, &[0.0])).unwrap();
                assert_near(found.overhead_ms, overhead_ms, 1e-6);
                assert_near(found.prefill_scale, scale, 1e-9);
                assert!(found.error_max_ratio < 1e-9);
                assert_eq!(found.fitted_ms.len(), 12);
            }
        }
    }

    #[test]
    fn times_that_scatter_give_nearly_the_constants_and_the_error_is_told() {
        let preset = Preset::default();
        let found = fit(&preset, &samples(&preset, 60.0, 1.4, &[0.03, -0.02, -0.03, 0.01, 0.02])).unwrap();
        assert_near(found.overhead_ms, 60.0, 3.0);
        assert_near(found.prefill_scale, 1.4, 0.05);
        assert_near(found.error_mean_ratio, 0.02, 0.006);
    }

    #[test]
    fn the_overhead_is_never_below_zero() {
        let preset = Preset::default();
        let found = fit(&preset, &samples(&preset, -1.0, 1.0, &[0.0])).unwrap();
        assert_eq!(found.overhead_ms, 0.0);
        assert_near(found.prefill_scale, 1.0, 0.06);
    }

    #[test]
    fn what_would_mislead_is_refused_with_the_reason() {
        let preset = Preset::default();
        let good = samples(&preset, 40.0, 1.0, &[0.0]);
        let changed = |change: &dyn Fn(&mut Sample)| {
            let mut samples = good.clone();
            samples.iter_mut().for_each(change);
            samples
        };
        let cases: [(&str, Vec<Sample>); 7] = [
            ("found cached", changed(&|sample| sample.cached_tokens = Some(sample.prompt_tokens / 2))),
            ("too little", changed(&|sample| sample.prompt_tokens = 1000)),
            ("too little", changed(&|sample| sample.prompt_tokens = 0)),
            ("too little", Vec::new()),
            ("poor", samples(&preset, 40.0, 1.0, &[0.5, -0.4, 0.3])),
            ("poor", changed(&|sample| sample.ttft_ms = 0.0)),
            ("nearer", samples(&preset, 40.0, 20.0, &[0.0])),
        ];
        for (reason, samples) in cases {
            let refused = fit(&preset, &samples).unwrap_err().to_string();
            assert!(refused.contains(reason), "{reason}: {refused}");
        }
        // A mixture of experts spends on every prompt what a dense model spends on long ones.
        let mixture = Preset::by_name("qwen3-30b-a3b-h100").unwrap();
        let dense = samples(&preset, 5.0, 1.0, &[0.0]);
        assert!(matches!(fit(&mixture, &dense), Err(CalibrationError::Poor { .. })));
        // The template's first block, which every prompt begins with, is no reason.
        assert!(fit(&preset, &changed(&|sample| sample.cached_tokens = Some(16))).is_ok());
    }
}
