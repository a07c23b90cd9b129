//! Paths and headers of the runtime API: nothing panics, and what is accepted keeps its rules.
#![no_main]

use kvroute_fuzz::split;
use kvroute_wire::sagemaker::{InvokeHeaders, Operation, Route, check_endpoint_name, header, parse_path};
use libfuzzer_sys::fuzz_target;

const NAMES: [&str; 9] = [
    header::CONTENT_TYPE,
    header::ACCEPT,
    header::SAGEMAKER_ACCEPT,
    header::CUSTOM_ATTRIBUTES,
    header::TARGET_VARIANT,
    header::INFERENCE_ID,
    header::INFERENCE_COMPONENT,
    header::SESSION_ID,
    header::PREFIX_AWARE_ID,
];

fuzz_target!(|data: &[u8]| {
    let Some((variant, _, bytes)) = split(data) else { return };
    if let Ok(path) = std::str::from_utf8(bytes) {
        match parse_path(path) {
            Some(Route::Invoke { endpoint } | Route::InvokeStream { endpoint }) => assert!(!endpoint.is_empty()),
            Some(Route::ChatCompletions { endpoint, component }) => {
                assert!(!endpoint.is_empty() && component.is_none_or(|component| !component.is_empty()));
            }
            None => {}
        }
        if check_endpoint_name(path).is_ok() {
            assert!((1..=63).contains(&path.len()) && path.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
        }
    }
    let operation = if variant % 2 == 0 { Operation::Invoke } else { Operation::InvokeStream };
    // A line a header: its first byte picks the name.
    let lines = bytes.split(|&byte| byte == b'\n').filter_map(<[u8]>::split_first);
    let headers = lines.map(|(&name, value)| (NAMES[usize::from(name) % NAMES.len()], value));
    if let Ok(read) = InvokeHeaders::read(operation, headers) {
        for value in [read.session_id, read.target_variant, read.inference_component].into_iter().flatten() {
            assert!(!value.is_empty() && value.is_ascii());
        }
    }
});
