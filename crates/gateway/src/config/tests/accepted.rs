//! What is accepted, and what it means.

use std::time::{Duration, Instant};

use kvroute_core::abilities::{Abilities, Modalities, Role};
use kvroute_core::routing::{NativePrefixSource, Strategy};

use super::super::{Api, Config, Copy, Cors, EXAMPLE, Health, Limits, Routing, Scrape, Secret, Severity, Timeouts};
use super::{accepted, brief, cases, parse};

const FIVE_LINES: &str = "\
listen: 127.0.0.1:9000
replicas: [http://10.0.0.4:8000, http://10.0.0.5:8000]
routing:
  strategy: prefix_aware
  concurrency_threshold: 24
";

/// A file that uses everything.
pub(super) const EVERYTHING: &str = include_str!("everything.yaml");

#[test]
fn five_lines_make_one_endpoint_with_one_variant() {
    let (config, warnings) = parse(FIVE_LINES).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config.listen.to_string(), "127.0.0.1:9000");
    assert_eq!(config.admin.to_string(), "127.0.0.1:8781");
    let [endpoint] = &config.endpoints[..] else { panic!("{config:?}") };
    assert_eq!((endpoint.name.as_str(), endpoint.models.len()), ("default", 0));
    let [variant] = &endpoint.variants[..] else { panic!("{endpoint:?}") };
    assert_eq!((variant.name.as_str(), variant.weight), ("main", 1.0));
    assert_eq!(variant.routing, Routing { concurrency_threshold: 24, ..Routing::default() });
    let ids: Vec<&str> = variant.replicas.iter().map(|replica| replica.id.as_str()).collect();
    assert_eq!(ids, ["10.0.0.4:8000", "10.0.0.5:8000"]);
}

#[test]
fn the_example_spells_out_the_defaults() {
    let (example, warnings) = parse(EXAMPLE).unwrap();
    assert_eq!(warnings, []);
    let bare = "endpoints: [{name: chat, replicas: [http://10.0.0.4:8000, {id: gpu-5, url: http://10.0.0.5:8000}]}]";
    assert_eq!(example, accepted(bare));
    assert_eq!(example.limits, Limits::default());
    assert_eq!(example.timeouts, Timeouts::default());
    assert_eq!(example.health, Health::default());
    assert_eq!(example.metrics_scrape, Scrape::default());
    assert_eq!(example.endpoints[0].routing, Routing::default());
}

#[test]
fn the_example_is_right_in_its_comments_too() {
    // Lines that are commented-out configuration start with a lowercase key or a list item.
    let setting = |line: &str| {
        let body = line.trim_start().strip_prefix("# ")?;
        let key = body.trim_start().trim_start_matches("- ").split(':').next()?;
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let is_item = body.trim_start().starts_with("- ");
        let short_form = line.starts_with('#');
        ((is_key || is_item) && body.contains([':', '-']) && !short_form).then(|| line.replacen("# ", "", 1))
    };
    let uncommented: Vec<String> =
        EXAMPLE.lines().map(|line| setting(line).unwrap_or_else(|| line.to_owned())).collect();
    let config = accepted(&uncommented.join("\n"));
    let [endpoint] = &config.endpoints[..] else { panic!("{config:?}") };
    assert_eq!(config.health.path.as_deref(), Some("/health"));
    assert_eq!(endpoint.models, ["llama-3.1-8b"]);
    assert_eq!(endpoint.aliases["gpt-4o"], "llama-3.1-8b");
    assert_eq!(endpoint.variants[0].replicas[1].labels["zone"], "a");
    assert!(endpoint.variants[0].replicas[1].api_key.is_some());
    assert_eq!(endpoint.components[0].copies.len(), 2);
    assert_eq!(endpoint.adapters[0].base.as_deref(), Some("llama-base"));
}

