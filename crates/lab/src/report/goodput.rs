//! Goodput: how many requests a second were served within limits.

use std::str::FromStr;

use crate::{InvalidOption, load::Record};

/// Limits of a good request, in milliseconds. Written `ttft:500 tpot:50`, as for vLLM's `--goodput`;
/// commas separate as well.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Goodput {
    /// Most time to the first token.
    pub ttft_ms: Option<f64>,
    /// Most time per output token after the first. An answer of one token keeps it.
    pub tpot_ms: Option<f64>,
    /// Most time to the last token.
    pub e2el_ms: Option<f64>,
}

impl Goodput {
    /// Whether a request that succeeded kept every limit.
    pub fn kept_by(&self, record: &Record) -> bool {
        self.kept_within(record.ttft_us as f64, record.tpot_us(), record.e2e_us as f64)
    }

    /// The same for one that took these microseconds; an answer of one token has no time per token.
    pub fn kept_within(&self, ttft_us: f64, tpot_us: Option<f64>, e2e_us: f64) -> bool {
        let within = |us: f64, limit_ms: Option<f64>| limit_ms.is_none_or(|ms| us <= ms * 1e3);
        within(ttft_us, self.ttft_ms)
            && within(tpot_us.unwrap_or_default(), self.tpot_ms)
            && within(e2e_us, self.e2el_ms)
    }
}

impl FromStr for Goodput {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let mut limits = Self::default();
        let parts = text.split([' ', ',']).filter(|part| !part.is_empty());
        for part in parts {
            let refused = || {
                let problem = format!("{part:?} is not ttft, tpot or e2el, a colon, milliseconds");
                InvalidOption::new("goodput", problem)
            };
            let (metric, ms) = part.split_once(':').ok_or_else(refused)?;
            let ms: f64 = ms.parse().map_err(|_| refused())?;
            if !(ms.is_finite() && ms >= 0.0) {
                return Err(refused());
            }
            let limit = match metric {
                "ttft" => &mut limits.ttft_ms,
                "tpot" => &mut limits.tpot_ms,
                "e2el" => &mut limits.e2el_ms,
                _ => return Err(refused()),
            };
            *limit = Some(ms);
        }
        if limits == Self::default() {
            return Err(InvalidOption::new("goodput", "names no limit"));
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_vllm_writes_them() {
        let both = Goodput { ttft_ms: Some(500.0), tpot_ms: Some(50.5), e2el_ms: None };
        assert_eq!("ttft:500 tpot:50.5".parse(), Ok(both));
        assert_eq!("ttft:500,tpot:50.5".parse(), Ok(both));
        for text in ["", "ttft", "ttft:", "ttft:x", "ttft:-1", "ttft:inf", "itl:5", "ttft:NaN"] {
            let refused = text.parse::<Goodput>().unwrap_err();
            assert_eq!(refused.option, "goodput", "{text:?}");
        }
    }
}
