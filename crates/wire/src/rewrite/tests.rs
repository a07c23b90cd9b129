//! `serde_json` is the oracle for what a changed body says, the splices for what it keeps.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::testing::{Json, any_json, any_sizes, any_text, chunks};

fn rewritten(body: &[u8], sizes: &[usize], edits: &[Edit<'_>]) -> Result<Vec<u8>, RewriteError> {
    let slices = chunks(body, sizes);
    let plan = Plan::new(slices.iter().copied(), edits)?;
    let slices: Vec<_> = slices.into_iter().map(Bytes::copy_from_slice).collect();
    let changed = plan.apply(&slices).concat();
    assert_eq!(plan.body_bytes(body.len() as u64), changed.len() as u64);
    Ok(changed)
}

const MODEL: Edit<'_> = Edit::Replace { name: "model", value: b"\"new\"" };
const STREAM: Edit<'_> = Edit::Set { name: "stream", value: b"true" };
const USAGE: Edit<'_> = Edit::SetIn { object: "stream_options", name: "include_usage", value: b"true" };

fn text(body: &str, edit: Edit<'_>) -> String {
    let whole = rewritten(body.as_bytes(), &[], &[edit]).expect(body);
    for size in 1..5 {
        assert_eq!(rewritten(body.as_bytes(), &[size], &[edit]).as_ref(), Ok(&whole), "cut by {size}: {body}");
    }
    String::from_utf8(whole).unwrap()
}

/// S05, S11: what is not the value itself stays as it was, whatever is unusual about it.
#[test]
fn only_the_value_of_the_member_changes() {
    for (before, after) in [
        (r#"{"model":"old"}"#, r#"{"model":"new"}"#),
        (
            r#" { "a" : 1.0e0 , "model" :  "old"  , "z":[{"model":"x"}] } "#,
            r#" { "a" : 1.0e0 , "model" :  "new"  , "z":[{"model":"x"}] } "#,
        ),
        (r#"{"model":null,"model":{"a":[1]},"m\u006fdel":12}"#, r#"{"model":"new","model":"new","m\u006fdel":"new"}"#),
        (
            r#"{"messages":[{"content":"{\"model\":1}"}],"model":"a\"b"}"#,
            r#"{"messages":[{"content":"{\"model\":1}"}],"model":"new"}"#,
        ),
        (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
        ("{}", "{}"),
    ] {
        assert_eq!(text(before, MODEL), after);
    }
}

#[test]
fn a_member_that_is_not_there_is_added() {
    for (before, after) in [
        ("{}", r#"{"stream":true}"#),
        ("\n{ \n} ", "\n{\"stream\":true \n} "),
        (r#"{ "a":1}"#, r#"{"stream":true, "a":1}"#),
        (r#"{"stream":false,"a":1}"#, r#"{"stream":true,"a":1}"#),
        (r#"{"a":{"stream":1}}"#, r#"{"stream":true,"a":{"stream":1}}"#),
    ] {
        assert_eq!(text(before, STREAM), after);
    }
}

#[test]
fn a_member_of_a_member_is_set_whatever_is_there() {
    for (before, after) in [
        ("{}", r#"{"stream_options":{"include_usage":true}}"#),
        (r#"{"stream_options":null}"#, r#"{"stream_options":{"include_usage":true}}"#),
        (r#"{"stream_options":[{}]}"#, r#"{"stream_options":{"include_usage":true}}"#),
        (r#"{"stream_options":{ }}"#, r#"{"stream_options":{"include_usage":true }}"#),
        (
            r#"{"stream_options":{"x":{"include_usage":0}}}"#,
            r#"{"stream_options":{"include_usage":true,"x":{"include_usage":0}}}"#,
        ),
        (
            r#"{"stream_options":{"include_usage":false,"x":1,"include_usage":null}}"#,
            r#"{"stream_options":{"include_usage":true,"x":1,"include_usage":true}}"#,
        ),
        (
            r#"{"stream_options":{},"stream_options":5}"#,
            r#"{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}"#,
        ),
    ] {
        assert_eq!(text(before, USAGE), after);
    }
}

#[test]
fn a_body_that_cannot_be_changed_is_refused_with_the_reason() {
    let refused = |body: &str| rewritten(body.as_bytes(), &[], &[STREAM]).unwrap_err();
    assert_eq!(refused("[{}]"), RewriteError::NotAnObject);
    assert_eq!(refused("7"), RewriteError::NotAnObject);
    assert!(matches!(refused(r#"{"a":1"#), RewriteError::Json(_)));
    assert!(matches!(refused("{} {}"), RewriteError::Json(_)));
    assert!(matches!(refused(""), RewriteError::Json(_)));
    let body = |times: usize| format!(r#"{{{}"a":1}}"#, r#""stream":1,"#.repeat(times));
    assert!(rewritten(body(OCCURRENCES_MAX).as_bytes(), &[], &[STREAM]).is_ok());
    assert_eq!(refused(&body(OCCURRENCES_MAX + 1)), RewriteError::TooManyOccurrences);
    assert_eq!(refused(&body(100_000)), RewriteError::TooManyOccurrences);
}

#[test]
fn what_stays_is_not_copied() {
    let body = Bytes::from_static(br#"{"a":1,"model":"m","z":2}"#);
    let pieces = Plan::new([&body[..]], &[MODEL]).unwrap().apply(std::slice::from_ref(&body));
    assert_eq!(pieces.len(), 3);
    assert_eq!((pieces[0].as_ptr(), pieces[2].as_ptr()), (body.as_ptr(), body[18..].as_ptr()));
}

fn any_name() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec!["model", "stream", "stream_options", "messages"]);
    prop_oneof![3 => known.prop_map(str::to_owned), 1 => any_text()]
}

fn any_options() -> impl Strategy<Value = Json> {
    let name = prop_oneof![Just("include_usage".to_owned()), any_text()];
    prop::collection::vec((name, any_json()), 0..3).prop_map(Json::Object)
}

/// The edits on a document.
fn edited(mut value: Value) -> Value {
    let body = value.as_object_mut().unwrap();
    if let Some(model) = body.get_mut("model") {
        *model = "new".into();
    }
    body.insert("stream".to_owned(), true.into());
    let options = body.entry("stream_options").or_insert(Value::Null);
    if !options.is_object() {
        *options = serde_json::json!({});
    }
    options["include_usage"] = true.into();
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_changed_body_reads_as_the_changed_document(
        members in prop::collection::vec((any_name(), prop_oneof![any_json(), any_options()]), 0..6),
        style in 0u8..8,
        sizes in any_sizes(),
    ) {
        let body = Json::Object(members).written(style);
        let changed = rewritten(body.as_bytes(), &sizes, &[MODEL, STREAM, USAGE]).unwrap();
        let before: Value = serde_json::from_str(&body).unwrap();
        let after: Value = serde_json::from_slice(&changed).unwrap();
        prop_assert_eq!(after, edited(before));
    }

    #[test]
    fn bytes_outside_the_splices_stay(
        members in prop::collection::vec((any_name(), any_json()), 0..6),
        style in 0u8..8,
    ) {
        let body = Json::Object(members).written(style);
        let plan = Plan::new([body.as_bytes()], &[MODEL, STREAM, USAGE]).unwrap();
        let changed = plan.apply(&[Bytes::from(body.clone())]).concat();
        let (mut rest, mut at) = (&changed[..], 0);
        for splice in plan.splices() {
            let (start, end) = (splice.range.start as usize, splice.range.end as usize);
            prop_assert!(at <= start && start <= end);
            rest = rest.strip_prefix(&body.as_bytes()[at..start]).and_then(|r| r.strip_prefix(&splice.with[..])).unwrap();
            at = end;
        }
        prop_assert_eq!(rest, &body.as_bytes()[at..]);
    }
}
