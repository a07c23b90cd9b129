//! A metrics page of an engine is read as far as it can be; nothing panics.
#![no_main]

use kvroute_feeds::engine_metrics;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|page: &str| {
    engine_metrics::parse(page);
});
