//! What is found cached, what goes first, and what is told of it.

use super::*;

#[test]
fn a_repeated_prompt_hits_its_full_blocks_but_never_its_last_token() {
    // (prompt tokens, found the second time), with blocks of 16.
    let cases = [(1, 0), (15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (8192, 8176)];
    for (prompt_tokens, found) in cases {
        let mut engine = Checked::new(Preset::default());
        let first = engine.run_alone(unshared(1, prompt_tokens, 1));
        assert_eq!(cached_tokens(first, 1), Some(0), "{prompt_tokens}");
        let second = engine.run_alone(Request { id: 2, ..unshared(1, prompt_tokens, 1) });
        assert_eq!(cached_tokens(second, 2), Some(found), "{prompt_tokens}");
        let load = engine.load();
        assert_eq!(load.cached_tokens_total, u64::from(found));
        assert_eq!(load.queried_tokens_total, 2 * u64::from(prompt_tokens));
        assert_eq!(load.prompt_tokens_total, 2 * u64::from(prompt_tokens));
        assert_eq!(load.generated_tokens_total, 2);
    }
}

#[test]
fn only_the_common_beginning_is_found() {
    let cases: [(&[u64], u32); 5] = [
        (&[1, 2, 3, 4], 12), // the same, last block anew
        (&[1, 2, 3, 4, 5], 16),
        (&[1, 2, 9, 4], 8),
        (&[9, 2, 3, 4], 0),
        (&[2, 3, 4], 0),
    ];
    for (contents, found) in cases {
        let mut engine = Checked::new(small(64));
        engine.run_alone(request(1, &[1, 2, 3, 4], 4, 0, 1));
        let events = engine.run_alone(request(2, contents, 4, 0, 1));
        assert_eq!(cached_tokens(events, 2), Some(found), "{contents:?}");
    }
}

#[test]
fn what_was_generated_is_found_by_a_prompt_that_quotes_it() {
    let mut engine = Checked::new(small(64));
    let whole = chain(&[1, 2, 7, 8]);
    // Two blocks of prompt; eight tokens of output, of which the last is never computed.
    let first = Request { block_hashes: whole.clone(), ..request(1, &[1, 2], 4, 0, 8) };
    engine.run_alone(first);
    let second = Request { block_hashes: whole, ..request(2, &[1, 2, 7, 8], 4, 2, 1) };
    assert_eq!(cached_tokens(engine.run_alone(second), 2), Some(12));
}

#[test]
fn blocks_of_unknown_output_are_named_by_the_seed() {
    let mut engine = Checked::new(small(64));
    let prompt = chain(&[1]);
    let named: Vec<Event> = engine.run_alone(request(1, &[1], 4, 3, 6)).to_vec();
    let second = output_block_hash(Some(prompt[0]), 1, 1);
    let stored: Vec<_> = named
        .iter()
        .filter_map(|event| match event {
            Event::Stored { parent, hashes, first_block, .. } => Some((*parent, hashes.clone(), *first_block)),
            _ => None,
        })
        .collect();
    assert_eq!(
        stored,
        [
            (None, vec![prompt[0]], 0),
            (Some(prompt[0]), vec![second], 1),
            (Some(second), vec![output_block_hash(Some(second), 1, 2)], 2),
        ]
    );
}

#[test]
fn the_name_of_an_output_block_depends_on_all_that_it_stands_for() {
    let base = output_block_hash(Some(1), 2, 3);
    assert_eq!(base, output_block_hash(Some(1), 2, 3));
    let others = [
        output_block_hash(Some(0), 2, 3),
        output_block_hash(Some(1), 1, 3),
        output_block_hash(Some(1), 2, 2),
        output_block_hash(None, 2, 3),
    ];
    assert!(others.iter().all(|&other| other != base));
    assert_ne!(output_block_hash(None, 2, 3), output_block_hash(Some(0), 2, 3));
}

#[test]
fn a_prompt_tells_one_stored_event_for_each_chunk() {
    let mut engine = Checked::new(Preset { step_tokens_max: 12, ..small(64) });
    let hashes = chain(&[1, 2, 3, 4, 5, 6]);
    let events = engine.run_alone(request(1, &[1, 2, 3, 4, 5, 6], 4, 2, 1));
    let stored: Vec<&Event> = events.iter().filter(|event| matches!(event, Event::Stored { .. })).collect();
    let at: Vec<Micros> = stored.iter().map(|event| event.at()).collect();
    let expected = [(None, hashes[..3].to_vec(), 0), (Some(hashes[2]), hashes[3..].to_vec(), 3)];
    for ((event, at), (parent, hashes, first_block)) in stored.iter().zip(&at).zip(expected) {
        let want = Event::Stored { at: *at, id: 1, parent, hashes, first_block };
        assert_eq!(**event, want);
    }
    assert_eq!(stored.len(), 2);
    assert!(at[0] < at[1]);
}

#[test]
fn hits_tell_nothing() {
    let mut engine = Checked::new(small(64));
    engine.run_alone(request(1, &[1, 2, 3], 4, 1, 1));
    let events = engine.run_alone(request(2, &[1, 2, 3], 4, 1, 1));
    let told = events
        .iter()
        .any(|event| matches!(event, Event::Stored { .. } | Event::Removed { .. } | Event::Cleared { .. }));
    assert!(!told, "{events:?}");
}

#[test]
fn removals_come_before_the_stored_that_needed_the_room_in_one_batch() {
    let mut engine = Checked::new(small(8));
    engine.run_alone(request(1, &[1, 2, 3], 4, 1, 1));
    engine.run_alone(request(2, &[4, 5, 6], 4, 1, 1));
    let old = chain(&[1, 2, 3]);
    let new = chain(&[7, 8]);
    let events = engine.run_alone(request(3, &[7, 8], 4, 1, 1)).to_vec();
    let at = events[1].at();
    assert_eq!(
        events,
        [
            Event::Scheduled { id: 3, at: events[0].at(), cached_tokens: 0 },
            // The first request's unnamed last block goes first, then its third and second.
            Event::Removed { at, hashes: [old[2]] },
            Event::Removed { at, hashes: [old[1]] },
            Event::Stored { at, id: 3, parent: None, hashes: new.to_vec(), first_block: 0 },
            Event::FirstToken { id: 3, at },
            Event::Finished { id: 3, at, reason: FinishReason::Stop },
        ]
    );
}

#[test]
fn use_keeps_a_prefix_and_disuse_loses_it() {
    let mut engine = Checked::new(small(12));
    engine.run_alone(request(1, &[1, 2, 3], 4, 1, 1));
    engine.run_alone(request(2, &[4, 5, 6], 4, 1, 1));
    // Uses the older one again, then needs eight blocks: those of 4, 5, 6 and the unused ones.
    engine.run_alone(request(3, &[1, 2, 3], 4, 1, 1));
    engine.run_alone(request(4, &[7, 8, 9, 10, 11, 12, 13], 4, 1, 1));
    let old = engine.run_alone(request(5, &[4, 5, 6], 4, 1, 1)).to_vec();
    assert_eq!(cached_tokens(&old, 5), Some(0));
    let mut engine = Checked::new(small(12));
    engine.run_alone(request(1, &[1, 2, 3], 4, 1, 1));
    engine.run_alone(request(2, &[4, 5, 6], 4, 1, 1));
    engine.run_alone(request(3, &[1, 2, 3], 4, 1, 1));
    engine.run_alone(request(4, &[7, 8, 9, 10, 11, 12, 13], 4, 1, 1));
    let kept = engine.run_alone(request(5, &[1, 2, 3], 4, 1, 1));
    assert_eq!(cached_tokens(kept, 5), Some(12));
}

#[test]
fn two_requests_that_compute_the_same_block_in_one_step_share_it_afterwards() {
    let mut engine = Checked::new(small(64));
    engine.submit(request(1, &[1, 2, 3], 4, 1, 50));
    engine.submit(request(2, &[1, 2, 4], 4, 1, 50));
    engine.run_for_ms(75.0);
    let hashes = chain(&[1, 2, 3]);
    let other = chain(&[1, 2, 4]);
    let stored: Vec<_> = engine
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Stored { id, parent, hashes, .. } => Some((*id, *parent, hashes.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(stored[0], (1, None, hashes.to_vec()));
    assert_eq!(stored[1], (2, Some(hashes[1]), vec![other[2]]));
    // Two shared blocks, and two of each one's own.
    assert_eq!(engine.load().kv_used_ratio, 6.0 / 64.0);
    engine.run_until_idle();
}

#[test]
fn a_request_hits_what_a_running_one_has_computed() {
    let mut engine = Checked::new(small(64));
    engine.submit(request(1, &[1, 2, 3], 4, 1, 50));
    engine.run_for_ms(100.0);
    engine.submit(request(2, &[1, 2, 3], 4, 1, 2));
    let events = engine.run_until_idle();
    assert_eq!(cached_tokens(events, 2), Some(12));
}

#[test]
fn cached_blocks_without_a_request_count_as_free() {
    let mut engine = Checked::new(small(64));
    engine.submit(request(1, &[1, 2, 3], 4, 1, 3));
    engine.run_for_ms(45.0);
    assert_eq!(engine.load().kv_used_ratio, 4.0 / 64.0);
    engine.run_until_idle();
    assert_eq!(engine.load().kv_used_ratio, 0.0);
}

#[test]
fn a_cleared_cache_is_told_first_at_the_end_of_the_next_step() {
    let mut engine = Checked::new(small(64));
    engine.run_alone(request(1, &[1, 2, 3], 4, 1, 1));
    assert!(engine.clear_cache());
    assert_eq!(engine.run_until_idle(), []);
    let events = engine.run_alone(request(2, &[1, 2, 3], 4, 1, 1));
    assert_eq!(cached_tokens(events, 2), Some(0));
    assert_eq!(events[1], Event::Cleared { at: events[2].at() });
    assert!(matches!(events[2], Event::Stored { first_block: 0, .. }));
    let told = engine.events.iter().filter(|event| matches!(event, Event::Cleared { .. })).count();
    assert_eq!(told, 1);
}

#[test]
fn the_cache_is_not_cleared_while_requests_hold_blocks() {
    let mut engine = Checked::new(small(64));
    engine.submit(request(1, &[1, 2, 3], 4, 1, 30));
    engine.run_for_ms(100.0);
    assert!(!engine.clear_cache());
    engine.run_until_idle();
    let events = engine.run_alone(request(2, &[1, 2, 3], 4, 1, 1));
    assert_eq!(cached_tokens(events, 2), Some(12));
}
