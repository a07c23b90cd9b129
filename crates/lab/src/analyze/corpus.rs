//! All prompts of a trace as chains of names, in bounded memory.
//!
//! A prompt is cut on a **grid**: every so many characters of text, or tokens. A *name* stands for everything from the
//! prompt's beginning to a line of the grid (or to its end, for the last piece), so two prompts whose n-th names are
//! equal begin alike up to there. Names are small numbers; what they stand for is not kept.
//!
//! Memory is bounded by coarsening: when there are more names than [`Limits::names_max`], every second line of the grid
//! is dropped. A coarser grid sees a little less of what repeats, never more.

use std::collections::HashMap;

use kvroute_core::hash;

use super::chain;
use crate::trace::{Content, Kind, Record};

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Names of all prompts together, four bytes each; above, the grid becomes coarser.
    pub names_max: usize,
    /// Requests; those after them are not looked at.
    pub requests_max: usize,
    /// Names that all estimates of prefix lengths together look at; above, fewer seeds and less of the trace.
    pub estimated_names_max: usize,
}

impl Default for Limits {
    /// About 1 GiB and some seconds at most.
    fn default() -> Self {
        Self { names_max: 32 << 20, requests_max: 8 << 20, estimated_names_max: 100_000_000 }
    }
}

/// What the lines of a grid count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Characters of message text, as kvroute's `prefix_length` counts them.
    Characters,
    /// Tokens.
    Tokens,
}

impl Unit {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Characters => "characters",
            Self::Tokens => "tokens",
        }
    }
}

/// Where prompts are cut.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Grid {
    /// Units between two lines.
    pub step: u32,
    /// What is counted.
    pub unit: Unit,
    /// Tokens that one unit is.
    pub tokens_per_unit: f64,
}

impl Grid {
    /// Tokens of so many units.
    pub fn tokens(&self, units: u64) -> u64 {
        (units as f64 * self.tokens_per_unit).round() as u64
    }

    /// Whole steps that `tokens` fill, at least one.
    pub fn steps(&self, tokens: u64) -> usize {
        ((tokens as f64 / self.tokens_per_unit / f64::from(self.step)) as usize).max(1)
    }
}

/// What is kept of a request beside its names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Request {
    /// When it arrived, milliseconds.
    pub at_ms: Option<f64>,
    /// Length of the prompt in units of the grid.
    pub size: u32,
    /// Tokens of the prompt.
    pub input_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: Option<u32>,
    /// How long the answer took where it was recorded, milliseconds.
    pub e2e_ms: Option<f64>,
    /// Whose it is, as a number; part of the key.
    pub tenant: u32,
    /// Its session, as a number; 0 if it has none.
    pub session: u32,
}

/// A name, seen as a node of the tree of all prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// The name of the beginning one line shorter, or [`ROOT`].
    pub parent: u32,
    /// Prompts that have it.
    pub uses: u32,
    /// Its line of the grid, from 0.
    pub line: u32,
}

/// The parent of first names.
pub const ROOT: u32 = u32::MAX;

/// All prompts of a trace.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// Where prompts were cut.
    pub grid: Grid,
    /// Every request in the order of the trace.
    pub requests: Vec<Request>,
    /// By name.
    pub nodes: Vec<Node>,
    /// How often the grid was made coarser.
    pub coarsened: u32,
    starts: Vec<u32>,
    names: Vec<u32>,
}

