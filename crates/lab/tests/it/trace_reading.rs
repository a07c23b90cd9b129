//! Bytes to records, as a user of the reader sees it.

use std::io::Write;
use std::path::PathBuf;

use kvroute_lab::trace::{Content, Format, Kind, ReadOptions, Record, Summary, TraceError, TraceReader};

/// Reads one stream to its end.
pub(crate) fn read(bytes: impl Into<Vec<u8>>, options: ReadOptions) -> Result<(Vec<Record>, Summary), TraceError> {
    let stream = std::io::Cursor::new(bytes.into());
    let mut reader = TraceReader::of_stream("test.jsonl", Box::new(stream), options)?;
    let records = reader.by_ref().collect::<Result<_, _>>()?;
    Ok((records, reader.summary()))
}

fn rows(count: u32) -> String {
    (0..count)
        .map(|at| {
            let blocks: Vec<_> = (0..at % 5 + 1).collect();
            let input = 512 * (at % 5 + 1);
            format!(
                "{{\"timestamp\": {}, \"input_length\": {input}, \"output_length\": 9, \"hash_ids\": {blocks:?}}}\n",
                at * 100
            )
        })
        .collect()
}

/// S95: all rows, in order, at their times, exactly once, unless asked otherwise; and then it is told.
#[test]
fn every_row_is_read_once_in_order_at_its_time_and_less_only_if_asked() {
    let (records, summary) = read(rows(100), ReadOptions::default()).unwrap();
    let times: Vec<_> = records.iter().map(|record| record.at_ms.unwrap()).collect();
    assert_eq!(times, (0..100).map(|at| f64::from(at * 100)).collect::<Vec<_>>());
    assert_eq!((summary.records, summary.left_out, summary.skipped), (100, 0, 0));
    assert_eq!((summary.format, summary.kind()), (Some(Format::Mooncake), Kind::Hashes));
    assert!(summary.warnings.is_empty(), "{summary}");

    let sampled = ReadOptions { sample: Some(0.3), ..ReadOptions::default() };
    let (records, summary) = read(rows(100), sampled).unwrap();
    assert!((15..45).contains(&records.len()), "{}", records.len());
    assert_eq!(summary.left_out, 100 - records.len() as u64);
    assert!(summary.warnings[0].starts_with("this is a sample of 30"), "{summary}");

    let window = ReadOptions { since_ms: Some(1_000.0), until_ms: Some(1_900.0), ..ReadOptions::default() };
    let (records, summary) = read(rows(100), window).unwrap();
    assert_eq!((records.len(), summary.left_out), (10, 90));

    let first = ReadOptions { records_max: Some(7), ..ReadOptions::default() };
    assert_eq!(read(rows(100), first).unwrap().0.len(), 7);
}

/// S94: rows whose block ids do not fit their length are reported by line; which of the two ways of counting the last
/// block the trace has is found out.
#[test]
fn rows_whose_ids_do_not_fit_their_length_are_told_by_line() {
    let row =
        |input: u32, ids: &[u32]| format!("{{\"input_length\":{input},\"output_length\":1,\"hash_ids\":{ids:?}}}\n");
    let text = [row(20, &[1, 2]), row(1537, &[1, 2, 3]), row(512, &[1]), row(513, &[1])].concat();
    let options = ReadOptions { block_tokens: Some(512), ..ReadOptions::default() };
    let (records, summary) = read(text, options).unwrap();
    let lengths: Vec<_> = records.iter().map(|record| record.input_tokens.unwrap()).collect();
    assert_eq!(lengths, [1537, 512, 513]);
    let told = "test.jsonl:1: 2 block ids do not fit 20 tokens: at 512 a block there are 0 or 1";
    assert_eq!((summary.skipped, summary.skipped_first), (1, vec![told.to_owned()]));
    assert!(summary.assumptions.iter().any(|told| told.contains("rounded down")), "{:?}", summary.assumptions);
}

#[test]
fn the_size_of_a_block_is_told_by_the_lengths_and_said() {
    let text = "{\"timestamp\":1,\"input_length\":1300,\"output_length\":1,\"hash_ids\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21]}";
    let (records, summary) = read(text, ReadOptions::default()).unwrap();
    match &records[0].content {
        Content::Blocks(blocks) => assert_eq!(blocks.tokens, 64),
        other => panic!("{other:?}"),
    }
    assert_eq!(summary.assumptions[0], "times are milliseconds, as usual in this format (--time-unit)");
    assert!(summary.assumptions[1].starts_with("64 tokens a block, which fits 1 of the first 1 rows"));
}