#[test]
fn every_setting_reaches_the_model() {
    let config = accepted(EVERYTHING);
    assert_eq!((config.listen.to_string().as_str(), config.admin.to_string().as_str()), ("[::]:1", "127.0.0.1:2"));
    assert_eq!(config.hash_seed, 42);
    assert_eq!(config.key_skip_lines, ["x-trace:", "x-nonce "]);
    let limits = Limits {
        body_bytes_max: 2048,
        bodies_bytes_max: 4096,
        connections_max: 10,
        header_bytes_max: 8192,
        decompressed_bytes_max: 4096,
        prompt_bytes_max: 1024,
    };
    assert_eq!(config.limits, limits);
    let timeouts = Timeouts {
        connect_ms: 1,
        first_byte_ms: 2,
        answer_idle_ms: 6,
        body_idle_ms: 7,
        client_stall_ms: 15,
        client_idle_ms: 8,
        pool_idle_ms: 3,
        drain_delay_ms: 4,
        drain_ms: 5,
    };
    assert_eq!(config.timeouts, timeouts);
    assert_eq!(config.replica_tls.ca_file.as_deref(), Some("/run/ca.pem"));
    assert_eq!(config.replica_tls.certificates.len(), 1);
    let path = Some("/ready".to_owned());
    assert_eq!(config.health, Health { interval_ms: 11, timeout_ms: 12, failures: 13, successes: 14, path });
    assert_eq!(config.metrics_scrape, Scrape { enabled: false, interval_ms: 101, timeout_ms: 102 });
    let cors = Cors {
        allowed_origins: ["https://app.example.com", "http://localhost:3000"].map(str::to_owned).into(),
        allowed_headers: Some(vec!["x-a".parse().unwrap(), "authorization".parse().unwrap()]),
        max_age_s: 60,
    };
    assert_eq!(config.cors, cors);
    let [first, second] = &config.endpoints[..] else { panic!("{config:?}") };
    assert_eq!(first.models, ["m-1", "m-2"]);
    assert_eq!((first.aliases["gpt-4o"].as_str(), first.aliases["best"].as_str()), ("m-1", "m-2"));
    assert!(first.forward_authorization && !second.forward_authorization);
    assert!(first.decompress_requests && !second.decompress_requests);
    assert!(first.discover_models && !second.discover_models);

    let canary = &first.variants[1];
    assert_eq!((canary.name.as_str(), canary.weight), ("canary", 0.25));
    let routing = Routing {
        strategy: Strategy::Session,
        prefix_length: 2048,
        concurrency_threshold: 7,
        native_prefix_source: NativePrefixSource::MessageText,
        tenant_header: "x-tenant".parse().unwrap(),
        session_header: "x-chat".parse().unwrap(),
    };
    assert_eq!(canary.routing, routing, "the variant's, over the endpoint's, over the top level's");
    assert_eq!(first.variants[0].routing, Routing { strategy: Strategy::PrefixAware, ..routing });
    assert_eq!(second.routing.strategy, Strategy::LeastOutstanding);
    assert_eq!(second.routing.decision().prefix_aware.prefix_length, 2048);

    let replica = &canary.replicas[0];
    assert_eq!((replica.id.as_str(), replica.weight, replica.api), ("c-1", 2.5, Api::SageMaker));
    assert_eq!(replica.url.to_string(), "http://[fd00::1]:8000/engine");
    assert_eq!(replica.api_key.as_ref().map(Secret::expose), Some("sk-from-env"));
    assert_eq!(replica.labels["zone"], "a");
    assert_eq!(replica.labels["rack"], "012", "a label is text as written");
    let modalities = Modalities { image: false, audio: true };
    assert_eq!(replica.abilities, Abilities { role: Role::Decode, modalities, context_tokens_max: Some(4096) });
    assert_eq!(canary.replicas[1].abilities, Abilities::default());

    let [bound, free] = &first.components[..] else { panic!("{first:?}") };
    assert_eq!(bound.variant.as_deref(), Some("canary"));
    let copy = |replica: &str, url: Option<&str>| Copy {
        replica: replica.to_owned(),
        url: url.map(|url| url.parse().unwrap()),
    };
    assert_eq!(bound.copies, [copy("c-1", None), copy("c-1", Some("http://[fd00::1]:8001"))]);
    assert_eq!(free.copies, [copy("a-1", None), copy("a-2", None), copy("a-2", None)]);
    let [plain, full] = &first.adapters[..] else { panic!("{first:?}") };
    assert_eq!((plain.component.as_deref(), plain.base.as_deref(), &plain.replicas), (None, None, &None));
    assert_eq!(full.name, "sql lora/1");
    assert_eq!((full.component.as_deref(), full.base.as_deref()), (Some("sql"), Some("free")));
    assert_eq!(full.replicas.as_deref(), Some(&["a-2".to_owned()][..]));
}

