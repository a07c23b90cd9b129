//! Records -> jobs: how each kind of trace becomes what the router hashes and what the engine caches.
//!
//! - **Text** goes through the gateway's own hasher; the engine's blocks are cut from the same text, at four bytes a
//!   token.
//! - **Names of blocks** are used as they are: the engine's block is the trace's block, and the chain has one hash a
//!   block. A prefix length counts tokens then, on that grid.
//! - **Token ids** are cut into blocks of 16.
//! - **Lengths alone** say nothing of reuse, so comparing strategies on them would be comparing nothing: refused, unless
//!   prefixes are to be made up.
//!
//! A session's next prompt quotes the answer before it. Where the next prompt goes on exactly where this one ends, its
//! blocks name those that this answer fills, so that the answer is found in the cache as it would be in an engine.

mod content;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use kvroute_core::hash;

use self::content::Reader;
use super::job::{Job, Jobs, LengthUnit};
use crate::{InvalidOption, trace::Record};

/// Tokens a KV block where the trace has no blocks of its own.
pub(super) const BLOCK_TOKENS: u32 = 16;

/// How records are read.
#[derive(Debug, Clone)]
pub struct PrepareOptions {
    /// Lengths of the beginnings that keys are made of: characters for texts, tokens for blocks.
    pub prefix_lengths: Vec<u32>,
    /// Tokens of an answer where the trace does not say.
    pub output_tokens: u32,
    /// For traces of lengths: prefixes to make up.
    pub made_up: Option<MadeUpPrefixes>,
    /// The model that is no adapter; requests for any other run with one. `None` where models are not told apart.
    pub base_model: Option<String>,
    /// Seed of what is made up.
    pub seed: u64,
}

impl Default for PrepareOptions {
    fn default() -> Self {
        Self { prefix_lengths: Vec::new(), output_tokens: 256, made_up: None, base_model: None, seed: 0 }
    }
}

/// Prefixes made up for a trace of lengths: the first `share` of every prompt is one of `count` texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MadeUpPrefixes {
    /// Part of each prompt, 0..1.
    pub share: f64,
    /// Different prefixes, at least 1.
    pub count: u32,
}

impl FromStr for MadeUpPrefixes {
    type Err = InvalidOption;

    /// Reads `0.5:100`: a share and a count.
    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let parts = text.split_once(':').and_then(|(share, count)| Some((share.parse().ok()?, count.parse().ok()?)));
        let (share, count) = parts.ok_or_else(|| {
            let problem =
                format!("{text:?} is not a share of each prompt, a colon and a number of prefixes, such as 0.5:100");
            InvalidOption::new("synthesize-prefixes", problem)
        })?;
        let made_up = Self { share, count };
        made_up.check()?;
        Ok(made_up)
    }
}

impl MadeUpPrefixes {
    fn check(self) -> Result<(), InvalidOption> {
        InvalidOption::unless_within("synthesize-prefixes", self.count.into(), 1..=1 << 24)?;
        if !(0.0..=1.0).contains(&self.share) {
            return Err(InvalidOption::new("synthesize-prefixes", format!("{} is not within 0..1", self.share)));
        }
        Ok(())
    }
}

/// Why a trace cannot be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// There is no request in it.
    #[error("the trace has no request that can be replayed{}", .0.as_ref().map_or(String::new(), |why| format!(": {why}")))]
    Empty(Option<String>),
    /// Nothing is known of the prompts.
    #[error(
        "the trace holds lengths only, so nothing in it says which prompts begin alike, and every strategy would look \
         the same; record prompts or hashes, or make prefixes up with --synthesize-prefixes SHARE:COUNT"
    )]
    LengthsOnly,
    /// An option is out of range.
    #[error(transparent)]
    Option(#[from] InvalidOption),
}

/// Reads records into jobs. A failed reading of a record ends it.
///
/// # Errors
/// If there is nothing to replay, or the trace cannot answer what a replay asks.
pub fn prepare(records: impl IntoIterator<Item = Record>, options: &PrepareOptions) -> Result<Jobs, Unusable> {
    check(options)?;
    let mut reader = Reader::new(options);
    let mut building = Building::default();
    for record in records {
        match reader.read(&record)? {
            Ok(job) => building.push(&record, job, options),
            Err(why) => building.skip(why),
        }
    }
    building.finish(&reader, options)
}

fn check(options: &PrepareOptions) -> Result<(), InvalidOption> {
    InvalidOption::unless_within("output_tokens", options.output_tokens.into(), 1..=1 << 20)?;
    options.made_up.map_or(Ok(()), MadeUpPrefixes::check)
}

