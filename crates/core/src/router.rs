//! Facts + fleet + moment -> decision, with the load reserved in the same breath.
//!
//! [`route`] reads top to bottom: which variant, the home of the request's key, which places may serve the request, what
//! the strategy picks, the place taken, and what is believed to be held. Loads are read and the place is taken under the
//! variant's lock, so a burst of requests sees its own beginning: no two decisions act on the same count. What is
//! believed decides nothing, and is asked after it.
//!
//! A retry is the same decision again with the places tried left out, on the loads of its own moment.

use std::collections::HashSet;
use std::fmt;

use crate::decision::{Candidate, Choice, Decision, Drop, Reason};
use crate::discovery::Holders;
use crate::facts::RequestFacts;
use crate::filter::{self, Needs};
use crate::fleet::{Endpoint, EngineId, TargetId, Variant};
use crate::load::{Load, Reservation};
use crate::moment::{Entropy, Moment};
use crate::prompt::BLOCK_BYTES;
use crate::routing::Strategy;
use crate::strategy::{Pick, eligible, least_outstanding, prefix_aware, random, round_robin, session};

/// A request that has been given its place.
#[derive(Debug)]
pub struct Routed {
    /// Where it goes and why.
    pub decision: Decision,
    /// Its place there.
    pub reservation: Reservation,
}

/// What happened to a request before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempts<'a> {
    /// The variant it was given.
    pub variant: Option<usize>,
    /// Where it was tried.
    pub tried: &'a [Choice],
}

/// Why a request cannot be routed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// The endpoint has no such variant.
    UnknownVariant(String),
    /// The endpoint has no such inference component.
    UnknownComponent(String),
    /// The component is not on the variant the client insists on.
    ComponentElsewhere {
        /// The component.
        component: String,
        /// The variant asked for.
        variant: String,
    },
    /// No replica can serve it, now or later: how many were dropped for what.
    Unfit(Vec<(Drop, usize)>),
    /// No replica may serve it now: how many were dropped for what.
    NoReplica(Vec<(Drop, usize)>),
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVariant(name) => write!(f, "the endpoint has no variant {name:?}"),
            Self::UnknownComponent(name) => {
                write!(f, "the endpoint has no inference component {name:?}")
            }
            Self::ComponentElsewhere { component, variant } => {
                write!(f, "inference component {component:?} is not on variant {variant:?}")
            }
            Self::NoReplica(dropped) if dropped.is_empty() => {
                write!(f, "the variant has no replicas")
            }
            Self::NoReplica(dropped) => {
                write!(f, "no replica can take the request now ({})", Dropped(dropped))
            }
            Self::Unfit(dropped) => {
                write!(f, "no replica can serve such a request ({})", Dropped(dropped))
            }
        }
    }
}

impl std::error::Error for NoRoute {}

/// Counts in words.
struct Dropped<'a>(&'a [(Drop, usize)]);

impl fmt::Display for Dropped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (drop, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} {}", if i > 0 { ", " } else { "" }, drop.as_str())?;
        }
        Ok(())
    }
}

/// Decides where a request to `endpoint` goes, and takes its place there. `has_path` says whether a target has a path
/// for it at all.
pub fn route(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    has_path: &(dyn Fn(TargetId) -> bool + Sync),
    attempts: Attempts<'_>,
    moment: Moment,
) -> Result<Routed, NoRoute> {
    let Moment { now_us, mut entropy } = moment;
    let holders = holders(endpoint, facts);
    let needs = needs_of(endpoint, facts, holders.as_deref(), has_path)?;
    let index = match attempts.variant {
        Some(index) => index,
        None => variant_of(endpoint, facts, needs, now_us, &mut entropy)?,
    };
    let variant = &endpoint.variants[index];
    let key = key_of(variant, index, facts);
    let home = key.and_then(|key| variant.home_of(key));

    let turn = variant.turn.lock();
    let found = match home.and_then(|home| at_home(variant, needs, facts, attempts, home, now_us)) {
        Some(found) => found,
        None => among_all(variant, needs, facts, attempts, key, now_us, &mut entropy)?,
    };
    let mut reservation = take(variant, needs, found.choice, now_us);
    drop(turn);

    let held = filter::matched_blocks(variant, needs, found.choice, &facts.prompt.chain);
    let decision = decide(index, variant, needs, found, facts, held, now_us);
    reservation.expect_held(&facts.prompt.chain, held, facts.uncached_tokens(decision.captured_bytes));
    if needs.component.is_none() {
        let blocks = facts.prompt.chain.hashes().iter();
        blocks.for_each(|block| variant.last_sent.set(*block, found.choice.replica));
    }
    Ok(Routed { decision, reservation })
}

