//! Which cached blocks lose their room first, against plain models of each rule.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::{Eviction, Future};
use super::*;

/// Blocks of a prompt, of which an unfinished one more is made.
type Prompt = Vec<u64>;

fn prompts() -> impl Strategy<Value = Vec<Prompt>> {
    let random = prop::collection::vec(0..3u64, 0..6);
    prop::collection::vec(random, 1..25)
}

/// An engine that has run the prompts one at a time, and how many blocks each found cached.
fn run(eviction: Eviction, blocks: u32, prompts: &[Prompt]) -> (Checked, Vec<u32>) {
    let chains: Vec<Arc<[u64]>> = prompts.iter().map(|prompt| chain(prompt)).collect();
    let future = Future::new((0..).zip(chains.iter().map(|chain| &**chain)));
    let mut engine = Checked::new(small(0));
    engine.engine = Engine::with_future(Preset { eviction, ..small(blocks) }, Arc::new(future));
    let found = prompts.iter().zip(0..).map(|(prompt, id)| {
        let events = engine.run_alone(request(id, prompt, 4, 1, 1));
        cached_tokens(events, id).unwrap() / 4
    });
    let found = found.collect();
    (engine, found)
}

fn hits(eviction: Eviction, blocks: u32, prompts: &[Prompt]) -> u32 {
    run(eviction, blocks, prompts).1.iter().sum()
}

/// The oracle for Belady: the most blocks that any choice of victims lets the prompts find.
fn most_hits(blocks: usize, prompts: &[Prompt]) -> u32 {
    // What may be cached, and the most that was found on the way there.
    let mut states: BTreeMap<BTreeSet<Prompt>, u32> = BTreeMap::from([(BTreeSet::new(), 0)]);
    for prompt in prompts {
        let mut next = BTreeMap::new();
        for (cached, hits) in states {
            let own: Vec<&[u64]> = (1..=prompt.len()).map(|length| &prompt[..length]).collect();
            let found = own.iter().take_while(|block| cached.contains(**block)).count();
            let short = (cached.len() + own.len() + 1 - found).saturating_sub(blocks);
            for mut left in without(cached, short, prompt) {
                left.extend(own.iter().map(|block| block.to_vec()));
                let most = next.entry(left).or_insert(0);
                *most = (*most).max(hits + found as u32);
            }
        }
        states = next;
    }
    states.into_values().max().unwrap()
}

/// Every way to take `count` blocks out, children first and none of the prompt's.
fn without(cached: BTreeSet<Prompt>, count: usize, prompt: &Prompt) -> BTreeSet<BTreeSet<Prompt>> {
    let mut ways = BTreeSet::from([cached]);
    for _ in 0..count {
        let fewer = ways.iter().flat_map(|cached| {
            let is_leaf =
                |block: &&Prompt| !cached.iter().any(|other| other.len() > block.len() && other.starts_with(block));
            let victims = cached.iter().filter(is_leaf).filter(|block| !prompt.starts_with(block));
            victims.map(|victim| cached.iter().filter(|block| *block != victim).cloned().collect())
        });
        ways = fewer.collect();
    }
    ways
}

/// The oracle for `Continuation`: everything that was ever known, looked through anew each time.
#[derive(Default)]
struct PlainContinuation {
    blocks_max: usize,
    /// Earlier prompts, their kinds, and whether they went on.
    earlier: Vec<(Prompt, (usize, u32), bool)>,
    /// Memory: rank, when, and the block, unless it has no name.
    memory: Vec<(usize, usize, Option<Prompt>)>,
    given_up: usize,
}

impl PlainContinuation {
    fn run(&mut self, prompt: &Prompt) -> u32 {
        let own: Vec<Prompt> = (1..=prompt.len()).map(|length| prompt[..length].to_vec()).collect();
        let holds = |memory: &[(usize, usize, Option<Prompt>)], block: &Prompt| {
            memory.iter().position(|slot| slot.2.as_ref() == Some(block))
        };
        let found = own.iter().take_while(|block| holds(&self.memory, block).is_some()).count();
        let mut ranks = vec![0; own.len()];
        for (rank, block) in ranks.iter_mut().zip(&own[..found]) {
            let slot = holds(&self.memory, block).unwrap();
            *rank = self.memory.remove(slot).0;
        }
        self.memory.sort();
        let short = (self.memory.len() + own.len() + 1).saturating_sub(self.blocks_max);
        self.memory.drain(..short);
        let p = self.chance(prompt);
        self.given_up += 1;
        self.memory.push((0, self.given_up, None));
        for (block, rank) in own.into_iter().zip(ranks).rev() {
            self.given_up += 1;
            let kept = self.given_up + self.blocks_max * p.0 / p.1;
            self.memory.push((rank.max(kept), self.given_up, Some(block)));
        }
        found as u32
    }

