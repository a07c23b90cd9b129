//! `/tokenize` and `/detokenize`.

use serde::{Deserialize, Serialize};

use super::super::app::App;
use super::super::error::ApiError;
use super::openai::{Body, Kind};
use super::{parse, to_json};
use crate::vocab::Vocab;

/// Body of `/detokenize`.
#[derive(Deserialize)]
struct Detokenize {
    tokens: Vec<u32>,
}

#[derive(Serialize)]
struct Tokenized<'a> {
    count: usize,
    max_model_len: u32,
    tokens: &'a [u32],
    token_strs: (),
}

#[derive(Serialize)]
struct Detokenized<'a> {
    prompt: &'a str,
}

/// The tokens of a prompt or of a conversation, as JSON.
pub(in super::super) fn tokenize(app: &App, json: &[u8]) -> Result<Vec<u8>, ApiError> {
    let body = Body::parse(json)?;
    app.target(body.model.as_deref())?;
    if !matches!(body.kind(), Some(Kind::Chat | Kind::Completion)) {
        return Err(ApiError::bad("body has neither messages nor a prompt"));
    }
    let context_tokens_max = app.context_tokens_max();
    let tokens = body.tokens(context_tokens_max)?;
    Ok(to_json(&Tokenized { count: tokens.len(), max_model_len: context_tokens_max, tokens: &tokens, token_strs: () }))
}

/// The text of tokens, as JSON.
pub(in super::super) fn detokenize(json: &[u8]) -> Result<Vec<u8>, ApiError> {
    let Detokenize { tokens } = parse(json)?;
    let text = Vocab::shared().decode(&tokens);
    Ok(to_json(&Detokenized { prompt: &String::from_utf8_lossy(&text) }))
}