/// What a decision would look at: every place of the variant, each replica in its order, or each copy of the invoked
/// component and each replica that has none; with their scores, where the strategy uses one.
///
/// # Errors
/// As [`route`], but not for want of a place.
pub fn explain(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    has_path: &(dyn Fn(TargetId) -> bool + Sync),
    attempts: Attempts<'_>,
    moment: Moment,
) -> Result<Vec<Candidate>, NoRoute> {
    let Moment { now_us, mut entropy } = moment;
    let holders = holders(endpoint, facts);
    let needs = needs_of(endpoint, facts, holders.as_deref(), has_path)?;
    let index = match attempts.variant {
        Some(index) => index,
        None => variant_of(endpoint, facts, needs, now_us, &mut entropy)?,
    };
    let variant = &endpoint.variants[index];
    let mut candidates = filter::candidates(variant, needs, attempts.tried, now_us);
    if let Some(key) = key_of(variant, index, facts) {
        filter::score(variant, needs, &mut candidates, key);
    }
    Ok(candidates)
}

/// A place for a request, and why it is that one.
#[derive(Clone, Copy)]
struct Found {
    choice: Choice,
    home: Option<Choice>,
    reason: Reason,
}

/// The engines that list the request's model as an adapter.
fn holders(endpoint: &Endpoint, facts: &RequestFacts) -> Option<Holders> {
    endpoint.discovery.as_ref()?.holders(facts.model.as_deref()?)
}

fn needs_of<'a>(
    endpoint: &'a Endpoint,
    facts: &RequestFacts,
    holders: Option<&'a HashSet<EngineId>>,
    has_path: &'a (dyn Fn(TargetId) -> bool + Sync),
) -> Result<Needs<'a>, NoRoute> {
    let needs = Needs::of(endpoint, facts, holders)
        .ok_or_else(|| NoRoute::UnknownComponent(facts.component.clone().unwrap_or_default()))?;
    // What a copy keeps is asked of the copy, even where only its id is named, as in the path of a kept answer.
    let keeper = facts.pinned.filter(|_| needs.component.is_none());
    let component = needs.component.or_else(|| endpoint.component_of(keeper?));
    Ok(Needs { component, has_path: Some(has_path), ..needs })
}

/// What the strategy places the request by, if it uses a key.
fn key_of(variant: &Variant, index: usize, facts: &RequestFacts) -> Option<u64> {
    match variant.routing.strategy {
        Strategy::PrefixAware => facts.prefix_key(index),
        Strategy::Session => facts.session,
        Strategy::Random | Strategy::RoundRobin | Strategy::LeastOutstanding => None,
    }
}

/// The home of a key, where that is plain without a look at all others: it is the home of all replicas whatever their
/// state, nothing is held against it, it is under its threshold, and some other replica is well too. Most requests end
/// here, and then the size of the variant does not matter. It is what [`among_all`] would find.
fn at_home(
    variant: &Variant,
    needs: Needs<'_>,
    facts: &RequestFacts,
    attempts: Attempts<'_>,
    home: usize,
    now_us: u64,
) -> Option<Found> {
    if needs.component.is_some() || facts.pinned.is_some() || !attempts.tried.is_empty() {
        return None;
    }
    let replica = &variant.replicas[home];
    let is_well = |index| filter::is_well(variant, needs, index, now_us);
    if replica.live.load.in_flight() >= variant.routing.prefix_aware.concurrency_threshold || !is_well(home) {
        return None;
    }
    let mut others = (home + 1..variant.replicas.len()).chain(0..home);
    others.find(|other| is_well(*other))?;
    let reason = if variant.routing.strategy == Strategy::Session { Reason::Session } else { Reason::Cold };
    let choice = Choice { replica: home, copy: None, target: replica.target };
    Some(Found { choice, home: Some(choice), reason })
}

