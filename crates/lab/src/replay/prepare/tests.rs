//! What a record becomes.

use std::sync::Arc;

use super::*;
use crate::trace::{Blocks, Content, Segment};

fn blocks(ids: &[u64], input_tokens: u32) -> Record {
    let content = Content::Blocks(Blocks { ids: ids.into(), tokens: 512 });
    Record { content, input_tokens: Some(input_tokens), output_tokens: Some(600), ..Record::default() }
}

fn text(parts: &[(&str, &str)]) -> Record {
    let segment = |(role, text): &(&str, &str)| Segment { role: (*role).to_owned(), text: (*text).to_owned() };
    Record { content: Content::Text(parts.iter().map(segment).collect()), ..Record::default() }
}

fn options(prefix_lengths: &[u32]) -> PrepareOptions {
    PrepareOptions { prefix_lengths: prefix_lengths.to_vec(), ..PrepareOptions::default() }
}

fn shared(a: &Job, b: &Job) -> usize {
    a.blocks.iter().zip(b.blocks.iter()).take_while(|(a, b)| a == b).count()
}

#[test]
fn names_of_blocks_are_chained_and_the_started_block_is_not_cached() {
    let jobs =
        prepare([blocks(&[1, 2, 3], 1_300), blocks(&[1, 2, 9], 1_536), blocks(&[7, 2, 3], 1_536)], &options(&[]))
            .unwrap();
    let [a, b, c] = &jobs.list[..] else { panic!("three records") };
    assert_eq!((jobs.block_tokens, jobs.unit), (512, LengthUnit::Tokens));
    assert_eq!((a.blocks.len(), b.blocks.len()), (2, 3));
    assert_eq!((shared(a, b), shared(b, c)), (2, 0), "equal names after a different beginning are different blocks");
}

#[test]
fn a_key_of_blocks_is_on_their_grid_and_a_shorter_prompt_has_the_key_of_all_of_it() {
    let jobs = prepare(
        [blocks(&[1, 2, 3], 1_300), blocks(&[1, 2, 9], 1_536), blocks(&[1], 300)],
        &options(&[1_024, 1_536, 100]),
    )
    .unwrap();
    let key = |job: usize, length| jobs.list[job].key(length);
    assert_eq!(key(0, 1_024), key(1, 1_024));
    assert_ne!(key(0, 1_536), key(1, 1_536));
    assert_eq!(key(0, 100), key(2, 1_024), "one block is the least");
    assert_eq!(key(0, 999), None, "lengths are those that were asked for");
}

#[test]
fn a_text_has_the_gateways_chain_and_an_engines_blocks() {
    let long = "words of a system prompt ".repeat(80);
    let jobs = prepare(
        [text(&[("system", &long), ("user", "one")]), text(&[("system", &long), ("user", "another")])],
        &options(&[1_024]),
    )
    .unwrap();
    let [a, b] = &jobs.list[..] else { panic!("two records") };
    let chain = |job: &Job| job.text.as_ref().unwrap().chain.hashes().to_vec();
    assert_eq!(jobs.unit, LengthUnit::Characters);
    assert_eq!(a.input_tokens, (6 + 2_000 + 4 + 3_u32).div_ceil(4));
    assert_eq!(shared(a, b), 2_006 / 64);
    assert_eq!(chain(a)[..3], chain(b)[..3]);
    assert_eq!(a.key(1_024), b.key(1_024));
    assert_eq!(a.facts(&jobs, 1_024).prompt_tokens_estimated, u64::from(a.input_tokens));
}

#[test]
fn where_a_text_is_cut_into_segments_does_not_change_how_its_blocks_are_cut() {
    let whole = prepare([text(&[("", &"x".repeat(1_000))])], &options(&[])).unwrap();
    for cut in [1, 63, 64, 65, 500, 999] {
        let (head, tail) = ("x".repeat(cut), "x".repeat(1_000 - cut));
        let parts = prepare([text(&[("", &head), ("", &tail)])], &options(&[])).unwrap();
        assert_eq!(parts.list[0].blocks, whole.list[0].blocks, "{cut}");
    }
}

