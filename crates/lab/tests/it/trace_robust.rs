//! Bytes from outside: whatever they are, reading them ends, counts them, and does not depend on how they arrive.

use std::io::{self, Read};

use kvroute_lab::trace::{Field, Format, ReadOptions, Record, Summary, TraceReader};
use proptest::prelude::*;

use crate::trace_formats::CASES;

/// Gives a few bytes at a time.
struct Drip {
    bytes: io::Cursor<Vec<u8>>,
    step: usize,
}

impl Read for Drip {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let room = out.len().min(self.step);
        self.bytes.read(&mut out[..room])
    }
}

/// What is read, up to the first error.
fn read(bytes: &[u8], step: usize, format: Option<Format>) -> (Vec<Record>, Option<String>, Summary) {
    let fields = ["time=.ts", "body=.body", "hash_ids=.hash_ids", "input_tokens=.input_length", "response=.response"];
    let options = ReadOptions {
        format,
        fields: if format == Some(Format::Fields) {
            fields.map(|field| Field::parse(field).unwrap()).to_vec()
        } else {
            Vec::new()
        },
        keep_bodies: true,
        ..ReadOptions::default()
    };
    let drip = Drip { bytes: io::Cursor::new(bytes.to_vec()), step };
    let mut reader = match TraceReader::of_stream("x", Box::new(drip), options) {
        Ok(reader) => reader,
        Err(error) => return (Vec::new(), Some(error.to_string()), Summary::default()),
    };
    let (mut records, mut error) = (Vec::new(), None);
    for record in &mut reader {
        match record {
            Ok(record) => records.push(record),
            Err(why) => error = Some(why.to_string()),
        }
    }
    (records, error, reader.summary())
}

/// Rows of some format, with a few of their bytes changed.
fn damaged() -> impl Strategy<Value = (Format, Vec<u8>)> {
    let edits = proptest::collection::vec((any::<prop::sample::Index>(), 0_u8..4, any::<u8>()), 0..6);
    (0..CASES.len(), edits).prop_map(|(case, edits)| {
        let (format, text, _) = CASES[case];
        let mut bytes = text.as_bytes().to_vec();
        for (place, kind, byte) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = place.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.truncate(at),
                2 => bytes.insert(at, byte),
                // Digits make numbers that are too large, too small or too many.
                _ => bytes.splice(at..at, b"9999999999".iter().copied()).for_each(drop),
            }
        }
        (format, bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_rows_are_counted_and_read_the_same_however_they_arrive(
        (format, bytes) in damaged(), step in 1_usize..60, told in any::<bool>(),
    ) {
        let format = told.then_some(format);
        let (records, error, summary) = read(&bytes, 1 << 20, format);
        prop_assert_eq!(summary.records, records.len() as u64);
        prop_assert_eq!(summary.kinds.iter().sum::<u64>(), summary.records);
        prop_assert!(summary.skipped <= summary.rows);
        prop_assert_eq!(summary.skipped_first.len() as u64, summary.skipped.min(3));
        for record in &records {
            prop_assert!(record.at_ms.is_none_or(f64::is_finite));
        }
        let (again, error_again, _) = read(&bytes, step, format);
        prop_assert_eq!((again, error_again), (records, error));
    }

    #[test]
    fn any_bytes_are_read_as_any_format(bytes in proptest::collection::vec(any::<u8>(), 0..400), format in 0..Format::ALL.len()) {
        read(&bytes, 1 << 20, None);
        read(&bytes, 1 << 20, Some(Format::ALL[format]));
    }
}