/// The place that the strategy picks among all.
fn among_all(
    variant: &Variant,
    needs: Needs<'_>,
    facts: &RequestFacts,
    attempts: Attempts<'_>,
    key: Option<u64>,
    now_us: u64,
    entropy: &mut Entropy,
) -> Result<Found, NoRoute> {
    let mut candidates = filter::candidates(variant, needs, attempts.tried, now_us);
    if eligible(&candidates).next().is_none() {
        let drops = count_drops(&candidates);
        let is_unfit = !drops.is_empty() && drops.iter().all(|(drop, _)| drop.is_for_good());
        return Err(if is_unfit { NoRoute::Unfit(drops) } else { NoRoute::NoReplica(drops) });
    }
    let Pick { index, reason, home } = pick(variant, needs, facts, key, &mut candidates, entropy);
    debug_assert!(candidates[index].is_eligible(), "dropped but chosen");
    let choice = candidates[index].choice();
    Ok(Found { choice, home: home.map(|home| candidates[home].choice()), reason })
}

fn variant_of(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    needs: Needs<'_>,
    now_us: u64,
    entropy: &mut Entropy,
) -> Result<usize, NoRoute> {
    let named = match &facts.variant {
        None => None,
        Some(name) => {
            let position = endpoint.variants.iter().position(|variant| *variant.name == **name);
            Some(position.ok_or_else(|| NoRoute::UnknownVariant(name.clone()))?)
        }
    };
    let pinned = facts.pinned.filter(|_| named.is_none());
    let keeper = pinned.and_then(|engine| {
        endpoint.variants.iter().position(|variant| variant.replicas.iter().any(|replica| replica.engine() == engine))
    });
    match (needs.component, named, keeper) {
        (Some(component), Some(index), _) if component.variant != index => Err(NoRoute::ComponentElsewhere {
            component: component.name.clone(),
            variant: endpoint.variants[index].name.to_string(),
        }),
        (Some(component), ..) => Ok(component.variant),
        (None, Some(index), _) | (None, None, Some(index)) => Ok(index),
        (None, None, None) => Ok(variant_by_weight(&endpoint.variants, needs, now_us, entropy)),
    }
}

/// Draws among the variants that can serve the request now; if none can, among those that could at another time, so that
/// the client hears of that; else among all of them.
fn variant_by_weight(variants: &[Variant], needs: Needs<'_>, now_us: u64, entropy: &mut Entropy) -> usize {
    if variants.len() == 1 {
        return 0;
    }
    let weight_if = |can: &dyn Fn(&Variant) -> bool| -> Vec<f64> {
        variants.iter().map(|variant| if can(variant) { variant.weight } else { 0.0 }).collect()
    };
    let is_nothing = |weights: &[f64]| weights.iter().all(|weight| *weight == 0.0);
    let mut weights = weight_if(&|variant| filter::has_candidate(variant, needs, now_us));
    if is_nothing(&weights) {
        weights = weight_if(&|variant| filter::has_fit(variant, needs));
    }
    if is_nothing(&weights) {
        weights = weight_if(&|_| true);
    }
    let mut point = entropy.unit() * weights.iter().sum::<f64>();
    let mut picked = 0;
    for (index, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0.0) {
        picked = index;
        point -= weight;
        if point < 0.0 {
            break;
        }
    }
    picked
}

