//! What changes the fleet and tells about it: engine metrics.
