//! A configuration is taken or refused with reasons; nothing panics or hangs.
#![no_main]

use kvroute_gateway::config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(diagnostics) = config::parse(text, "kvroute.yaml") {
        assert!(!diagnostics.to_string().is_empty());
    }
});
