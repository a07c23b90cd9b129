//! A walk over `serde_json::Value` is the oracle.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use super::*;
use crate::testing::{Json, any_json, any_sizes, any_text};

const FIELD_NAMES: [&str; 6] =
    ["model", "prompt_cache_key", "previous_response_id", "cache_salt", "conversation", "session_id"];
const TEXT_NAMES: [&str; 5] = ["messages", "prompt", "input", "instructions", "system"];
const IMAGE_NAMES: [&str; 4] = ["image_url", "image", "image_embeds", "image_pil"];
const AUDIO_NAMES: [&str; 4] = ["input_audio", "audio", "audio_url", "audio_embeds"];

/// The rules of the module's header over a document.
fn oracle(dialect: Dialect, body: &Value) -> (Fields, Shape, Vec<Segment>) {
    let string = |name: &str| body[name].as_str().filter(|text| text.len() <= FIELD_BYTES_MAX).map(str::to_owned);
    let (shape, mut segments) = conversation(dialect, body);
    let system = match dialect {
        Dialect::Responses => &body["instructions"],
        Dialect::Messages => &body["system"],
        _ => &Value::Null,
    };
    if let Value::String(_) | Value::Array(_) = system {
        segments.insert(0, text_segment("system", &content(dialect, system)));
    }
    let mut media = (false, false);
    let (conversations, systems) = match dialect {
        Dialect::Auto if shape == Shape::Response => (&body["input"], &Value::Null),
        Dialect::Auto | Dialect::Chat | Dialect::Embeddings => (&body["messages"], &Value::Null),
        Dialect::Responses => (&body["input"], system),
        Dialect::Messages => (&body["messages"], system),
        Dialect::Completions => (&Value::Null, &Value::Null),
    };
    let is_chat = matches!(shape, Shape::Chat | Shape::Response);
    let messages = if is_chat { conversations.as_array().map_or(&[][..], Vec::as_slice) } else { &[] };
    for message in messages {
        let has_items = dialect == Dialect::Responses || shape == Shape::Response;
        let content = if has_items { message.get("output") } else { None };
        find_media(dialect, content.unwrap_or(&message["content"]), &mut media);
    }
    find_media(Dialect::Chat, systems, &mut media);
    let number = |name: &str| body[name].as_u64();
    let fields = Fields {
        model: string("model"),
        stream: body["stream"].as_bool().unwrap_or(false),
        include_usage: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
        prompt_cache_key: string("prompt_cache_key"),
        previous_response_id: string("previous_response_id"),
        cache_salt: string("cache_salt"),
        conversation: string("conversation")
            .or(body["conversation"]["id"].as_str().filter(|id| id.len() <= FIELD_BYTES_MAX).map(str::to_owned)),
        session_id: string("session_id"),
        max_tokens: number("max_completion_tokens").or(number("max_output_tokens")).or(number("max_tokens")),
        n: number("n"),
        tools: body["tools"].as_array().is_some_and(|tools| !tools.is_empty()),
        has_image: media.0,
        has_audio: media.1,
        oversized: FIELD_NAMES.iter().any(|name| body[name].as_str().is_some_and(|text| text.len() > FIELD_BYTES_MAX)),
    };
    (fields, shape, segments)
}

fn conversation(dialect: Dialect, body: &Value) -> (Shape, Vec<Segment>) {
    let items = |items: &Vec<Value>| {
        items.iter().filter(|item| item.is_object()).map(|item| message_segment(dialect, item)).collect()
    };
    let chat = |name: &str| body[name].as_array().map(|messages| (Shape::Chat, items(messages)));
    let prompt = |name: &str| match &body[name] {
        prompt @ (Value::String(_) | Value::Array(_)) => Some((Shape::Completion, prompt_segments(prompt))),
        _ => None,
    };
    let found = match dialect {
        Dialect::Auto => chat("messages").or(prompt("prompt")).or_else(|| input(body)),
        Dialect::Chat | Dialect::Messages => chat("messages"),
        Dialect::Completions => prompt("prompt"),
        Dialect::Embeddings => chat("messages").or(prompt("input")),
        Dialect::Responses => match &body["input"] {
            Value::String(text) => Some((Shape::Chat, vec![text_segment("user", text)])),
            _ => chat("input"),
        },
    };
    found.unwrap_or((Shape::Other, vec![]))
}

