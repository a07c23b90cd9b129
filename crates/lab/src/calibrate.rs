//! Fits a preset to an engine: what a request costs before the engine computes, and how fast it
//! computes prompts in proportion to the preset.
//!
//! A lone, uncached prompt of *n* tokens has its first token after `overhead + scale x P(n)`, where
//! `P(n)` is what the preset's formula says, in chunks as the engine makes them. A dozen prompts of
//! several lengths give both constants by least squares. Each is weighted by the inverse of its time, so
//! that short prompts, which the overhead shows in, count as much as long ones.
//!
//! [`measure`] sends the prompts; [`fit`] is arithmetic. Where the result could mislead there is none:
//! see [`CalibrationError`].

mod fit;
mod measure;

pub use fit::{Calibration, CalibrationError, Sample, fit};
pub use measure::{PROMPT_TOKENS_MAX, PROMPT_TOKENS_MIN, PROMPTS, lengths, measure};
