//! Random load against simple models of the same thing.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::Eviction;
use super::*;

/// One thing that a driver does.
#[derive(Clone, Debug)]
enum Step {
    Submit { contents: Vec<u64>, tail_tokens: u32, output_tokens: u32, adapter: Option<u32>, report_cached: bool },
    Abort { back: u64 },
    Clear,
    Wait { ms: f64 },
}

fn contents() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0..3u64, 0..14)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let submit = (contents(), 0..4u32, 0..40u32, prop::option::of(0..4u32), any::<bool>()).prop_map(
        |(contents, tail_tokens, output_tokens, adapter, report_cached)| Step::Submit {
            contents,
            tail_tokens,
            output_tokens,
            adapter,
            report_cached,
        },
    );
    let step = prop_oneof![
        8 => submit,
        1 => (1..6u64).prop_map(|back| Step::Abort { back }),
        1 => Just(Step::Clear),
        5 => (0.0..200.0f64).prop_map(|ms| Step::Wait { ms }),
    ];
    prop::collection::vec(step, 1..60)
}

fn preset() -> impl Strategy<Value = Preset> {
    let rules = (prop::sample::select(Eviction::ALL.to_vec()), any::<bool>());
    (14..60u32, 5..64u32, 1..8u32, 1..4u32, prop_oneof![Just(0.0), Just(40.0)], rules).prop_map(
        |(blocks, step_tokens_max, seqs_max, adapters_max, overhead_ms, (eviction, whole_prompt_must_fit))| Preset {
            eviction,
            whole_prompt_must_fit,
            step_tokens_max,
            seqs_max,
            adapters_max,
            overhead_ms,
            ..small(blocks)
        },
    )
}

/// Plays the steps to the end, with the books checked after each.
fn play(preset: Preset, steps: &[Step]) -> (Checked, Vec<Request>) {
    let mut engine = Checked::new(preset);
    let mut sent: Vec<Request> = Vec::new();
    for step in steps {
        match step {
            Step::Submit { contents, tail_tokens, output_tokens, adapter, report_cached } => {
                let id = sent.len() as u64;
                let request = Request {
                    adapter: *adapter,
                    report_cached: *report_cached,
                    ..request(id, contents, 4, *tail_tokens, *output_tokens)
                };
                sent.push(request.clone());
                engine.submit(request);
            }
            Step::Abort { back } => engine.abort((sent.len() as u64).saturating_sub(*back)),
            Step::Clear => {
                engine.clear_cache();
            }
            Step::Wait { ms } => {
                engine.run_for_ms(*ms);
            }
        }
    }
    engine.run_until_idle();
    (engine, sent)
}

/// The cache as a subscriber to the events sees it: every block and its parent; and the requests that
/// may tell of a block again.
struct View(BTreeMap<u64, Option<u64>>, BTreeSet<u64>);

