//! Bodies as they come, and as they should not.

use super::*;

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
    let deep = format!(r#"{{"messages":{}"#, r#"[{"content":"#.repeat(200));
    let deep_elsewhere = format!(r#"{{"x":{}{},"prompt":[]}}"#, "[".repeat(5_000), "]".repeat(5_000));
    let table = [
        ("{}", Outcome::Complete),
        (r#"{"model":"m"}"#, Outcome::Complete),
        (r#"{"messages":null,"prompt":null}"#, Outcome::Complete),
        ("[1]", Outcome::NotAnObject),
        ("\"x\"", Outcome::NotAnObject),
        ("7", Outcome::NotAnObject),
        ("", Outcome::Empty),
        (" \n", Outcome::Empty),
        ("--boundary\r\n", Outcome::Malformed { offset: 1 }),
        ("model=m&x=y", Outcome::Malformed { offset: 0 }),
        (r#"{"model":"m""#, Outcome::Truncated),
        (&deep, Outcome::Truncated),
        (&deep_elsewhere, Outcome::Complete),
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
fn what_came_before_the_end_of_a_truncated_body_is_told_whatever_the_cut() {
    let text = "a\\nb".repeat(400);
    let body = format!(r#"{{"messages":[{{"role":"user","content":"{text}"#);
    for sizes in [&[][..], &[1], &[3, 700]] {
        let mut scanner = RequestScanner::new(Recorder::new(usize::MAX), Limits::default());
        for chunk in chunks(body.as_bytes(), sizes) {
            scanner.feed(chunk);
        }
        let (scan, sink) = scanner.finish();
        assert_eq!((scan.outcome, sink.text.len()), (Outcome::Truncated, text.len()), "{sizes:?}");
    }
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
    let limits = Limits { held_bytes_max: 1000, ..Limits::default() };
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

#[test]
fn a_string_that_is_too_long_to_be_kept_is_judged_the_same_in_every_cut() {
    let long = "x".repeat(3000);
    for body in [
        format!(r#"{{"model":"{long}\q","messages":[]}}"#),
        format!(r#"{{"messages":[{{"role":"{long}\q","content":"a"}}]}}"#),
        format!(r#"{{"messages":[{{"role":"user","content":[{{"type":"{long}\q"}}]}}]}}"#),
    ] {
        for size in [1, 7, 1100, 2000] {
            let (scan, _) = scan_with(body.as_bytes(), &[size], usize::MAX, Limits::default());
            assert!(matches!(scan.outcome, Outcome::Malformed { .. }), "cut by {size}: {:?}", scan.outcome);
            assert!(!scan.fields.oversized);
        }
    }
}