fn pick(
    variant: &Variant,
    needs: Needs<'_>,
    facts: &RequestFacts,
    key: Option<u64>,
    candidates: &mut [Candidate],
    entropy: &mut Entropy,
) -> Pick {
    if let Some(pick) = pinned(variant, needs, facts, candidates) {
        return pick;
    }
    let threshold = variant.routing.prefix_aware.concurrency_threshold;
    match variant.routing.strategy {
        Strategy::Random => return random::pick(candidates, entropy),
        Strategy::RoundRobin => return round_robin::pick(candidates, |candidate| load_of(variant, needs, candidate)),
        Strategy::LeastOutstanding => return least_outstanding::pick(candidates, entropy),
        Strategy::PrefixAware | Strategy::Session => {}
    }
    let Some(key) = key else {
        return Pick { reason: Reason::NoPrefix, ..least_outstanding::pick(candidates, entropy) };
    };
    filter::score(variant, needs, candidates, key);
    match variant.routing.strategy {
        Strategy::Session => session::pick(candidates, threshold, entropy),
        _ => prefix_aware::pick(candidates, threshold, entropy),
    }
}

/// The engine that keeps what the request goes on with, if it can be asked: the least busy of its places. Others being
/// better off is no reason to leave it, since nobody else can answer.
fn pinned(variant: &Variant, needs: Needs<'_>, facts: &RequestFacts, candidates: &mut [Candidate]) -> Option<Pick> {
    let keeper = facts.pinned?;
    let engine = |candidate: &Candidate| {
        let replica = &variant.replicas[candidate.replica];
        match (needs.component, candidate.copy) {
            (Some(component), Some(copy)) => component.engine_of(&component.copies[copy], replica),
            _ => replica.engine(),
        }
    };
    let there = candidates
        .iter_mut()
        .enumerate()
        .filter(|(_, candidate)| candidate.dropped.is_none_or(Drop::is_last_resort) && engine(candidate) == keeper);
    let (index, keeper) = there.min_by_key(|(_, candidate)| (candidate.dropped.is_some(), candidate.in_flight))?;
    keeper.dropped = None;
    Some(Pick { index, reason: Reason::Pinned, home: Some(index) })
}

/// What counts the requests of a candidate.
fn load_of<'a>(variant: &'a Variant, needs: Needs<'a>, candidate: &Candidate) -> &'a Load {
    match (needs.component, candidate.copy) {
        (Some(component), Some(copy)) => &component.copies[copy].live.load,
        _ => &variant.replicas[candidate.replica].live.load,
    }
}

fn decide(
    index: usize,
    variant: &Variant,
    needs: Needs<'_>,
    found: Found,
    facts: &RequestFacts,
    captured_blocks: usize,
    now_us: u64,
) -> Decision {
    let available_blocks = filter::available_blocks(variant, needs, &facts.prompt.chain, now_us).max(captured_blocks);
    let is_hit = found.reason == Reason::Cold && captured_blocks > 0;
    Decision {
        strategy: variant.routing.strategy,
        variant: index,
        reason: if is_hit { Reason::PrefixHit } else { found.reason },
        choice: found.choice,
        home: found.home,
        available_bytes: held_bytes(available_blocks, facts),
        captured_bytes: held_bytes(captured_blocks, facts),
    }
}

fn take(variant: &Variant, needs: Needs<'_>, choice: Choice, now_us: u64) -> Reservation {
    let copy = needs.component.zip(choice.copy).map(|(component, copy)| {
        let copy = &component.copies[copy];
        (copy.live.clone(), copy.has_own_address)
    });
    Reservation::take(variant.replicas[choice.replica].live.clone(), copy, now_us)
}

fn held_bytes(blocks: usize, facts: &RequestFacts) -> u64 {
    ((blocks * BLOCK_BYTES) as u64).min(facts.prompt.text_bytes)
}

fn count_drops(candidates: &[Candidate]) -> Vec<(Drop, usize)> {
    let mut counts: Vec<(Drop, usize)> = Vec::new();
    for drop in candidates.iter().filter_map(|candidate| candidate.dropped) {
        match counts.iter_mut().find(|(known, _)| *known == drop) {
            Some((_, count)) => *count += 1,
            None => counts.push((drop, 1)),
        }
    }
    counts
}
