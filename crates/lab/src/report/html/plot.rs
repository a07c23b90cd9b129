//! The charts of a report, one file each.

pub(super) mod cost;
pub(super) mod heat_map;
pub(super) mod locality;
pub(super) mod over_time;
pub(super) mod percentiles;
pub(super) mod prefix_lengths;
pub(super) mod prefix_tree;
pub(super) mod recovery;
pub(super) mod reuse_distance;
pub(super) mod reuse_limits;
pub(super) mod shape;
pub(super) mod shares;
pub(super) mod spill;
pub(super) mod thresholds;
pub(super) mod ttft_cdf;
