//! What reload says about an old and a new file.

use super::super::{ChangeKind, Config, Subject, changes};
use super::accepted;
use super::accepted::EVERYTHING;

fn lines(old: &Config, new: &Config) -> Vec<String> {
    changes(old, new).iter().map(ToString::to_string).collect()
}

#[test]
fn every_setting_that_differs_is_named() {
    let old = accepted(EVERYTHING);
    assert_eq!(lines(&old, &old), Vec::<String>::new());
    for (written, instead, expected) in [
        ("\"[::]:1\"", "\"[::]:9\"", "gateway: listen [::]:1 -> [::]:9 needs a restart"),
        ("127.0.0.1:2", "127.0.0.1:9", "gateway: admin 127.0.0.1:2 -> 127.0.0.1:9 needs a restart"),
        ("${SEED}", "7", "gateway: hash_seed *** -> ***"),
        (
            "[\"x-trace:\", \"x-nonce \"]",
            "[\"x-trace:\"]",
            "gateway: key_skip_lines [x-trace:, x-nonce ] -> [x-trace:]",
        ),
        ("body_bytes_max: 2048", "body_bytes_max: 4096", "gateway: limits.body_bytes_max 2048 -> 4096"),
        (
            "header_bytes_max: 8192",
            "header_bytes_max: 8193",
            "gateway: limits.header_bytes_max 8192 -> 8193 needs a restart",
        ),
        (
            "decompressed_bytes_max: 4096",
            "decompressed_bytes_max: 4097",
            "gateway: limits.decompressed_bytes_max 4096 -> 4097",
        ),
        ("prompt_bytes_max: 1024", "prompt_bytes_max: 1025", "gateway: limits.prompt_bytes_max 1024 -> 1025"),
        ("bodies_bytes_max: 4096", "bodies_bytes_max: 8192", "gateway: limits.bodies_bytes_max 4096 -> 8192"),
        ("connections_max: 10", "connections_max: 11", "gateway: limits.connections_max 10 -> 11"),
        ("connect_ms: 1", "connect_ms: 9", "gateway: timeouts.connect_ms 1 -> 9"),
        ("first_byte_ms: 2", "first_byte_ms: 9", "gateway: timeouts.first_byte_ms 2 -> 9"),
        ("answer_idle_ms: 6", "answer_idle_ms: 9", "gateway: timeouts.answer_idle_ms 6 -> 9"),
        ("body_idle_ms: 7", "body_idle_ms: 9", "gateway: timeouts.body_idle_ms 7 -> 9"),
        ("client_stall_ms: 15", "client_stall_ms: 16", "gateway: timeouts.client_stall_ms 15 -> 16"),
        ("client_idle_ms: 8", "client_idle_ms: 9", "gateway: timeouts.client_idle_ms 8 -> 9 needs a restart"),
        ("pool_idle_ms: 3", "pool_idle_ms: 9", "gateway: timeouts.pool_idle_ms 3 -> 9"),
        ("drain_delay_ms: 4", "drain_delay_ms: 9", "gateway: timeouts.drain_delay_ms 4 -> 9"),
        ("drain_ms: 5", "drain_ms: 9", "gateway: timeouts.drain_ms 5 -> 9"),
        ("interval_ms: 11,", "interval_ms: 19,", "gateway: health.interval_ms 11 -> 19"),
        ("timeout_ms: 12", "timeout_ms: 19", "gateway: health.timeout_ms 12 -> 19"),
        ("failures: 13", "failures: 19", "gateway: health.failures 13 -> 19"),
        ("successes: 14", "successes: 19", "gateway: health.successes 14 -> 19"),
        ("path: /ready", "path: ~", "gateway: health.path /ready -> none"),
        ("enabled: false", "enabled: true", "gateway: metrics_scrape.enabled false -> true"),
        ("interval_ms: 101", "interval_ms: 109", "gateway: metrics_scrape.interval_ms 101 -> 109"),
        ("timeout_ms: 102", "timeout_ms: 109", "gateway: metrics_scrape.timeout_ms 102 -> 109"),
        (
            ", \"http://localhost:3000\"]",
            "]",
            "gateway: cors.allowed_origins [https://app.example.com, http://localhost:3000] -> [https://app.example.com]",
        ),
        ("allowed_headers: [X-A, authorization], ", "", "gateway: cors.allowed_headers [x-a, authorization] -> any"),
        ("max_age_s: 60", "max_age_s: 61", "gateway: cors.max_age_s 60 -> 61"),
        ("[m-1, m-2]", "[m-1]", "endpoint first: models [m-1, m-2] -> [m-1]"),
        (", best: m-2", "", "endpoint first: aliases [best: m-2, gpt-4o: m-1] -> [gpt-4o: m-1]"),
        ("decompress_requests: true", "", "endpoint first: decompress_requests true -> false"),
        ("forward_authorization: true", "", "endpoint first: forward_authorization true -> false"),
        ("discover_models: true", "", "endpoint first: discover_models true -> false"),
        ("role: decode", "role: both", "replica first/canary/c-1: role decode -> both"),
        ("[text, audio]", "[text]", "replica first/canary/c-1: modalities [text, audio] -> [text]"),
        ("context_tokens_max: 4096", "", "replica first/canary/c-1: context_tokens_max 4096 -> none"),
        ("weight: 0.25", "weight: 0.5", "variant first/canary: weight 0.25 -> 0.5"),
        ("strategy: session", "strategy: random", "variant first/canary: routing.strategy session -> random"),
        ("[http://b:8000]", "[http://b:8000, http://b:9]", "replica second/main/b:9 added"),
        ("          - http://c-2\n", "", "replica first/canary/c-2:80 removed"),
        ("http://a:8001", "http://a:9", "replica first/main/a-2: url http://a:8001 -> http://a:9"),
        ("weight: 2.5", "weight: 1", "replica first/canary/c-1: weight 2.5 -> 1"),
        ("api: sagemaker", "api: openai", "replica first/canary/c-1: api sagemaker -> openai"),
        ("api_key: ${ENGINE_KEY}", "", "replica first/canary/c-1: api_key *** -> none"),
        ("zone: a, ", "", "replica first/canary/c-1: labels [rack=012, zone=a] -> [rack=012]"),
        ("variant: canary", "", "component first/bound: variant canary -> none"),
        ("count: 2", "count: 1", "component first/free: copies [a-1, a-2, a-2] -> [a-1, a-2]"),
        (
            "fd00::1]:8001",
            "fd00::1]:9",
            "component first/bound: copies [c-1, c-1 at http://[fd00::1]:8001] -> [c-1, c-1 at http://[fd00::1]:9]",
        ),
        ("      - name: plain\n", "", "adapter first/plain removed"),
        ("component: sql", "component: sql-2", "adapter first/sql lora/1: component sql -> sql-2"),
        ("base: free, ", "", "adapter first/sql lora/1: base free -> none"),
        (", replicas: [a-2]}", "}", "adapter first/sql lora/1: replicas [a-2] -> all"),
    ] {
        assert_eq!(EVERYTHING.matches(written).count(), 1, "{written}");
        let new = accepted(&EVERYTHING.replace(written, instead));
        assert_eq!(lines(&old, &new), [expected], "{written} -> {instead}");
    }
}

