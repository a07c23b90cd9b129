//! Every format, by what its own documents show of it.

use kvroute_lab::trace::{Content, Field, Format, Kind, ReadOptions, Record, TimeBase};

use crate::trace_reading::read;

/// What a format makes of a text.
fn records(format: Format, text: &str) -> Vec<Record> {
    let (records, summary) = read(text, ReadOptions::default()).unwrap_or_else(|error| panic!("{format}: {error}"));
    assert_eq!(summary.format, Some(format), "{text}");
    assert_eq!(summary.skipped, 0, "{format}: {summary}");
    records
}

/// Its parts in words, for comparing: time, session, model, lengths, content, what was observed.
fn told(record: &Record) -> String {
    let content = match &record.content {
        Content::Text(segments) => {
            let said: Vec<_> = segments.iter().map(|segment| format!("{}:{}", segment.role, segment.text)).collect();
            said.join("|")
        }
        Content::TokenIds(ids) => format!("ids {ids:?}"),
        Content::Blocks(blocks) => format!("{} blocks of {}", blocks.ids.len(), blocks.tokens),
        Content::Unknown => "unknown".to_owned(),
    };
    let mut parts = vec![content];
    let mut part = |name: &str, value: Option<String>| parts.extend(value.map(|value| format!("{name} {value}")));
    part("id", record.id.as_ref().map(ToString::to_string));
    part("at", record.at_ms.map(|ms| format!("{ms}")));
    part("delay", record.delay_ms.map(|ms| format!("{ms}")));
    part("session", record.session.as_ref().map(ToString::to_string));
    part("model", record.model.as_ref().map(ToString::to_string));
    part("tenant", record.tenant.as_ref().map(ToString::to_string));
    part("in", record.input_tokens.map(|tokens| tokens.to_string()));
    part("out", record.output_tokens.map(|tokens| tokens.to_string()));
    part("max", record.output_tokens_max.map(|tokens| tokens.to_string()));
    part("ttft", record.observed.ttft_ms.map(|ms| format!("{ms:.1}")));
    part("e2e", record.observed.e2e_ms.map(|ms| format!("{ms:.1}")));
    part("cached", record.observed.cached_tokens.map(|tokens| tokens.to_string()));
    part("replica", record.observed.replica.as_ref().map(ToString::to_string));
    part("status", record.observed.status.map(|status| status.to_string()));
    parts.join(", ")
}

