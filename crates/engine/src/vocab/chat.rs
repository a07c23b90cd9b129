//! A conversation as the text that an engine computes.
//!
//! ChatML: every message is `<|im_start|>ROLE`, a newline, its content, `<|im_end|>`, a newline; at
//! the end `<|im_start|>assistant` and a newline ask for the answer. The same as the Jinja template
//! in `tokenizer_config.json`, without an interpreter: a conversation with the answer and a further
//! question continues the text of the conversation before it, which is what prefix caching lives on.
//!
//! Text is text in every API's words for it, and what a tool gave back is the text in it. Content that
//! is not text (an image, say) leaves its type in brackets. Tools and tool calls are not
//! rendered: they would only lengthen the prompt.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

/// A message of a conversation. Fields that do not reach the text are skipped.
#[derive(Debug, Deserialize)]
pub struct Message<'a> {
    /// Any name; `system`, `user`, `assistant` by convention.
    #[serde(borrow)]
    pub role: Cow<'a, str>,
    /// What was said.
    #[serde(borrow, default)]
    pub content: Content<'a>,
}

/// The text of a message. In JSON a string, null, or a list of parts, which are put together.
#[derive(Debug, Default)]
pub struct Content<'a>(pub Cow<'a, str>);

/// The text that the model reads, with the beginning of an answer if one is asked for.
#[must_use]
pub fn render(messages: &[Message<'_>], add_generation_prompt: bool) -> String {
    const ANSWER: &str = "<|im_start|>assistant\n";
    let frame_bytes = "<|im_start|>\n<|im_end|>\n".len();
    let message_bytes = |message: &Message<'_>| frame_bytes + message.role.len() + message.content.0.len();
    let bytes = messages.iter().map(message_bytes).sum::<usize>() + ANSWER.len();
    let mut text = String::with_capacity(bytes);
    for message in messages {
        text.push_str("<|im_start|>");
        text.push_str(&message.role);
        text.push('\n');
        text.push_str(&message.content.0);
        text.push_str("<|im_end|>\n");
    }
    if add_generation_prompt {
        text.push_str(ANSWER);
    }
    text
}

/// What a part adds to the text.
struct Part<'a>(Cow<'a, str>);

#[derive(Deserialize)]
struct TypedPart<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Content<'a>,
}

struct ContentVisitor;

struct PartVisitor;

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of content parts")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Content(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Content(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Content::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let mut content = String::new();
        while let Some(Part(text)) = parts.next_element()? {
            content.push_str(&text);
        }
        Ok(Content(Cow::Owned(content)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PartVisitor)
    }
}

// By hand rather than untagged, which would buffer an image of megabytes to drop it.
impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a content part")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Part(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Part(Cow::Owned(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, part: A) -> Result<Self::Value, A::Error> {
        let part = TypedPart::deserialize(MapAccessDeserializer::new(part))?;
        Ok(Part(match part.kind.as_ref() {
            "text" | "input_text" | "output_text" => part.text.unwrap_or_default(),
            "tool_result" => part.content.0,
            kind => Cow::Owned(format!("[{kind}]")),
        }))
    }
}
