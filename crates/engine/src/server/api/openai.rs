//! Request bodies.
//!
//! One shape for chat and completions: `/invocations` and `/tokenize` take either, and must look to
//! know. Unknown fields are skipped without being kept.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::error::ApiError;
use crate::vocab::Message;

/// Body of a request for an answer or for tokens.
#[derive(Debug, Deserialize)]
pub(super) struct Body<'a> {
    #[serde(borrow)]
    pub(super) model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    pub(super) prompt: Option<Prompt<'a>>,
    pub(super) add_generation_prompt: Option<bool>,
    pub(super) max_tokens: Option<u32>,
    pub(super) max_completion_tokens: Option<u32>,
    pub(super) n: Option<u32>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) return_token_ids: Option<bool>,
    pub(super) cache_salt: Option<String>,
    pub(super) session_id: Option<String>,
}

/// Options of a stream.
#[derive(Debug, Deserialize)]
pub(super) struct StreamOptions {
    /// Whether usage follows the last token.
    pub(super) include_usage: Option<bool>,
}

/// What to complete. A list of one prompt is that prompt; more than one is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Prompt<'a> {
    /// Text, to be made tokens.
    Text(Cow<'a, str>),
    /// Tokens.
    Tokens(Vec<u32>),
}

/// Body of `/detokenize`.
#[derive(Debug, Deserialize)]
pub(super) struct Detokenize {
    pub(super) tokens: Vec<u32>,
}

impl<'a> Body<'a> {
    /// Reads a body; the error is the client's.
    pub(super) fn parse(json: &'a [u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(json).map_err(|error| ApiError::bad(error.to_string()))
    }
}

/// An element of a list of prompts.
enum Item<'a> {
    Token(u32),
    Prompt(Prompt<'a>),
}

struct PromptVisitor;

struct ItemVisitor;

impl<'de: 'a, 'a> Deserialize<'de> for Prompt<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Item<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

impl<'de> Visitor<'de> for PromptVisitor {
    type Value = Prompt<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prompt: text or a list of token ids")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Prompt::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Prompt::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut tokens = Vec::new();
        match items.next_element()? {
            None => return Ok(Prompt::Tokens(tokens)),
            Some(Item::Token(token)) => tokens.push(token),
            Some(Item::Prompt(prompt)) => match items.next_element::<Item<'de>>()? {
                None => return Ok(prompt),
                Some(_) => return Err(A::Error::custom("more than one prompt in a request")),
            },
        }
        while let Some(token) = items.next_element()? {
            tokens.push(token);
        }
        Ok(Prompt::Tokens(tokens))
    }
}

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token id, text, or a list of token ids")
    }

    fn visit_u64<E: Error>(self, token: u64) -> Result<Self::Value, E> {
        let token = u32::try_from(token).map_err(|_| E::custom("token id out of range"))?;
        Ok(Item::Token(token))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Item::Prompt(Prompt::Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Item::Prompt(Prompt::Text(Cow::Owned(text.to_owned()))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, tokens: A) -> Result<Self::Value, A::Error> {
        let tokens = Vec::deserialize(SeqAccessDeserializer::new(tokens))?;
        Ok(Item::Prompt(Prompt::Tokens(tokens)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(json: &str) -> Result<Prompt<'_>, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn a_prompt_is_text_or_tokens_or_a_list_of_one_of_them() {
        let text = || Prompt::Text("a\nb".into());
        let tokens = |ids: &[u32]| Prompt::Tokens(ids.to_vec());
        for (json, expected) in [
            (r#""a\nb""#, text()),
            (r#"["a\nb"]"#, text()),
            ("[]", tokens(&[])),
            ("[1,2,3]", tokens(&[1, 2, 3])),
            ("[[1,2]]", tokens(&[1, 2])),
            ("[[]]", tokens(&[])),
        ] {
            assert_eq!(prompt(json).unwrap(), expected, "{json}");
        }
    }

    #[test]
    fn other_prompts_are_refused() {
        for json in [
            "1",
            "{}",
            "true",
            "[1,\"a\"]",
            "[\"a\",\"b\"]",
            "[[1],[2]]",
            "[-1]",
            "[4294967296]",
            "[1.5]",
            "[[[1]]]",
            "[null]",
        ] {
            assert!(prompt(json).is_err(), "{json}");
        }
    }

    #[test]
    fn unknown_and_null_fields_are_as_good_as_absent() {
        let body = br#"{"prompt":"p","n":null,"model":null,"tools":[{"a":[1]}],"max_tokens":null}"#;
        let body = Body::parse(body).unwrap();
        assert_eq!(body.prompt, Some(Prompt::Text("p".into())));
        assert!(body.n.is_none() && body.model.is_none() && body.max_tokens.is_none());
    }
}