#[test]
fn a_shared_setting_is_named_for_every_variant_that_it_changes() {
    let old = accepted(EVERYTHING);
    let new = accepted(&EVERYTHING.replace(
        "routing: {prefix_length: 2048, tenant_header: X-Tenant}",
        "routing: {prefix_length: 1024, tenant_header: x-other}",
    ));
    let expected: Vec<String> = ["first/main", "first/canary", "second/main"]
        .iter()
        .flat_map(|variant| {
            [
                format!("variant {variant}: routing.prefix_length 2048 -> 1024"),
                format!("variant {variant}: routing.tenant_header x-tenant -> x-other"),
            ]
        })
        .collect();
    assert_eq!(lines(&old, &new), expected);
    let new = accepted(&EVERYTHING.replace(
        "{concurrency_threshold: 7, native_prefix_source: message_text, session_header: x-chat}",
        "{concurrency_threshold: 8}",
    ));
    let expected: Vec<String> = ["first/main", "first/canary"]
        .iter()
        .flat_map(|variant| {
            [
                format!("variant {variant}: routing.concurrency_threshold 7 -> 8"),
                format!("variant {variant}: routing.native_prefix_source message_text -> body_bytes"),
                format!("variant {variant}: routing.session_header x-chat -> x-session-id"),
            ]
        })
        .collect();
    assert_eq!(lines(&old, &new), expected);
}

#[test]
fn order_is_no_change_and_a_moved_replica_is_removed_and_added() {
    let file = |main: &str, canary: &str| {
        let variants = format!("[{{name: main, replicas: [{main}]}}, {{name: canary, replicas: [{canary}]}}]");
        accepted(&format!("endpoints: [{{name: e, variants: {variants}}}]"))
    };
    let old = file("http://a:1, http://b:1", "http://c:1");
    assert_eq!(lines(&old, &file("http://b:1, http://a:1", "http://c:1")), Vec::<String>::new());
    let moved = changes(&old, &file("http://a:1", "http://c:1, http://b:1"));
    let replica = |variant: &str| Subject::Replica {
        endpoint: "e".to_owned(),
        variant: variant.to_owned(),
        replica: "b:1".to_owned(),
    };
    let found: Vec<_> = moved.into_iter().map(|change| (change.subject, change.kind)).collect();
    assert_eq!(found, [(replica("main"), ChangeKind::Removed), (replica("canary"), ChangeKind::Added)]);
}

#[test]
fn whole_endpoints_and_variants_come_and_go() {
    let old = accepted("endpoints: [{name: a, replicas: [http://a:1]}, {name: b, replicas: [http://b:1]}]");
    let variants = "variants: [{name: v, replicas: [http://b:1]}]";
    let new = accepted(&format!("endpoints: [{{name: c, replicas: [http://c:1]}}, {{name: b, {variants}}}]"));
    let expected = ["endpoint c added", "variant b/v added", "variant b/main removed", "endpoint a removed"];
    assert_eq!(lines(&old, &new), expected);
}
