//! Far more work than memory: what is found cached is there, and nothing is faster than it can be.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Users that each keep one request in the engine, until all have had their answers.
struct Users {
    count: u64,
    rounds: u64,
    /// Shorter than what an engine of [`preset`] holds; with the answer, a quarter of it.
    prompt_tokens: u32,
    output_tokens: u32,
}

const USERS: Users = Users { count: 60, rounds: 3, prompt_tokens: 512, output_tokens: 512 };

/// Four whole requests fit, so that 60 users are 15 times its capacity.
fn preset() -> Preset {
    Preset { kv_tokens: 4096, overhead_ms: 0.0, ..Preset::default() }
}

impl Users {
    /// Runs them to the end. A user's requests have the prompts that `contents` names.
    fn run(&self, preset: Preset, contents: impl Fn(u64) -> Vec<u64>) -> (Checked, BTreeMap<u64, Arc<[u64]>>) {
        let mut engine = Checked::new(preset);
        let mut prompts = BTreeMap::new();
        let make = |id: u64| request(id, &contents(id), 16, 0, self.output_tokens);
        let mut submit = |engine: &mut Checked, id: u64| {
            let request = make(id);
            prompts.insert(id, request.block_hashes.clone());
            engine.submit(request);
        };
        (0..self.count).for_each(|id| submit(&mut engine, id));
        let mut told = 0;
        while let Some(at) = engine.engine.next_event_at() {
            engine.now = at;
            engine.engine.advance(at, &mut engine.events);
            for index in told..engine.events.len() {
                match engine.events[index] {
                    Event::Finished { id, .. } if id + self.count < self.count * self.rounds => {
                        submit(&mut engine, id + self.count);
                    }
                    _ => {}
                }
            }
            told = engine.events.len();
        }
        (engine, prompts)
    }

    fn blocks(&self) -> u64 {
        u64::from(self.prompt_tokens / 16)
    }

    /// What the engine's formula needs at least for all of it, where so many prompt tokens are found
    /// cached: every other token is computed once, and a step decodes for no more requests than fit
    /// into memory with their prompts alone. Without the bases of prefill.
    fn least_ms(&self, preset: &Preset, cached_tokens: u64) -> f64 {
        let requests = (self.count * self.rounds) as f64;
        let (n, outputs) = (f64::from(self.prompt_tokens), f64::from(self.output_tokens));
        let (c, d) = (preset.prefill, preset.decode);
        let uncached_ratio = 1.0 - cached_tokens as f64 / (requests * n);
        // The cheapest tokens of a prompt are its first.
        let computed = n * uncached_ratio;
        let prefill_ms = computed * c.per_token_ms + c.per_token_context_ms * computed * computed / 2.0;
        let decodes = outputs - 1.0;
        let decode_ms = decodes * (d.per_seq_ms + d.per_context_token_ms * (n + outputs / 2.0));
        let batch_max = (preset.kv_tokens / self.prompt_tokens) as f64;
        requests * (prefill_ms + decode_ms + decodes * d.base_ms / batch_max)
    }
}

/// Panics unless everything that was found cached had been computed and not been evicted, by what the
/// engine told, and no more was ever cached than memory holds.
fn check_hits(engine: &Checked, prompts: &BTreeMap<u64, Arc<[u64]>>) {
    let mut cached = BTreeSet::new();
    let blocks_max = (engine.engine.preset().kv_tokens / 16) as usize;
    for event in &engine.events {
        match event {
            Event::Stored { hashes, .. } => cached.extend(hashes.iter().copied()),
            Event::Removed { hashes: [hash], .. } => assert!(cached.remove(hash), "{hash} was not there"),
            Event::Scheduled { id, cached_tokens, .. } => {
                let mut found = prompts[id].iter().take(*cached_tokens as usize / 16);
                assert!(found.all(|hash| cached.contains(hash)), "request {id} found what is gone");
            }
            _ => {}
        }
        assert!(cached.len() <= blocks_max, "more is cached than memory holds");
    }
}

