//! The lexer reads what `serde_json` reads and refuses what it refuses, however the bytes are cut.
#![no_main]

use kvroute_fuzz::{Rebuild, seen, split};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Some((_, cut, bytes)) = split(data) else { return };
    let (ours, long_name) = Rebuild::read(bytes, cut);
    match (serde_json::from_slice::<Value>(bytes), ours) {
        // Long names are cut, so they may fall together.
        (Ok(theirs), Ok(ours)) => assert!(long_name || seen(theirs) == ours),
        (Err(_), Err(_)) => {}
        (Err(error), Ok(_)) => assert!(error.to_string().contains("number out of range"), "{error}"),
        (Ok(_), Err(error)) => panic!("{error}"),
    }
});