/// The `input` of a body whose path says nothing: from the first object on, an array has items.
fn input(body: &Value) -> Option<(Shape, Vec<Segment>)> {
    let (segments, has_items) = match &body["input"] {
        Value::Array(elements) => {
            let first = elements.iter().position(Value::is_object).unwrap_or(elements.len());
            let mut segments = prompt_segments(&Value::Array(elements[..first].to_vec()));
            let items = elements[first..].iter().filter(|item| item.is_object());
            segments.extend(items.map(|item| message_segment(Dialect::Responses, item)));
            (segments, first < elements.len())
        }
        text @ Value::String(_) => (prompt_segments(text), false),
        _ => return None,
    };
    let is_there = |name: &str| body[name].is_string() || body[name].is_array();
    let short = |value: &Value| value.as_str().is_some_and(|text| text.len() <= FIELD_BYTES_MAX);
    let is_conversation = has_items
        || is_there("instructions")
        || body["stream"] == true
        || body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
        || ["max_tokens", "max_output_tokens", "max_completion_tokens"].iter().any(|name| body[*name].is_u64())
        || short(&body["previous_response_id"])
        || short(&body["conversation"])
        || short(&body["conversation"]["id"]);
    Some((if is_conversation { Shape::Response } else { Shape::Embedding }, segments))
}

fn message_segment(dialect: Dialect, message: &Value) -> Segment {
    let is_item = dialect == Dialect::Responses;
    let text = if is_item && message["output"] != Value::Null { &message["output"] } else { &message["content"] };
    let implied = match message["type"].as_str() {
        Some(name) if is_item && name.ends_with("_output") => "tool",
        Some(name) if is_item && (name.ends_with("_call") || name == "reasoning") => "assistant",
        _ => "",
    };
    let role = message["role"].as_str().unwrap_or(implied);
    let cut = &role.as_bytes()[..role.len().min(ROLE_BYTES_MAX)];
    text_segment(&String::from_utf8_lossy(cut), &content(dialect, text))
}

fn content(dialect: Dialect, content: &Value) -> String {
    let part_text = |part: &Value| match &part["content"] {
        Value::String(text) if dialect == Dialect::Messages => text.clone(),
        parts @ Value::Array(_) if dialect == Dialect::Messages => self::content(Dialect::Chat, parts),
        _ => part.as_str().or(part["text"].as_str()).unwrap_or_default().to_owned(),
    };
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(part_text).collect(),
        _ => String::new(),
    }
}