impl View {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Stored { id, parent, hashes, .. } => {
                let mut parent = *parent;
                assert!(parent.is_none_or(|hash| self.0.contains_key(&hash)), "orphan: {event:?}");
                for &hash in hashes {
                    let before = self.0.insert(hash, parent);
                    match self.1.contains(id) {
                        true => assert!(before.is_none_or(|before| before == parent), "another parent: {event:?}"),
                        false => assert_eq!(before, None, "stored twice: {event:?}"),
                    }
                    parent = Some(hash);
                }
            }
            Event::Removed { hashes: [hash], .. } => {
                assert!(self.0.remove(hash).is_some(), "removed and not stored: {event:?}");
            }
            Event::Cleared { .. } => self.0.clear(),
            _ => {}
        }
    }

    fn parents(&self) -> BTreeSet<u64> {
        self.0.values().flatten().copied().collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_request_ends_once_and_tells_its_tokens(preset in preset(), steps in steps()) {
        let (engine, sent) = play(preset, &steps);
        prop_assert!(engine.events.windows(2).all(|pair| pair[0].at() <= pair[1].at()));
        let mut tokens = 0;
        for request in &sent {
            let told: Vec<&Event> = engine.events.iter().filter(|event| match event {
                Event::Scheduled { id, .. } | Event::FirstToken { id, .. }
                | Event::Token { id, .. } | Event::Finished { id, .. } => *id == request.id,
                _ => false,
            }).collect();
            let finished = told.iter().filter(|e| matches!(e, Event::Finished { .. })).count();
            prop_assert_eq!(finished, 1);
            let ended = matches!(told[told.len() - 1], Event::Finished { .. });
            prop_assert!(ended, "{:?}", told);
            let count = tokens_told(&engine.events, request.id);
            tokens += count as u64;
            match finish_reason(&engine.events, request.id).unwrap() {
                FinishReason::Stop => prop_assert_eq!(count, request.output_tokens as usize),
                FinishReason::Rejected => prop_assert_eq!(told.len(), 1),
                FinishReason::Length => {
                    let context = engine.engine.preset().context_tokens_max;
                    prop_assert_eq!(count as u32, context - request.prompt_tokens);
                }
                FinishReason::Aborted => prop_assert!(count < request.output_tokens.max(1) as usize),
            }
        }
        prop_assert_eq!(engine.load().generated_tokens_total, tokens);
    }

    #[test]
    fn events_tell_what_is_cached_and_parents_outlive_their_children(
        preset in preset(),
        steps in steps(),
        probes in prop::collection::vec(contents(), 1..5),
    ) {
        let (mut engine, sent) = play(preset, &steps);
        engine.run_alone(request(900, &[], 4, 1, 1)); // so that a clearing is told
        let repeats = sent.iter().filter(|request| request.report_cached).map(|request| request.id);
        let mut view = View(BTreeMap::new(), repeats.collect());
        for event in &engine.events {
            view.apply(event);
            if let Event::Removed { hashes: [hash], .. } = event {
                prop_assert!(!view.parents().contains(hash), "a parent went before its child");
            }
        }
        for (probe, id) in probes.iter().zip(1000..) {
            let request = request(id, probe, 4, 1, 1);
            let found = request.block_hashes.iter().take_while(|hash| view.0.contains_key(hash));
            let expected = found.count() as u32 * 4;
            let events = engine.run_alone(request);
            if finish_reason(events, id) != Some(FinishReason::Rejected) {
                prop_assert_eq!(cached_tokens(events, id), Some(expected));
            }
            events.iter().for_each(|event| view.apply(event));
        }
    }

    #[test]
    fn the_same_inputs_give_the_same_events(preset in preset(), steps in steps()) {
        prop_assert_eq!(play(preset, &steps).0.events, play(preset, &steps).0.events);
    }

    #[test]
    fn requests_one_at_a_time_evict_as_a_plain_list_does(
        blocks in 6..30u32,
        prompts in prop::collection::vec((contents(), 1..4u32), 1..40),
    ) {
        let mut engine = Checked::new(small(blocks));
        let mut list = PlainLru(vec![None; blocks as usize]);
        for ((contents, tail_tokens), id) in prompts.into_iter().zip(0..) {
            let request = request(id, &contents, 4, tail_tokens, 1);
            let hashes = request.block_hashes.clone();
            let events = engine.run_alone(request);
            if finish_reason(events, id) == Some(FinishReason::Rejected) {
                continue;
            }
            let removed: Vec<u64> = events.iter().filter_map(|event| match event {
                Event::Removed { hashes: [hash], .. } => Some(*hash),
                _ => None,
            }).collect();
            let (found, evicted) = list.run(&hashes);
            prop_assert_eq!(cached_tokens(events, id), Some(found as u32 * 4));
            prop_assert_eq!(removed, evicted);
        }
    }
}

/// The oracle: all of memory as one list, least recently freed first.
struct PlainLru(Vec<Option<u64>>);

impl PlainLru {
    /// Runs a prompt of these blocks and an unfinished one; returns how many were found, and what was
    /// evicted.
    fn run(&mut self, hashes: &[u64]) -> (usize, Vec<u64>) {
        let found = hashes.iter().take_while(|&&hash| self.0.contains(&Some(hash))).count();
        self.0.retain(|slot| !slot.is_some_and(|hash| hashes[..found].contains(&hash)));
        let evicted = self.0.drain(..hashes.len() - found + 1).flatten().collect();
        self.0.push(None);
        self.0.extend(hashes.iter().rev().map(|&hash| Some(hash)));
        (found, evicted)
    }
}

#[test]
fn a_hundred_thousand_requests_under_pressure_all_finish() {
    let mut engine = Engine::new(Preset { overhead_ms: 1.0, adapters_max: 2, ..small(160) });
    let mut events = Vec::new();
    let (mut state, mut finished, mut now) = (1u64, 0u64, Micros(0));
    let mut draw = |below: u64| {
        state = output_block_hash(Some(state), 0, 0);
        state % below
    };
    let prompts: Vec<Arc<[u64]>> =
        (0..500).map(|_| chain(&(0..1 + draw(12)).map(|depth| draw(2 + depth)).collect::<Vec<u64>>())).collect();
    let count = 100_000;
    for id in 0..count {
        let block_hashes = prompts[draw(500) as usize].clone();
        let prompt_tokens = block_hashes.len() as u32 * 4 + draw(4) as u32;
        let output_tokens = 1 + draw(6) as u32;
        let adapter = draw(4).checked_sub(1).map(|adapter| adapter as u32);
        let request =
            Request { id, prompt_tokens, block_hashes, output_tokens, output_seed: id, adapter, report_cached: false };
        engine.submit(now, request);
        now = now.after_ms(draw(1000) as f64 / 1000.0);
        engine.advance(now, &mut events);
        finished += count_finished(&mut events);
    }
    while let Some(at) = engine.next_event_at() {
        engine.advance(at, &mut events);
        finished += count_finished(&mut events);
    }
    engine.check_invariants();
    assert_eq!(finished, count);
    let load = engine.load();
    assert!(load.preemptions_total > 0, "memory was never short");
    assert!(load.cached_tokens_total > 0, "nothing was ever shared");
}

fn count_finished(events: &mut Vec<Event>) -> u64 {
    let stopped = |event: &Event| matches!(event, Event::Finished { reason: FinishReason::Stop, .. });
    events.drain(..).filter(stopped).count() as u64
}
