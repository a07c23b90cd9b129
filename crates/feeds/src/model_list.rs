//! Reads an engine's `/v1/models`: which LoRA adapters it has loaded, and how long its context is.
//!
//! vLLM and SGLang list an adapter as a model with a `parent`, and give `max_model_len` for the model itself. An engine
//! that does not say how long its context is has no figure here: absent is not zero.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

/// What a list told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelList {
    /// Names of the adapters.
    pub adapters: HashSet<String>,
    /// Tokens of prompt and answer together, the most that one of the models takes.
    pub context_tokens_max: Option<u64>,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Model>,
}

/// Members of other types than these count as absent.
#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    parent: Value,
    #[serde(default)]
    max_model_len: Value,
}

/// Reads a list; `None` if it is not one.
pub fn parse(body: &[u8]) -> Option<ModelList> {
    let List { data } = serde_json::from_slice(body).ok()?;
    let mut list = ModelList::default();
    for model in data {
        let context = model.max_model_len.as_u64().filter(|tokens| *tokens > 0);
        list.context_tokens_max = list.context_tokens_max.max(context);
        if let (Value::String(id), Value::String(_)) = (model.id, model.parent) {
            list.adapters.insert(id);
        }
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(entries: &str) -> ModelList {
        parse(format!("{{\"object\":\"list\",\"data\":[{entries}]}}").as_bytes()).expect("it is a list")
    }

    fn list(adapters: &[&str], context_tokens_max: Option<u64>) -> ModelList {
        ModelList { adapters: adapters.iter().map(|name| (*name).to_owned()).collect(), context_tokens_max }
    }

    #[test]
    fn adapters_are_the_models_with_a_parent_and_the_context_is_the_longest() {
        for (entries, expected) in [
            ("", list(&[], None)),
            (r#"{"id":"base","parent":null,"max_model_len":4096}"#, list(&[], Some(4096))),
            (
                r#"{"id":"base","max_model_len":4096},{"id":"sql","parent":"base"},{"id":"css","parent":"base","max_model_len":null}"#,
                list(&["sql", "css"], Some(4096)),
            ),
            (r#"{"id":"a","max_model_len":10},{"id":"b","max_model_len":20}"#, list(&[], Some(20))),
            (r#"{"id":7,"parent":"base"},{"parent":"base"},{"id":"x","parent":7}"#, list(&[], None)),
            (
                r#"{"id":"a","max_model_len":"long"},{"id":"b","max_model_len":0},{"id":"c","max_model_len":-1}"#,
                list(&[], None),
            ),
        ] {
            assert_eq!(told(entries), expected, "{entries}");
        }
    }

    #[test]
    fn what_is_no_list_tells_nothing() {
        for body in ["", "{}", "[]", "{\"data\":{}}", "{\"data\":[7]}", "<html>", "{\"data\":[{\"id\":\"a\"}"] {
            assert_eq!(parse(body.as_bytes()), None, "{body}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
