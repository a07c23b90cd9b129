//! Facts + fleet + moment -> decision, with the load reserved in the same breath.
//!
//! [`route`] reads top to bottom: which variant, the home of the request's key, which places may serve the request, what
//! the strategy picks, the place taken, and what is believed to be held. Loads are read and the place is taken under the
//! variant's lock, so a burst of requests sees its own beginning: no two decisions act on the same count. What is
//! believed decides nothing, and is asked after it.
//!
//! A retry is the same decision again with the places tried left out, on the loads of its own moment.

mod no_route;
mod variant;

use std::collections::HashSet;

pub use self::no_route::NoRoute;
use self::variant::variant_of;
use crate::decision::{Candidate, Choice, Decision, Drop, Reason, relative_load};
use crate::discovery::Holders;
use crate::facts::RequestFacts;
use crate::filter::{self, HasPath, Needs};
use crate::fleet::{Endpoint, EngineId, Replica, Variant};
use crate::load::{Load, Reservation};
use crate::moment::{Entropy, Moment};
use crate::routing::Strategy;
use crate::strategy::least_outstanding::least_load;
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

/// Decides where a request to `endpoint` goes, and takes its place there.
pub fn route(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    has_path: HasPath<'_>,
    attempts: Attempts<'_>,
    moment: Moment,
) -> Result<Routed, NoRoute> {
    let Moment { now_us, mut entropy } = moment;
    let holders = holders(endpoint, facts);
    let needs = needs_of(endpoint, facts, holders.as_deref(), has_path)?;
    let index = index_of(endpoint, facts, needs, attempts, now_us, &mut entropy)?;
    let variant = &endpoint.variants[index];
    let key = key_of(variant, index, facts);
    let home = key.and_then(|key| variant.home_of(key));

    let turn = variant.turn.lock();
    let found = match home {
        Some(home) => at_home(variant, needs, facts, attempts, home, now_us),
        None => by_load(variant, needs, facts, attempts, now_us, &mut entropy),
    };
    let found = match found {
        Some(found) => found,
        None => among_all(variant, needs, facts, attempts, key, now_us, &mut entropy)?,
    };
    let reservation = take(variant, needs, found.choice, now_us);
    drop(turn);
    Ok(placed(index, variant, needs, found, facts, reservation, now_us))
}

/// A rule that is no strategy of a variant: it sees the variant and its places, of which at least one is eligible, and
/// picks an eligible one.
pub type Rule<'a> = &'a mut dyn FnMut(&Variant, &[Candidate], &mut Entropy) -> Pick;

/// As [`route`], but `rule` picks in place of the variant's strategy. Everything else is the same lines: which places
/// there are and why some are dropped, the place taken, what is believed to be held. For comparing rules.
pub fn route_by(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    has_path: HasPath<'_>,
    attempts: Attempts<'_>,
    moment: Moment,
    rule: Rule<'_>,
) -> Result<Routed, NoRoute> {
    let Moment { now_us, mut entropy } = moment;
    let holders = holders(endpoint, facts);
    let needs = needs_of(endpoint, facts, holders.as_deref(), has_path)?;
    let index = index_of(endpoint, facts, needs, attempts, now_us, &mut entropy)?;
    let variant = &endpoint.variants[index];

    let turn = variant.turn.lock();
    let candidates = filter::candidates(variant, needs, attempts.tried, now_us);
    if eligible(&candidates).next().is_none() {
        return Err(NoRoute::among(&candidates));
    }
    let pick = rule(variant, &candidates, &mut entropy);
    assert!(candidates[pick.index].is_eligible(), "dropped but chosen");
    let home = pick.home.map(|home| candidates[home].choice());
    let found = Found { choice: candidates[pick.index].choice(), home, reason: pick.reason };
    let reservation = take(variant, needs, found.choice, now_us);
    drop(turn);
    Ok(placed(index, variant, needs, found, facts, reservation, now_us))
}