/// Rows of each format, as in its documents, and what they say.
pub(crate) const CASES: &[(Format, &str, &[&str])] = &[
    (
        Format::Mooncake,
        r#"{"timestamp": 27482, "input_length": 1300, "output_length": 52, "hash_ids": [7, 8, 91]}"#,
        &["3 blocks of 512, at 27482, in 1300, out 52"],
    ),
    (
        Format::Mooncake,
        r#"{"session_id": "s1", "timestamp": 0, "messages": [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "hi"}], "output_length": 16}
               {"session_id": "s1", "delay": 900, "text_input": "next turn", "output_length": 8}
               {"session_id": "s1", "delay": 800, "text_input": "and then", "output_length": 8}
               {"timestamp": 40.5, "payload": {"model": "m", "prompt": "Hello", "max_tokens": 8}}"#,
        &[
            "system:You are terse.|user:hi, at 0, session s1, out 16",
            "user:next turn, delay 900, session s1, out 8",
            "user:next turn|user:and then, delay 800, session s1, out 8",
            ":Hello, at 40.5, model m, max 8",
        ],
    ),
    (
        Format::Mooncake,
        r#"{"schema":"dynamo.agentic_mooncake","version":2,"block_size":64,"hash_id_scope":"local","source":{"format":"claude","digest":"x"}}
               {"request_id":"r","play_id":"p","model":"m","not_before_ms":5,"input_length":100,"output_length":3,"hash_ids":[1,2]}"#,
        &["2 blocks of 64, id r, at 5, session p, model m, in 100, out 3"],
    ),
    (
        Format::Mooncake,
        r#"{"timestamp":7,"input_length":40,"output_length":2,"hash_ids":["00000000000000ff","0000000000000001"],"x":{"block_tokens":32,"ttft_ms":12.5,"cached_tokens":32,"replica":"r1","status":200,"decision":"prefix_hit"}}"#,
        &["2 blocks of 32, at 7, in 40, out 2, ttft 12.5, cached 32, replica r1, status 200"],
    ),
    (
        Format::Dynamo,
        r#"{"schema": "dynamo.request.trace.v1", "event_type": "request_start", "event_time_unix_ms": 1}
               {"schema": "dynamo.request.trace.v1", "event_type": "request_end", "event_time_unix_ms": 1760000001000, "request": {"request_id": "r1", "model": "m", "input_tokens": 96, "output_tokens": 10, "cached_tokens": 64, "request_received_ms": 1760000000000, "ttft_ms": 31.0, "total_time_ms": 180.5, "kv_hit_rate": 0.67, "worker": {"decode_worker_id": 3}, "replay": {"trace_block_size": 32, "input_length": 96, "input_sequence_hashes": [11, 22, 33]}}}
               {"event": {"schema": "dynamo.request.trace.v1", "event_time_unix_ms": 1760000001000, "request": {"input_tokens": 9, "total_time_ms": 500}}}"#,
        &[
            "3 blocks of 32, id r1, at 1760000000000, model m, in 96, out 10, ttft 31.0, e2e 180.5, cached 64, replica 3",
            "unknown, at 1760000000500, in 9, e2e 500.0",
        ],
    ),
    (
        Format::Bailian,
        r#"{"chat_id": 5, "parent_chat_id": -1, "timestamp": 1.25, "input_length": 40, "output_length": 9, "type": "text", "turn": 1, "hash_ids": [3, 4, 5]}
               {"chat_id": 8, "parent_chat_id": 5, "timestamp": 2, "input_length": 64, "output_length": 9, "type": "text", "turn": 2, "hash_ids": [3, 4, 5, 6]}"#,
        &[
            "3 blocks of 16, id 5, at 1250, session 5, in 40, out 9",
            "4 blocks of 16, id 8, at 2000, session 5, in 64, out 9",
        ],
    ),
    (
        Format::Weka,
        r#"{"id": "w1", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": [
                {"t": 0.0, "type": "s", "model": "m", "in": 130, "out": 12, "hash_ids": [1, 2], "ttft": 0.2},
                {"t": 4.0, "type": "subagent", "agent_id": "a", "requests": [{"t": 1.0, "in": 64, "out": 2, "hash_ids": [9]}]},
                {"t": 9.5, "type": "n", "in": 192, "out": 1, "hash_ids": [1, 2, 3], "think_time": 3, "api_time": 1.5}]}"#,
        &[
            "2 blocks of 64, at 0, session w1, model m, in 130, out 12, ttft 200.0",
            "1 blocks of 64, at 5000, session w1/a, in 64, out 2",
            "3 blocks of 64, at 9500, delay 3000, session w1, in 192, out 1, e2e 1500.0",
        ],
    ),
    (
        Format::ShareGpt,
        r#"[{"id": "c1", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello you"}, {"from": "human", "value": "bye"}]},
                {"conversations": [{"from": "system", "value": "s"}, {"from": "gpt", "value": "x"}]}]"#,
        &["user:hi, session c1, out 3", "user:hi|assistant:hello you|user:bye, session c1"],
    ),
    (
        Format::OpenAiBatch,
        r#"{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}}
               {"custom_id": "c", "body": {"prompt": "x"}}
               {"id": "b1", "custom_id": "a", "response": {"status_code": 200, "request_id": "q", "body": {"usage": {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}}}, "error": null}"#,
        &["user:hi, id a, model m, in 9, out 3, max 5, cached 0, status 200", ":x, id c"],
    ),
    (
        Format::OpenAi,
        r#"{"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
               {"prompt": "a prompt", "output_tokens": 10}
               {"ts": 1785578400.5, "request": {"prompt": "x", "session_id": "s"}, "response": {"usage": {"prompt_tokens": 1, "completion_tokens": 2}}}"#,
        &["user:hi, model m, max 4", ":a prompt, out 10", ":x, at 1785578400500, session s, in 1, out 2"],
    ),
    (
        Format::OpenAi,
        r#"{"data": [{"session_id": "s", "payloads": [{"prompt": "one"}, {"prompt": "two", "prompt_cache_key": "t"}]}]}"#,
        &[":one, session s", ":two, session s, tenant t"],
    ),
    (
        Format::LiteLlm,
        r#"{"request_id": "x", "call_type": "acompletion", "startTime": "2026-08-01T10:00:00.000Z", "completionStartTime": "2026-08-01T10:00:00.210Z", "endTime": "2026-08-01T10:00:01.000Z", "model_group": "m", "api_base": "http://r1:8000/v1", "prompt_tokens": 9, "completion_tokens": 3, "messages": [{"role": "user", "content": "hi"}], "session_id": "s"}
               {"request_id": "y", "call_type": "acompletion", "startTime": "2026-08-01T10:00:02Z", "model": "m2", "prompt_tokens": 7, "completion_tokens": 1, "messages": {}}
               {"request_id": "z", "call_type": "acompletion", "startTime": "2026-08-01T10:00:03Z", "model": "m2", "prompt_tokens": 20, "completion_tokens": 1, "messages": {}, "metadata": "{\"prefix_block_hashes\": [\"00000000000000aa\", \"00000000000000bb\"]}"}"#,
        &[
            "user:hi, id x, at 1785578400000, session s, model m, in 9, out 3, ttft 210.0, e2e 1000.0, replica http://r1:8000/v1",
            "unknown, id y, at 1785578402000, model m2, in 7, out 1",
            "2 blocks of 16, id z, at 1785578403000, model m2, in 20, out 1",
        ],
    ),
    (
        Format::VllmLog,
        "INFO 08-01 09:59:59 [api_server.py:1] Starting\n\
             INFO 08-01 10:00:00 [request_logger.py:87] Request cmpl-1 JSON body: {\"model\":\"m\",\"prompt\":\"hi\",\"max_tokens\":4}\n\
             (APIServer pid=7) INFO 08-01 10:00:01 [logger.py:39] Received request cmpl-1-0: params: SamplingParams(n=1, max_tokens=4), lora_request: None.\n",
        &[":hi, id cmpl-1, at 965124000000, model m, max 4"],
    ),
    (
        Format::VllmLog,
        "(APIServer pid=7) INFO 08-01 10:00:01 [logger.py:39] Received request cmpl-1-0: params: SamplingParams(n=1, max_tokens=4), lora_request: None.\n\
             DEBUG 08-01 10:00:01 [logger.py:41] Request cmpl-1-0 details: prompt: 'hi [1]', prompt_token_ids: [5, 6], prompt_embeds shape: None.\n",
        &["ids [5, 6], id cmpl-1-0, at 965124001000"],
    ),
    (
        Format::SglangLog,
        r#"{"timestamp": "2026-08-01T10:00:00.1", "event": "request.received", "rid": "r1", "obj": {"text": "hi"}}
               {"timestamp": "2026-08-01T10:00:00.5", "event": "request.finished", "rid": "r1", "obj": {"text": "hi"}, "out": {"meta_info": {"prompt_tokens": 9, "cached_tokens": 0, "completion_tokens": 3, "e2e_latency": 0.4}}}"#,
        &[":hi, id r1, at 1785578400100, in 9, out 3, e2e 400.0, cached 0"],
    ),
    (
        Format::SageMaker,
        r#"{"captureData": {"endpointInput": {"observedContentType": "application/json", "mode": "INPUT", "data": "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":5}", "encoding": "JSON"}, "endpointOutput": {"observedContentType": "application/json", "mode": "OUTPUT", "data": "eyJ1c2FnZSI6eyJwcm9tcHRfdG9rZW5zIjo5LCJjb21wbGV0aW9uX3Rva2VucyI6M319", "encoding": "BASE64"}}, "eventMetadata": {"eventId": "e1", "inferenceTime": "2026-08-01T10:00:00Z"}, "eventVersion": "0"}"#,
        &["user:hi, id e1, at 1785578400000, in 9, out 3, max 5"],
    ),
    (
        Format::Azure,
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-08-01 10:00:00.1234567,374,44\n",
        &["unknown, at 1785578400123.4568, in 374, out 44"],
    ),
    (
        Format::BurstGpt,
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,s,1.5,GPT-4,120,30,150,API log\n6,,,GPT-4,10,0,10,API log\n",
        &[
            "unknown, at 5000, session s, model GPT-4, in 120, out 30, e2e 1500.0",
            "unknown, at 6000, model GPT-4, in 10, out 0",
        ],
    ),
    (
        Format::Otel,
        r#"{"trace_id": "t1", "spans": [
                {"span_id": "a", "parent_span_id": null, "name": "chat m", "start_time": "2026-08-01T10:00:00.000000", "end_time": "2026-08-01T10:00:01.000000", "attributes": {"session.id": "s", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": "[{\"role\":\"user\",\"content\":\"hi\"}]"}},
                {"span_id": "b", "name": "tool", "start_time": "2026-08-01T10:00:02", "attributes": {"gen_ai.operation.name": "execute_tool"}}]}"#,
        &["user:hi, id a, at 1785578400000, session s, model m, e2e 1000.0"],
    ),
    (
        Format::Otel,
        r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "t", "spanId": "a", "startTimeUnixNano": "1785578400000000000", "endTimeUnixNano": "1785578400500000000", "attributes": [
                {"key": "gen_ai.input.messages", "value": {"stringValue": "[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"hi\"}]}]"}},
                {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}}]}]}]}]}"#,
        &["user:hi, id a, at 1785578400000, session t, in 12, e2e 500.0"],
    ),
    (
        Format::AccessLog,
        r#"{"ts": 1785578400.123, "id": "9f", "uri": "/v1/chat/completions", "status": 200, "rt": 0.91, "up": "10.0.0.9:8000, 10.0.0.4:8000", "ttfb": "0.210", "body": "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"}
               {"ts": 1785578401.5, "id": "a0", "uri": "/health", "status": 200, "rt": 0.01, "body": ""}"#,
        &["user:hi, id 9f, at 1785578399213, model m, ttft 210.0, e2e 910.0, replica 10.0.0.4:8000, status 200"],
    ),
];

