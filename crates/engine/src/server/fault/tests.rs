use serde_json::{Value, json};

use super::*;

fn rule(json: Value) -> Rule {
    serde_json::from_value(json).unwrap()
}

fn faults(rules: &[Value]) -> Faults {
    let mut faults = Faults::new(7);
    for json in rules {
        faults.add(rule(json.clone())).unwrap();
    }
    faults
}

fn ms(effect: Option<Effect>) -> Option<u64> {
    match effect {
        Some(Effect::SlowStart { ms }) => Some(ms),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fault_concerns_requests_for_work_unless_its_paths_say_otherwise() {
    let cases = [
        (json!({"fault": "hang"}), vec!["/v1/chat/completions", "/invocations"], vec!["/health", "/v1/models"]),
        (json!({"fault": "unhealthy"}), vec!["/health", "/ping"], vec!["/invocations", "/v1/completions"]),
        (json!({"fault": "health_hang"}), vec!["/health", "/ping"], vec!["/invocations"]),
        (
            json!({"fault": "hang", "paths": ["/v1/mod*"]}),
            vec!["/v1/models", "/v1/mod"],
            vec!["/v1/mo", "/v1/completions"],
        ),
        (json!({"fault": "hang", "paths": ["/metrics"]}), vec!["/metrics"], vec!["/metrics/", "/metric"]),
        (
            json!({"fault": "hang", "paths": ["*"]}),
            vec!["/", "/health", "/v1/models"],
            vec!["/inject", "/debug/requests"],
        ),
    ];
    for (json, struck, spared) in cases {
        let mut faults = faults(std::slice::from_ref(&json));
        for path in struck {
            assert!(faults.decide(path).is_some(), "{json} {path}");
        }
        for path in spared {
            assert_eq!(faults.decide(path), None, "{json} {path}");
        }
    }
}

#[test]
fn the_first_rule_that_strikes_is_the_only_one_and_a_spent_one_is_passed_over() {
    let mut faults = faults(&[
        json!({"fault": "slow_start", "ms": 1, "count": 2}),
        json!({"fault": "slow_start", "ms": 2, "probability": 0.0}),
        json!({"fault": "slow_start", "ms": 3, "count": 1}),
    ]);
    let met: Vec<_> = (0..4).map(|_| ms(faults.decide("/invocations"))).collect();
    assert_eq!(met, [Some(1), Some(1), Some(3), None]);
    let hits: Vec<u64> = faults.list().iter().map(|armed| armed.hits).collect();
    assert_eq!(hits, [2, 0, 1]);
    faults.clear();
    assert!(faults.list().is_empty());
    assert_eq!(faults.decide("/invocations"), None);
}

#[test]
fn chance_strikes_about_as_often_as_it_should_and_the_same_for_a_seed() {
    let play = |seed| {
        let mut faults = Faults::new(seed);
        faults.add(rule(json!({"fault": "slow_start", "ms": 1, "probability": 0.3}))).unwrap();
        (0..10_000).map(|_| faults.decide("/invocations").is_some()).collect::<Vec<bool>>()
    };
    let struck = play(1).into_iter().filter(|&struck| struck).count();
    assert!((2800..3200).contains(&struck), "{struck}");
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}

#[test]
fn a_rule_is_listed_with_its_defaults() {
    for (short, full) in [
        (
            json!({"fault": "status"}),
            json!({"id": 1, "fault": "status", "status": 500, "probability": 1.0, "count": null, "paths": INFERENCE_PATHS, "hits": 0}),
        ),
        (
            json!({"fault": "end_mid_stream", "count": 3, "paths": ["/a"]}),
            json!({"id": 1, "fault": "end_mid_stream", "after_chunks": 1, "ending": "between_chunks", "probability": 1.0,
                   "count": 3, "paths": ["/a"], "hits": 0}),
        ),
        (
            json!({"fault": "unhealthy", "probability": 0.5}),
            json!({"id": 1, "fault": "unhealthy", "probability": 0.5, "count": null, "paths": ["/health", "/ping"], "hits": 0}),
        ),
    ] {
        let mut faults = Faults::new(0);
        let armed = faults.add(rule(short)).unwrap();
        assert_eq!(serde_json::to_value(armed).unwrap(), full);
    }
}

#[test]
fn a_rule_that_makes_no_sense_is_refused() {
    for json in [
        json!({"fault": "status", "status": 200}),
        json!({"fault": "status", "status": 600}),
        json!({"fault": "status", "retry_after": "a\nb"}),
        json!({"fault": "status", "ms": 3}),
        json!({"fault": "slow_start"}),
        json!({"fault": "slow_chunks", "ms": 600_001}),
        json!({"fault": "slow_chunks", "ms": 5, "after_chunks": 1}),
        json!({"fault": "cut_mid_stream", "ending": "clean"}),
        json!({"fault": "hang", "probability": 1.5}),
        json!({"fault": "hang", "probability": -0.1}),
        json!({"fault": "hang", "count": 0}),
        json!({"fault": "hang", "paths": []}),
        json!({"fault": "hang", "paths": ["invocations"]}),
        json!({"fault": "hang", "paths": vec!["/a"; 17]}),
        json!({"fault": "hang", "paths": ["/".repeat(257)]}),
    ] {
        let mut faults = Faults::new(0);
        assert!(faults.add(rule(json.clone())).is_err(), "{json}");
        assert!(faults.list().is_empty());
    }
    for json in [json!({}), json!({"fault": "fire"}), json!({"fault": "hang", "propability": 1}), json!("hang")] {
        assert!(serde_json::from_value::<Rule>(json.clone()).is_err(), "{json}");
    }
}

#[test]
fn there_is_room_for_so_many_rules_and_spent_ones_make_room() {
    let mut faults = Faults::new(0);
    let once = json!({"fault": "hang", "count": 1});
    for _ in 0..RULES_MAX {
        faults.add(rule(once.clone())).unwrap();
    }
    assert!(faults.add(rule(once.clone())).is_err());
    faults.decide("/invocations").unwrap();
    assert_eq!(faults.add(rule(once)).unwrap().id, RULES_MAX as u64 + 1);
}
