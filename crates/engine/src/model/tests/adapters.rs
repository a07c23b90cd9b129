//! Adapters in the batch, and blocks told again.

use super::*;

fn adapted(id: u64, adapter: impl Into<Option<u32>>, output: u32) -> Request {
    Request { adapter: adapter.into(), ..unshared(id, 100, output) }
}

fn started(events: &[Event]) -> Vec<u64> {
    let scheduled = |event: &Event| match *event {
        Event::Scheduled { id, .. } => Some(id),
        _ => None,
    };
    events.iter().filter_map(scheduled).collect()
}

#[test]
fn who_needs_one_adapter_too_many_waits_and_is_overtaken() {
    let mut engine = Checked::new(Preset { adapters_max: 2, ..Preset::default() });
    let queue = [(1, Some(7)), (2, Some(8)), (3, Some(9)), (4, None), (5, Some(7))];
    for (id, adapter) in queue {
        engine.submit(adapted(id, adapter, if id == 1 { 50 } else { 10 }));
    }
    assert_eq!(started(engine.run_for_ms(60.0)), [1, 2, 4, 5]);
    let adapters = engine.engine.adapter_load();
    assert_eq!((adapters.running, adapters.waiting), (vec![7, 8], vec![9]));
    // 2 ends long before 1 does, and leaves its adapter's place.
    let events = engine.run_until_idle();
    let (second_ends, third_starts) = (position(events, 2, true), position(events, 3, false));
    assert!(second_ends < third_starts && third_starts < position(events, 1, true));
    assert_eq!(engine.engine.adapter_load(), Default::default());
}

fn position(events: &[Event], of: u64, end: bool) -> usize {
    let found = events.iter().position(|event| match *event {
        Event::Scheduled { id, .. } => !end && id == of,
        Event::Finished { id, .. } => end && id == of,
        _ => false,
    });
    found.unwrap()
}

#[test]
fn who_waits_for_a_place_can_be_given_up() {
    let mut engine = Checked::new(Preset { adapters_max: 1, ..Preset::default() });
    engine.submit(adapted(1, 1, 20));
    engine.submit(adapted(2, 2, 20));
    engine.run_for_ms(60.0);
    engine.abort(2);
    engine.run_until_idle();
    assert_eq!(finish_reason(&engine.events, 2), Some(FinishReason::Aborted));
    assert_eq!(finish_reason(&engine.events, 1), Some(FinishReason::Stop));
}

#[test]
fn a_limit_of_none_lets_one_adapter_run() {
    let mut engine = Checked::new(Preset { adapters_max: 0, ..Preset::default() });
    engine.run_alone(adapted(1, 1, 5));
    assert_eq!(tokens_told(&engine.events, 1), 5);
}

#[test]
fn a_request_without_output_ends_with_its_prompt_and_leaves_it_cached() {
    let mut engine = Checked::new(Preset { step_tokens_max: 512, ..Preset::default() });
    let events = engine.run_alone(unshared(1, 2000, 0)).to_vec();
    assert_eq!(tokens_told(&events, 1), 0);
    assert_eq!(events.last().map(Event::at), Some(engine.now));
    assert!(matches!(events.last(), Some(Event::Finished { reason: FinishReason::Stop, .. })));
    let chunks = events.iter().filter(|event| matches!(event, Event::Stored { .. })).count();
    assert_eq!(chunks, 4);
    let load = engine.load();
    assert_eq!((load.prompt_tokens_total, load.generated_tokens_total), (2000, 0));
    let again = engine.run_alone(Request { id: 2, ..unshared(1, 2000, 0) });
    assert_eq!(cached_tokens(again, 2), Some(1984));
}

#[test]
fn what_was_found_is_told_again_to_who_asks() {
    // Blocks of 4: three are cached, then a longer prompt adds two.
    for (report_cached, told) in [(false, vec![(3, 2)]), (true, vec![(0, 3), (3, 2)])] {
        let mut engine = Checked::new(small(64));
        let first = engine.run_alone(request(1, &[1, 2, 3], 4, 1, 1));
        assert!(first.iter().any(|event| matches!(event, Event::Stored { .. })));
        let again = Request { report_cached, ..request(2, &[1, 2, 3, 4, 5], 4, 1, 1) };
        let whole = again.block_hashes.clone();
        let mut stored = Vec::new();
        for event in engine.run_alone(again) {
            if let Event::Stored { at, id, parent, hashes, first_block } = event {
                assert_eq!(*parent, first_block.checked_sub(1).map(|before| whole[before as usize]));
                assert_eq!(hashes[..], whole[*first_block as usize..][..hashes.len()]);
                assert_eq!(*id, 2);
                stored.push((*first_block, hashes.len()));
                assert!(*at > Micros(0));
            }
        }
        assert_eq!(stored, told);
    }
}

#[test]
fn nothing_is_told_again_where_nothing_was_found() {
    let mut engine = Checked::new(small(64));
    let events = engine.run_alone(Request { report_cached: true, ..request(1, &[1, 2], 4, 0, 1) });
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Stored { .. })).count(), 1);
}
