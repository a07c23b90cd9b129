//! Rows of traces in every format, detected or told: nothing panics, everything is counted, and the cut of the bytes makes
//! no difference. What was read is read again as it was once it was written.
#![no_main]

use std::io::{self, Read};

use kvroute_fuzz::split;
use kvroute_lab::trace::{Content, Field, Format, ReadOptions, Record, Summary, TimeUnit, TraceReader, TraceWriter};
use libfuzzer_sys::fuzz_target;

/// Gives a few bytes at a time.
struct Drip(io::Cursor<Vec<u8>>, usize);

impl Read for Drip {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let room = out.len().min(self.1);
        self.0.read(&mut out[..room])
    }
}

fn read(bytes: &[u8], step: usize, options: ReadOptions) -> (Vec<Record>, bool, Summary) {
    let drip = Drip(io::Cursor::new(bytes.to_vec()), step);
    let Ok(mut reader) = TraceReader::of_stream("x", Box::new(drip), options) else {
        return (vec![], true, Summary::default());
    };
    let (mut records, mut failed) = (vec![], false);
    for record in &mut reader {
        match record {
            Ok(record) => records.push(record),
            Err(_) => failed = true,
        }
    }
    (records, failed, reader.summary())
}

fuzz_target!(|data: &[u8]| {
    let Some((variant, cut, bytes)) = split(data) else { return };
    // Beyond the formats: told by the rows.
    let format = Format::ALL.get(usize::from(variant)).copied();
    let fields = ["time=.ts", "body=.body", "hash_ids=.hash_ids", "input_tokens=.input_length", "session=.a[0].b"];
    let options = ReadOptions {
        format,
        fields: if format == Some(Format::Fields) {
            fields.map(|field| Field::parse(field).expect("a field")).to_vec()
        } else {
            vec![]
        },
        ..ReadOptions::default()
    };
    let (records, failed, summary) = read(bytes, 1 << 20, options.clone());
    assert!(summary.records == records.len() as u64 && summary.skipped <= summary.rows);
    let (again, failed_again, _) = read(bytes, usize::from(cut) + 1, options);
    assert!(again == records && failed_again == failed);

    // Prompts without messages and lengths without answers are not told apart from other rows.
    let is_plain = |record: &Record| {
        let has_prompt = match &record.content {
            Content::Text(segments) => segments.iter().any(|segment| !segment.role.is_empty()),
            Content::Blocks(blocks) => !blocks.ids.is_empty(),
            Content::TokenIds(_) | Content::Unknown => false,
        };
        has_prompt && record.output_tokens.is_some() && record.id.as_deref() != Some("")
    };
    let plain: Vec<_> = records.into_iter().filter(is_plain).collect();
    let mut writer = TraceWriter::new(vec![], 0.0);
    for record in &plain {
        writer.write(record).expect("a vector takes all");
    }
    let written = writer.finish().expect("a vector takes all");
    let options = ReadOptions {
        format: Some(Format::Mooncake),
        time_unit: Some(TimeUnit::Milliseconds),
        ..ReadOptions::default()
    };
    if !plain.is_empty() {
        assert!(read(&written, 1 << 20, options).0 == plain, "{}", String::from_utf8_lossy(&written));
    }
});