impl Corpus {
    /// The names of request number `index`, shortest beginning first.
    pub fn names(&self, index: usize) -> &[u32] {
        &self.names[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// Names of all requests together.
    pub fn names_total(&self) -> usize {
        self.names.len()
    }

    /// Units of all prompts.
    pub fn units_total(&self) -> u64 {
        self.requests.iter().map(|request| u64::from(request.size)).sum()
    }

    /// Units of request `index` that its first `names` names stand for.
    pub fn units_of(&self, index: usize, names: usize) -> u64 {
        (names as u64 * u64::from(self.grid.step)).min(u64::from(self.requests[index].size))
    }

    /// The key that a cut after `lines` lines of the grid gives request `index`: its name there, or its last one where
    /// it is shorter. Tenants have keys of their own. `None` for an empty prompt.
    pub fn key(&self, index: usize, lines: usize) -> Option<(u32, u32)> {
        let names = self.names(index);
        let name = names.get(lines.max(1).min(names.len()).checked_sub(1)?)?;
        Some((self.requests[index].tenant, *name))
    }
}

/// Why a record was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Skip {
    /// The trace began with records of another kind.
    #[error("of another kind than the first")]
    OtherKind,
    /// Its blocks have another size than those before it.
    #[error("with blocks of another size than the first")]
    OtherBlocks,
    /// There were more than [`Limits::requests_max`].
    #[error("after the last that fits into memory")]
    TooMany,
}

/// Takes records one by one.
#[derive(Debug)]
pub struct Builder {
    limits: Limits,
    kind: Option<Kind>,
    unit: Unit,
    step: u32,
    coarsened: u32,
    requests: Vec<Request>,
    starts: Vec<u32>,
    names: Vec<u32>,
    name_of: HashMap<u64, u32>,
    groups: HashMap<u64, u32>,
    /// For the ratio of tokens to characters: of the prompts that tell both.
    told: (u64, u64),
    scratch: Vec<u64>,
}

impl Builder {
    /// Nothing yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            kind: None,
            unit: Unit::Tokens,
            step: 1,
            coarsened: 0,
            requests: Vec::new(),
            starts: vec![0],
            names: Vec::new(),
            name_of: HashMap::new(),
            groups: HashMap::new(),
            told: (0, 0),
            scratch: Vec::new(),
        }
    }

    /// What the first record was.
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Takes a record.
    pub fn push(&mut self, record: &Record) -> Result<(), Skip> {
        if self.requests.len() >= self.limits.requests_max {
            return Err(Skip::TooMany);
        }
        let (unit, step) = chain::grid_of(&record.content);
        if self.kind.is_none() {
            (self.kind, self.unit, self.step) = (Some(record.kind()), unit, step);
        }
        if self.kind != Some(record.kind()) || self.unit != unit {
            return Err(Skip::OtherKind);
        }
        if step != self.step {
            return Err(Skip::OtherBlocks);
        }
        let mut chain = std::mem::take(&mut self.scratch);
        let scope = record.model.as_ref().map_or(0, |model| hash::bytes(model.as_bytes(), 1));
        let units = chain::names(&record.content, scope, &mut chain);
        let size = match (&record.content, record.input_tokens) {
            (Content::Text(_), _) | (_, None) => units,
            (_, Some(tokens)) => tokens,
        };
        let every = 1usize << self.coarsened;
        let last = chain.len().saturating_sub(1);
        for (line, &chained) in chain.iter().enumerate() {
            if (line + 1).is_multiple_of(every) || line == last {
                let fresh = self.name_of.len() as u32;
                self.names.push(*self.name_of.entry(chained).or_insert(fresh));
            }
        }
        self.scratch = chain;
        self.starts.push(self.names.len() as u32);
        let request = self.request(record, size, units);
        self.requests.push(request);
        while self.names.len() > self.limits.names_max && self.coarsen() {}
        Ok(())
    }

    fn request(&mut self, record: &Record, size: u32, units: u32) -> Request {
        if let (Unit::Characters, Some(tokens)) = (self.unit, record.input_tokens) {
            self.told = (self.told.0 + u64::from(tokens), self.told.1 + u64::from(units));
        }
        let mut group = |name: Option<&str>, seed: u64| match name {
            None => 0,
            Some(name) => {
                let fresh = self.groups.len() as u32 + 1;
                *self.groups.entry(hash::bytes(name.as_bytes(), seed)).or_insert(fresh)
            }
        };
        Request {
            at_ms: record.at_ms.filter(|at| at.is_finite()),
            size,
            input_tokens: record.input_tokens.unwrap_or(match self.unit {
                Unit::Tokens => size,
                // Replaced at the end, when the ratio is known.
                Unit::Characters => 0,
            }),
            output_tokens: record.output_tokens,
            e2e_ms: record.observed.e2e_ms.filter(|ms| ms.is_finite() && *ms >= 0.0),
            tenant: group(record.tenant.as_deref(), 2),
            session: group(record.session.as_deref(), 3),
        }
    }

    /// Drops every second line of the grid. Whether that made a difference: a prompt keeps its last name at least.
    fn coarsen(&mut self) -> bool {
        let before = self.names.len();
        let mut kept = 0;
        let mut from = 0;
        for index in 1..self.starts.len() {
            let to = self.starts[index] as usize;
            for at in from..to {
                if (at - from) % 2 == 1 || at + 1 == to {
                    self.names[kept] = self.names[at];
                    kept += 1;
                }
            }
            from = to;
            self.starts[index] = kept as u32;
        }
        self.names.truncate(kept);
        self.coarsened += 1;
        self.renumber();
        kept < before
    }

    /// Gives back the room of names that no prompt has any more.
    fn renumber(&mut self) {
        let mut fresh_of = vec![ROOT; self.name_of.len()];
        let mut fresh = 0;
        for name in &mut self.names {
            let slot = &mut fresh_of[*name as usize];
            if *slot == ROOT {
                *slot = fresh;
                fresh += 1;
            }
            *name = *slot;
        }
        self.name_of.retain(|_, name| {
            *name = fresh_of[*name as usize];
            *name != ROOT
        });
        self.name_of.shrink_to_fit();
    }

    /// Everything taken. `tokens_per_character` is for texts whose tokens the trace does not tell.
    pub fn finish(mut self, tokens_per_character: f64) -> Corpus {
        let tokens_per_unit = match (self.unit, self.told) {
            (Unit::Tokens, _) => 1.0,
            (Unit::Characters, (tokens, characters)) if tokens > 0 && characters > 0 => {
                tokens as f64 / characters as f64
            }
            (Unit::Characters, _) => tokens_per_character,
        };
        let grid = Grid { step: self.step << self.coarsened.min(20), unit: self.unit, tokens_per_unit };
        for request in self.requests.iter_mut().filter(|request| request.input_tokens == 0) {
            request.input_tokens = grid.tokens(u64::from(request.size)) as u32;
        }
        let nodes = nodes(&self.starts, &self.names, self.name_of.len());
        Corpus {
            grid,
            requests: self.requests,
            nodes,
            coarsened: self.coarsened,
            starts: self.starts,
            names: self.names,
        }
    }
}

