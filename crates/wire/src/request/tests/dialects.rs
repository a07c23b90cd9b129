//! The same conversation in every API's words.

use super::*;

/// S19: a Responses request is routed as the chat request that says the same.
#[test]
fn equal_chat_and_responses_requests_give_equal_calls() {
    let cases = [
        (
            r#"[{"role":"user","content":"hi"}]"#,
            vec![
                r#""input":"hi""#,
                r#""input":[{"role":"user","content":"hi"}]"#,
                r#""instructions":null,"input":"hi""#,
            ],
        ),
        (
            r#"[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]"#,
            vec![
                r#""instructions":"be brief","input":"hi""#,
                r#""input":"hi","instructions":"be brief""#,
                r#""input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}],"instructions":"be brief""#,
            ],
        ),
        (
            r#"[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{}]},
               {"role":"tool","tool_call_id":"1","content":"42"},{"role":"assistant","content":"so"},
               {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:1"}}]}]"#,
            vec![
                r#""input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
               {"type":"function_call_output","call_id":"1","output":"42"},
               {"type":"message","role":"assistant","content":[{"type":"output_text","text":"so","annotations":[]}]},
               {"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:1"}]}]"#,
                r#""input":[{"content":"hi","role":"user"},{"arguments":"{}","type":"function_call"},
               {"output":[{"type":"input_text","text":"42"}],"type":"function_call_output"},
               {"content":[{"text":"so"}],"role":"assistant"},
               {"content":["look",{"image_url":"data:1"}],"role":"user"}]"#,
            ],
        ),
    ];
    for (messages, responses) in cases {
        let expected = segments_of(Dialect::Chat, &format!(r#"{{"messages":{messages}}}"#));
        for response in responses {
            assert_eq!(segments_of(Dialect::Responses, &format!("{{{response}}}")), expected, "{response}");
        }
    }
}

#[test]
fn equal_chat_and_anthropic_requests_give_equal_calls() {
    let cases = [
        (
            r#"[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},{"role":"assistant","content":"so"}]"#,
            r#"[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"so"}]}]"#,
        ),
        (
            r#"[{"role":"system","content":"be brief"},{"role":"user","content":"sunny, warm!"}]"#,
            r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"sunny"},
               {"type":"tool_result","content":[{"type":"text","text":", warm"}]},{"type":"text","text":"!"}]}]"#,
        ),
    ];
    let system = r#""system":[{"type":"text","text":"be ","cache_control":{"type":"ephemeral"}},{"type":"text","text":"brief"}]"#;
    for (chat, messages) in cases {
        let expected = segments_of(Dialect::Chat, &format!(r#"{{"messages":{chat}}}"#));
        for body in [
            format!(r#"{{"system":"be brief","messages":{messages}}}"#),
            format!(r#"{{"max_tokens":5,"messages":{messages},"model":"m",{system}}}"#),
        ] {
            assert_eq!(segments_of(Dialect::Messages, &body), expected, "{body}");
        }
    }
}

/// S01: an image of whatever API takes part with its bytes.
#[test]
fn images_of_every_api_take_part() {
    let anthropic = |data: &str| {
        let part =
            format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#);
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":[{part},{{"type":"tool_result","content":[{part}]}}]}}]}}"#
        );
        let (scan, segments) = scan_dialect(Dialect::Messages, &body);
        assert!(scan.fields.has_image && !scan.fields.has_audio);
        segments
    };
    let once = b"base64\xffimage/png\xffAA\xff";
    assert_eq!(anthropic("AA"), [Segment { media: [&once[..], once].concat(), ..text_segment("user", "") }]);
    assert_ne!(anthropic("AA"), anthropic("AB"));
}

#[test]
fn a_replica_s_modality_can_be_chosen_by_what_the_parts_are() {
    let chat = |part: &str| {
        let (scan, _) = scan(&format!(r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#));
        (scan.fields.has_image, scan.fields.has_audio)
    };
    for (part, expected) in [
        (r#"{"type":"text","text":"image_url"}"#, (false, false)),
        (r#"{"type":"text","text":"a","image_url":null}"#, (false, false)),
        (r#"{"type":"image_url","image_url":{"url":"u"}}"#, (true, false)),
        (r#"{"image_url":"u"}"#, (true, false)),
        (r#"{"file_id":"f","type":"input_image"}"#, (true, false)),
        (r#"{"type":"input_audio","input_audio":{"data":"d","format":"wav"}}"#, (false, true)),
        (r#"{"audio_url":{"url":"u"}},{"image":"i"}"#, (true, true)),
        (r#"{"type":"file","file":{"file_id":"f"}}"#, (false, false)),
        (r#"{"type":"input_image_of_a_name_longer_than_any_known"}"#, (false, false)),
    ] {
        assert_eq!(chat(part), expected, "{part}");
    }
}

/// S07: ids are ids, not many inputs.
#[test]
fn every_form_of_input_to_embed_is_read() {
    for (input, expected) in [
        (r#""a""#, vec![text_segment("", "a")]),
        (r#"["a","b"]"#, vec![text_segment("", "a"), text_segment("", "b")]),
        ("[5,6,7]", vec![id_segment(&[5, 6, 7])]),
        ("[[5,6],[7]]", vec![id_segment(&[5, 6]), id_segment(&[7])]),
        ("[]", vec![]),
    ] {
        let body = format!(r#"{{"input":{input},"encoding_format":"base64","model":"m"}}"#);
        let (scan, segments) = scan_dialect(Dialect::Embeddings, &body);
        assert_eq!((scan.shape, scan.outcome), (Shape::Completion, Outcome::Complete), "{input}");
        assert_eq!(segments, expected, "{input}");
    }
}

/// S83: where the path says nothing, what stands beside an input tells what it is.
#[test]
fn an_input_is_of_a_conversation_or_to_be_embedded() {
    for (members, shape) in [
        (r#""input":"a""#, Shape::Embedding),
        (r#""input":["a","b"],"model":"m","encoding_format":"float","dimensions":8"#, Shape::Embedding),
        (r#""input":[1,2]"#, Shape::Embedding),
        (r#""input":[[1],[2]],"stream":false,"tools":[],"instructions":null"#, Shape::Embedding),
        (r#""input":[{"role":"user","content":"a"}]"#, Shape::Response),
        (r#""input":"a","instructions":"b""#, Shape::Response),
        (r#""stream":true,"input":"a""#, Shape::Response),
        (r#""max_output_tokens":5,"input":"a""#, Shape::Response),
        (r#""input":"a","tools":[{}]"#, Shape::Response),
        (r#""input":"a","previous_response_id":"r""#, Shape::Response),
        (r#""input":"a","conversation":{"id":"c"}"#, Shape::Response),
        (r#""input":{"a":1}"#, Shape::Other),
        (r#""prompt":"a","instructions":"b""#, Shape::Completion),
    ] {
        let (scan, _) = scan_dialect(Dialect::Auto, &format!("{{{members}}}"));
        assert_eq!((scan.shape, scan.outcome), (shape, Outcome::Complete), "{members}");
    }
    let items = r#"{"input":["a",{"role":"user","content":"b"},{"type":"function_call_output","output":"c"},"d"]}"#;
    let expected = [text_segment("", "a"), text_segment("user", "b"), text_segment("tool", "c")];
    assert_eq!(segments_of(Dialect::Auto, items), expected);
}

/// What another API would read as the prompt is an unknown member here.
#[test]
fn a_path_says_which_members_are_the_prompt() {
    let body =
        r#"{"prompt":"p","messages":[{"role":"user","content":"m"}],"input":"i","system":"s","instructions":"n"}"#;
    for (dialect, expected) in [
        (Dialect::Chat, vec![text_segment("user", "m")]),
        (Dialect::Completions, vec![text_segment("", "p")]),
        (Dialect::Responses, vec![text_segment("system", "n"), text_segment("user", "i")]),
        (Dialect::Messages, vec![text_segment("system", "s"), text_segment("user", "m")]),
    ] {
        assert_eq!(segments_of(dialect, body), expected, "{dialect:?}");
    }
    assert_eq!(scan_dialect(Dialect::Auto, body).0.outcome, Outcome::Ambiguous);
    assert_eq!(scan_dialect(Dialect::Embeddings, body).0.outcome, Outcome::Ambiguous);
}

#[test]
fn a_system_text_given_twice_is_ambiguous() {
    let (user, s) = (r#""messages":[{"role":"user","content":"u"}]"#, r#""system":"s""#);
    let (system, conversation) = (text_segment("system", "s"), text_segment("user", "u"));
    for (body, expected) in [
        (format!("{{{s},{s},{user}}}"), vec![system.clone()]),
        (format!("{{{s},{user},{s}}}"), vec![system.clone(), conversation.clone()]),
        (format!("{{{user},{s},\"system\":null}}"), vec![system.clone(), conversation.clone()]),
        (format!(r#"{{{user},"system":[{{"text":"s","text":"t"}},"more"]}}"#), vec![system.clone()]),
        // The conversation had ended already; the system text still comes before what there is of it.
        (
            format!(r#"{{"messages":[{{"role":"user","content":"u","content":"v"}}],{s}}}"#),
            vec![system.clone(), conversation.clone()],
        ),
    ] {
        let (scan, segments) = scan_dialect(Dialect::Messages, &body);
        assert_eq!((scan.outcome, segments), (Outcome::Ambiguous, expected), "{body}");
    }
}

#[test]
fn an_item_s_own_role_wins_over_the_one_its_type_implies() {
    let items = |items: &str| scan_dialect(Dialect::Responses, &format!(r#"{{"input":[{items}]}}"#));
    for item in [
        r#"{"type":"function_call_output","role":"user","output":"x"}"#,
        r#"{"role":"user","type":"function_call_output","output":"x"}"#,
        r#"{"output":"x","role":"user","type":"function_call_output"}"#,
    ] {
        assert_eq!(items(item).1, [text_segment("user", "x")], "{item}");
    }
    let (scan, segments) = items(r#"{"type":"function_call_output","output":"x","role":"user"}"#);
    assert_eq!((scan.outcome, segments), (Outcome::Ambiguous, vec![text_segment("tool", "x")]));
}

#[test]
fn what_waits_for_a_system_text_is_bounded_and_stays_a_beginning() {
    let limits = Limits { waiting_bytes_max: 1000, ..Limits::default() };
    let long = "x".repeat(5000);
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"a"}},{{"role":"user","content":"{long}"}},{{"role":"user","content":"c"}}],"system":"s","model":"m"}}"#
    );
    let (scan, segments) = scan_as(Dialect::Messages, body.as_bytes(), &[100], usize::MAX, limits);
    assert_eq!(scan_as(Dialect::Messages, body.as_bytes(), &[], usize::MAX, limits).1, segments);
    assert_eq!((scan.outcome, scan.fields.model.as_deref()), (Outcome::Complete, Some("m")));
    assert_eq!(segments[..2], [text_segment("system", "s"), text_segment("user", "a")]);
    assert!(segments.len() == 3 && segments[2].text.len() < 1000 && long.starts_with(&segments[2].text));
    let many = r#"{"role":"user","content":"a"},"#.repeat(1000);
    let body = format!(r#"{{"messages":[{many}null]}}"#);
    let (_, segments) = scan_as(Dialect::Messages, body.as_bytes(), &[], usize::MAX, limits);
    assert!(segments.len() < 100, "the cost of segments counts: {}", segments.len());
    // Before its system text nothing need wait, so nothing is cut.
    let body = format!(r#"{{"system":"s","messages":[{{"role":"user","content":"{long}"}}]}}"#);
    assert_eq!(scan_as(Dialect::Messages, body.as_bytes(), &[], usize::MAX, limits).1[1].text, long);
}

#[test]
fn fields_of_the_newer_apis_are_read() {
    let fields = |body: &str| scan_dialect(Dialect::Responses, body).0.fields;
    assert_eq!(fields(r#"{"conversation":"c1"}"#).conversation.as_deref(), Some("c1"));
    assert_eq!(fields(r#"{"conversation":{"x":{"id":"no"},"id":"c2"}}"#).conversation.as_deref(), Some("c2"));
    assert_eq!(fields(r#"{"conversation":{"id":"c"},"conversation":null}"#).conversation, None);
    assert_eq!(fields(r#"{"session_id":"s"}"#).session_id.as_deref(), Some("s"));
    assert_eq!(fields(r#"{"max_output_tokens":9,"max_tokens":5}"#).max_tokens, Some(9));
    assert_eq!(fields(r#"{"n":3}"#).n, Some(3));
    for (tools, present) in [("[]", false), ("null", false), ("{}", false), ("[{}]", true), ("[null,1]", true)] {
        assert_eq!(fields(&format!(r#"{{"tools":{tools}}}"#)).tools, present, "{tools}");
    }
    assert!(!fields(r#"{"tools":[1],"tools":null}"#).tools);
}
