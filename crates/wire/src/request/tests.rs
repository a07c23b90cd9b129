//! A walk over `serde_json::Value` is the oracle.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::testing::{Json, any_json, any_sizes, any_text, chunks};

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Segment {
    role: String,
    text: String,
    ids: Vec<u32>,
    media: Vec<u8>,
}

/// Records the calls, checks their order, and is full after `text_bytes_max` bytes.
#[derive(Debug)]
struct Recorder {
    segments: Vec<Segment>,
    text: Vec<u8>,
    text_bytes: usize,
    text_bytes_max: usize,
    open: bool,
}

impl Recorder {
    fn new(text_bytes_max: usize) -> Self {
        Self { segments: vec![], text: vec![], text_bytes: 0, text_bytes_max, open: false }
    }

    fn last(&mut self) -> &mut Segment {
        assert!(self.open, "a call outside a segment");
        assert!(self.text_bytes < self.text_bytes_max, "a call although full");
        self.segments.last_mut().unwrap()
    }
}

impl PromptSink for Recorder {
    fn segment(&mut self, role: &[u8]) {
        assert!(!std::mem::replace(&mut self.open, true), "a segment in a segment");
        assert!(!self.is_full(), "a segment although full");
        self.segments.push(Segment { role: String::from_utf8_lossy(role).into_owned(), ..Segment::default() });
    }

    fn text(&mut self, bytes: &[u8]) {
        self.last();
        self.text.extend_from_slice(bytes);
        self.text_bytes += bytes.len();
    }

    fn token_ids(&mut self, ids: &[u32]) {
        assert!((1..=text::IDS_AT_ONCE).contains(&ids.len()), "ids are handed on in bounded pieces");
        self.last().ids.extend_from_slice(ids);
    }

    fn media(&mut self, bytes: &[u8]) {
        self.last().media.extend_from_slice(bytes);
    }

    fn end_segment(&mut self) {
        assert!(std::mem::replace(&mut self.open, false), "an end without a segment");
        let text = std::mem::take(&mut self.text);
        self.segments.last_mut().unwrap().text = String::from_utf8_lossy(&text).into_owned();
    }

    fn is_full(&self) -> bool {
        self.text_bytes >= self.text_bytes_max
    }
}

fn scan_with(body: &[u8], sizes: &[usize], text_bytes_max: usize, limits: Limits) -> (Scan, Vec<Segment>) {
    let mut scanner = RequestScanner::new(Recorder::new(text_bytes_max), limits);
    for chunk in chunks(body, sizes) {
        scanner.feed(chunk);
    }
    let (scan, sink) = scanner.finish();
    (scan, sink.segments)
}

fn scan(body: &str) -> (Scan, Vec<Segment>) {
    let whole = scan_with(body.as_bytes(), &[], usize::MAX, Limits::default());
    let by_bytes = scan_with(body.as_bytes(), &[1], usize::MAX, Limits::default());
    assert_eq!(whole, by_bytes, "the cutting made a difference: {body}");
    whole
}

fn segments(body: &str) -> Vec<Segment> {
    let (scan, segments) = scan(body);
    assert_eq!(scan.outcome, Outcome::Complete, "{body}");
    segments
}

fn text_segment(role: &str, text: &str) -> Segment {
    Segment { role: role.to_owned(), text: text.to_owned(), ..Segment::default() }
}

fn id_segment(ids: &[u32]) -> Segment {
    Segment { ids: ids.to_vec(), ..Segment::default() }
}

/// The rules of the module's header over a document.
fn oracle(body: &Value) -> (Fields, Shape, Vec<Segment>) {
    let string = |name: &str| body[name].as_str().filter(|text| text.len() <= FIELD_BYTES_MAX).map(str::to_owned);
    let names = ["model", "prompt_cache_key", "previous_response_id", "cache_salt"];
    let fields = Fields {
        model: string("model"),
        stream: body["stream"].as_bool().unwrap_or(false),
        include_usage: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
        prompt_cache_key: string("prompt_cache_key"),
        previous_response_id: string("previous_response_id"),
        cache_salt: string("cache_salt"),
        max_tokens: body["max_completion_tokens"].as_u64().or(body["max_tokens"].as_u64()),
        oversized: names.iter().any(|name| body[name].as_str().is_some_and(|text| text.len() > FIELD_BYTES_MAX)),
    };
    match (&body["messages"], &body["prompt"]) {
        (Value::Array(messages), _) => {
            (fields, Shape::Chat, messages.iter().filter(|message| message.is_object()).map(message_segment).collect())
        }
        (_, prompt @ (Value::String(_) | Value::Array(_))) => (fields, Shape::Completion, prompt_segments(prompt)),
        _ => (fields, Shape::Other, vec![]),
    }
}

