//! One module for each API: its bodies, and how it tells an answer.
//!
//! Shapes are those of vLLM, fields in its order. `()` is written as null: fields that the engine has
//! and this one never fills.

mod chat;
mod completion;
pub(super) mod embeddings;
pub(super) mod lora;
pub(super) mod messages;
pub(super) mod models;
pub(super) mod openai;
mod prompt;
pub(super) mod responses;
pub(super) mod tokenize;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::error::ApiError;
use super::sequence::CacheOptions;

/// Longer salts are refused, as vLLM does it; session ids as well, since every event repeats them.
const NAME_CHARS_MAX: usize = 1024;

/// Ends a stream of the OpenAI kind.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// Fields about the KV cache, which most bodies can have.
#[derive(Debug, Default)]
struct CacheFields<'a> {
    cache_salt: Option<String>,
    session_id: Option<String>,
    vllm_xargs: Option<Xargs<'a>>,
}

/// vLLM's own arguments, as far as they mean something here.
#[derive(Debug, Deserialize)]
struct Xargs<'a> {
    #[serde(borrow)]
    kv_cache_report_mode: Option<Cow<'a, str>>,
}

impl CacheFields<'_> {
    fn check(self) -> Result<CacheOptions, ApiError> {
        check_name("cache_salt", self.cache_salt.as_deref())?;
        check_name("session_id", self.session_id.as_deref())?;
        let mode = self.vllm_xargs.and_then(|xargs| xargs.kv_cache_report_mode);
        Ok(CacheOptions {
            salt: self.cache_salt,
            session_id: self.session_id,
            report_cached: mode.as_deref() == Some("full"),
        })
    }
}

fn check_name(param: &'static str, name: Option<&str>) -> Result<(), ApiError> {
    let fits = |name: &str| !name.is_empty() && name.chars().nth(NAME_CHARS_MAX).is_none();
    match name.is_none_or(fits) {
        true => Ok(()),
        false => Err(ApiError::field(param, format!("{param} must have 1 to {NAME_CHARS_MAX} characters"))),
    }
}

/// Reads a body; the error is the client's.
fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(json).map_err(|error| ApiError::bad(error.to_string()))
}

/// A shape as JSON. Neither the writer nor these shapes can fail.
fn to_json(shape: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(shape).unwrap_or_default()
}

/// A server-sent event.
fn put_event(out: &mut Vec<u8>, event: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    // As above.
    let _ = serde_json::to_writer(&mut *out, event);
    out.extend_from_slice(b"\n\n");
}

/// A server-sent event with a name.
fn put_named_event(out: &mut Vec<u8>, name: &str, event: &impl Serialize) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'\n');
    put_event(out, event);
}

/// The end of a stream of the OpenAI kind that failed.
fn put_failure(out: &mut Vec<u8>, error: &ApiError) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(error.to_json().as_bytes());
    out.extend_from_slice(b"\n\n");
    out.extend_from_slice(DONE);
}
