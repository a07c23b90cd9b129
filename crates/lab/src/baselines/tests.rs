//! Each rule by its formula.

use kvroute_core::{
    decision::{Candidate, Reason},
    facts::RequestFacts,
    fleet::TargetId,
    moment::Entropy,
    strategy::Pick,
};
use kvroute_engine::model::Load;

use super::*;

const KV: Kv = Kv { tokens: 64 * 16, block_tokens: 16 };

/// Candidates with these numbers in flight; `None` is dropped.
fn places(in_flight: &[Option<u32>]) -> Vec<Candidate> {
    let place = |(index, count): (usize, &Option<u32>)| Candidate {
        replica: index,
        copy: None,
        target: TargetId(index as u32),
        in_flight: count.unwrap_or(0),
        penalty: 0,
        rendezvous: 0.0,
        copy_rendezvous: 0.0,
        weight: 1.0,
        dropped: count.is_none().then_some(kvroute_core::decision::Drop::Down),
    };
    in_flight.iter().enumerate().map(place).collect()
}

/// A rule with a fleet around it.
struct Bench {
    rule: Box<dyn Rule>,
    requests: u32,
    now_us: u64,
    loads: Vec<Load>,
}

impl Bench {
    fn of(text: &str) -> Self {
        let mut parts = text.split(':');
        let mut baseline = Baseline::by_name(parts.next().unwrap()).unwrap();
        parts.for_each(|part| part.split_once('=').map(|(key, value)| baseline.set(key, value)).unwrap().unwrap());
        Self { rule: baseline.rule(KV), requests: 0, now_us: 0, loads: vec![Load::default(); 8] }
    }

    fn pick(&mut self, blocks: &[u64], in_flight: &[Option<u32>]) -> Pick {
        let places = places(in_flight);
        let key = blocks.first().copied();
        let facts = RequestFacts { prefix_keys: [key].into_iter().collect(), ..RequestFacts::default() };
        let loads = self.loads.clone();
        let ask = Ask {
            request: self.requests,
            facts: &facts,
            blocks,
            input_tokens: blocks.len() as u32 * 16 + 8,
            places: &places,
            now_us: self.now_us,
            engine: &|number| loads[number],
        };
        self.requests += 1;
        self.rule.pick(&ask, &mut Entropy::new(u64::from(self.requests)))
    }

    fn idle(&mut self, blocks: &[u64]) -> usize {
        self.pick(blocks, &[Some(0); 4]).index
    }

    fn over(&mut self) {
        (0..self.requests).for_each(|request| self.rule.ended(request));
    }
}

#[test]
fn no_rule_picks_who_is_dropped_and_each_finds_the_only_one_left() {
    for baseline in Baseline::all() {
        let mut bench = Bench::of(baseline.name());
        for n in 0..40u64 {
            let index = bench.pick(&[n % 5, 10 + n % 5], &[Some(3), None, Some(n as u32), None]).index;
            assert!([0, 2].contains(&index), "{}", baseline.name());
        }
        assert_eq!(bench.pick(&[1, 11], &[None, Some(900), None, None]).index, 1, "{}", baseline.name());
        assert_eq!(bench.pick(&[], &[None, Some(900), None, None]).index, 1, "{}", baseline.name());
    }
}

#[test]
fn chwbl_stays_below_its_capacity_and_comes_home_when_there_is_room() {
    let mut bench = Bench::of("chwbl");
    let home = bench.idle(&[7]);
    assert!((0..20).all(|_| bench.idle(&[7]) == home));
    // Of 13 in flight and this one the capacity is ceil(1.25 x 14 / 4) = 5, and of one more it is the same.
    let mut loads = [Some(3); 4];
    loads[home] = Some(4);
    assert_eq!(bench.pick(&[7], &loads).index, home);
    loads[home] = Some(5);
    let spilled = bench.pick(&[7], &loads);
    assert!(spilled.index != home && spilled.reason == Reason::SpillConcurrency && spilled.home == Some(home));
}

