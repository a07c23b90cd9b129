//! NVIDIA Dynamo's KV router (1.6.1), by its documented cost:
//!
//! ```text
//! cost = prefill_load_scale x max(0, (active prefill tokens + prompt tokens) / block - overlap_credit x overlap blocks)
//!        + active decode blocks, this request's included + active_request_weight x active requests
//! ```
//!
//! The lowest cost wins; ties are drawn. Defaults: 1, 1 and 0, temperature 0, no decay. Active prefill tokens are the
//! uncached ones of requests before their first token. Active blocks are the distinct blocks of requests in flight, the
//! prompt's only: how long answers get is not known when it decides. It listens to the engines' events, without delay
//! here; `view=predicted` is its index without events, an LRU of a replica's KV size where Dynamo's forgets by time.

use std::collections::HashMap;

use kvroute_core::{decision::Reason, moment::Entropy, strategy::Pick};

use super::books::Books;
use super::index::{Hashing, Index, View, chain_of};
use super::{Ask, Kv, Rule, least, no_such, not_negative};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Weight of the work before the first token.
    pub prefill_load_scale: f64,
    /// Worth of a block that is there.
    pub overlap_credit: f64,
    /// Weight of a request in flight, in blocks.
    pub active_request_weight: f64,
    /// How it knows what is cached.
    pub view: View,
}

impl Default for Settings {
    fn default() -> Self {
        Self { prefill_load_scale: 1.0, overlap_credit: 1.0, active_request_weight: 0.0, view: View::Events }
    }
}

impl Settings {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "prefill_load_scale" => self.prefill_load_scale = not_negative(value)?,
            "overlap_credit" => self.overlap_credit = not_negative(value)?,
            "active_request_weight" => self.active_request_weight = not_negative(value)?,
            "view" => self.view = View::parse(value)?,
            _ => return Err(no_such(&["prefill_load_scale", "overlap_credit", "active_request_weight", "view"])),
        }
        Ok(())
    }
}

pub(super) struct Dynamo {
    settings: Settings,
    kv: Kv,
    index: Index,
    books: Books,
    active: ActiveBlocks,
}

impl Dynamo {
    pub(super) fn new(settings: &Settings, kv: Kv) -> Self {
        let index = Index::new(settings.view, (kv.tokens / kv.block_tokens) as usize);
        Self { settings: settings.clone(), kv, index, books: Books::default(), active: ActiveBlocks::default() }
    }
}

impl Rule for Dynamo {
    fn pick(&mut self, ask: &Ask<'_>, entropy: &mut Entropy) -> Pick {
        let chain = chain_of(ask);
        let settings = &self.settings;
        let cost = |place: &super::Place| {
            let overlap = f64::from(self.index.matched(place.number, &chain));
            let tokens = self.books.pending_tokens(place.number) + u64::from(ask.input_tokens);
            let prefill = tokens as f64 / f64::from(self.kv.block_tokens) - settings.overlap_credit * overlap;
            settings.prefill_load_scale * prefill.max(0.0)
                + self.active.with(place.number, ask.blocks) as f64
                + settings.active_request_weight * f64::from(place.in_flight)
        };
        let place = least(ask.eligible(), entropy, cost).expect("a place is eligible");
        let matched = self.index.matched(place.number, &chain);
        let uncached = ask.input_tokens.saturating_sub(matched * self.kv.block_tokens);
        self.books.placed(ask.request, place.number, uncached.into());
        self.active.placed(ask.request, place.number, ask.blocks);
        self.index.sent(place.number, &chain);
        Pick::new(place.index, if matched > 0 { Reason::PrefixHit } else { Reason::Load })
    }

    fn books(&mut self) -> Option<&mut Books> {
        Some(&mut self.books)
    }

    fn index(&mut self) -> Option<&mut Index> {
        Some(&mut self.index)
    }

    fn ended(&mut self, request: u32) {
        self.books.done(request);
        self.active.ended(request);
    }
}

/// Distinct blocks of the requests in flight, by replica.
#[derive(Default)]
struct ActiveBlocks {
    counts: Vec<HashMap<u64, u32, Hashing>>,
    requests: Vec<Option<(usize, Box<[u64]>)>>,
}

impl ActiveBlocks {
    /// How many there would be with these.
    fn with(&self, number: usize, blocks: &[u64]) -> usize {
        let Some(counts) = self.counts.get(number) else { return blocks.len() };
        // Blocks are named with all before them, so those that are active already come first.
        let known = blocks.partition_point(|block| counts.contains_key(block));
        counts.len() + blocks.len() - known
    }

    fn placed(&mut self, request: u32, number: usize, blocks: &[u64]) {
        while self.counts.len() <= number {
            self.counts.push(HashMap::default());
        }
        blocks.iter().for_each(|block| *self.counts[number].entry(*block).or_default() += 1);
        if self.requests.len() <= request as usize {
            self.requests.resize(request as usize + 1, None);
        }
        self.requests[request as usize] = Some((number, blocks.into()));
    }

    fn ended(&mut self, request: u32) {
        let Some((number, blocks)) = self.requests.get_mut(request as usize).and_then(Option::take) else { return };
        for block in &blocks {
            if let Some(count) = self.counts[number].get_mut(block) {
                *count -= 1;
                if *count == 0 {
                    self.counts[number].remove(block);
                }
            }
        }
    }
}