/// Whether some part is an image, or sound.
fn find_media(dialect: Dialect, content: &Value, (image, audio): &mut (bool, bool)) {
    for part in content.as_array().map_or(&[][..], Vec::as_slice).iter().filter(|part| part.is_object()) {
        let has = |name: &&str| matches!(part[name], Value::String(_) | Value::Array(_) | Value::Object(_));
        let part_type = part["type"].as_str().unwrap_or_default();
        *image |= IMAGE_NAMES.iter().any(has) || part_type == "input_image" || IMAGE_NAMES.contains(&part_type);
        *audio |= AUDIO_NAMES.iter().any(has) || AUDIO_NAMES.contains(&part_type);
        if dialect == Dialect::Messages {
            let mut inner = (false, false);
            find_media(Dialect::Chat, &part["content"], &mut inner);
            (*image, *audio) = (*image || inner.0, *audio || inner.1);
        }
    }
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

fn member<S: Strategy<Value = Json>>(name: &str, value: S) -> impl Strategy<Value = Vec<(String, Json)>> + use<S> {
    let name = name.to_owned();
    value.prop_map(move |value| vec![(name.clone(), value)])
}

fn shuffled(members: impl Strategy<Value = Vec<(String, Json)>>) -> impl Strategy<Value = Json> {
    members.prop_flat_map(|members| Just(members).prop_shuffle().prop_map(Json::Object))
}

fn any_text_part() -> impl Strategy<Value = Json> {
    (any_text(), any_members(&["type", "cache_control"])).prop_map(|(text, mut members)| {
        members.insert(members.len() / 2, ("text".to_owned(), Json::Text(text)));
        Json::Object(members)
    })
}

fn any_media_part() -> impl Strategy<Value = Json> {
    let type_name =
        select([&IMAGE_NAMES[..], &AUDIO_NAMES, &["input_image", "input_file", "text", "video_url"]].concat());
    let media_name = select([&IMAGE_NAMES[..], &AUDIO_NAMES, &["source", "file_id", "video"]].concat());
    shuffled((prop::option::of(type_name), prop::option::of(media_name), any_json()).prop_map(|(kind, name, value)| {
        let kind = kind.map(|kind| ("type".to_owned(), Json::text(kind)));
        kind.into_iter().chain(name.map(|name| (name.to_owned(), value))).collect()
    }))
}

fn any_part() -> impl Strategy<Value = Json> {
    prop_oneof![
        3 => any_text_part(),
        1 => any_text().prop_map(Json::Text),
        1 => any_json_without_text(),
        1 => any_media_part(),
    ]
}

fn any_content() -> impl Strategy<Value = Json> {
    let inner = prop::collection::vec(any_part(), 0..3).prop_map(Json::Array);
    let result = member("content", prop_oneof![any_text().prop_map(Json::Text), inner]);
    let result = shuffled((result, any_members(&["type", "tool_use_id"])).prop_map(|(a, b)| [a, b].concat()));
    let part = prop_oneof![5 => any_part(), 1 => result];
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
fn any_members(names: &[&str]) -> impl Strategy<Value = Vec<(String, Json)>> + Clone + use<> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let name = prop_oneof![select(names), any_text().prop_map(|text| format!("x{text}"))];
    prop::collection::vec((name, any_json()), 0..3)
}

fn any_message() -> impl Strategy<Value = Json> {
    let role = prop_oneof![4 => "system|user|assistant|tool".prop_map(Json::Text), 1 => any_json()];
    let role = prop::option::of(role).prop_map(|role| role.map(|role| ("role".to_owned(), role)));
    let content = prop::option::of(any_content()).prop_map(|content| content.map(|json| ("content".to_owned(), json)));
    let message = (role, content, any_members(&["tool_calls", "name"]));
    shuffled(message.prop_map(|(role, content, others)| role.into_iter().chain(content).chain(others).collect()))
}

/// An item of the Responses API that is no message.
fn any_item() -> impl Strategy<Value = Json> {
    let kind = select(vec!["function_call_output", "function_call", "reasoning", "item_reference", "message"]);
    let text = prop_oneof![3 => member("output", any_content()), 1 => member("content", any_content())];
    let item = (member("type", kind.prop_map(Json::text)), text, any_members(&["call_id", "arguments"]));
    shuffled(item.prop_map(|(kind, text, others)| [kind, text, others].concat()))
}

fn any_prompt() -> impl Strategy<Value = Json> {
    prop_oneof![
        any_text().prop_map(Json::Text),
        any_json().prop_map(|json| Json::Array(vec![json])),
        prop::collection::vec(any_json(), 0..6).prop_map(Json::Array),
    ]
}

fn any_messages() -> impl Strategy<Value = Json> {
    prop::collection::vec(prop_oneof![8 => any_message(), 1 => any_json()], 0..5).prop_map(Json::Array)
}

fn any_items() -> impl Strategy<Value = Json> {
    let item = prop_oneof![4 => any_message(), 4 => any_item(), 1 => any_json()];
    let items = prop::collection::vec(item, 0..5).prop_map(Json::Array);
    prop_oneof![3 => items, 1 => any_text().prop_map(Json::Text)]
}

/// The members that hold a prompt of the dialect, and others of which it knows nothing.
fn any_text_members(dialect: Dialect) -> BoxedStrategy<Vec<(String, Json)>> {
    let names: &[&str] = match dialect {
        Dialect::Auto => &["messages", "prompt", "input"],
        Dialect::Chat => &["messages"],
        Dialect::Completions => &["prompt"],
        Dialect::Responses => &["input", "instructions"],
        Dialect::Messages => &["messages", "system"],
        Dialect::Embeddings => &["messages", "input"],
    };
    let others: Vec<_> = TEXT_NAMES.into_iter().filter(|name| !names.contains(name)).collect();
    let other = (select(others), any_json()).prop_map(|(name, value)| vec![(name.to_owned(), value)]);
    let text = match dialect {
        Dialect::Auto => {
            let input = prop_oneof![any_prompt(), any_items()];
            let prompt = member("prompt", any_prompt());
            prop_oneof![4 => member("messages", any_messages()), 1 => prompt, 3 => member("input", input)].boxed()
        }
        Dialect::Chat => member("messages", any_messages()).boxed(),
        Dialect::Completions => member("prompt", any_prompt()).boxed(),
        Dialect::Embeddings => {
            prop_oneof![1 => member("messages", any_messages()), 2 => member("input", any_prompt())].boxed()
        }
        Dialect::Responses => with_system("instructions", member("input", any_items())).boxed(),
        Dialect::Messages => with_system("system", member("messages", any_messages())).boxed(),
    };
    (text, prop_oneof![1 => other, 2 => Just(vec![])]).prop_map(|(text, other)| [text, other].concat()).boxed()
}

fn with_system(
    name: &str,
    conversation: impl Strategy<Value = Vec<(String, Json)>>,
) -> impl Strategy<Value = Vec<(String, Json)>> {
    let parts = prop::collection::vec(any_part(), 0..3).prop_map(Json::Array);
    let system = prop_oneof![2 => any_text().prop_map(Json::Text), 1 => parts, 1 => any_json_without_text()];
    (conversation, prop_oneof![2 => member(name, system), 1 => Just(vec![])])
        .prop_map(|(conversation, system)| [conversation, system].concat())
}

fn any_dialect() -> impl Strategy<Value = Dialect> {
    select(&Dialect::ALL[..])
}

fn any_body() -> impl Strategy<Value = (Dialect, Json)> {
    let options = any_members(&["include_usage"]).prop_map(Json::Object);
    let fields = any_members(&[
        "model",
        "stream",
        "prompt_cache_key",
        "previous_response_id",
        "cache_salt",
        "session_id",
        "max_tokens",
        "max_output_tokens",
        "max_completion_tokens",
        "n",
        "tools",
    ]);
    let conversation = member("conversation", prop_oneof![any_json(), any_members(&["id"]).prop_map(Json::Object)]);
    let extra = prop_oneof![member("stream_options", options), conversation, Just(vec![])].boxed();
    any_dialect().prop_flat_map(move |dialect| {
        let members = (any_text_members(dialect), extra.clone(), fields.clone());
        (Just(dialect), shuffled(members.prop_map(|(text, extra, fields)| [text, extra, fields].concat())))
    })
}

/// What does not depend on how much was read, or on values that were overwritten.
fn steady(fields: Fields) -> Fields {
    Fields { oversized: false, has_image: false, has_audio: false, ..fields }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_scan_finds_what_a_walk_over_the_document_finds(
        (dialect, body) in any_body(),
        style in 0u8..8,
        sizes in any_sizes(),
    ) {
        let written = body.written(style);
        let (fields, shape, expected) = oracle(dialect, &serde_json::from_str(&written).unwrap());
        let (scan, mut found) = scan_as(dialect, written.as_bytes(), &sizes, usize::MAX, Limits::default());
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
        (dialect, body) in any_body(),
        style in 0u8..8,
        sizes in any_sizes(),
        text_bytes_max in 1usize..60,
    ) {
        let written = body.written(style);
        let (fields, shape, expected) = oracle(dialect, &serde_json::from_str(&written).unwrap());
        let (scan, found) = scan_as(dialect, written.as_bytes(), &sizes, text_bytes_max, Limits::default());
        prop_assert_eq!((scan.shape, scan.outcome), (shape, Outcome::Complete));
        prop_assert_eq!(steady(scan.fields), steady(fields));
        for (segment, full) in found.iter().zip(&expected) {
            prop_assert_eq!(&segment.role, &full.role);
            let last = segment.text.trim_end_matches('\u{fffd}');
            prop_assert!(full.text.starts_with(last));
        }
        prop_assert!(written_bytes(&expected) < text_bytes_max || written_bytes(&found) >= text_bytes_max);
    }

    #[test]
    fn where_only_the_prompt_is_wanted_what_follows_a_full_sink_is_not_looked_at_in_any_cut(
        (dialect, body) in any_body(),
        style in 0u8..8,
        sizes in any_sizes(),
        text_bytes_max in 1usize..60,
    ) {
        let written = body.written(style);
        let limits = Limits { prompt_only: true, ..Limits::default() };
        let (all, wanted) = scan_as(dialect, written.as_bytes(), &sizes, text_bytes_max, Limits::default());
        let (whole, _) = scan_as(dialect, written.as_bytes(), &[], text_bytes_max, limits);
        let (cut, found) = scan_as(dialect, written.as_bytes(), &sizes, text_bytes_max, limits);
        prop_assert_eq!(&whole, &cut);
        // A second prompt could follow, which would have made it ambiguous.
        prop_assert_eq!((cut.shape, cut.outcome), (all.shape, Outcome::Complete));
        prop_assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(&wanted) {
            prop_assert_eq!(&found.role, &wanted.role);
            // How much more than enough it gets depends on the pieces.
            let ends = [&found.text, &wanted.text].map(|text| text.trim_end_matches('\u{fffd}'));
            prop_assert!(ends[0].starts_with(ends[1]) || ends[1].starts_with(ends[0]));
        }
        let named = |scan: &Scan| scan.fields.model.clone();
        prop_assert!(named(&cut).is_none() || named(&cut) == named(&all));
    }

    #[test]
    fn no_bytes_panic_and_cutting_makes_no_difference(
        (dialect, body) in any_body(),
        style in 0u8..8,
        sizes in any_sizes(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = body.written(style).into_bytes();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        let (whole, _) = scan_as(dialect, &bytes, &[], usize::MAX, Limits::default());
        let (cut, _) = scan_as(dialect, &bytes, &sizes, usize::MAX, Limits::default());
        prop_assert_eq!(std::mem::discriminant(&whole.outcome), std::mem::discriminant(&cut.outcome));
        prop_assert_eq!(whole.fields, cut.fields);
    }

    #[test]
    fn what_may_wait_for_the_system_text_is_a_true_beginning(
        messages in any_messages(),
        style in 0u8..8,
        waiting_bytes_max in 0usize..400,
    ) {
        let system = ("system".to_owned(), Json::text("S"));
        let body = Json::Object(vec![("messages".to_owned(), messages), system]).written(style);
        let limits = Limits { waiting_bytes_max, ..Limits::default() };
        let (_, full) = scan_as(Dialect::Messages, body.as_bytes(), &[], usize::MAX, Limits::default());
        let (scan, cut) = scan_as(Dialect::Messages, body.as_bytes(), &[], usize::MAX, limits);
        prop_assert_eq!(scan.outcome, Outcome::Complete);
        prop_assert_eq!(&cut[0], &text_segment("system", "S"));
        let (last, before) = cut.split_last().unwrap();
        prop_assert_eq!(before, &full[..before.len()]);
        let full_last = &full[before.len()];
        prop_assert_eq!(&last.role, &full_last.role);
        let text = last.text.trim_end_matches('\u{fffd}');
        prop_assert!(full_last.text.starts_with(text));
    }
}
