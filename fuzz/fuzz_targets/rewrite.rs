//! A changed body reads as the changed document, keeps every other byte, and does not depend on the cut.
#![no_main]

use bytes::Bytes;
use kvroute_fuzz::{chunks, split};
use kvroute_wire::rewrite::{Edit, Plan, RewriteError};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

const EDITS: [Edit<'_>; 3] = [
    Edit::Replace { name: "model", value: b"\"new\"" },
    Edit::Set { name: "stream", value: b"true" },
    Edit::SetIn { object: "stream_options", name: "include_usage", value: b"true" },
];

fn edited(mut document: Value) -> Option<Value> {
    let body = document.as_object_mut()?;
    if let Some(model) = body.get_mut("model") {
        *model = "new".into();
    }
    body.insert("stream".to_owned(), true.into());
    let options = body.entry("stream_options").or_insert(Value::Null);
    if !options.is_object() {
        *options = json!({});
    }
    options["include_usage"] = true.into();
    Some(document)
}

fuzz_target!(|data: &[u8]| {
    let Some((_, cut, bytes)) = split(data) else { return };
    let slices = chunks(bytes, cut);
    let plan = Plan::new(slices.iter().copied(), &EDITS);
    if let (Ok(whole), Ok(plan)) = (Plan::new([bytes], &EDITS), &plan) {
        assert_eq!(&whole, plan);
    }
    let expected = serde_json::from_slice::<Value>(bytes).ok().and_then(edited);
    match (plan, expected) {
        (Ok(plan), expected) => {
            let slices: Vec<_> = slices.into_iter().map(Bytes::copy_from_slice).collect();
            let changed = plan.apply(&slices).concat();
            assert_eq!(plan.body_bytes(bytes.len() as u64), changed.len() as u64);
            if let Some(expected) = expected {
                assert_eq!(serde_json::from_slice::<Value>(&changed).expect("still json"), expected);
            }
        }
        (Err(error), expected) => assert!(expected.is_none() || error == RewriteError::TooManyOccurrences, "{error}"),
    }
});