fn nodes(starts: &[u32], names: &[u32], count: usize) -> Vec<Node> {
    let mut nodes = vec![Node { parent: ROOT, uses: 0, line: 0 }; count];
    for bounds in starts.windows(2) {
        let mut parent = ROOT;
        for (line, &name) in names[bounds[0] as usize..bounds[1] as usize].iter().enumerate() {
            let node = &mut nodes[name as usize];
            *node = Node { parent, uses: node.uses + 1, line: line as u32 };
            parent = name;
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::super::sample::{blocks, text};
    use super::*;

    fn corpus(records: &[Record], limits: Limits) -> Corpus {
        let mut builder = Builder::new(limits);
        records.iter().for_each(|record| builder.push(record).unwrap());
        builder.finish(0.25)
    }

    #[test]
    fn prompts_that_begin_alike_share_names_and_block_names_count_only_with_all_before_them() {
        let records = [blocks(&[1, 2, 3], 1536), blocks(&[1, 2, 4], 1400), blocks(&[9, 2, 3], 1536)];
        let corpus = corpus(&records, Limits::default());
        assert_eq!(corpus.names(0)[..2], corpus.names(1)[..2]);
        assert_ne!(corpus.names(0)[2], corpus.names(1)[2]);
        assert!(corpus.names(2).iter().all(|name| !corpus.names(0).contains(name)));
        assert_eq!((corpus.units_of(1, 2), corpus.units_of(1, 3)), (1024, 1400));
    }

    #[test]
    fn a_cut_gives_one_key_to_what_begins_alike_and_tenants_have_their_own() {
        let mut records = [blocks(&[1, 2], 1024), blocks(&[1, 3], 1024), blocks(&[1], 512), blocks(&[1, 2], 1024)];
        records[3].tenant = Some("other".into());
        let corpus = corpus(&records, Limits::default());
        assert_eq!(corpus.key(0, 1), corpus.key(1, 1));
        assert_ne!(corpus.key(0, 2), corpus.key(1, 2));
        assert_eq!(corpus.key(2, 1), corpus.key(2, 9));
        assert_ne!(corpus.key(0, 1), corpus.key(3, 1));
    }

    #[test]
    fn models_share_nothing() {
        let mut records = [text("one and the same text"), text("one and the same text")];
        records[1].model = Some("other".into());
        let corpus = corpus(&records, Limits::default());
        assert_ne!(corpus.names(0), corpus.names(1));
    }

    #[test]
    fn memory_is_bounded_by_a_coarser_grid_on_which_the_same_prompts_begin_alike() {
        let records: Vec<Record> = (0..50)
            .map(|i| blocks(&(0..16).map(|b| if b < 8 { b } else { i * 100 + b }).collect::<Vec<_>>(), 16 * 512))
            .collect();
        let fine = corpus(&records, Limits::default());
        let coarse = corpus(&records, Limits { names_max: 300, ..Limits::default() });
        assert!(coarse.names_total() <= 300, "{}", coarse.names_total());
        assert_eq!(coarse.grid.step, 512 << coarse.coarsened);
        assert_eq!(coarse.units_total(), fine.units_total());
        for i in 1..50 {
            let shared = |c: &Corpus| c.names(0).iter().zip(c.names(i)).take_while(|(a, b)| a == b).count() as u32;
            assert_eq!(shared(&coarse) * coarse.grid.step, shared(&fine) * fine.grid.step, "{i}");
        }
        let live = coarse.nodes.len();
        assert!(coarse.nodes.iter().all(|node| node.uses > 0) && live <= coarse.names_total());
    }

    #[test]
    fn records_of_another_kind_or_grid_are_refused_and_so_is_what_does_not_fit() {
        let mut builder = Builder::new(Limits { requests_max: 2, ..Limits::default() });
        builder.push(&blocks(&[1], 512)).unwrap();
        assert_eq!(builder.push(&text("abc")), Err(Skip::OtherKind));
        let mut other = blocks(&[1], 512);
        if let Content::Blocks(blocks) = &mut other.content {
            blocks.tokens = 16;
        }
        assert_eq!(builder.push(&other), Err(Skip::OtherBlocks));
        builder.push(&blocks(&[2], 512)).unwrap();
        assert_eq!(builder.push(&blocks(&[3], 512)), Err(Skip::TooMany));
    }

    #[test]
    fn the_ratio_of_tokens_to_characters_is_the_traces_own_where_it_tells_both() {
        let mut record = text(&"x".repeat(1000));
        record.input_tokens = Some(200);
        assert_eq!(corpus(&[record.clone(), text("y")], Limits::default()).grid.tokens_per_unit, 0.2);
        record.input_tokens = None;
        let corpus = corpus(&[record], Limits::default());
        assert_eq!((corpus.grid.tokens_per_unit, corpus.requests[0].input_tokens), (0.25, 250));
    }
}