/// S96: a simulated cache kept the blocks of preempted requests for ever.
#[test]
fn at_fifteen_times_the_capacity_nothing_is_faster_than_without_a_cache_unless_hits_are_real() {
    let blocks = USERS.blocks();
    let shared = blocks / 2;
    type Contents<'a> = &'a dyn Fn(u64) -> Vec<u64>;
    // What prompts are made of, and the range of the hit rate that this allows.
    let cases: [(&str, Contents<'_>, std::ops::RangeInclusive<f64>); 3] = [
        ("each its own", &|id| (0..blocks).map(|block| (id << 32) | block).collect(), 0.0..=0.0),
        (
            "each user's again, after all others'",
            &|id| (0..blocks).map(|block| ((id % USERS.count) << 32) | block).collect(),
            0.0..=0.01,
        ),
        (
            "half of it everybody's",
            &|id| (0..blocks).map(|block| if block < shared { block } else { (id << 32) | block }).collect(),
            0.45..=0.5,
        ),
    ];
    for whole_prompt_must_fit in [true, false] {
        for (what, contents, allowed) in &cases {
            let preset = Preset { whole_prompt_must_fit, ..preset() };
            let (engine, prompts) = USERS.run(preset, contents);
            engine.engine.check_invariants();
            let load = engine.load();
            assert!(load.preemptions_total > 10, "{what}: memory was hardly short");
            assert_eq!(load.generated_tokens_total, 180 * 512, "{what}");
            check_hits(&engine, &prompts);
            let hit = load.cached_tokens_total as f64 / load.queried_tokens_total as f64;
            assert!(allowed.contains(&hit), "{what}: hit rate {hit}");
            let (took_ms, least_ms) = (engine.now.as_ms(), USERS.least_ms(&preset, load.cached_tokens_total));
            assert!(took_ms >= least_ms, "{what}: {took_ms} ms, at least {least_ms} are needed");
            assert!(took_ms < 2.0 * least_ms, "{what}: {took_ms} ms, a bound of {least_ms} says nothing");
        }
    }
}

/// S96.
#[test]
fn what_a_preempted_request_computed_is_found_until_its_blocks_are_taken() {
    // (tokens that the first one goes on to generate, blocks of the second's prompt that are left).
    for (output_tokens, left) in [(17, 4), (21, 3), (25, 2), (33, 0)] {
        let mut engine = Checked::new(Preset { whole_prompt_must_fit: true, overhead_ms: 0.0, ..small(12) });
        engine.submit(request(1, &[1, 2, 3, 4], 4, 0, output_tokens));
        engine.submit(request(2, &[11, 12, 13, 14], 4, 2, 40));
        while engine.load().preemptions_total == 0 {
            engine.run_for_ms(1.0);
        }
        engine.abort(2);
        engine.run_until_idle();
        let events = engine.run_alone(request(3, &[11, 12, 13, 14], 4, 1, 1));
        assert_eq!(cached_tokens(events, 3), Some(4 * left), "{output_tokens}");
    }
}

#[test]
fn a_long_prompt_waits_until_all_of_it_finds_room_or_is_preempted_on_the_way() {
    // A prompt of ten steps for which a third of the room is missing, while others decode.
    for (whole_prompt_must_fit, preempted) in [(true, false), (false, true)] {
        let preset = Preset { step_tokens_max: 8, whole_prompt_must_fit, overhead_ms: 0.0, ..small(30) };
        let mut engine = Checked::new(preset);
        engine.submit(request(1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 4, 0, 40));
        engine.run_for_ms(80.0);
        engine.submit(request(2, &(20..40).collect::<Vec<u64>>(), 4, 0, 1));
        engine.run_until_idle();
        assert_eq!(engine.load().preemptions_total > 0, preempted, "{whole_prompt_must_fit}");
        assert_eq!(finish_reason(&engine.events, 2), Some(FinishReason::Stop));
    }
}
