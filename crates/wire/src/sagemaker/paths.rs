//! The paths of the runtime API.

use std::borrow::Cow;

/// What a path asks for. Names are percent-decoded and may hold anything, also a slash; they are never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route<'a> {
    /// `/endpoints/{endpoint}/invocations`
    Invoke {
        /// The endpoint's name.
        endpoint: Cow<'a, str>,
    },
    /// `/endpoints/{endpoint}/invocations-response-stream`
    InvokeStream {
        /// The endpoint's name.
        endpoint: Cow<'a, str>,
    },
    /// `/endpoints/{endpoint}/openai/v1/chat/completions`, or with `/inference-components/{component}` before `/openai`.
    ChatCompletions {
        /// The endpoint's name.
        endpoint: Cow<'a, str>,
        /// The inference component's name, where the path gives one.
        component: Option<Cow<'a, str>>,
    },
}

/// Reads a path, without query. `None` when it is none of the API's, or not UTF-8 after decoding.
#[must_use]
pub fn parse_path(path: &str) -> Option<Route<'_>> {
    let (endpoint, rest) = path.strip_prefix("/endpoints/")?.split_once('/')?;
    let endpoint = decode_name(endpoint)?;
    match rest {
        "invocations" => return Some(Route::Invoke { endpoint }),
        "invocations-response-stream" => return Some(Route::InvokeStream { endpoint }),
        _ => {}
    }
    let (component, rest) = match rest.strip_prefix("inference-components/") {
        Some(rest) => {
            let (component, rest) = rest.split_once('/')?;
            (Some(decode_name(component)?), rest)
        }
        None => (None, rest),
    };
    (rest == "openai/v1/chat/completions").then_some(Route::ChatCompletions { endpoint, component })
}

/// A name in a path, percent-decoded. `None` if it is empty, or not UTF-8 in percent encoding.
#[must_use]
pub fn decode_name(segment: &str) -> Option<Cow<'_, str>> {
    if segment.is_empty() {
        return None;
    }
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            decoded.push(u8::try_from(digit()? << 4 | digit()?).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_of_the_api_are_told_apart() {
        let chat = |endpoint: &'static str, component: Option<&'static str>| Route::ChatCompletions {
            endpoint: endpoint.into(),
            component: component.map(Into::into),
        };
        let table = [
            ("/endpoints/e-1/invocations", Some(Route::Invoke { endpoint: "e-1".into() })),
            ("/endpoints/e/invocations-response-stream", Some(Route::InvokeStream { endpoint: "e".into() })),
            ("/endpoints/e/openai/v1/chat/completions", Some(chat("e", None))),
            ("/endpoints/e/inference-components/c/openai/v1/chat/completions", Some(chat("e", Some("c")))),
            ("/endpoints/a%2fb%20%C3%A9/invocations", Some(Route::Invoke { endpoint: "a/b é".into() })),
            ("/endpoints/e/inference-components/%63/openai/v1/chat/completions", Some(chat("e", Some("c")))),
            ("/endpoints//invocations", None),
            ("/endpoints/e/invocations/", None),
            ("/endpoints/e/async-invocations", None),
            ("/endpoints/e/inference-components//openai/v1/chat/completions", None),
            ("/endpoints/e/inference-components/c/invocations", None),
            ("/endpoints/e/openai/v1/models", None),
            ("/endpoints/%/invocations", None),
            ("/endpoints/%4/invocations", None),
            ("/endpoints/%zz/invocations", None),
            ("/endpoints/%ff/invocations", None),
            ("/endpoints/e", None),
            ("/v1/chat/completions", None),
            ("", None),
        ];
        for (path, route) in table {
            assert_eq!(parse_path(path), route, "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_name_survives_its_encoding(name in "\\PC{1,12}") {
            let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let path = format!("/endpoints/{encoded}/invocations");
            prop_assert_eq!(parse_path(&path), Some(Route::Invoke { endpoint: name.into() }));
        }

        #[test]
        fn no_path_panics(path in "/endpoints/[a-z%0-9/é]{0,12}(/invocations)?") {
            let _ = parse_path(&path);
        }
    }
}
