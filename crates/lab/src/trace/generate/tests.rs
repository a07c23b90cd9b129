use std::collections::HashMap;

use xxhash_rust::xxh3;

use super::*;
use crate::stats::Series;
use crate::trace::{Content, InfiniteCache, TraceWriter};

fn shapes() -> Vec<(&'static str, Box<dyn Shape>)> {
    vec![
        ("shared-prefix", Box::new(SharedPrefix::default())),
        ("shared-prefix zipf", Box::new(SharedPrefix { zipf_alpha: Some(1.0), ..SharedPrefix::default() })),
        ("hot-prefix", Box::new(HotPrefix { burst_at_s: 20.0, ..HotPrefix::default() })),
        ("rag", Box::new(Rag::default())),
        ("multi-turn", Box::new(MultiTurn::default())),
        ("agent", Box::new(Agent { system_tokens: 1_500, ..Agent::default() })),
    ]
}

fn common(requests: u64) -> Common {
    Common { requests, block_tokens: 64, ..Common::default() }
}

fn reused(records: impl Iterator<Item = Record>) -> f64 {
    let mut cache = InfiniteCache::default();
    let (mut total, mut reused) = (0, 0);
    for part in records.filter_map(|record| cache.take(&record)) {
        total += part.total;
        reused += part.reused;
    }
    reused as f64 / total as f64
}

fn digest(records: Records) -> u64 {
    let mut writer = TraceWriter::new(Vec::new(), 0.0);
    for record in records {
        writer.write(&record).unwrap();
    }
    xxh3::xxh3_64(&writer.finish().unwrap())
}

/// S99: one seed gives the same bytes, in every build and on every platform.
#[test]
fn the_same_seed_gives_the_same_bytes_everywhere() {
    let digests: Vec<_> = shapes()
        .iter()
        .map(|(name, shape)| {
            let again = digest(shape.generate(&common(300)).unwrap());
            assert_eq!(digest(shape.generate(&common(300)).unwrap()), again, "{name}");
            let other = Common { seed: 1, ..common(300) };
            assert_ne!(digest(shape.generate(&other).unwrap()), again, "{name}");
            (*name, format!("{again:016x}"))
        })
        .collect();
    let expected = [
        ("shared-prefix", "2f83fc2feb43d9b7"),
        ("shared-prefix zipf", "09e84368a71ce7de"),
        ("hot-prefix", "9723480c77041724"),
        ("rag", "c8fb051fc7519acc"),
        ("multi-turn", "11bacccceb300f21"),
        ("agent", "a6e39c563bb7adea"),
    ];
    assert_eq!(digests, expected.map(|(name, digest)| (name, digest.to_owned())));
}

#[test]
fn there_are_as_many_requests_as_asked_for_in_the_order_of_their_times() {
    for (name, shape) in shapes() {
        let records: Vec<_> = shape.generate(&common(500)).unwrap().collect();
        assert_eq!(records.len(), 500, "{name}");
        assert!(records.is_sorted_by(|one, two| one.at_ms <= two.at_ms), "{name}");
        for record in &records {
            let Content::Blocks(blocks) = &record.content else { panic!("{name}") };
            assert_eq!(blocks.ids.len(), record.input_tokens.unwrap().div_ceil(64) as usize, "{name}");
            assert!(record.output_tokens.unwrap() > 0, "{name}");
        }
    }
}

/// S99: fast arrivals stay apart.
#[test]
fn arrivals_come_at_the_rate_asked_for_however_fast() {
    for arrivals in [
        Arrivals::Constant { per_s: 20_000.0 },
        Arrivals::Poisson { per_s: 20_000.0 },
        Arrivals::Gamma { per_s: 20_000.0, shape: 0.5 },
    ] {
        let shape = SharedPrefix { prefix_tokens: 64, question: Length::fixed(1), ..SharedPrefix::default() };
        let common = Common { arrivals, ..common(20_000) };
        let times: Vec<f64> = shape.generate(&common).unwrap().map(|record| record.at_ms.unwrap()).collect();
        let gaps: Series = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!((gaps.mean() - 0.05).abs() < 0.002, "{arrivals:?}: {}", gaps.mean());
        assert!(gaps.percentile(0.0) > 0.0, "{arrivals:?}: two arrive at once");
    }
    let closed = Common { arrivals: Arrivals::Closed, ..common(500) };
    for (name, shape) in shapes().into_iter().filter(|(name, _)| *name != "hot-prefix") {
        assert!(shape.generate(&closed).unwrap().all(|record| record.at_ms.is_none()), "{name}");
    }
    let refused = HotPrefix::default().generate(&closed).err().unwrap();
    assert_eq!(refused.to_string(), "arrivals: a burst needs times");
}

/// S99: samplers with one seed are independent of each other.
#[test]
fn lengths_do_not_follow_from_arrivals_or_from_each_other() {
    let shape = Rag { per_request: 1, documents: 2, document: Length::fixed(10), ..Rag::default() };
    let records: Vec<_> = shape.generate(&common(12_000)).unwrap().collect();
    let gaps = records.windows(2).map(|pair| pair[1].at_ms.unwrap() - pair[0].at_ms.unwrap());
    let series: [(&str, Vec<f64>); 3] = [
        ("gap", gaps.collect()),
        ("input", records[1..].iter().map(|record| f64::from(record.input_tokens.unwrap())).collect()),
        ("output", records[1..].iter().map(|record| f64::from(record.output_tokens.unwrap())).collect()),
    ];
    for (at, (one_name, one)) in series.iter().enumerate() {
        for (other_name, other) in &series[at + 1..] {
            let correlation = correlation(one, other);
            assert!(correlation.abs() < 0.035, "{one_name} and {other_name}: {correlation}");
        }
    }
}

fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let (a, b): (Series, Series) = (one.iter().copied().collect(), other.iter().copied().collect());
    let product: f64 = one.iter().zip(other).map(|(x, y)| (x - a.mean()) * (y - b.mean())).sum();
    product / one.len() as f64 / a.std() / b.std()
}

#[test]
fn shared_prefixes_are_used_as_often_as_asked_for() {
    for uses in [1.0, 2.5, 5.0] {
        let shape = SharedPrefix { uses, prefix_tokens: 64, question: Length::fixed(64), ..SharedPrefix::default() };
        let mut counts = HashMap::new();
        for record in shape.generate(&common(20_000)).unwrap() {
            let Content::Blocks(blocks) = record.content else { panic!() };
            *counts.entry(blocks.ids[0]).or_insert(0_u32) += 1;
        }
        let mean = 20_000.0 / counts.len() as f64;
        assert!((mean - uses).abs() < 0.02 * uses, "{uses}: {mean}");
    }
}

#[test]
fn what_can_be_reused_follows_from_the_shape() {
    // Each prefix of 8192 tokens is computed once in five uses; the first ones are in the midst of theirs.
    let shared = reused(SharedPrefix::default().generate(&common(1_500)).unwrap());
    assert!((shared - 8_192.0 / 8_320.0 * 0.8).abs() < 0.03, "{shared}");
    let none = SharedPrefix { uses: 1.0, ..SharedPrefix::default() };
    assert_eq!(reused(none.generate(&common(200)).unwrap()), 0.0);
    let chats = reused(MultiTurn::default().generate(&common(5_000)).unwrap());
    assert!((0.6..0.9).contains(&chats), "{chats}");
    let agents = reused(Agent::default().generate(&common(600)).unwrap());
    assert!((0.9..0.99).contains(&agents), "{agents}");
    let rag = |sorted| reused(Rag { documents: 100, sorted, ..Rag::default() }.generate(&common(3_000)).unwrap());
    assert!(rag(true) > rag(false) + 0.05, "the order of documents decides: {} {}", rag(true), rag(false));
}

#[test]
fn a_burst_is_where_it_was_asked_for() {
    let shape = HotPrefix { burst_at_s: 100.0, burst_s: 50.0, burst_factor: 3.0, ..HotPrefix::default() };
    let records: Vec<_> = shape.generate(&common(4_000)).unwrap().collect();
    let during = |from: f64, to: f64| {
        records.iter().filter(|record| (from * 1e3..to * 1e3).contains(&record.at_ms.unwrap())).count() as f64
    };
    assert!((during(0.0, 100.0) / 100.0 - 10.0).abs() < 1.0);
    assert!((during(100.0, 150.0) / 50.0 - 40.0).abs() < 3.0);
    assert!((during(150.0, 200.0) / 50.0 - 10.0).abs() < 1.5);
}

#[test]
fn a_chat_goes_on_with_what_was_said_and_waits_before_it_does() {
    let shape = MultiTurn { systems: 3, ..MultiTurn::default() };
    let mut last: HashMap<String, Record> = HashMap::new();
    let mut turns = 0;
    for record in shape.generate(&common(3_000)).unwrap() {
        let session = record.session.clone().unwrap().to_string();
        if let Some(before) = last.get(&session) {
            let (Content::Blocks(one), Content::Blocks(two)) = (&before.content, &record.content) else { panic!() };
            let whole = before.input_tokens.unwrap() as usize / 64;
            assert_eq!(one.ids[..whole], two.ids[..whole]);
            assert!(record.input_tokens.unwrap() > before.input_tokens.unwrap() + before.output_tokens.unwrap());
            let answered =
                before.at_ms.unwrap() + f64::from(before.output_tokens.unwrap()) * sessions::ANSWER_MS_PER_TOKEN;
            assert!((record.at_ms.unwrap() - answered - record.delay_ms.unwrap()).abs() < 1e-6);
            turns += 1;
        } else {
            assert_eq!(record.delay_ms, None);
        }
        last.insert(session, record);
    }
    let mean = f64::from(turns + last.len() as i32) / last.len() as f64;
    assert!((3.0..4.2).contains(&mean), "{mean}");
}

#[test]
fn options_out_of_their_range_are_refused_by_name() {
    let refused = |shape: &dyn Shape, common: &Common| shape.generate(common).err().map(|error| error.option);
    let usual = common(1);
    assert_eq!(refused(&SharedPrefix { live: 0, ..SharedPrefix::default() }, &usual), Some("live"));
    assert_eq!(refused(&SharedPrefix { uses: 0.5, ..SharedPrefix::default() }, &usual), Some("uses"));
    assert_eq!(refused(&Rag { per_request: 9, documents: 8, ..Rag::default() }, &usual), Some("per_request"));
    assert_eq!(refused(&MultiTurn { turns: f64::NAN, ..MultiTurn::default() }, &usual), Some("turns"));
    assert_eq!(refused(&Agent { tool: Length::spread(9, 9.0, 99), ..Agent::default() }, &usual), Some("tool_tokens"));
    assert_eq!(refused(&Rag::default(), &Common { block_tokens: 0, ..usual.clone() }), Some("block_tokens"));
    let never = Common { arrivals: Arrivals::Poisson { per_s: 0.0 }, ..usual };
    assert_eq!(refused(&Rag::default(), &never), Some("rate"));
}

#[test]
fn a_length_is_read_as_it_is_written() {
    for length in [Length::fixed(128), Length::spread(161, 1.5, 8_192), Length::spread(9, 1.0, 9)] {
        assert_eq!(length.to_string().parse(), Ok(length));
    }
    for wrong in ["", "x", "-1", "1:2", "1:x:3", "1:2:3:4"] {
        assert!(wrong.parse::<Length>().is_err(), "{wrong}");
    }
}
