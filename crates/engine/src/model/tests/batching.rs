//! Who runs when.

use super::*;

#[test]
fn an_idle_engine_has_no_next_event() {
    let mut engine = Checked::new(Preset::default());
    assert_eq!(engine.engine.next_event_at(), None);
    assert_eq!(engine.run_for_ms(1e6), []);
    engine.abort(7);
    assert_eq!(engine.engine.next_event_at(), None);
    engine.run_alone(unshared(1, 100, 3));
    assert_eq!(engine.engine.next_event_at(), None);
}

#[test]
fn a_request_tells_its_life_in_order() {
    let mut engine = Checked::new(Preset::default());
    let told: Vec<&str> = engine
        .run_alone(unshared(1, 20, 3))
        .iter()
        .map(|event| match event {
            Event::Scheduled { .. } => "scheduled",
            Event::FirstToken { .. } => "first",
            Event::Token { .. } => "token",
            Event::Finished { reason: FinishReason::Stop, .. } => "stop",
            Event::Stored { .. } => "stored",
            _ => "other",
        })
        .collect();
    assert_eq!(told, ["scheduled", "stored", "first", "token", "token", "stop"]);
}

#[test]
fn what_can_never_run_is_rejected_and_the_rest_is_cut_at_the_context() {
    use FinishReason::{Length, Rejected, Stop};
    // (prompt, output, hashes left out, reason, tokens), context 64 tokens in blocks of 4.
    let cases = [
        (0, 1, 0, Rejected, 0),
        (64, 1, 0, Rejected, 0),
        (u32::MAX, u32::MAX, 0, Rejected, 0),
        (40, 1, 1, Rejected, 0),
        (63, 1, 0, Stop, 1),
        (63, 2, 0, Length, 1),
        (60, 4, 0, Stop, 4),
        (60, u32::MAX, 0, Length, 4),
        (63, 0, 0, Stop, 0),
        (1, 0, 0, Stop, 0),
    ];
    for (prompt_tokens, output_tokens, left_out, reason, tokens) in cases {
        let contents: Vec<u64> = (0..u64::from(prompt_tokens.min(100) / 4) - left_out).collect();
        let request = Request { prompt_tokens, output_tokens, ..request(1, &contents, 4, 0, 1) };
        let mut engine = Checked::new(small(16));
        let events = engine.run_alone(request);
        assert_eq!(finish_reason(events, 1), Some(reason), "{prompt_tokens} {output_tokens}");
        assert_eq!(tokens_told(events, 1), tokens, "{prompt_tokens} {output_tokens}");
        assert_eq!(engine.load().preemptions_total, 0, "it fits, to the last block");
    }
}

#[test]
fn no_more_requests_run_than_allowed_and_the_rest_wait_in_order() {
    let mut engine = Checked::new(Preset { seqs_max: 2, ..Preset::default() });
    for id in 0..5 {
        engine.submit(unshared(id, 100, 10));
    }
    engine.run_for_ms(60.0);
    assert_eq!((engine.load().running, engine.load().waiting), (2, 3));
    engine.run_until_idle();
    let started: Vec<u64> = engine
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Scheduled { id, .. } => Some(*id),
            _ => None,
        })
        .collect();
    assert_eq!(started, [0, 1, 2, 3, 4]);
}

#[test]
fn a_long_prompt_is_cut_into_chunks_and_decoding_goes_on_between_them() {
    let preset = Preset { step_tokens_max: 256, ..Preset::default() };
    let mut engine = Checked::new(preset);
    engine.submit(unshared(1, 64, 100));
    engine.run_for_ms(80.0);
    engine.submit(unshared(2, 2550, 1));
    let events = engine.run_until_idle();
    let scheduled = events.iter().position(|event| matches!(event, Event::Scheduled { id: 2, .. })).unwrap();
    let first = events.iter().position(|event| matches!(event, Event::FirstToken { id: 2, .. })).unwrap();
    // 255 tokens of prompt beside one that decodes: ten steps.
    assert_eq!(tokens_told(&events[scheduled..=first], 1), 10);
}