/// Jobs as they come in.
#[derive(Default)]
struct Building {
    list: Vec<Job>,
    sessions: Vec<Vec<u32>>,
    known_sessions: BTreeMap<Arc<str>, u32>,
    models: Vec<Arc<str>>,
    at_ms: Vec<Option<f64>>,
    without_output: u64,
    skipped: u64,
    first_reason: Option<String>,
}

impl Building {
    fn skip(&mut self, why: String) {
        self.skipped += 1;
        self.first_reason.get_or_insert(why);
    }

    fn push(&mut self, record: &Record, mut job: Job, options: &PrepareOptions) {
        let place = self.list.len() as u32;
        job.session_place = self.session_of(record, place);
        job.session = record.session.as_ref().map(|name| hash::bytes(name.as_bytes(), 0));
        job.tenant = record.tenant.as_ref().map(|name| hash::bytes(name.as_bytes(), 0));
        job.model = self.model_of(record);
        let base = options.base_model.as_deref();
        let is_adapter = base.is_some() && record.model.as_deref().is_some_and(|model| Some(model) != base);
        job.adapter = job.model.filter(|_| is_adapter).map(u32::from);
        self.without_output += u64::from(record.output_tokens.is_none());
        self.at_ms.push(record.at_ms.filter(|ms| ms.is_finite()));
        job.delay_us = record.delay_ms.filter(|ms| ms.is_finite() && *ms >= 0.0).map(micros);
        self.list.push(job);
    }

    fn session_of(&mut self, record: &Record, place: u32) -> u32 {
        let next = self.sessions.len() as u32;
        let session = match &record.session {
            Some(name) => *self.known_sessions.entry(name.clone()).or_insert(next),
            None => next,
        };
        if session == next {
            self.sessions.push(Vec::new());
        }
        self.sessions[session as usize].push(place);
        session
    }

    fn model_of(&mut self, record: &Record) -> Option<u16> {
        let name = record.model.as_ref()?;
        let known = self.models.iter().position(|model| model == name);
        let place = known.unwrap_or_else(|| {
            self.models.push(name.clone());
            self.models.len() - 1
        });
        // Nobody serves more models than that from one fleet.
        Some(place.min(usize::from(u16::MAX)) as u16)
    }

    fn finish(mut self, reader: &Reader<'_>, options: &PrepareOptions) -> Result<Jobs, Unusable> {
        if self.list.is_empty() {
            return Err(Unusable::Empty(self.first_reason));
        }
        let first_ms = self.at_ms.iter().flatten().copied().min_by(f64::total_cmp).unwrap_or_default();
        for (job, at_ms) in self.list.iter_mut().zip(&self.at_ms) {
            job.at_us = at_ms.map(|ms| micros(ms - first_ms));
        }
        self.join_answers(reader.block_tokens());
        let mut assumptions = reader.assumptions();
        if self.without_output > 0 {
            let (some, all) = (self.without_output, self.list.len());
            assumptions.push(format!(
                "{some} of {all} answers have {} tokens, since the trace does not say",
                options.output_tokens
            ));
        }
        if self.models.len() > 1 && options.base_model.is_none() {
            assumptions.push(format!("{} models share the fleet and no cache", self.models.len()));
        }
        Ok(Jobs {
            block_tokens: reader.block_tokens(),
            unit: reader.unit(),
            list: self.list,
            sessions: self.sessions,
            models: self.models,
            assumptions,
            skipped: self.first_reason.map(|why| (self.skipped, why)),
        })
    }

    /// Names the blocks of answers that the next prompt of the session quotes.
    fn join_answers(&mut self, block_tokens: u32) {
        for session in &self.sessions {
            for pair in session.windows(2) {
                let (this, next) = (&self.list[pair[0] as usize], &self.list[pair[1] as usize]);
                let (full, end) =
                    (this.prompt_blocks(block_tokens), this.input_tokens.saturating_add(this.output_tokens));
                let known = ((end / block_tokens) as usize).min(next.prompt_blocks(block_tokens));
                if known > full && next.blocks[..full] == this.blocks[..full] {
                    let joined: Arc<[u64]> = next.blocks[..known].into();
                    self.list[pair[0] as usize].blocks = joined;
                }
            }
        }
    }
}

fn micros(ms: f64) -> u64 {
    (ms * 1e3).round() as u64
}

/// The unit that a prefix length has for a record's content.
pub fn unit_of(record: &Record) -> LengthUnit {
    match record.content {
        crate::trace::Content::Text(_) => LengthUnit::Characters,
        _ => LengthUnit::Tokens,
    }
}

#[cfg(test)]
mod tests;
