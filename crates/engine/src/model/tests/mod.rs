//! What the engine must do, told from outside: calls in, events out.

mod adapters;
mod batching;
mod cache;
mod eviction;
mod pressure;
mod random;
mod timing;

use std::sync::Arc;

use super::{Engine, Event, FinishReason, Load, Micros, Preset, Request, output_block_hash};

/// An engine whose books are checked after every call, and all that it told.
struct Checked {
    engine: Engine,
    events: Vec<Event>,
    now: Micros,
}

impl Checked {
    fn new(preset: Preset) -> Self {
        Self { engine: Engine::new(preset), events: Vec::new(), now: Micros(0) }
    }

    fn submit(&mut self, request: Request) {
        self.engine.submit(self.now, request);
        self.engine.check_invariants();
    }

    fn abort(&mut self, id: u64) {
        self.engine.abort(self.now, id);
        self.engine.check_invariants();
    }

    fn clear_cache(&mut self) -> bool {
        let cleared = self.engine.clear_cache(self.now);
        self.engine.check_invariants();
        cleared
    }

    /// Lets time pass; returns what happened in it.
    fn run_for_ms(&mut self, ms: f64) -> &[Event] {
        let first = self.events.len();
        self.now = self.now.after_ms(ms);
        self.engine.advance(self.now, &mut self.events);
        self.engine.check_invariants();
        &self.events[first..]
    }

    /// Goes from event to event until nothing is left to do; returns what happened.
    fn run_until_idle(&mut self) -> &[Event] {
        let first = self.events.len();
        while let Some(at) = self.engine.next_event_at() {
            assert!(at >= self.now, "the next event is in the past");
            self.now = at;
            self.engine.advance(at, &mut self.events);
            self.engine.check_invariants();
        }
        assert_eq!(self.load().running + self.load().waiting, 0);
        assert_eq!(self.load().kv_used_ratio, 0.0);
        &self.events[first..]
    }

    /// Runs one request alone; returns what happened.
    fn run_alone(&mut self, request: Request) -> &[Event] {
        self.submit(request);
        self.run_until_idle()
    }

    fn load(&self) -> Load {
        self.engine.load()
    }
}

/// A small engine: `blocks` blocks of 4 tokens, a context as large as memory.
fn small(blocks: u32) -> Preset {
    Preset { kv_tokens: blocks * 4, block_tokens: 4, ..Preset::default() }
}

/// Chained hashes of blocks with these contents.
fn chain(contents: &[u64]) -> Arc<[u64]> {
    let mut parent = None;
    let hashes = contents.iter().map(|&content| {
        let hash = output_block_hash(parent, content, 0);
        parent = Some(hash);
        hash
    });
    hashes.collect()
}

/// A request whose prompt is these blocks, and `tail_tokens` more. Its output is its own.
fn request(id: u64, contents: &[u64], block_tokens: u32, tail_tokens: u32, output: u32) -> Request {
    Request {
        id,
        prompt_tokens: contents.len() as u32 * block_tokens + tail_tokens,
        block_hashes: chain(contents),
        output_tokens: output,
        output_seed: id,
        adapter: None,
        report_cached: false,
    }
}

/// A prompt of `tokens` tokens for an engine with blocks of 16, shared with nobody.
fn unshared(id: u64, tokens: u32, output: u32) -> Request {
    let contents: Vec<u64> = (0..u64::from(tokens / 16)).map(|block| (id << 32) | block).collect();
    request(id, &contents, 16, tokens % 16, output)
}

fn cached_tokens(events: &[Event], of: u64) -> Option<u32> {
    events.iter().find_map(|event| match *event {
        Event::Scheduled { id, cached_tokens, .. } if id == of => Some(cached_tokens),
        _ => None,
    })
}

fn first_token_at(events: &[Event], of: u64) -> Option<Micros> {
    events.iter().find_map(|event| match *event {
        Event::FirstToken { id, at } if id == of => Some(at),
        _ => None,
    })
}

fn finish_reason(events: &[Event], of: u64) -> Option<FinishReason> {
    events.iter().find_map(|event| match *event {
        Event::Finished { id, reason, .. } if id == of => Some(reason),
        _ => None,
    })
}

/// First and further tokens of a request.
fn tokens_told(events: &[Event], of: u64) -> usize {
    let token = |event: &&Event| matches!(**event, Event::FirstToken { id, .. } | Event::Token { id, .. } if id == of);
    events.iter().filter(token).count()
}
