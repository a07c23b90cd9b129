//! `/v1/embeddings`.
//!
//! Every input is a request of its own to the engine, which computes the prompt and generates nothing;
//! all of them share the slot of the one HTTP request. The vector means nothing: its numbers come from
//! a hash of the tokens, the model and the seed, so that replicas agree, and it has length 1. A vector
//! of fewer dimensions points where the beginning of a longer one does.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::app::App;
use super::super::error::ApiError;
use super::super::generate::{failure, room};
use super::super::handle::{Progress, Slot, Ticket};
use super::super::sequence::{Sequence, mix};
use super::prompt::Prompts;
use super::{CacheFields, parse, to_json};
use crate::model::FinishReason;

/// Numbers in a vector, unless `dimensions` says otherwise.
pub const EMBEDDING_DIMENSIONS_DEFAULT: u32 = 256;

/// The most that `dimensions` can ask for.
const DIMENSIONS_MAX: u32 = 4096;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<Prompts<'a>>,
    encoding_format: Option<EncodingFormat>,
    dimensions: Option<u32>,
    cache_salt: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EncodingFormat {
    /// Numbers.
    #[default]
    Float,
    /// The numbers' bytes, little-endian, in base64.
    Base64,
}

#[derive(Serialize)]
struct Embeddings<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    data: Vec<Embedding>,
    usage: Usage,
}

#[derive(Serialize)]
struct Embedding {
    index: usize,
    object: &'static str,
    embedding: Vector,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Vector {
    Float(Vec<f32>),
    Base64(String),
}

#[derive(Serialize)]
struct Usage {
    prompt_tokens: u32,
    total_tokens: u32,
    completion_tokens: u32,
    prompt_tokens_details: (),
}

/// Embeds the inputs; the answer as JSON. `model` takes the place of the body's.
pub(in super::super) async fn embed(
    app: &App,
    slot: Slot,
    json: &[u8],
    model: Option<&str>,
) -> Result<Vec<u8>, ApiError> {
    let body: Body<'_> = parse(json)?;
    let target = app.target(model.or(body.model.as_deref()))?;
    let name = target.name(app);
    let dimensions = body.dimensions.unwrap_or(EMBEDDING_DIMENSIONS_DEFAULT);
    if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        return Err(ApiError::field("dimensions", format!("dimensions must be 1 to {DIMENSIONS_MAX}")));
    }
    let cache = CacheFields { cache_salt: body.cache_salt, ..CacheFields::default() }.check()?;
    let Some(Prompts(inputs)) = body.input else { return Err(ApiError::field("input", "input is missing")) };
    // All of them are looked at before the engine hears of the first.
    let mut sequences = Vec::with_capacity(inputs.len());
    for input in &inputs {
        let prompt = input.tokens("input", app.context_tokens_max())?;
        room(&prompt, 0, app.context_tokens_max())?;
        sequences.push(Arc::new(Sequence::new(app.spec(&target, prompt, cache.clone()))));
    }
    let tickets: Vec<Ticket> =
        sequences.iter().map(|sequence| app.handle.submit(slot.clone(), Arc::clone(sequence))).collect();
    let id = app.new_id("embd-", tickets.first().map_or(0, Ticket::id));
    for ticket in tickets {
        computed(ticket).await?;
    }
    let seed = xxh3_64_with_seed(name.as_bytes(), mix(app.seed));
    let format = body.encoding_format.unwrap_or_default();
    let data = sequences.iter().enumerate().map(|(index, sequence)| Embedding {
        index,
        object: "embedding",
        embedding: Vector::new(&vector(sequence.prompt(), seed, dimensions), format),
    });
    let prompt_tokens = sequences.iter().map(|sequence| sequence.prompt().len() as u32).sum();
    Ok(to_json(&Embeddings {
        id: &id,
        object: "list",
        created: app.unix_seconds(),
        model: name,
        data: data.collect(),
        usage: Usage { prompt_tokens, total_tokens: prompt_tokens, completion_tokens: 0, prompt_tokens_details: () },
    }))
}

/// Waits until the engine has computed a prompt.
async fn computed(mut ticket: Ticket) -> Result<(), ApiError> {
    loop {
        match ticket.progress().await {
            Some(Progress::Finished(FinishReason::Stop | FinishReason::Length)) => return Ok(()),
            Some(Progress::Finished(reason)) => return Err(failure(reason)),
            None => return Err(ApiError::EngineGone),
            Some(Progress::Scheduled { .. } | Progress::Token) => {}
        }
    }
}

fn vector(tokens: &[u32], seed: u64, dimensions: u32) -> Vec<f32> {
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    let hash = xxh3_64_with_seed(&bytes, seed);
    let raw: Vec<f64> = (0..u64::from(dimensions))
        .map(|index| (mix(hash.wrapping_add(index)) as i64) as f64 / i64::MAX as f64)
        .collect();
    let length = raw.iter().map(|number| number * number).sum::<f64>().sqrt();
    raw.iter().map(|number| (number / length) as f32).collect()
}

impl Vector {
    fn new(numbers: &[f32], format: EncodingFormat) -> Self {
        match format {
            EncodingFormat::Float => Self::Float(numbers.to_vec()),
            EncodingFormat::Base64 => {
                let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
                Self::Base64(base64(&bytes))
            }
        }
    }
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            match place <= group.len() {
                true => text.push(char::from(ALPHABET[(bits >> (18 - 6 * place) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xFB, 0xFF, 0xBF]), "+/+/");
    }

    #[test]
    fn a_vector_has_length_one_and_depends_on_tokens_and_seed_alone() {
        let of = |tokens: &[u32], seed| vector(tokens, seed, 64);
        let length = of(&[1, 2, 3], 7).iter().map(|number| f64::from(number * number)).sum::<f64>();
        assert!((length - 1.0).abs() < 1e-5, "{length}");
        assert_eq!(of(&[1, 2, 3], 7), of(&[1, 2, 3], 7));
        assert_ne!(of(&[1, 2, 3], 7), of(&[1, 2, 4], 7));
        assert_ne!(of(&[1, 2, 3], 7), of(&[1, 2, 3], 8));
    }

    #[test]
    fn a_shorter_vector_points_where_a_longer_one_begins() {
        let (long, short) = (vector(&[1], 0, 64), vector(&[1], 0, 8));
        let ratio = long[0] / short[0];
        assert!(long.iter().zip(&short).all(|(long, short)| (long / short - ratio).abs() < 1e-4));
    }
}