#[test]
fn every_format_is_recognised_and_says_what_it_says() {
    for (format, text, expected) in CASES {
        let found: Vec<_> = records(*format, text).iter().map(told).collect();
        assert_eq!(found, *expected, "{format}");
    }
    for format in Format::ALL.into_iter().filter(|&format| format != Format::Fields) {
        assert!(CASES.iter().any(|(tested, ..)| *tested == format), "{format} has no case");
        assert_eq!(Format::named(format.name()), Some(format));
    }
}

#[test]
fn a_home_made_log_is_read_by_where_its_fields_are() {
    let fields = ["time=.at", "body=.http.request", "usage=.http.answer.usage", "session=.tags[1]", "ttft_ms=.first"];
    let options =
        ReadOptions { fields: fields.map(|field| Field::parse(field).unwrap()).to_vec(), ..ReadOptions::default() };
    let text = r#"{"at":"2026-08-01T10:00:00Z","http":{"request":"{\"prompt\":\"hi\"}","answer":{"usage":{"prompt_tokens":3}}},"tags":[0,"s"]}
                  {"at":"2026-08-01T10:00:01Z","http":{"request":{"prompt":"you"}}}
                  {"at":"2026-08-01T10:00:01Z"}"#;
    let (records, summary) = read(text, options).unwrap();
    let found: Vec<_> = records.iter().map(told).collect();
    assert_eq!(found, [":hi, at 1785578400000, session s, in 3", ":you, at 1785578401000"]);
    assert_eq!(summary.skipped_first, ["test.jsonl:3: neither a body nor a length where --field says"]);
    assert_eq!(summary.warnings, ["nothing was found where --field says that ttft_ms is"]);
    assert!(Field::parse("colour=.a").unwrap_err().starts_with("the fields are time, body, "));
}