#[test]
fn a_short_prompt_behind_a_long_one_waits_for_it() {
    let mut engine = Checked::new(Preset::default());
    engine.submit(unshared(1, 30_000, 1));
    engine.submit(unshared(2, 16, 1));
    let events = engine.run_until_idle();
    let (long, short) = (first_token_at(events, 1).unwrap(), first_token_at(events, 2).unwrap());
    assert_eq!(long, short, "the short one shares the long one's last step");
}

#[test]
fn a_waiting_request_is_aborted_without_having_run() {
    let mut engine = Checked::new(Preset { seqs_max: 1, ..Preset::default() });
    engine.submit(unshared(1, 1000, 20));
    engine.submit(unshared(2, 1000, 20));
    engine.run_for_ms(60.0);
    engine.abort(2);
    engine.abort(2);
    let events = engine.run_until_idle();
    assert_eq!(finish_reason(events, 2), Some(FinishReason::Aborted));
    assert_eq!(cached_tokens(&engine.events, 2), None);
    assert_eq!(finish_reason(&engine.events, 1), Some(FinishReason::Stop));
    assert_eq!(engine.events.iter().filter(|e| matches!(e, Event::Finished { .. })).count(), 2);
}

#[test]
fn a_request_aborted_on_its_way_to_the_scheduler_goes_at_once() {
    let mut engine = Checked::new(Preset::default());
    engine.submit(unshared(1, 1000, 20));
    engine.run_for_ms(10.0);
    engine.abort(1);
    assert_eq!(engine.engine.next_event_at(), Some(Micros(10_000)));
    let gone = Event::Finished { id: 1, at: Micros(10_000), reason: FinishReason::Aborted };
    assert_eq!(engine.run_until_idle(), [gone]);
}

#[test]
fn an_abort_during_prefill_lets_the_step_end_and_keeps_its_blocks() {
    let mut engine = Checked::new(Preset::default());
    engine.submit(unshared(1, 20_000, 20));
    engine.run_for_ms(50.0);
    engine.abort(1);
    let events = engine.run_until_idle().to_vec();
    assert!(matches!(&events[0], Event::Stored { hashes, .. } if hashes.len() == 8192 / 16));
    let at = events[0].at();
    assert_eq!(events[1..], [Event::Finished { id: 1, at, reason: FinishReason::Aborted }]);
    let again = engine.run_alone(Request { id: 2, ..unshared(1, 20_000, 20) });
    assert_eq!(cached_tokens(again, 2), Some(8192));
}

#[test]
fn an_abort_gives_its_blocks_to_the_one_that_waits_for_them() {
    let mut engine = Checked::new(small(16));
    engine.submit(request(1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 4, 0, 20));
    engine.submit(request(2, &[11, 12, 13, 14, 15, 16, 17, 18], 4, 0, 1));
    engine.run_for_ms(70.0);
    assert_eq!((engine.load().running, engine.load().waiting), (1, 1));
    engine.abort(1);
    let events = engine.run_until_idle();
    assert_eq!(finish_reason(events, 1), Some(FinishReason::Aborted));
    assert_eq!(finish_reason(events, 2), Some(FinishReason::Stop));
}

#[test]
fn who_finds_no_room_is_not_overtaken() {
    let mut engine = Checked::new(small(16));
    engine.submit(request(1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 4, 0, 20));
    engine.submit(request(2, &[11, 12, 13, 14, 15, 16, 17, 18], 4, 0, 1));
    engine.submit(request(3, &[19], 4, 0, 1));
    engine.run_for_ms(70.0);
    assert_eq!((engine.load().running, engine.load().waiting), (1, 2));
    engine.run_until_idle();
    let at = |id| first_token_at(&engine.events, id).unwrap();
    assert!(at(1) < at(2) && at(2) <= at(3));
}

#[test]
fn when_memory_runs_out_the_last_one_is_preempted_and_everyone_finishes() {
    let mut engine = Checked::new(small(16));
    for id in 0..3 {
        engine.submit(request(id, &[10 * id, 10 * id + 1, 10 * id + 2], 4, 2, 30));
    }
    let events = engine.run_until_idle().to_vec();
    let victims: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            Event::Preempted { id, .. } => Some(*id),
            _ => None,
        })
        .collect();
    assert!(!victims.is_empty());
    assert!(victims.iter().all(|&id| id != 0), "the first is never preempted: {victims:?}");
    assert_eq!(engine.load().preemptions_total, victims.len() as u64);
    for id in 0..3 {
        assert_eq!(finish_reason(&events, id), Some(FinishReason::Stop));
        assert_eq!(tokens_told(&events, id), 30, "nothing is generated twice");
    }
    assert_eq!(engine.load().prompt_tokens_total, 3 * 14);
    assert_eq!(engine.load().queried_tokens_total, 3 * 14);
}