/// What a decision would look at: every place of the variant, each replica in its order, or each copy of the invoked
/// component and each replica that has none; with their scores, where the strategy uses one.
///
/// # Errors
/// As [`route`], but not for want of a place.
pub fn explain(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    has_path: HasPath<'_>,
    attempts: Attempts<'_>,
    moment: Moment,
) -> Result<Vec<Candidate>, NoRoute> {
    let Moment { now_us, mut entropy } = moment;
    let holders = holders(endpoint, facts);
    let needs = needs_of(endpoint, facts, holders.as_deref(), has_path)?;
    let index = index_of(endpoint, facts, needs, attempts, now_us, &mut entropy)?;
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
    has_path: HasPath<'a>,
) -> Result<Needs<'a>, NoRoute> {
    let needs = Needs::of(endpoint, facts, holders)
        .ok_or_else(|| NoRoute::UnknownComponent(facts.component.clone().unwrap_or_default()))?;
    // What a copy keeps is asked of the copy, even where only its id is named, as in the path of a kept answer.
    let keeper = facts.pinned.filter(|_| needs.component.is_none());
    let component = needs.component.or_else(|| endpoint.component_of(keeper?));
    Ok(Needs { component, has_path, ..needs })
}

/// The variant that a request goes to: the one it was given before, or one that is drawn.
fn index_of(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    needs: Needs<'_>,
    attempts: Attempts<'_>,
    now_us: u64,
    entropy: &mut Entropy,
) -> Result<usize, NoRoute> {
    attempts.variant.map_or_else(|| variant_of(endpoint, facts, needs, now_us, entropy), Ok)
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

/// The least outstanding replica, where the request has no key and nothing is held against any replica, so that their
/// loads are all there is to look at. It is what [`among_all`] would find.
fn by_load(
    variant: &Variant,
    needs: Needs<'_>,
    facts: &RequestFacts,
    attempts: Attempts<'_>,
    now_us: u64,
    entropy: &mut Entropy,
) -> Option<Found> {
    let reason = match variant.routing.strategy {
        Strategy::LeastOutstanding => Reason::Load,
        Strategy::PrefixAware | Strategy::Session => Reason::NoPrefix,
        Strategy::Random | Strategy::RoundRobin => return None,
    };
    let is_first = facts.pinned.is_none() && attempts.tried.is_empty();
    if !is_first || !filter::are_all_plain(variant, needs, now_us) {
        return None;
    }
    let load = |replica: &Replica| relative_load(replica.live.load.in_flight(), replica.weight);
    let replica = least_load(variant.replicas.iter().map(load).enumerate(), entropy)?;
    let choice = Choice { replica, copy: None, target: variant.replicas[replica].target };
    Some(Found { choice, home: None, reason })
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
        return Err(NoRoute::among(&candidates));
    }
    let Pick { index, reason, home } = pick(variant, needs, facts, key, &mut candidates, entropy);
    debug_assert!(candidates[index].is_eligible(), "dropped but chosen");
    let choice = candidates[index].choice();
    Ok(Found { choice, home: home.map(|home| candidates[home].choice()), reason })
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
        available_bytes: facts.prompt.bytes_of(available_blocks),
        captured_bytes: facts.prompt.bytes_of(captured_blocks),
    }
}

/// What is believed to be held where the place was taken, and that the prompt is on its way there.
fn placed(
    index: usize,
    variant: &Variant,
    needs: Needs<'_>,
    found: Found,
    facts: &RequestFacts,
    mut reservation: Reservation,
    now_us: u64,
) -> Routed {
    let held = filter::matched_blocks(variant, needs, found.choice, &facts.prompt.chain);
    let decision = decide(index, variant, needs, found, facts, held, now_us);
    reservation.expect_held(&facts.prompt.chain, held, facts.uncached_tokens(decision.captured_bytes));
    if needs.component.is_none() {
        let blocks = facts.prompt.chain.hashes().iter();
        blocks.for_each(|block| variant.last_sent.set(*block, found.choice.replica));
    }
    Routed { decision, reservation }
}

fn take(variant: &Variant, needs: Needs<'_>, choice: Choice, now_us: u64) -> Reservation {
    let copy = needs.component.zip(choice.copy).map(|(component, copy)| {
        let copy = &component.copies[copy];
        (copy.live.clone(), copy.has_own_address)
    });
    Reservation::take(variant.replicas[choice.replica].live.clone(), copy, now_us)
}