fn message_segment(message: &Value) -> Segment {
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part.as_str().or(part["text"].as_str())).collect(),
        _ => String::new(),
    };
    let role = message["role"].as_str().unwrap_or("");
    let cut = &role.as_bytes()[..role.len().min(ROLE_BYTES_MAX)];
    text_segment(&String::from_utf8_lossy(cut), &text)
}

fn prompt_segments(prompt: &Value) -> Vec<Segment> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let Value::Array(elements) = prompt else { return vec![text_segment("", prompt.as_str().unwrap())] };
    let mut segments = vec![];
    let mut in_run = false;
    for element in elements {
        let was_in_run = std::mem::replace(&mut in_run, element.is_number());
        match element {
            Value::String(text) => segments.push(text_segment("", text)),
            Value::Array(ids) => segments.push(id_segment(&ids.iter().filter_map(id).collect::<Vec<_>>())),
            Value::Number(_) => {
                if !was_in_run {
                    segments.push(Segment::default());
                }
                segments.last_mut().unwrap().ids.extend(id(element));
            }
            _ => {}
        }
    }
    segments
}

fn any_content() -> impl Strategy<Value = Json> {
    let text_part = (any_text(), any_members(&["type", "cache_control"])).prop_map(|(text, mut members)| {
        members.insert(members.len() / 2, ("text".to_owned(), Json::Text(text)));
        Json::Object(members)
    });
    let part = prop_oneof![3 => text_part, 1 => any_text().prop_map(Json::Text), 1 => any_json_without_text()];
    prop_oneof![
        3 => any_text().prop_map(Json::Text),
        3 => prop::collection::vec(part, 0..4).prop_map(Json::Array),
        1 => any_json_without_text(),
    ]
}

/// Anything but a string or an array, which would be text.
fn any_json_without_text() -> impl Strategy<Value = Json> {
    any_json().prop_map(|json| match json {
        Json::Text(_) | Json::Array(_) => Json::Plain("null".to_owned()),
        other => other,
    })
}

/// Members of any value; the names given are only examples, `x` makes sure that none carries text.
fn any_members(names: &[&str]) -> impl Strategy<Value = Vec<(String, Json)>> + use<> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let name = prop_oneof![prop::sample::select(names), any_text().prop_map(|text| format!("x{text}"))];
    prop::collection::vec((name, any_json()), 0..3)
}

fn any_message() -> impl Strategy<Value = Json> {
    let role = prop_oneof![4 => "system|user|assistant|tool".prop_map(Json::Text), 1 => any_json()];
    let role = prop::option::of(role).prop_map(|role| role.map(|role| ("role".to_owned(), role)));
    let content = prop::option::of(any_content()).prop_map(|content| content.map(|json| ("content".to_owned(), json)));
    (role, content, any_members(&["tool_calls", "name"])).prop_flat_map(|(role, content, others)| {
        let members: Vec<_> = role.into_iter().chain(content).chain(others).collect();
        Just(members).prop_shuffle().prop_map(Json::Object)
    })
}