#[test]
fn bad_rows_are_passed_over_and_the_first_reasons_told_without_what_they_hold() {
    let good = "{\"timestamp\":1,\"input_length\":5,\"output_length\":1}\n";
    let text = [
        good,
        "{\"input_length\": \"SECRET\", \"output_length\": 1}\n",
        "SECRET not JSON\n",
        "{\"timestamp\":1,\"messages\":[{\"role\":\"user\",\"content\":\"SECRET\"}\n",
        "{\"session_id\":\"SECRET\"}\n",
        good,
    ]
    .concat();
    let (records, summary) = read(text, ReadOptions::default()).unwrap();
    assert_eq!((records.len(), summary.rows, summary.skipped), (2, 6, 4));
    assert_eq!(summary.skipped_first.len(), 3);
    assert!(summary.skipped_first[0].starts_with("test.jsonl:2: "));
    assert!(!summary.to_string().contains("SECRET"), "{summary}");
}

#[test]
fn what_is_no_trace_is_refused_with_what_it_looks_like() {
    let refused = |text: &str| read(text, ReadOptions::default()).unwrap_err().to_string();
    let told = refused("{\"colour\": \"red\", \"size\": 3}\n");
    assert!(told.contains("test.jsonl is in no known format: it has JSON objects with colour, size"), "{told}");
    assert!(refused("hello\nworld\n").contains("lines of text"));
    assert!(refused("").contains("nothing to read in test.jsonl"));
}

/// Writes a file beside others of this test.
fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("trace_reading").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
    path
}

/// A tar archive of plain files.
fn tar(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, content) in files {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..107].copy_from_slice(b"0000644");
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive.extend_from_slice(&header);
        archive.extend_from_slice(content.as_bytes());
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.extend_from_slice(&[0; 1024]);
    archive
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn files_folders_and_archives_are_read_compressed_or_not_whatever_they_are_called() {
    let (one, two) = (rows(10), rows(7));
    let joined = |pack: fn(&[u8]) -> Vec<u8>| [pack(one.as_bytes()), pack(two.as_bytes())].concat();
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd(one.as_bytes())].concat();
    let packed = tar(&[("a/one.jsonl", &one), ("README", "about this trace\n"), ("two", &two)]);
    let files = [
        ("plain", one.clone().into_bytes(), 10),
        ("members.gz", joined(gzip), 17),
        ("frames.zst", joined(zstd), 17),
        ("skippable.zst", [zstd(two.as_bytes()), skippable].concat(), 17),
        ("wrong.gz", zstd(one.as_bytes()), 10),
        ("packed.tar", packed.clone(), 17),
        ("packed.tgz", gzip(&packed), 17),
    ];
    for (name, bytes, count) in files {
        let path = write(&format!("single/{name}"), &bytes);
        let mut reader = TraceReader::open(&[path], ReadOptions::default()).unwrap();
        let records: Vec<Record> = reader.by_ref().collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(records.len(), count, "{name}");
        assert_eq!(reader.progress().0, bytes.len() as u64, "{name}");
    }
    write("folder/b.jsonl", two.as_bytes());
    write("folder/a/one.jsonl.gz", &gzip(one.as_bytes()));
    write("folder/.hidden", b"nothing");
    let folder = write("folder/LICENSE", b"do what you like\n").parent().unwrap().to_owned();
    let mut reader = TraceReader::open(&[folder], ReadOptions::default()).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 17);
    let summary = reader.summary();
    assert_eq!(summary.files, 2);
    assert!(summary.warnings[0].contains("LICENSE is in no known format"), "{summary}");
    assert!(summary.warnings[1].contains("1 requests are earlier than the one before them"), "{summary}");
}

#[test]
fn a_file_that_is_damaged_or_missing_is_an_error_with_its_name() {
    let mut cut = gzip(rows(50).as_bytes());
    cut.truncate(cut.len() / 2);
    for (name, bytes) in [("cut.gz", cut), ("cut.tar", tar(&[("a", &rows(200))])[..9_000].to_vec())] {
        let path = write(name, &bytes);
        let error = TraceReader::open(&[path], ReadOptions::default()).unwrap().find_map(Result::err).unwrap();
        assert!(matches!(error, TraceError::Read { .. }), "{name}: {error:?}");
    }
    let missing = TraceReader::open(&["nowhere".into()], ReadOptions::default()).err().unwrap();
    assert_eq!(missing.to_string(), "cannot open nowhere");
}