#[test]
fn copies_on_one_replica_follow_the_order_of_the_file() {
    let text = "\
endpoints:
  - name: e
    variants:
      - {name: v, replicas: [http://a:1, http://b:1]}
      - {name: w, replicas: [http://c:1, http://d:1]}
    components:
      - {name: c, copies: ['d:1', {replica: 'c:1', count: 2}, 'd:1']}
";
    let component = &accepted(text).endpoints[0].components[0];
    let holders: Vec<&str> = component.copies.iter().map(|copy| copy.replica.as_str()).collect();
    assert_eq!(holders, ["d:1", "c:1", "c:1", "d:1"]);
}

#[test]
fn an_empty_section_means_its_defaults() {
    let text =
        "replicas: [http://a:1, http://b:1]\nlimits:\ntimeouts: ~\nhealth: null\nrouting:\n  # nothing yet\nlisten:";
    assert_eq!(accepted(text), accepted("replicas: [http://a:1, http://b:1]"));
}

#[test]
fn json_is_yaml() {
    let text = r#"{"replicas": ["http://a:1", {"url": "http://b:1"}], "routing": {"strategy": "random"}}"#;
    assert_eq!(accepted(text).endpoints[0].variants[0].routing.strategy, Strategy::Random);
}

#[test]
fn sagemaker_spellings_of_strategies_are_understood() {
    for (written, strategy) in [
        ("PREFIX_AWARE", Strategy::PrefixAware),
        ("LEAST_OUTSTANDING_REQUESTS", Strategy::LeastOutstanding),
        ("RANDOM", Strategy::Random),
    ] {
        let config = accepted(&format!("replicas: [http://a:1, http://b:1]\nrouting: {{strategy: {written}}}"));
        assert_eq!(config.endpoints[0].variants[0].routing.strategy, strategy);
    }
}

#[test]
fn anchors_and_merge_keys_share_settings() {
    let text = "\
endpoints:
  - name: a
    routing: &fast {strategy: prefix_aware, prefix_length: 2048}
    replicas: &both [http://a:1, http://b:1]
  - name: b
    routing:
      <<: *fast
      prefix_length: 1024
    replicas: *both
";
    let config = accepted(text);
    assert_eq!(config.endpoints[0].variants[0].replicas, config.endpoints[1].variants[0].replicas);
    assert_eq!(config.endpoints[1].routing, Routing { prefix_length: 1024, ..Routing::default() });
}

#[test]
fn what_has_no_effect_is_a_warning_and_not_an_error() {
    for (text, expected) in cases(include_str!("warned.txt")) {
        let (_, warnings) = parse(&text).unwrap_or_else(|diagnostics| panic!("{text}\n{diagnostics}"));
        assert_eq!(warnings.iter().map(brief).collect::<Vec<_>>(), expected, "{text}");
        assert!(warnings.iter().all(|warning| warning.severity == Severity::Warning));
    }
    let two = "replicas: [http://a:1, http://b:1]";
    let inherited = "endpoints:\n- name: e\n  routing: {strategy: random, prefix_length: 2048}\n  variants:\n  - ";
    let used_below = format!("{inherited}routing: {{strategy: prefix_aware}}\n    {two}");
    assert_eq!(parse(&used_below).unwrap().1, [], "a setting that a variant below uses is in use");
}

#[test]
fn the_summary_names_the_fleet_and_no_secret() {
    let expected = "\
listen [::]:1, admin 127.0.0.1:2
endpoint first: m-1, m-2, and the adapters that replicas list
  alias best: m-2
  alias gpt-4o: m-1
  variant main: weight 1, 2 replicas, prefix_aware (prefix_length 2048, concurrency_threshold 7)
    replica a-1: http://a:8000, openai
    replica a-2: http://a:8001, openai
  variant canary: weight 0.25, 2 replicas, session (concurrency_threshold 7)
    replica c-1: http://[fd00::1]:8000/engine, sagemaker, weight 2.5, with api key, decode only, reads text and audio, 4096 tokens of context, rack=012, zone=a
    replica c-2:80: http://c-2:80, openai
  component bound of variant canary: 2 copies on c-1, c-1
  component free: 3 copies on a-1, a-2, a-2
  adapter plain, on every replica
  adapter sql lora/1, invoked as sql, on a-2
endpoint second: any model
  variant main: weight 1, 1 replica, least_outstanding
    replica b:8000: http://b:8000, openai";
    assert_eq!(accepted(EVERYTHING).summary().join("\n"), expected);
}

#[test]
fn a_fleet_of_a_thousand_replicas_is_read_quickly() {
    let mut text = String::from("replicas:\n");
    for i in 0..1_000 {
        text.push_str(&format!(
            "  - {{id: gpu-{i}, url: http://10.0.{}.{}:8000, labels: {{zone: a}}}}\n",
            i / 250,
            i % 250
        ));
    }
    let started = Instant::now();
    let config: Config = accepted(&text);
    assert_eq!(config.endpoints[0].variants[0].replicas.len(), 1_000);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}
