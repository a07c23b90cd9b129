//! Records to rows that other tools read, and back.

use kvroute_lab::trace::{Anonymizer, Blocks, Content, Key, Observed, ReadOptions, Record, Segment, TraceWriter};
use proptest::prelude::*;

use crate::trace_reading::read;

fn written(records: &[Record]) -> String {
    let mut writer = TraceWriter::new(Vec::new(), 0.0);
    for record in records {
        writer.write(record).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

/// A record, with the length that its blocks have.
fn record() -> impl Strategy<Value = Record> {
    let text = "[a-z\"\\\\\n\u{1f600} ]{0,40}";
    let name = || proptest::option::of("[a-z0-9]{1,9}".prop_map(|name| name.as_str().into()));
    let segments = prop_oneof![
        proptest::collection::vec(("(user|system|assistant|tool)", text), 1..4),
        proptest::collection::vec(("", text), 1..3),
    ];
    let segments = segments.prop_map(|all| all.into_iter().map(|(role, text)| Segment { role, text }).collect());
    let content = prop_oneof![
        segments.prop_map(Content::Text),
        proptest::collection::vec(any::<u32>(), 1..40).prop_map(|ids| Content::TokenIds(ids.into())),
        (proptest::collection::vec(any::<u64>(), 0..9), 1_u32..600)
            .prop_map(|(ids, tokens)| Content::Blocks(Blocks { ids: ids.into(), tokens })),
        Just(Content::Unknown),
    ];
    let ms = || proptest::option::of(prop_oneof![0.0..1e9, (0_u32..1_000_000).prop_map(f64::from)]);
    let tokens = || proptest::option::of(0_u32..1_000_000);
    let observed = (ms(), ms(), tokens(), name(), proptest::option::of(200_u16..600)).prop_map(
        |(ttft_ms, e2e_ms, cached_tokens, replica, status)| Observed {
            ttft_ms,
            e2e_ms,
            cached_tokens,
            replica,
            status,
        },
    );
    let names = (name(), name(), name(), name());
    let lengths = (tokens(), tokens(), tokens(), 0_u32..600);
    (names, (ms(), ms()), content, lengths, observed).prop_map(|(names, times, content, lengths, observed)| {
        let input_tokens = match &content {
            Content::Blocks(blocks) => Some(
                blocks.ids.len() as u32 * blocks.tokens + if blocks.tokens > 1 { lengths.3 % blocks.tokens } else { 0 },
            ),
            Content::Unknown => Some(lengths.0.unwrap_or(7)),
            _ => lengths.0,
        };
        Record {
            id: names.0,
            at_ms: times.0,
            delay_ms: times.1,
            session: names.1,
            model: names.2,
            tenant: names.3,
            content,
            input_tokens,
            output_tokens: Some(lengths.1.unwrap_or(1)),
            output_tokens_max: lengths.2,
            body: None,
            observed,
        }
    })
}

proptest! {
    #[test]
    fn what_was_written_is_read_as_it_was(records in proptest::collection::vec(record(), 1..9)) {
        let text = written(&records);
        // A session's text_input would be read as its next turn, so none is written.
        prop_assert!(!text.contains("text_input"));
        let options = ReadOptions { time_unit: Some(kvroute_lab::trace::TimeUnit::Milliseconds), ..ReadOptions::default() };
        let (read, summary) = read(text, options).unwrap();
        prop_assert_eq!(summary.skipped, 0, "{}", summary);
        prop_assert_eq!(read, records);
    }

    #[test]
    fn an_anonymous_trace_says_nothing_and_shares_what_the_trace_shared(
        common in "[a-z]{200}", one in "[a-z]{90}", two in "[a-z]{90}", session in "[a-z]{20}",
    ) {
        let said = |end: &str| Record {
            id: Some(one.as_str().into()),
            session: Some(session.as_str().into()),
            tenant: Some(session.as_str().into()),
            model: Some(two.as_str().into()),
            content: Content::Text(vec![Segment { role: "user".into(), text: format!("{common}{end}") }]),
            body: Some(common.as_bytes().into()),
            observed: Observed { replica: Some(two.as_str().into()), ..Observed::default() },
            ..Record::default()
        };
        let anonymizer = Anonymizer::new(Key::new([7; 16]), 16, false).unwrap();
        let hidden = [said(&one), said(&two)].map(|record| anonymizer.anonymize(&record));
        let text = written(&hidden);
        for secret in [&common, &one, &two, &session] {
            prop_assert!(secret.as_bytes().windows(12).all(|part| !text.contains(std::str::from_utf8(part).unwrap())));
        }
        let blocks = |record: &Record| match &record.content {
            Content::Blocks(blocks) => blocks.ids.to_vec(),
            _ => Vec::new(),
        };
        let (first, second) = (blocks(&hidden[0]), blocks(&hidden[1]));
        // 206 bytes with the role: three whole blocks of 64.
        prop_assert_eq!(&first[..3], &second[..3]);
        prop_assert!(first[4] != second[4]);
        prop_assert_eq!(hidden[0].input_tokens, Some(74));
        let other = Anonymizer::new(Key::new([8; 16]), 16, false).unwrap().anonymize(&said(&one));
        prop_assert!(blocks(&other)[0] != first[0]);
    }
}

#[test]
fn a_key_is_written_as_it_is_read_and_shown_to_nobody() {
    let key = Key::parse(" 00112233445566778899aabbccddeeff\n").unwrap();
    assert_eq!(key.digits(), "00112233445566778899aabbccddeeff");
    assert_eq!(format!("{key:?}"), "Key(..)");
    for wrong in ["", "0011", "+0112233445566778899aabbccddeeff", "zz112233445566778899aabbccddeeff"] {
        assert!(Key::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn times_are_written_from_the_origin_on_and_whole_where_they_are() {
    let record = |at| Record { at_ms: Some(at), input_tokens: Some(1), output_tokens: Some(2), ..Record::default() };
    let mut writer = TraceWriter::new(Vec::new(), 1_000.0);
    writer.write(&record(1_000.0)).unwrap();
    writer.write(&record(1_002.25)).unwrap();
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    let expected = "{\"timestamp\":0,\"input_length\":1,\"output_length\":2}\n{\"timestamp\":2.25,\"input_length\":1,\"output_length\":2}\n";
    assert_eq!(text, expected);
}