#[test]
fn chwbl_moves_few_keys_when_a_replica_joins() {
    let mut bench = Bench::of("chwbl");
    let homes = |bench: &mut Bench, fleet: &[Option<u32>]| -> Vec<usize> {
        (0..1_000u64).map(|key| bench.pick(&[kvroute_core::hash::finish(key)], fleet).index).collect()
    };
    let before = homes(&mut bench, &[Some(0), Some(0), Some(0), None]);
    let after = homes(&mut bench, &[Some(0); 4]);
    assert!(before.iter().zip(&after).all(|(before, after)| before == after || *after == 3), "only to the new one");
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert!((150..350).contains(&moved), "{moved}");
}

#[test]
fn prefix_hash_looks_at_its_first_tokens_only_and_leaves_an_overloaded_home() {
    let mut bench = Bench::of("prefix_hash:prefix_tokens=32");
    let home = bench.idle(&[1, 2, 3]);
    assert_eq!(bench.idle(&[1, 2, 9]), home);
    let at = |count: u32| {
        let mut loads = [Some(10); 4];
        loads[home] = Some(count);
        loads
    };
    // Over 1.25 times the mean is not enough, it has to be 10 over it as well.
    assert_eq!(bench.pick(&[1, 2, 3], &at(20)).index, home);
    let spilled = bench.pick(&[1, 2, 3], &at(30));
    assert!(spilled.index != home && spilled.reason.is_spill());
    let mut alone = Bench::of("prefix_hash:prefix_tokens=32:guard=off");
    assert_eq!(alone.pick(&[1, 2, 3], &at(1_000)).index, home);
}

#[test]
fn sglang_goes_by_the_longest_match_above_its_threshold_and_by_load_below_or_out_of_balance() {
    let mut bench = Bench::of("sglang");
    let prompt = [1, 2, 3, 4];
    assert_eq!(
        bench.pick(&prompt, &[Some(5), Some(1), Some(5), Some(5)]).index,
        1,
        "nothing matches: the least loaded"
    );
    assert_eq!(bench.pick(&prompt, &[Some(5), Some(60), Some(5), Some(5)]).index, 1, "it was sent there");
    assert_eq!(
        bench.pick(&[1, 20, 30, 40, 50], &[Some(0), Some(9), Some(9), Some(9)]).index,
        0,
        "a fifth is too little"
    );
    let out_of_balance = bench.pick(&prompt, &[Some(5), Some(70), Some(5), Some(5)]);
    assert_eq!((out_of_balance.index, out_of_balance.reason), (0, Reason::SpillConcurrency), "and the first of equals");
}

#[test]
fn dynamo_weighs_blocks_to_compute_and_blocks_that_are_active() {
    let mut bench = Bench::of("dynamo:view=predicted");
    let prompt = [1, 2, 3, 4];
    let first = bench.idle(&prompt);
    bench.rule.books().unwrap().done(0);
    // Shared blocks are active there already, so they cost nothing twice: that is cheaper than an idle replica.
    assert_eq!(bench.idle(&prompt), first);
    // 4 + 0.5 new blocks there, and 4 + 0.5 active ones that others do not have.
    let other = bench.idle(&[50, 51, 52, 53]);
    assert_ne!(other, first);
    bench.over();
    let with_requests = Bench::of("dynamo:view=predicted:active_request_weight=100");
    let mut bench = with_requests;
    assert_eq!(bench.pick(&prompt, &[Some(3), Some(2), Some(1), Some(2)]).index, 2);
}

#[test]
fn dynamo_believes_what_engines_say() {
    let mut bench = Bench::of("dynamo");
    let index = bench.rule.index().unwrap();
    assert!(index.listens());
    index.stored(2, &[1, 2, 3, 4]);
    assert_eq!(bench.idle(&[1, 2, 3, 4]), 2);
    bench.over();
    let index = bench.rule.index().unwrap();
    [4, 3, 2, 1].iter().for_each(|hash| index.removed(2, *hash));
    index.stored(0, &[1, 2]);
    assert_eq!(bench.idle(&[1, 2, 3, 4]), 0);
}