fn any_body() -> impl Strategy<Value = Json> {
    let messages = prop::collection::vec(prop_oneof![8 => any_message(), 1 => any_json()], 0..5).prop_map(Json::Array);
    let prompt = prop_oneof![any_text().prop_map(Json::Text), any_json().prop_map(|json| Json::Array(vec![json]))];
    let ids = prop::collection::vec(any_json(), 0..6).prop_map(Json::Array);
    let text = prop_oneof![
        6 => messages.prop_map(|json| vec![("messages".to_owned(), json)]),
        1 => prompt.prop_map(|json| vec![("prompt".to_owned(), json)]),
        1 => ids.prop_map(|json| vec![("prompt".to_owned(), json)]),
        1 => Just(vec![]),
    ];
    let options = any_members(&["include_usage"]).prop_map(Json::Object);
    let stream_options =
        prop::option::of(options).prop_map(|json| json.map(|json| ("stream_options".to_owned(), json)));
    let fields = any_members(&[
        "model",
        "stream",
        "prompt_cache_key",
        "previous_response_id",
        "cache_salt",
        "max_tokens",
        "max_completion_tokens",
        "tools",
    ]);
    (text, stream_options, fields).prop_flat_map(|(text, stream_options, fields)| {
        let members: Vec<_> = text.into_iter().chain(stream_options).chain(fields).collect();
        Just(members).prop_shuffle().prop_map(Json::Object)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_scan_finds_what_a_walk_over_the_document_finds(body in any_body(), style in 0u8..8, sizes in any_sizes()) {
        let written = body.written(style);
        let (fields, shape, expected) = oracle(&serde_json::from_str(&written).unwrap());
        let (scan, mut found) = scan_with(written.as_bytes(), &sizes, usize::MAX, Limits::default());
        for segment in &mut found {
            segment.media.clear();
        }
        // `oversized` tells of every value that was dropped, the oracle only of the last of equal members.
        let oversized = scan.fields.oversized;
        prop_assert!(oversized || !fields.oversized);
        prop_assert_eq!(scan, Scan { fields: Fields { oversized, ..fields }, shape, outcome: Outcome::Complete });
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_full_sink_ends_the_text_but_not_the_fields(
        body in any_body(),
        style in 0u8..8,
        sizes in any_sizes(),
        text_bytes_max in 1usize..60,
    ) {
        let written = body.written(style);
        let (fields, shape, expected) = oracle(&serde_json::from_str(&written).unwrap());
        let (scan, found) = scan_with(written.as_bytes(), &sizes, text_bytes_max, Limits::default());
        prop_assert_eq!((scan.shape, scan.outcome), (shape, Outcome::Complete));
        prop_assert_eq!(Fields { oversized: false, ..scan.fields }, Fields { oversized: false, ..fields });
        for (segment, full) in found.iter().zip(&expected) {
            prop_assert_eq!(&segment.role, &full.role);
            let last = segment.text.trim_end_matches('\u{fffd}');
            prop_assert!(full.text.starts_with(last));
        }
        let total: usize = expected.iter().map(|segment| segment.text.len()).sum();
        prop_assert!(total < text_bytes_max || found.iter().map(|s| s.text.len()).sum::<usize>() >= text_bytes_max);
    }

    #[test]
    fn no_bytes_panic_and_cutting_makes_no_difference(
        body in any_body(),
        style in 0u8..8,
        sizes in any_sizes(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = body.written(style).into_bytes();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        let (whole, _) = scan_with(&bytes, &[], usize::MAX, Limits::default());
        let (cut, _) = scan_with(&bytes, &sizes, usize::MAX, Limits::default());
        prop_assert_eq!(std::mem::discriminant(&whole.outcome), std::mem::discriminant(&cut.outcome));
        prop_assert_eq!(whole.fields, cut.fields);
    }
}

/// S01: one text, however it is divided into parts, is one segment.
#[test]
fn text_parts_equal_the_plain_string() {
    let plain = segments(r#"{"messages":[{"role":"user","content":"T1T2"}]}"#);
    assert_eq!(plain, [text_segment("user", "T1T2")]);
    for content in [
        r#"[{"type":"text","text":"T1T2"}]"#,
        r#"[{"text":"T1","type":"text"},{"type":"text","text":"T2"}]"#,
        r#"["T1","T2"]"#,
        r#"[{"type":"text","text":"T1","cache_control":{"type":"ephemeral"}},{"type":"text","text":"\u00542"}]"#,
        r#"[{"type":"text","text":null,"text":"T1"},null,7,[["x"]],"T2"]"#,
    ] {
        assert_eq!(segments(&format!(r#"{{"messages":[{{"role":"user","content":{content}}}]}}"#)), plain, "{content}");
    }
}

/// S01: images between texts are part of the prompt's identity, not of its text.
#[test]
fn media_is_told_apart_from_text() {
    let body = |image: &str, role_first: bool| {
        let content = format!(
            r#""content":[{{"type":"text","text":"a"}},{{"type":"image_url","image_url":{{"url":"{image}","detail":"low"}}}},"b"]"#
        );
        if role_first {
            format!(r#"{{"messages":[{{"role":"user",{content}}}]}}"#)
        } else {
            format!(r#"{{"messages":[{{{content},"role":"user"}}]}}"#)
        }
    };
    let segment = |media: &[u8]| [Segment { media: media.to_vec(), ..text_segment("user", "ab") }];
    for role_first in [true, false] {
        assert_eq!(segments(&body("data:1", role_first)), segment(b"data:1\xfflow\xff"));
        assert_eq!(segments(&body("data:2", role_first)), segment(b"data:2\xfflow\xff"));
    }
}

/// S02, S03: histories with tools are read whatever their content is, and null equals missing.
#[test]
fn tool_histories_are_read() {
    let expected = [text_segment("assistant", ""), text_segment("tool", "42")];
    for content in [r#""content":null,"#, "", r#""content":"","#, r#""content":[],"#, r#""content":{"text":"x"},"#] {
        let body = format!(
            r#"{{"messages":[{{"role":"assistant",{content}"tool_calls":[{{"function":{{"name":"f","arguments":null}}}}]}},
               {{"role":"tool","tool_call_id":"x","content":[{{"type":"text","text":"42"}}]}}]}}"#
        );
        assert_eq!(segments(&body), expected, "{content}");
    }
}

/// S06: a prompt of any form has segments; the empty forms have no text.
#[test]
fn every_form_of_prompt_is_read() {
    let table = [
        (r#""ab""#, vec![text_segment("", "ab")]),
        (r#"["a","b"]"#, vec![text_segment("", "a"), text_segment("", "b")]),
        ("[1,2,3]", vec![id_segment(&[1, 2, 3])]),
        ("[[1,2],[3]]", vec![id_segment(&[1, 2]), id_segment(&[3])]),
        (r#"[1,2,"a",3,[4]]"#, vec![id_segment(&[1, 2]), text_segment("", "a"), id_segment(&[3]), id_segment(&[4])]),
        ("[4294967295,4294967296,-1,1.5]", vec![id_segment(&[u32::MAX])]),
        ("[]", vec![]),
        (r#""""#, vec![text_segment("", "")]),
    ];
    for (prompt, expected) in table {
        let (scan, segments) = scan(&format!(r#"{{"prompt":{prompt},"model":"m"}}"#));
        assert_eq!((scan.shape, scan.outcome), (Shape::Completion, Outcome::Complete));
        assert_eq!(scan.fields.model.as_deref(), Some("m"));
        assert_eq!(segments, expected, "{prompt}");
    }
    let many: Vec<u32> = (0..1000).collect();
    let body = format!(r#"{{"prompt":{}}}"#, serde_json::to_string(&many).unwrap());
    assert_eq!(segments(&body), [id_segment(&many)]);
}

/// S16, S18: boundaries and roles are told, and characters survive any cut.
#[test]
fn boundaries_between_messages_are_told() {
    let chat = |messages: &str| segments(&format!(r#"{{"messages":[{messages}]}}"#));
    let ab_c = chat(r#"{"role":"user","content":"ab"},{"role":"user","content":"c"}"#);
    let a_bc = chat(r#"{"role":"user","content":"a"},{"role":"user","content":"bc"}"#);
    assert_ne!(ab_c, a_bc);
    assert_ne!(chat(r#"{"role":"system","content":"x"}"#), chat(r#"{"role":"user","content":"x"}"#));
    for pad in 250..260 {
        let text = format!("{}漢😀e\u{301}", "a".repeat(pad));
        assert_eq!(chat(&format!(r#"{{"content":"{text}","role":"user"}}"#)), [text_segment("user", &text)]);
    }
}

/// S12, S21: bodies without a prompt are told apart, never an error.
#[test]
fn bodies_without_a_prompt_have_an_outcome() {
    let deep = format!(r#"{{"messages":{}"#, "[".repeat(200));
    let table = [
        ("{}", Outcome::Complete),
        (r#"{"model":"m"}"#, Outcome::Complete),
        (r#"{"input":["a","b"]}"#, Outcome::Complete),
        (r#"{"messages":null,"prompt":null}"#, Outcome::Complete),
        ("[1]", Outcome::NotAnObject),
        ("\"x\"", Outcome::NotAnObject),
        ("7", Outcome::NotAnObject),
        ("", Outcome::Empty),
        (" \n", Outcome::Empty),
        ("--boundary\r\n", Outcome::Malformed { offset: 1 }),
        ("model=m&x=y", Outcome::Malformed { offset: 0 }),
        (r#"{"model":"m""#, Outcome::Truncated),
        (&deep, Outcome::TooDeep),
    ];
    for (body, outcome) in table {
        let (scan, segments) = scan(body);
        assert_eq!(scan.outcome, outcome, "{body}");
        assert!(segments.is_empty(), "{body}");
    }
}

#[test]
fn what_came_before_the_damage_is_kept() {
    let (scan, segments) = scan(r#"{"model":"m","messages":[{"role":"user","content":"a"},}"#);
    assert_eq!(scan.outcome, Outcome::Malformed { offset: 55 });
    assert_eq!(scan.fields.model.as_deref(), Some("m"));
    assert_eq!(segments, [text_segment("user", "a")]);
}

#[test]
fn text_given_twice_is_ambiguous() {
    let user = r#"{"role":"user","content":"a"}"#;
    let table = [
        format!(r#"{{"messages":[{user}],"messages":[{user}]}}"#),
        format!(r#"{{"messages":[{user}],"messages":null}}"#),
        format!(r#"{{"messages":[{user}],"prompt":"p"}}"#),
        r#"{"messages":[{"role":"user","content":"a","content":"b"}]}"#.to_owned(),
        r#"{"messages":[{"role":"user","content":"a","content":null}]}"#.to_owned(),
        r#"{"messages":[{"role":"user","content":"a","role":"system"}]}"#.to_owned(),
        r#"{"messages":[{"role":"user","content":[{"text":"a","text":"b"}]}]}"#.to_owned(),
    ];
    for body in table {
        let (scan, segments) = scan(&body);
        assert_eq!(scan.outcome, Outcome::Ambiguous, "{body}");
        assert_eq!(segments, [text_segment("user", "a")], "{body}");
    }
    // Only what carries no text was given twice.
    for body in [
        format!(r#"{{"messages":[{user}],"prompt":null}}"#),
        format!(r#"{{"prompt":null,"messages":7,"messages":[{user}]}}"#),
        r#"{"messages":[{"role":"system","role":"user","content":null,"content":"a"}]}"#.to_owned(),
    ] {
        assert_eq!(segments(&body), [text_segment("user", "a")], "{body}");
    }
}

#[test]
fn text_held_for_its_role_is_bounded() {
    let body = |bytes: usize| {
        let text = "x".repeat(bytes);
        format!(
            r#"{{"messages":[{{"role":"system","content":"s"}},{{"content":"{text}","role":"user"}}],"model":"m"}}"#
        )
    };
    let limits = Limits { held_bytes_max: 1000 };
    for (bytes, outcome, count) in [(900, Outcome::Complete, 2), (1001, Outcome::HeldTooLong, 1)] {
        let (scan, segments) = scan_with(body(bytes).as_bytes(), &[7], usize::MAX, limits);
        assert_eq!((scan.outcome, segments.len()), (outcome, count));
        assert_eq!(scan.fields.model.as_deref(), Some("m"));
    }
    let alternating = r#"{"text":"t"},{"uuid":"u"},"#.repeat(100);
    let body = format!(r#"{{"messages":[{{"content":[{alternating}null],"role":"user"}}]}}"#);
    assert_eq!(scan_with(body.as_bytes(), &[], usize::MAX, limits).0.outcome, Outcome::HeldTooLong);
}

#[test]
fn a_sink_that_is_filled_by_held_text_gets_no_more() {
    let body = r#"{"messages":[{"content":["abc",{"uuid":"u"},"def"],"role":"user"},{"content":"g"}]}"#;
    let (scan, segments) = scan_with(body.as_bytes(), &[], 3, Limits::default());
    assert_eq!(scan.outcome, Outcome::Complete);
    assert_eq!(segments, [text_segment("user", "abc")]);
}

#[test]
fn fields_follow_the_last_member_of_their_name() {
    let fields = |body: &str| scan(body).0.fields;
    assert_eq!(fields(r#"{"model":"a","model":"b"}"#).model.as_deref(), Some("b"));
    assert_eq!(fields(r#"{"model":"a","model":5}"#).model, None);
    assert_eq!(fields(r#"{"model":""}"#).model.as_deref(), Some(""));
    assert_eq!(fields(r#"{"m\u006fdel":"a"}"#).model.as_deref(), Some("a"));
    assert_eq!(fields(r#"{"x":{"model":"a"}}"#).model, None);
    assert_eq!(fields(r#"{"max_tokens":5}"#).max_tokens, Some(5));
    assert_eq!(fields(r#"{"max_completion_tokens":7,"max_tokens":5}"#).max_tokens, Some(7));
    assert_eq!(fields(r#"{"max_tokens":5,"max_tokens":-5}"#).max_tokens, None);
    assert!(fields(r#"{"stream":true}"#).stream);
    assert!(!fields(r#"{"stream":true,"stream":"true"}"#).stream);
    assert!(fields(r#"{"stream_options":{"x":{"include_usage":false},"include_usage":true}}"#).include_usage);
    assert!(!fields(r#"{"stream_options":{"include_usage":true},"stream_options":null}"#).include_usage);
    assert!(!fields(r#"{"include_usage":true}"#).include_usage);
}

#[test]
fn an_oversized_field_is_absent_and_flagged() {
    for (bytes, kept) in [(FIELD_BYTES_MAX, true), (FIELD_BYTES_MAX + 1, false), (1 << 20, false)] {
        let (scan, _) = scan(&format!(r#"{{"cache_salt":"{}","model":"m"}}"#, "x".repeat(bytes)));
        assert_eq!((scan.fields.cache_salt.is_some(), scan.fields.oversized), (kept, !kept), "{bytes}");
        assert_eq!(scan.fields.model.as_deref(), Some("m"));
    }
}
