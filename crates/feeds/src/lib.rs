//! What changes the fleet, and what tells about it.
//!
//! So far: [`engine_metrics`], the load and cache figures that engines publish for Prometheus, and [`model_list`], what
//! they say they serve.

pub mod engine_metrics;
pub mod model_list;