    /// The chance that the prompt goes on, as a fraction.
    fn chance(&mut self, prompt: &Prompt) -> (usize, usize) {
        if prompt.is_empty() {
            // Without a block there is nothing to go on with, nor to keep.
            return (1, 2);
        }
        let before = self.earlier.iter_mut().filter(|(earlier, _, went_on)| !went_on && prompt.starts_with(earlier));
        let before = before.max_by_key(|(earlier, ..)| earlier.len());
        let turn = before.map_or(0, |(_, kind, went_on)| {
            *went_on = true;
            (kind.0 + 1).min(7)
        });
        let kind = (turn, prompt.len().ilog2());
        self.earlier.push((prompt.clone(), kind, false));
        let alike = self.earlier.iter().filter(|(_, of, _)| *of == kind);
        let went_on = alike.clone().filter(|(.., went_on)| *went_on).count();
        (went_on + 1, alike.count() + 2)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn belady_finds_as_much_as_the_best_of_all_choices(
        blocks in 5..8u32,
        prompts in prop::collection::vec(prop::collection::vec(0..2u64, 0..4), 1..8),
    ) {
        prop_assert_eq!(hits(Eviction::Belady, blocks, &prompts), most_hits(blocks as usize, &prompts));
    }

    #[test]
    fn no_rule_finds_more_than_belady(blocks in 7..30u32, prompts in prompts()) {
        let bound = hits(Eviction::Belady, blocks, &prompts);
        for eviction in Eviction::ALL {
            prop_assert!(hits(eviction, blocks, &prompts) <= bound, "{:?}", eviction);
        }
    }

    #[test]
    fn belady_without_a_future_is_no_worse_than_lru(blocks in 7..30u32, prompts in prompts()) {
        let (lru, _) = run(Eviction::Lru, blocks, &prompts);
        let mut blind = Checked::new(Preset { eviction: Eviction::Belady, ..small(blocks) });
        for (prompt, id) in prompts.iter().zip(0..) {
            blind.run_alone(request(id, prompt, 4, 1, 1));
        }
        let cached = |checked: &Checked| checked.load().cached_tokens_total;
        // What nobody can find goes first, so it holds a little more.
        prop_assert!(cached(&blind) >= cached(&lru));
    }

    #[test]
    fn continuation_does_what_its_rule_says(blocks in 7..30u32, prompts in prompts()) {
        let mut plain = PlainContinuation { blocks_max: blocks as usize, ..Default::default() };
        let expected: Vec<u32> = prompts.iter().map(|prompt| plain.run(prompt)).collect();
        prop_assert_eq!(run(Eviction::Continuation, blocks, &prompts).1, expected);
    }
}

#[test]
fn a_rule_is_found_by_its_name() {
    for eviction in Eviction::ALL {
        assert_eq!(eviction.as_str().parse(), Ok(eviction));
    }
    let refused = "fifo".parse::<Eviction>().unwrap_err();
    assert_eq!(refused, "no eviction \"fifo\": there are lru, continuation, belady");
}

/// Conversations of a few turns among prompts that nobody goes on with.
fn conversations_among_single_prompts() -> Vec<Prompt> {
    let mut state = 7u64;
    let mut draw = |below: u64| {
        state = output_block_hash(Some(state), 0, 0);
        state % below
    };
    let mut open: Vec<Prompt> = Vec::new();
    let prompts = (0..1500u64).map(|id| {
        let prompt = match draw(3) {
            0 if open.len() > 12 => {
                let mut prompt = open.remove(draw(12) as usize);
                prompt.extend([id, id]);
                prompt
            }
            1 => (0..8).map(|block| (id << 8) | block).collect(),
            _ => vec![id << 8],
        };
        // Those with one block, and what follows them, are conversations.
        if prompt.len() % 2 == 1 && prompt.len() < 9 {
            open.push(prompt.clone());
        }
        prompt
    });
    prompts.collect()
}

#[test]
fn where_it_can_be_told_what_goes_on_the_estimate_lies_between_lru_and_the_bound() {
    let prompts = conversations_among_single_prompts();
    let [lru, continuation, belady] = Eviction::ALL.map(|eviction| hits(eviction, 120, &prompts));
    assert!(lru * 5 / 4 < continuation, "{lru} {continuation} {belady}");
    assert!(continuation < belady, "{lru} {continuation} {belady}");
}
