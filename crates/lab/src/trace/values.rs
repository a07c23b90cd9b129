//! Values that traces write in more than one way, and what is said of those that cannot be read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::value::RawValue;

/// A name: a text, or a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(pub(super) Arc<str>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Name;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a name")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Name, E> {
                Ok(Name(value.to_string().into()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Name, E> {
                Ok(Name(value.to_string().into()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Name, E> {
                Ok(Name(text.into()))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// A number of tokens, written as an integer or as a float that is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tokens(pub(super) u32);

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Tokens;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of tokens")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Tokens, E> {
                u32::try_from(value).map(Tokens).map_err(|_| E::custom("too many tokens"))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Tokens, E> {
                u32::try_from(value).map(Tokens).map_err(|_| E::custom("not a number of tokens"))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tokens, E> {
                let is_whole = value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&value);
                if is_whole { Ok(Tokens(value as u32)) } else { Err(E::custom("not a number of tokens")) }
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// The members of a row that people name as they like, and of which several may mean the same.
#[derive(Debug)]
pub(super) struct Members<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Members<'a> {
    /// The members of a row.
    ///
    /// # Errors
    /// It is no JSON object.
    pub(super) fn of(row: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(row).map(Self).map_err(|error| json_fault(&error))
    }

    /// The first of these members that is there and not null, as it is written.
    pub(super) fn raw(&self, names: &[&str]) -> Option<&'a RawValue> {
        names.iter().filter_map(|name| self.0.get(*name).copied()).find(|json| json.get() != "null")
    }

    /// The first of these members that is there and can be read so.
    pub(super) fn get<T: Deserialize<'a>>(&self, names: &[&str]) -> Option<T> {
        names.iter().find_map(|name| serde_json::from_str(self.0.get(*name)?.get()).ok())
    }

    /// The first of these members that is a name, and not empty or what logs write for nothing.
    pub(super) fn name(&self, names: &[&str]) -> Option<Arc<str>> {
        let named = names.iter().filter_map(|name| self.get::<Name>(&[name]));
        named.map(|name| name.0).find(|name| !matches!(&**name, "" | "-"))
    }

    /// The first of these members that is a number of tokens.
    pub(super) fn tokens(&self, names: &[&str]) -> Option<u32> {
        self.get::<Tokens>(names).map(|tokens| tokens.0)
    }
}

/// What an engine says it has used. Every API has its own names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) input_tokens: Option<u32>,
    pub(super) output_tokens: Option<u32>,
    pub(super) cached_tokens: Option<u32>,
}

#[derive(Deserialize)]
struct WrittenUsage {
    prompt_tokens: Option<Tokens>,
    completion_tokens: Option<Tokens>,
    prompt_tokens_details: Option<Details>,
    input_tokens: Option<Tokens>,
    output_tokens: Option<Tokens>,
    input_tokens_details: Option<Details>,
    /// Anthropic counts these two beside `input_tokens`.
    cache_read_input_tokens: Option<Tokens>,
    cache_creation_input_tokens: Option<Tokens>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<Tokens>,
}

impl Usage {
    /// Reads a `usage` object; nothing of what it is not.
    pub(super) fn of(json: &str) -> Self {
        let Ok(usage) = serde_json::from_str::<WrittenUsage>(json) else { return Self::default() };
        let beside = [usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
        let beside = beside.into_iter().flatten().fold(0_u32, |sum, tokens| sum.saturating_add(tokens.0));
        let details = usage.prompt_tokens_details.or(usage.input_tokens_details);
        let cached = details.and_then(|details| details.cached_tokens).or(usage.cache_read_input_tokens);
        let input = usage.input_tokens.map(|tokens| tokens.0.saturating_add(beside));
        Self {
            input_tokens: usage.prompt_tokens.map(|tokens| tokens.0).or(input),
            output_tokens: usage.completion_tokens.or(usage.output_tokens).map(|tokens| tokens.0),
            cached_tokens: cached.map(|tokens| tokens.0),
        }
    }

    /// The usage that an answer tells: a JSON body, or the events of a stream, of which the last that has one counts.
    pub(super) fn of_answer(answer: &str) -> Self {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow)]
            usage: Option<&'a RawValue>,
        }

        let of_body = |json: &str| {
            let usage = serde_json::from_str::<Answer<'_>>(json).ok()?.usage?;
            usage.get().starts_with('{').then(|| Self::of(usage.get()))
        };
        of_body(answer)
            .or_else(|| answer.lines().rev().find_map(|line| of_body(line.strip_prefix("data:")?.trim())))
            .unwrap_or_default()
    }
}

/// The text of a JSON string, or the JSON of anything else: logs hold bodies both ways.
pub(super) fn text_or_json(json: &RawValue) -> Cow<'_, str> {
    match serde_json::from_str::<String>(json.get()) {
        Ok(text) => Cow::Owned(text),
        Err(_) => Cow::Borrowed(json.get()),
    }
}

/// What is wrong with a row that is not the JSON that was expected. Never what it holds: that may be a prompt.
pub(super) fn json_fault(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let column = error.column();
    match error.classify() {
        Category::Syntax => format!("not JSON (at column {column})"),
        Category::Eof => "the JSON ends early".to_owned(),
        Category::Data | Category::Io => {
            format!("a member is missing or of another type than expected (at column {column})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_in_the_words_of_every_api() {
        let expected = Usage { input_tokens: Some(9), output_tokens: Some(3), cached_tokens: Some(4) };
        for answer in [
            r#"{"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}"#,
            r#"{"usage":{"input_tokens":9,"output_tokens":3,"input_tokens_details":{"cached_tokens":4}}}"#,
            r#"{"usage":{"input_tokens":3,"output_tokens":3,"cache_read_input_tokens":4,"cache_creation_input_tokens":2}}"#,
            "data: {\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n",
        ] {
            assert_eq!(Usage::of_answer(answer), expected, "{answer}");
        }
        for answer in ["", "{}", "x", r#"{"usage":7}"#, r#"{"usage":{"prompt_tokens":"many"}}"#] {
            assert_eq!(Usage::of_answer(answer), Usage::default(), "{answer}");
        }
    }

    #[test]
    fn tokens_are_whole_numbers_that_are_not_negative() {
        for (json, tokens) in
            [("7", Some(7)), ("7.0", Some(7)), ("7.5", None), ("-1", None), ("\"7\"", None), ("1e12", None)]
        {
            assert_eq!(serde_json::from_str::<Tokens>(json).ok().map(|tokens| tokens.0), tokens, "{json}");
        }
    }
}