#[test]
fn bodies_are_kept_only_if_asked_for() {
    let text = "{\"prompt\": \"hi\",  \"n\":1}";
    assert_eq!(records(Format::OpenAi, text)[0].body, None);
    let (records, _) = read(text, ReadOptions { keep_bodies: true, ..ReadOptions::default() }).unwrap();
    assert_eq!(records[0].body.as_deref(), Some(text.as_bytes()));
}

#[test]
fn sessions_of_agents_share_no_blocks_where_names_are_local_to_them() {
    let session = |id: &str| {
        format!(
            "{{\"id\":\"{id}\",\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":[{{\"t\":0,\"in\":64,\"hash_ids\":[1]}}]}}\n"
        )
    };
    let (records, summary) = read([session("a"), session("b"), session("a")].concat(), ReadOptions::default()).unwrap();
    assert_ne!(records[0].content, records[1].content);
    assert_eq!(records[0].content, records[2].content);
    assert_eq!((summary.time_base, summary.kind()), (TimeBase::Session, Kind::Hashes));
}

#[test]
fn what_makes_answers_doubtful_is_told() {
    let capture = r#"{"captureData": {"endpointInput": {"data": "{\"prompt\":\"hi\"}", "encoding": "JSON"}}}"#;
    let cut = "INFO 08-01 10:00:00 [l.py:1] Request a JSON body: {\"prompt\":\"hi\n";
    let spilled = r#"{"ts": 1785578400.1, "uri": "/v1/completions", "status": 200, "body": ""}"#;
    let failed = "Timestamp,Model,Request tokens,Response tokens\n1,m,5,0\n";
    let fast: String = (0..200)
        .map(|at| format!("{{\"timestamp\":{}.5,\"input_length\":5,\"output_length\":1}}\n", at / 10))
        .collect();
    for (text, warning) in [
        (capture, "data capture keeps a sample"),
        (cut, "1 bodies were cut where they were logged"),
        (spilled, "1 bodies are empty"),
        (failed, "1 requests have an answer of 0 tokens"),
        (&fast, "10526 requests a second: is the unit of time right"),
    ] {
        let (_, summary) = read(text, ReadOptions::default()).unwrap();
        assert!(summary.warnings.iter().any(|told| told.starts_with(warning)), "{warning}: {summary}");
    }
}

/// Logs of many hands have several members that mean the same; the one that says most counts.
#[test]
fn members_that_mean_the_same_do_not_spoil_a_row() {
    for (text, expected) in [
        (
            r#"{"time": "2026-08-01T10:00:01Z", "timestamp": 7, "request": "POST /v1/completions?x=1 HTTP/1.1", "uri": "-", "status": "200", "request_time": "1.0", "body": "{\"prompt\":\"hi\"}"}"#,
            ":hi, at 1785578400000, e2e 1000.0, status 200",
        ),
        (
            r#"{"request_id": "x", "id": "y", "call_type": "c", "startTime": 1785578400.5, "prompt_tokens": 5, "user": "u", "end_user": "", "team_id": null}"#,
            "unknown, id x, at 1785578400500, tenant u, in 5",
        ),
        (
            r#"{"timestamp": 3, "created_time": 4, "input_length": 5, "input_tokens": 6, "output_length": 1, "id": 9, "request_id": "r"}"#,
            "unknown, id r, at 3, in 5, out 1",
        ),
        (
            r#"{"prompt": "hi", "created": 1785578400, "ts": "none", "id": "a", "request_id": "b"}"#,
            ":hi, id a, at 1785578400000",
        ),
    ] {
        let (records, summary) = read(text, ReadOptions::default()).unwrap();
        assert_eq!(records.iter().map(told).collect::<Vec<_>>(), [expected], "{summary}");
    }
}
