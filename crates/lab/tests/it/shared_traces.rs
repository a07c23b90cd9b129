//! Real traces, where they lie beside the repository; without them these tests say so and pass.

use std::io::Write;
use std::path::PathBuf;

use kvroute_lab::trace::stats::{Gathering, Stats};
use kvroute_lab::trace::{Kind, ReadOptions, Summary, TraceReader};

/// A trace, if it is there.
pub(crate) fn trace(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if !path.exists() {
        let _ = writeln!(std::io::stderr(), "skipped: {name} is not there");
        return None;
    }
    Some(path)
}

fn stats(name: &str) -> Option<(Stats, Summary)> {
    let mut reader = TraceReader::open(&[trace(name)?], ReadOptions::default()).unwrap();
    let mut gathering = Gathering::default();
    for record in &mut reader {
        gathering.add(&record.unwrap());
    }
    let summary = reader.summary();
    Some((gathering.finish(&summary), summary))
}

#[test]
fn an_infinite_cache_reuses_what_is_published_for_the_traces() {
    for (name, requests, ratio) in [
        ("mooncake/conversation_trace.jsonl.gz", 12_031, 0.3736),
        ("mooncake/synthetic_trace.jsonl.gz", 3_993, 0.6512),
        ("toolagent/mooncake_trace_1000.jsonl.gz", 1_000, 0.3907),
        ("weka/weka_le128k_235s_gap30_mooncake512.jsonl.gz", 9_684, 0.9543),
        ("weka/weka_subset60_mooncake512.jsonl.gz", 2_576, 0.9556),
        ("weka/weka_subset60_raw.tar.xz", 2_576, 0.9556),
    ] {
        let Some((stats, summary)) = stats(name) else { continue };
        assert_eq!((stats.requests, summary.skipped), (requests, 0), "{name}: {summary}");
        let reused = stats.reusable[0].ratio;
        assert!((reused - ratio).abs() < 0.005, "{name}: {reused}, published {ratio}");
    }
}

#[test]
fn traces_of_lengths_and_of_spans_are_read_whole() {
    for (name, requests, kind) in [
        ("azure/AzureLLMInferenceTrace_conv.csv", 19_366, Kind::Lengths),
        ("azure/AzureLLMInferenceTrace_code.csv", 8_819, Kind::Lengths),
        ("azure", 28_185, Kind::Lengths),
        ("otel_agents", 0, Kind::Content),
    ] {
        let Some((stats, summary)) = stats(name) else { continue };
        assert_eq!((summary.skipped, summary.kind()), (0, kind), "{name}: {summary}");
        assert!(stats.requests == requests || requests == 0, "{name}: {}", stats.requests);
        assert!(stats.requests > 0 && stats.span_ms.is_some_and(|span| span > 0.0), "{name}");
    }
}
