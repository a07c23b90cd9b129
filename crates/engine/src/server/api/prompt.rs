//! Prompts: text or token ids, one or many.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

/// Prompts a request.
pub(in super::super) const PROMPTS_MAX: usize = 2048;

/// What to compute.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Prompt<'a> {
    /// Text, to be made tokens.
    Text(Cow<'a, str>),
    /// Tokens.
    Tokens(Vec<u32>),
}

/// One prompt: text, token ids, or a list of one of them.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct OnePrompt<'a>(pub(in super::super) Prompt<'a>);

/// Prompts: text, token ids, or a list of texts or of lists of token ids. At least one; a list of
/// numbers is one prompt, also if it is empty.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Prompts<'a>(pub(in super::super) Vec<Prompt<'a>>);

/// An element of a list of prompts.
enum Item<'a> {
    Token(u32),
    Prompt(Prompt<'a>),
}

struct PromptsVisitor {
    prompts_max: usize,
}

struct ItemVisitor;

impl<'de: 'a, 'a> Deserialize<'de> for OnePrompt<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut prompts = deserializer.deserialize_any(PromptsVisitor { prompts_max: 1 })?;
        prompts.pop().map(OnePrompt).ok_or_else(|| D::Error::custom("no prompt in a request"))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Prompts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptsVisitor { prompts_max: PROMPTS_MAX }).map(Prompts)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Item<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

impl<'de> Visitor<'de> for PromptsVisitor {
    type Value = Vec<Prompt<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a prompt: text or a list of token ids")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(vec![Prompt::Text(Cow::Borrowed(text))])
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(vec![Prompt::Text(Cow::Owned(text.to_owned()))])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut tokens = match items.next_element()? {
            None => return Ok(vec![Prompt::Tokens(Vec::new())]),
            Some(Item::Token(token)) => vec![token],
            Some(Item::Prompt(first)) => {
                let mut prompts = vec![first];
                while let Some(item) = items.next_element()? {
                    match item {
                        Item::Prompt(_) if prompts.len() >= self.prompts_max => {
                            return Err(A::Error::custom(format!(
                                "more than {} prompts in a request",
                                self.prompts_max
                            )));
                        }
                        Item::Prompt(prompt) => prompts.push(prompt),
                        Item::Token(_) => return Err(A::Error::custom("a token id among prompts")),
                    }
                }
                return Ok(prompts);
            }
        };
        while let Some(token) = items.next_element()? {
            tokens.push(token);
        }
        Ok(vec![Prompt::Tokens(tokens)])
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
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn text(text: &str) -> Prompt<'_> {
        Prompt::Text(text.into())
    }

    fn tokens(ids: &[u32]) -> Prompt<'_> {
        Prompt::Tokens(ids.to_vec())
    }

    #[test]
    fn one_prompt_is_text_or_tokens_or_a_list_of_one_of_them() {
        for (json, expected) in [
            (r#""a\nb""#, text("a\nb")),
            (r#"["a\nb"]"#, text("a\nb")),
            ("[]", tokens(&[])),
            ("[1,2,3]", tokens(&[1, 2, 3])),
            ("[[1,2]]", tokens(&[1, 2])),
            ("[[]]", tokens(&[])),
        ] {
            assert_eq!(serde_json::from_str::<OnePrompt<'_>>(json).unwrap(), OnePrompt(expected), "{json}");
        }
        for json in ["[\"a\",\"b\"]", "[[1],[2]]"] {
            assert!(serde_json::from_str::<OnePrompt<'_>>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn many_prompts_are_a_list_of_texts_or_of_lists_of_tokens() {
        for (json, expected) in [
            (r#""a""#, vec![text("a")]),
            (r#"["a","b"]"#, vec![text("a"), text("b")]),
            ("[5,6,7]", vec![tokens(&[5, 6, 7])]),
            ("[[5,6],[7]]", vec![tokens(&[5, 6]), tokens(&[7])]),
        ] {
            assert_eq!(serde_json::from_str::<Prompts<'_>>(json).unwrap(), Prompts(expected), "{json}");
        }
        let many = |count| serde_json::to_string(&vec!["a"; count]).unwrap();
        assert!(serde_json::from_str::<Prompts<'_>>(&many(PROMPTS_MAX)).is_ok());
        assert!(serde_json::from_str::<Prompts<'_>>(&many(PROMPTS_MAX + 1)).is_err());
    }

    #[test]
    fn what_is_neither_is_refused() {
        for json in ["1", "{}", "true", "[1,\"a\"]", "[\"a\",1]", "[-1]", "[4294967296]", "[1.5]", "[[[1]]]", "[null]"]
        {
            assert!(serde_json::from_str::<OnePrompt<'_>>(json).is_err(), "{json}");
            assert!(serde_json::from_str::<Prompts<'_>>(json).is_err(), "{json}");
        }
    }

    /// Any JSON that is near a list of prompts.
    fn near_prompts() -> impl Strategy<Value = Value> {
        let number =
            prop_oneof![(0u64..10).prop_map(Value::from), Just(json!(u64::MAX)), Just(json!(-1)), Just(json!(0.5))];
        let leaf = prop_oneof![4 => number, 4 => "\\PC{0,3}".prop_map(Value::from), 1 => Just(Value::Null)];
        leaf.prop_recursive(3, 16, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::from))
    }

    fn expected_one(value: &Value) -> Option<Prompt<'_>> {
        if let Value::String(text) = value {
            return Some(Prompt::Text(text.into()));
        }
        let ids = value.as_array()?.iter().map(|id| u32::try_from(id.as_u64()?).ok());
        ids.collect::<Option<Vec<u32>>>().map(Prompt::Tokens)
    }

    /// The oracle: what the documentation says, over a document.
    fn expected(value: &Value) -> Option<Vec<Prompt<'_>>> {
        match expected_one(value) {
            Some(prompt) => Some(vec![prompt]),
            None => value.as_array()?.iter().map(expected_one).collect(),
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_the_document_says(value in near_prompts()) {
            let json = value.to_string();
            let read = serde_json::from_str::<Prompts<'_>>(&json).ok().map(|Prompts(prompts)| prompts);
            prop_assert_eq!(&read, &expected(&value), "{}", json);
            let one = serde_json::from_str::<OnePrompt<'_>>(&json).ok().map(|OnePrompt(prompt)| vec![prompt]);
            prop_assert_eq!(one, expected(&value).filter(|prompts| prompts.len() == 1));
        }
    }
}