#[test]
fn llm_d_weighs_queue_memory_and_prefix() {
    let prompt = [1, 2, 3, 4];
    let mut bench = Bench::of("llm_d_weighted");
    bench.loads[0] = Load { waiting: 4, kv_used_ratio: 0.2, ..Load::default() };
    bench.loads[1] = Load { waiting: 0, kv_used_ratio: 0.9, ..Load::default() };
    bench.loads[2] = Load { waiting: 2, kv_used_ratio: 0.1, ..Load::default() };
    bench.loads[3] = Load { waiting: 4, kv_used_ratio: 0.9, ..Load::default() };
    // 0 + 1.6, 2 + 0.2, 1 + 1.8, 0 + 0.2
    assert_eq!(bench.idle(&prompt), 2);
    // The prefix there is worth 3 x 64/72 more.
    bench.loads[2].waiting = 4;
    bench.now_us = 60_000;
    assert_eq!(bench.idle(&prompt), 2);
    // Metrics are read every 50 ms: before that, what was read holds.
    bench.loads[1] = Load { waiting: 400, kv_used_ratio: 1.0, ..Load::default() };
    bench.now_us = 70_000;
    assert_eq!(bench.idle(&[9, 9]), 1, "no queue there as far as is known");
    bench.now_us = 200_000;
    assert_eq!(bench.idle(&[8, 8]), 2);
}

#[test]
fn llm_d_sticks_to_who_has_the_prompt_until_that_takes_too_long() {
    let prompt: Vec<u64> = (1..=60).collect();
    let mut bench = Bench::of("llm_d_sticky:kv_weight=30:ttft_penalty_ms_max=1000:peak_prefill_rate=1000");
    let home = bench.idle(&prompt);
    // Weighted scores alone would now leave it for its full memory.
    bench.now_us = 1_000_000;
    bench.loads[home].kv_used_ratio = 1.0;
    bench.rule.books().unwrap().done(0);
    assert_eq!(bench.idle(&prompt), home);
    // 2,000 tokens are under way there: two seconds at this rate, and without the prompt it is one elsewhere.
    bench.rule.books().unwrap().placed(900, home, 2_000);
    assert_ne!(bench.idle(&prompt), home);
}

#[test]
fn lmetric_multiplies_what_is_new_with_who_is_there() {
    let prompt = [1, 2, 3, 4];
    let mut bench = Bench::of("lmetric:form=count");
    // 72 new tokens: x 4, x 2, x 3, x 6
    assert_eq!(bench.pick(&prompt, &[Some(3), Some(1), Some(2), Some(5)]).index, 1);
    // 8 new tokens x 8 against 72 x 1 and more
    assert_eq!(bench.pick(&prompt, &[Some(0), Some(7), Some(2), Some(5)]).index, 1);
    assert_eq!(bench.pick(&prompt, &[Some(0), Some(9), Some(2), Some(5)]).index, 0);
    let mut queued = Bench::of("lmetric");
    let first = queued.pick(&prompt, &[Some(1), Some(0), Some(1), Some(1)]).index;
    // (72 + 8) x 2 there against 72 x 2.
    let second = queued.pick(&prompt, &[Some(1), Some(1), Some(1), Some(1)]);
    assert_ne!(second.index, first, "its tokens are still to be computed");
    queued.over();
    assert_eq!(queued.pick(&prompt, &[Some(9), Some(9), Some(9), Some(9)]).index, first);
}

#[test]
fn equals_are_drawn_alike() {
    let mut counts = [0u32; 4];
    let places = places(&[Some(1), Some(1), Some(0), Some(0)]);
    let facts = RequestFacts::default();
    let ask = Ask {
        request: 0,
        facts: &facts,
        blocks: &[],
        input_tokens: 1,
        places: &places,
        now_us: 0,
        engine: &|_| Load::default(),
    };
    for n in 0..4_000 {
        let found = least(ask.eligible(), &mut Entropy::new(n), |place| place.in_flight).unwrap();
        counts[found.index] += 1;
    }
    assert!(counts[0] == 0 && counts[1] == 0 && (1_850..2_150).contains(&counts[2]), "{counts:?}");
}

#[test]
fn books_give_back_once() {
    let mut books = super::books::Books::default();
    books.placed(3, 1, 100);
    books.placed(0, 1, 50);
    assert_eq!((books.pending_tokens(1), books.pending_tokens(0), books.pending_tokens(9)), (150, 0, 0));
    books.done(3);
    books.done(3);
    books.done(77);
    assert_eq!(books.pending_tokens(1), 50);
}

#[test]
fn every_setting_is_named_where_one_is_not_known() {
    for mut baseline in Baseline::all() {
        let refused = baseline.set("no_such", "1").unwrap_err();
        assert!(refused.starts_with("its settings are"), "{refused}");
    }
}
