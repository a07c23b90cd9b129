//! Whatever replicas answer, the merged list is a list, unique by id, of no more than they gave.
#![no_main]

use std::collections::BTreeSet;

use kvroute_fuzz::split;
use kvroute_wire::openai::merge_models;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Some((variant, cut, bytes)) = split(data) else { return };
    // A line a replica, as JSON may hold line breaks only as white space.
    let bodies: Vec<_> = bytes.split(|&byte| byte == b'\n').collect();
    let limit = if variant < 128 { 1 << 20 } else { usize::from(cut) };
    let merged = merge_models(&bodies, limit);
    let list: Value = match serde_json::from_slice(&merged.body) {
        Ok(list) => list,
        // Entries are copied unread, so a number may be beyond what `Value` holds.
        Err(error) if error.to_string().contains("number out of range") => return,
        Err(error) => panic!("{error}"),
    };
    let models = list["data"].as_array().expect("a list has data");
    let ids: BTreeSet<_> = models.iter().map(|model| model["id"].as_str().expect("a model has an id")).collect();
    assert!(ids.len() == models.len() && models.len() == merged.models);
    assert!(merged.refused.len() <= bodies.len() && merged.body.len() <= bytes.len() + 64);
});
