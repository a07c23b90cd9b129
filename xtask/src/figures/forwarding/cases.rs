//! Bodies that a parse and a re-serialisation would not survive.

/// Where a member can stand in a body: behind the opening brace of every object.
const SLOT: char = '@';

const CHAT: &str = r#"{@"model": "m", "messages": [{@"role": "system", "content": "be brief"}, {@"role": "user", "content": [{@"type": "text", "text": "hello"}, {@"type": "image_url", "image_url": {@"url": "data:,"}}]}], "tools": [{@"type": "function", "function": {@"name": "f", "parameters": {@"type": "object", "properties": {@"a": {@"type": "string"}}}}}], "stream_options": {@"include_usage": true}}"#;
const COMPLETION: &str = r#"{@"model": "m", "prompt": ["hello", "world"], "logit_bias": {@"50256": -100}}"#;

/// Members that no API has, each with something that a JSON library likes to change.
const MEMBERS: [&str; 10] = [
    r#""x_unknown": {"nested": [1, {"a": null}], "b": []}, "#,
    r#""x_twice": 1, "x_twice": 2, "#,
    r#""x_numbers": [1.0, 1e2, 1E+2, -0, 0.10, 12345678901234567890123, 1e400], "#,
    r#""x_escapes": "\u0061\/\b\f\n\r\t\"\\\ud83d\ude00", "#,
    r#""x_\u006bey": "é 漢字 😀", "#,
    r#""": "", "#,
    " \t\r\n \"x_space\"\t :\r\n [ 1 ,\t2 ] \n , ",
    r#""x_lone": "\ud800", "#,
    r#""content": "not a message's", "messages_": [{"role": "user"}], "#,
    r#""x_prompt": {"prompt": "inside", "model": "inside"}, "#,
];

/// Containers in one another: what APIs nest, and on both sides of where parsers commonly stop (128, 256).
const DEPTHS: [usize; 9] = [1, 2, 3, 8, 32, 100, 130, 260, 400];

/// One body and where it goes.
#[derive(Debug)]
pub(crate) struct Case {
    /// The path at the gateway.
    pub(crate) path: &'static str,
    /// What is special about the body.
    pub(crate) what: String,
    /// What the client sends.
    pub(crate) body: String,
}

/// Every member in every place, unknown members nested to every depth, and white space around a body.
pub(crate) fn all() -> Vec<Case> {
    let shapes = [
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", COMPLETION),
        ("/endpoints/default/invocations", CHAT),
        ("/endpoints/default/invocations", COMPLETION),
    ];
    let mut cases = Vec::new();
    for (path, template) in shapes {
        let case = |what, body| Case { path, what, body };
        let plain = with(template, "", 0);
        cases.push(case("white space around it".to_owned(), format!("\r\n\t {plain} \n\n")));
        cases.push(case("nothing".to_owned(), plain));
        for slot in 0..template.matches(SLOT).count() {
            for member in MEMBERS {
                cases.push(case(format!("{} in object {slot}", member.trim()), with(template, member, slot)));
            }
        }
        for depth in DEPTHS {
            cases.push(case(format!("{depth} containers in one another"), with(template, &nested(depth), 0)));
        }
    }
    cases
}

/// The template with a member in one of its slots.
fn with(template: &str, member: &str, slot: usize) -> String {
    let mut pieces = template.split(SLOT);
    let mut body = pieces.next().unwrap_or_default().to_owned();
    for (index, piece) in pieces.enumerate() {
        if index == slot {
            body += member;
        }
        body += piece;
    }
    body
}

/// A member whose value is that many arrays and objects in one another, in turn.
fn nested(depth: usize) -> String {
    let (mut open, mut close) = (String::new(), String::new());
    for level in 0..depth {
        let (left, right) = if level % 2 == 0 { ("[", ']') } else { (r#"{"x": "#, '}') };
        open += left;
        close.insert(0, right);
    }
    format!(r#""x_deep": {open}1{close}, "#)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::de::IgnoredAny;

    use super::*;

    #[test]
    fn every_body_is_json_and_no_two_are_alike() {
        let cases = all();
        for case in &cases {
            let parsed = serde_json::from_str::<IgnoredAny>(&case.body);
            assert!(parsed.is_ok(), "{}: {parsed:?}", case.body);
        }
        let distinct: BTreeSet<_> = cases.iter().map(|case| (case.path, &case.body)).collect();
        assert_eq!(distinct.len(), cases.len());
        assert!(cases.len() > 200, "{}", cases.len());
    }

    #[test]
    fn no_slot_is_left_in_a_body() {
        assert_eq!(with("{@\"a\": {@\"b\": 1}}", "\"x\": 2, ", 1), "{\"a\": {\"x\": 2, \"b\": 1}}");
        assert!(all().iter().all(|case| !case.body.contains(SLOT)));
    }
}
