//! The usage of an answer does not depend on how it is cut, and is what the document says.
#![no_main]

use kvroute_fuzz::{chunks, split};
use kvroute_wire::response::{ID_BYTES_MAX, Usage, UsageTap};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fn tapped(bytes: &[u8], cut: u8) -> (Option<Usage>, Option<String>) {
    let mut tap = UsageTap::new();
    for chunk in chunks(bytes, cut) {
        tap.feed(chunk);
    }
    (tap.usage(), tap.id().map(str::to_owned))
}

fn expected(usage: &Value) -> Usage {
    let count = |name: &str| usage[name].as_u64();
    let beside =
        count("cache_read_input_tokens").unwrap_or(0).saturating_add(count("cache_creation_input_tokens").unwrap_or(0));
    let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64();
    Usage {
        prompt_tokens: count("prompt_tokens").map(|input| input.saturating_add(beside)),
        completion_tokens: count("completion_tokens"),
        cached_tokens: cached.or(count("cache_read_input_tokens")),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((_, cut, bytes)) = split(data) else { return };
    let (usage, id) = tapped(bytes, 0);
    assert_eq!((usage, id.clone()), tapped(bytes, cut));
    let Ok(document) = serde_json::from_slice::<Value>(bytes) else { return };
    assert_eq!(id.as_deref(), document["id"].as_str().filter(|id| id.len() <= ID_BYTES_MAX));
    // Two APIs' words for one count in one object have no right answer.
    let other = ["input_tokens", "output_tokens", "input_tokens_details"];
    let usage_object = &document["usage"];
    let alone = ["response", "message"].iter().all(|name| document.get(name).is_none());
    if alone && usage_object.is_object() && other.iter().all(|name| usage_object.get(name).is_none()) {
        assert_eq!(usage, Some(expected(usage_object)));
    }
});
