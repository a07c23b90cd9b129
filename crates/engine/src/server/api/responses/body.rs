//! The body of a request, and the prompt that it means.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use super::super::super::app::App;
use super::super::super::error::ApiError;
use super::super::super::generate::{Length, Wish, encode};
use super::super::openai::CHAT_TOKENS_DEFAULT;
use super::super::{CacheFields, Xargs, parse};
use super::shapes::Echo;
use super::telling::ResponsesTelling;
use crate::vocab::{Content, Message, render};

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow)]
    input: Option<Input<'a>>,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    max_output_tokens: Option<u32>,
    stream: Option<bool>,
    store: Option<bool>,
    cache_salt: Option<String>,
    #[serde(borrow)]
    vllm_xargs: Option<Xargs<'a>>,
}

/// What was said, as messages.
struct Input<'a>(Vec<Message<'a>>);

/// An element of a list of input.
#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Content<'a>,
    #[serde(borrow, default)]
    output: Content<'a>,
}

struct InputVisitor;

/// A body's wish.
pub(in super::super::super) fn wish(app: &App, json: &[u8]) -> Result<Wish, ApiError> {
    let body: Body<'_> = parse(json)?;
    let target = app.target(body.model.as_deref())?;
    let Some(Input(messages)) = body.input else { return Err(ApiError::field("input", "input is missing")) };
    let before = match &body.previous_response_id {
        None => None,
        Some(id) => Some(app.responses.find(id).ok_or_else(|| ApiError::NoResponse(id.clone()))?),
    };
    // What was said before, then what is said now: the part that a response to this one goes on from.
    let conversation = before.as_deref().unwrap_or_default().to_owned() + &render(&messages, false);
    let system =
        body.instructions.as_deref().map(|text| Message { role: "system".into(), content: Content(text.into()) });
    let text = render(system.as_slice(), false) + &conversation + &render(&[], true);
    let cache = CacheFields { cache_salt: body.cache_salt, session_id: None, vllm_xargs: body.vllm_xargs };
    let store = body.store.unwrap_or(true);
    let echo = Echo {
        instructions: body.instructions,
        previous_response_id: body.previous_response_id,
        max_output_tokens: body.max_output_tokens,
        store,
    };
    let kept = store.then(|| (Arc::clone(&app.responses), conversation));
    Ok(Wish {
        target,
        prompt: encode(&text, app.context_tokens_max())?,
        length: Length {
            limit: body.max_output_tokens,
            otherwise: CHAT_TOKENS_DEFAULT,
            stops: true,
            param: "max_output_tokens",
        },
        cache: cache.check()?,
        stream: body.stream.unwrap_or(false),
        id_prefix: "resp_",
        telling: Box::new(ResponsesTelling::new(echo, kept)),
    })
}

impl<'a> Item<'a> {
    /// The message that it means, if it leaves a trace in the prompt.
    fn into_message(self) -> Option<Message<'a>> {
        match (self.role, self.kind.as_deref()) {
            (Some(role), _) => Some(Message { role, content: self.content }),
            (None, Some("function_call_output")) => Some(Message { role: "tool".into(), content: self.output }),
            (None, Some("function_call")) => Some(Message { role: "assistant".into(), content: Content::default() }),
            (None, _) => None,
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Input<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InputVisitor)
    }
}

impl<'de> Visitor<'de> for InputVisitor {
    type Value = Input<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a list of items")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Input(vec![Message { role: "user".into(), content: Content(text.into()) }]))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Input(vec![Message { role: "user".into(), content: Content(Cow::Owned(text.to_owned())) }]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut messages = Vec::new();
        while let Some(item) = items.next_element::<Item<'de>>()? {
            messages.extend(item.into_message());
        }
        Ok(Input(messages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        let Input(messages) = serde_json::from_str(json).unwrap();
        render(&messages, false)
    }

    #[test]
    fn the_same_conversation_has_the_same_text_as_in_chat() {
        for (input, chat) in [
            (r#""a\nb""#, r#"[{"role":"user","content":"a\nb"}]"#),
            (
                r#"[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"x"}]}]"#,
                r#"[{"role":"user","content":[{"type":"text","text":"a"},{"type":"input_image"}]}]"#,
            ),
            (
                r#"[{"type":"message","role":"user","content":"a"},
                    {"type":"reasoning","summary":[]},
                    {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
                    {"type":"function_call_output","call_id":"c","output":"42"},
                    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}]"#,
                r#"[{"role":"user","content":"a"},
                    {"role":"assistant","content":null},
                    {"role":"tool","content":"42"},
                    {"role":"assistant","content":"b"}]"#,
            ),
            ("[]", "[]"),
        ] {
            let messages: Vec<Message<'_>> = serde_json::from_str(chat).unwrap();
            assert_eq!(text(input), render(&messages, false), "{input}");
        }
    }

    #[test]
    fn input_is_text_or_a_list_of_items() {
        for json in ["1", "{}", r#"["a"]"#, r#"[{"role":1}]"#, r#"[{"role":"user","content":7}]"#] {
            assert!(serde_json::from_str::<Input<'_>>(json).is_err(), "{json}");
        }
    }
}