#[test]
fn who_is_preempted_goes_before_those_who_wait() {
    let mut engine = Checked::new(Preset { seqs_max: 2, ..small(12) });
    engine.submit(request(1, &[1, 2, 3], 4, 2, 30));
    engine.submit(request(2, &[11, 12, 13], 4, 2, 20));
    engine.submit(request(3, &[21], 4, 2, 20));
    let events = engine.run_until_idle();
    let place = |wanted: fn(&Event) -> bool| events.iter().position(wanted).unwrap();
    let preempted = place(|event| matches!(event, Event::Preempted { id: 2, .. }));
    let first_ends = place(|event| matches!(event, Event::Finished { id: 1, .. }));
    let third_starts = place(|event| matches!(event, Event::Scheduled { id: 3, .. }));
    assert!(preempted < first_ends);
    // The second one needs the first one's room. The third fits in its own, were it not behind it.
    assert!(first_ends < third_starts);
}

#[test]
fn who_starts_again_computes_only_what_is_no_longer_cached() {
    let mut engine = Checked::new(Preset { step_tokens_max: 8, ..small(16) });
    engine.submit(request(1, &[1, 2], 4, 0, 27));
    engine.submit(request(2, &[3], 4, 0, 40));
    let events = engine.run_until_idle();
    let preempted = events.iter().position(|event| matches!(event, Event::Preempted { .. })).unwrap();
    let sent = tokens_told(&events[..preempted], 2);
    assert!(sent > 16, "it has answered more than two steps can compute");
    let room_at = events.iter().find(|event| matches!(event, Event::Finished { id: 1, .. })).unwrap().at();
    let resumed_at = events[preempted..].iter().find(|event| matches!(event, Event::Token { id: 2, .. })).unwrap().at();
    assert!(resumed_at > room_at);
    assert!(resumed_at < room_at.after_ms(12.0), "one step");
}

#[test]
fn an_abort_in_the_queue_lets_the_next_one_try() {
    let mut engine = Checked::new(small(16));
    engine.submit(request(1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 4, 0, 20));
    engine.submit(request(2, &[11, 12, 13, 14, 15, 16, 17, 18], 4, 0, 1));
    engine.submit(request(3, &[19], 4, 0, 1));
    engine.run_for_ms(70.0);
    engine.abort(2);
    engine.run_until_idle();
    let (ends, starts) = (engine.events.last().unwrap().at(), first_token_at(&engine.events, 3));
    assert_eq!(finish_reason(&engine.events, 1), Some(FinishReason::Stop));
    assert!(starts.unwrap() < ends, "it waited for the first one, though there was room");
}

#[test]
fn inputs_that_come_late_count_as_of_the_last_step() {
    let mut engine = Checked::new(Preset::default());
    engine.run_alone(unshared(1, 100, 10));
    let end = engine.now;
    engine.engine.submit(Micros(0), unshared(2, 100, 1));
    assert_eq!(engine.engine.next_event_at(), Some(end));
    let events = engine.run_until_idle();
    assert!(events.windows(2).all(|pair| pair[0].at() <= pair[1].at()));

    let mut engine = Checked::new(Preset::default());
    engine.submit(unshared(1, 100, 1));
    assert!(engine.engine.clear_cache(Micros(100_000)));
    assert_eq!(engine.engine.next_event_at(), Some(Micros(100_000)));
}

#[test]
fn one_long_advance_tells_the_same_as_many_short_ones() {
    let run = |step_ms: f64| {
        let mut engine = Checked::new(small(40));
        for id in 0..6 {
            engine.submit(request(id, &[1, 2, id, 3], 4, id as u32 % 4, 25));
        }
        for _ in 0..(4000.0 / step_ms) as u32 {
            engine.run_for_ms(step_ms);
        }
        engine.events
    };
    let (long, short) = (run(4000.0), run(1.0));
    assert!(long.len() > 100);
    assert_eq!(long, short);
}
