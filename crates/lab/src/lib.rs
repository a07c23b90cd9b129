//! Load generation, workloads and reports.
