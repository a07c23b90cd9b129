//! What changes the fleet, and what tells about it.
//!
//! So far: [`engine_metrics`], the load and cache figures that engines publish for Prometheus.

pub mod engine_metrics;
