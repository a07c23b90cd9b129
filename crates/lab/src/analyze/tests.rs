use super::sample::{at, blocks, said, text};
use super::*;
use crate::analyze::advice::{Pays, Topic};

fn analyzed(records: &[Record]) -> Analysis {
    analyzed_with(records, Options::default())
}

fn analyzed_with(records: &[Record], options: Options) -> Analysis {
    let limits = corpus::Limits { estimated_names_max: 8_000_000, ..options.limits };
    let options = Options { limits, ..options };
    let mut analyzer = Analyzer::new(options);
    records.iter().for_each(|record| analyzer.push(record));
    analyzer.finish(|_| {})
}

/// Documents of 8,000 characters, each asked about several times.
fn documents(documents: usize, asks: usize) -> Vec<Record> {
    let document = |d: usize| format!("{d:08} ").repeat(900);
    (0..asks * documents)
        .map(|i| {
            let asked = said(&[("user", &format!("{}{i:06} what is said?", document(i % documents)))]);
            at(asked, i as f64 * 120.0, 100)
        })
        .collect()
}

fn has(analysis: &Analysis, topic: Topic) -> bool {
    analysis.advice.findings.iter().any(|finding| finding.topic == topic)
}

#[test]
fn documents_asked_about_several_times_gain_and_the_settings_say_how() {
    let analysis = analyzed(&documents(150, 6));
    assert_eq!(analysis.advice.pays, Pays::Yes, "{}", analysis.advice.verdict);
    let settings = analysis.advice.settings.as_ref().unwrap();
    assert_eq!(settings.strategy, "prefix_aware");
    assert!((1024..=8_192).contains(&settings.prefix_length.unwrap()), "{settings:?}");
    assert!(analysis.reuse.as_ref().unwrap().sweep.random.reused_ratio < 0.4);
}

#[test]
fn traffic_that_will_not_gain_is_told_why() {
    let unique: Vec<Record> =
        (0..300).map(|i| at(text(&format!("{i:07} ").repeat(500)), f64::from(i) * 100.0, 50)).collect();
    let same: Vec<Record> = (0..900)
        .map(|i| at(text(&format!("{}{}", "s".repeat(8_000), format!("{i:05}").repeat(300))), f64::from(i) * 100.0, 50))
        .collect();
    let cases = [(unique, "hardly anything repeats"), (same, "every replica soon holds")];
    for (records, why) in cases {
        let advice = analyzed(&records).advice;
        assert_eq!(advice.pays, Pays::No, "{}", advice.verdict);
        assert!(advice.verdict.contains(why), "{}", advice.verdict);
        assert_eq!(advice.settings.unwrap().strategy, "least_outstanding");
    }
    let alone = analyzed_with(&documents(20, 5), Options { replicas: 1, ..Options::default() });
    assert!(alone.advice.verdict.contains("one replica"));
    let coarse = analyzed_with(&documents(20, 5), Options { block_tokens: 4_096, ..Options::default() });
    assert!(coarse.advice.verdict.contains("shorter than the engine's KV block of 4,096"), "{}", coarse.advice.verdict);
    let small = analyzed_with(&documents(150, 6), Options { kv_tokens: Some(20_000), ..Options::default() });
    assert!(small.advice.verdict.contains("KV memory is too small"), "{}", small.advice.verdict);
}

#[test]
fn what_is_shared_but_shorter_than_a_block_is_said_separately() {
    let greeting = |i: u32| at(text(&format!("{}{}", "g".repeat(960), format!("{i:05}").repeat(300))), f64::from(i), 1);
    let records: Vec<Record> = (0..200).map(greeting).collect();
    assert!(!has(&analyzed(&records), Topic::Blocks));
    let analysis = analyzed_with(&records, Options { block_tokens: 784, ..Options::default() });
    assert!(has(&analysis, Topic::Blocks), "{:?}", analysis.advice.findings);
}

#[test]
fn a_question_that_the_trace_cannot_answer_is_refused_with_the_reason() {
    let lengths: Vec<Record> = (0..100)
        .map(|i| at(Record { input_tokens: Some(500), ..Record::default() }, f64::from(i) * 50.0, 100))
        .collect();
    let analysis = analyzed(&lengths);
    assert_eq!((analysis.advice.pays, analysis.reuse.is_none()), (Pays::Unknown, true));
    assert!(analysis.advice.settings.is_none());
    assert!(analysis.advice.refused[0].contains("lengths only"), "{:?}", analysis.advice.refused);
    assert!(has(&analysis, Topic::ConcurrencyThreshold), "load can be told from lengths");

    let hashes = analyzed(&(0..100).map(|i| blocks(&[i % 7, i], 1024)).collect::<Vec<_>>());
    assert!(hashes.serialisation.is_none());
    assert_eq!(hashes.advice.refused.len(), 2, "{:?}", hashes.advice.refused);

    let nothing = analyzed(&[]);
    assert!(nothing.advice.verdict.contains("no request"), "{}", nothing.advice.verdict);
}

#[test]
fn records_that_do_not_belong_are_counted() {
    let mut records = documents(5, 3);
    records.push(blocks(&[1], 512));
    assert_eq!(analyzed(&records).skipped.into_values().sum::<u64>(), 1);
}

#[test]
fn the_threshold_is_two_to_three_times_what_is_in_flight() {
    for (in_flight, expected) in [(None, 8), (Some(0.1), 8), (Some(4.0), 10), (Some(20.0), 50), (Some(1e9), 1024)] {
        assert_eq!(advice::threshold(in_flight), expected, "{in_flight:?}");
    }
}

#[test]
fn prompt_text_is_in_the_result_only_if_it_may_be() {
    let system = "You answer questions about our products. ".repeat(30);
    let prompt =
        |i: u32| at(said(&[("system", &format!("x-trace: {i:x}\n{system}")), ("user", "hello")]), f64::from(i), 1);
    let records: Vec<Record> = (0..90).map(prompt).collect();
    for show_text in [false, true] {
        let analysis = analyzed_with(&records, Options { show_text, ..Options::default() });
        let json = serde_json::to_string(&analysis).unwrap();
        assert_eq!(json.contains("x-trace"), show_text);
        assert!(has(&analysis, Topic::Serialisation));
    }
}

#[test]
fn the_same_records_give_the_same_bytes() {
    let records = documents(30, 4);
    let json = || serde_json::to_string(&analyzed(&records)).unwrap();
    assert_eq!(json(), json());
}