#[test]
fn every_block_that_the_tokens_of_a_text_fill_has_a_name_whatever_the_length() {
    for bytes in 1..200 {
        let jobs = prepare([text(&[("", &"x".repeat(bytes))])], &options(&[])).unwrap();
        let job = &jobs.list[0];
        assert_eq!(job.blocks.len(), (job.input_tokens / jobs.block_tokens) as usize, "{bytes} bytes");
    }
}

#[test]
fn an_answer_that_the_next_prompt_quotes_has_its_blocks() {
    let turn = |ids: &[u64], tokens| Record { session: Some(Arc::from("s")), ..blocks(ids, tokens) };
    let jobs = prepare([turn(&[1, 2], 1_024), turn(&[1, 2, 3, 4], 2_048), blocks(&[1, 2, 3, 4], 2_048)], &options(&[]))
        .unwrap();
    assert_eq!(jobs.sessions, [vec![0, 1], vec![2]]);
    assert_eq!(jobs.list[0].blocks.len(), 3, "600 tokens of answer fill one block more");
    assert_eq!(shared(&jobs.list[0], &jobs.list[1]), 3);
    assert_eq!(jobs.list[0].facts(&jobs, 0).prompt.chain.hashes().len(), 2, "the router does not know the answer");
    let unrelated = prepare([turn(&[1, 2], 1_024), turn(&[5, 2, 3, 4], 2_048)], &options(&[])).unwrap();
    assert_eq!(unrelated.list[0].blocks.len(), 2);
}

#[test]
fn models_share_nothing_and_those_beside_the_base_are_adapters() {
    let of = |model: &str| Record { model: Some(model.into()), ..blocks(&[1, 2], 1_024) };
    let with_base = PrepareOptions { base_model: Some("base".to_owned()), ..options(&[512]) };
    let jobs = prepare([of("base"), of("tuned"), of("base")], &with_base).unwrap();
    assert_eq!((shared(&jobs.list[0], &jobs.list[1]), shared(&jobs.list[0], &jobs.list[2])), (0, 2));
    assert_eq!(jobs.list.iter().map(|job| job.adapter).collect::<Vec<_>>(), [None, Some(1), None]);
    assert_eq!(jobs.list[1].facts(&jobs, 512).model.as_deref(), Some("tuned"));
}

#[test]
fn lengths_alone_are_refused_unless_prefixes_are_made_up() {
    let lengths = || (0..40).map(|_| Record { input_tokens: Some(1_000), ..Record::default() });
    assert_eq!(prepare(lengths(), &options(&[])).unwrap_err(), Unusable::LengthsOnly);
    let made_up = PrepareOptions { made_up: Some(MadeUpPrefixes { share: 0.5, count: 4 }), ..options(&[]) };
    let jobs = prepare(lengths(), &made_up).unwrap();
    let first = &jobs.list[0];
    let pairs: Vec<usize> = jobs.list[1..].iter().map(|job| shared(first, job)).collect();
    assert!(
        pairs.iter().all(|shared| [0, 31].contains(shared)) && pairs.contains(&31) && pairs.contains(&0),
        "{pairs:?}"
    );
    assert!(jobs.assumptions.iter().any(|said| said.contains("made up")), "{:?}", jobs.assumptions);
}

#[test]
fn what_cannot_be_used_is_counted_with_the_first_reason() {
    let other_grid = Record { content: Content::Blocks(Blocks { ids: [1].into(), tokens: 16 }), ..Record::default() };
    let jobs =
        prepare([blocks(&[1], 512), other_grid.clone(), blocks(&[], 0), text(&[("", "x")])], &options(&[])).unwrap();
    assert_eq!(jobs.list.len(), 1);
    assert_eq!(jobs.skipped, Some((3, "its blocks have 16 tokens and the first one's 512".to_owned())));
    assert!(matches!(prepare([], &options(&[])), Err(Unusable::Empty(None))));
    assert!(matches!(prepare([blocks(&[], 0)], &options(&[])), Err(Unusable::Empty(Some(_)))));
}

#[test]
fn times_count_from_the_earliest_whatever_the_order() {
    let at = |at_ms: f64| Record { at_ms: Some(at_ms), ..blocks(&[1], 512) };
    let jobs = prepare([at(5_000.5), at(2_000.0), at(f64::NAN)], &options(&[])).unwrap();
    assert_eq!(jobs.list.iter().map(|job| job.at_us).collect::<Vec<_>>(), [Some(3_000_500), Some(0), None]);
}
