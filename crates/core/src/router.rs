//! Facts + fleet + moment -> decision, with the load reserved in the same breath.
//!
//! [`route`] reads top to bottom: which variant, which places may serve the request, what each is believed to hold,
//! what the strategy picks, and the place taken. Loads are read and the place is taken under the variant's lock, so a
//! burst of requests sees its own beginning: no two decisions act on the same count.
//!
//! A retry is the same decision again with the places tried left out, on the loads of its own moment.

use std::fmt;

use crate::decision::{Candidate, Choice, Decision, Drop, Reason};
use crate::facts::RequestFacts;
use crate::filter::{self, Needs};
use crate::fleet::{Endpoint, TargetId, Variant};
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
    let holders = endpoint.discovery.as_ref().zip(facts.model.as_deref()).and_then(|(lists, name)| lists.holders(name));
    let needs = Needs::of(endpoint, facts, holders.as_deref())
        .ok_or_else(|| NoRoute::UnknownComponent(facts.component.clone().unwrap_or_default()))?;
    // What a copy keeps is asked of the copy, even where only its id is named, as in the path of a kept answer.
    let keeper = facts.pinned.filter(|_| needs.component.is_none());
    let component = needs.component.or_else(|| endpoint.component_of(keeper?));
    let needs = Needs { component, has_path: Some(has_path), ..needs };
    let index = match attempts.variant {
        Some(index) => index,
        None => variant_of(endpoint, facts, needs, now_us, &mut entropy)?,
    };
    let variant = &endpoint.variants[index];
    let mut matched = Vec::with_capacity(variant.replicas.len());
    filter::matched_blocks(variant, needs, &facts.prompt.chain, &mut matched);

    let turn = variant.turn.lock();
    let mut candidates = filter::candidates(variant, needs, &matched, attempts.tried, now_us);
    if eligible(&candidates).next().is_none() {
        let drops = count_drops(&candidates);
        let is_unfit = !drops.is_empty() && drops.iter().all(|(drop, _)| drop.is_for_good());
        return Err(if is_unfit { NoRoute::Unfit(drops) } else { NoRoute::NoReplica(drops) });
    }
    let pick = pick(index, variant, needs, facts, &mut candidates, &mut entropy);
    let decision = decide(index, variant.routing.strategy, pick, candidates, facts);
    let reservation = take(variant, needs, &decision, pick.index, facts, now_us);
    drop(turn);

    reservation.expect_held(&facts.prompt.chain);
    Ok(Routed { decision, reservation })
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
    index: usize,
    variant: &Variant,
    needs: Needs<'_>,
    facts: &RequestFacts,
    candidates: &mut [Candidate],
    entropy: &mut Entropy,
) -> Pick {
    if let Some(pick) = pinned(variant, needs, facts, candidates) {
        return pick;
    }
    let routing = &variant.routing;
    let threshold = routing.prefix_aware.concurrency_threshold;
    let key = match routing.strategy {
        Strategy::Random => return random::pick(candidates, entropy),
        Strategy::RoundRobin => return round_robin::pick(candidates, |candidate| load_of(variant, needs, candidate)),
        Strategy::LeastOutstanding => return least_outstanding::pick(candidates, entropy),
        Strategy::PrefixAware => facts.prefix_key(index),
        Strategy::Session => facts.session,
    };
    let Some(key) = key else {
        return Pick { reason: Reason::NoPrefix, ..least_outstanding::pick(candidates, entropy) };
    };
    filter::score(variant, needs, candidates, key);
    match routing.strategy {
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
    variant: usize,
    strategy: Strategy,
    pick: Pick,
    candidates: Vec<Candidate>,
    facts: &RequestFacts,
) -> Decision {
    let available = eligible(&candidates).map(|(_, candidate)| held_bytes(candidate, facts)).max().unwrap_or(0);
    let chosen = &candidates[pick.index];
    debug_assert!(chosen.is_eligible(), "dropped but chosen");
    Decision {
        strategy,
        variant,
        reason: pick.reason,
        choice: chosen.choice(),
        home: pick.home.map(|index| candidates[index].choice()),
        available_bytes: available,
        captured_bytes: held_bytes(chosen, facts),
        candidates,
    }
}

fn take(
    variant: &Variant,
    needs: Needs<'_>,
    decision: &Decision,
    index: usize,
    facts: &RequestFacts,
    now_us: u64,
) -> Reservation {
    let Choice { replica, copy, .. } = decision.choice;
    let copy = needs.component.zip(copy).map(|(component, copy)| {
        let copy = &component.copies[copy];
        (copy.live.clone(), copy.has_own_address)
    });
    let uncached = facts.uncached_tokens(decision.captured_bytes);
    let matched_blocks = decision.candidates[index].matched_blocks;
    Reservation::take(variant.replicas[replica].live.clone(), copy, uncached, matched_blocks, now_us)
}

fn held_bytes(candidate: &Candidate, facts: &RequestFacts) -> u64 {
    ((candidate.matched_blocks * BLOCK_BYTES) as u64).min(facts.prompt.text_bytes)
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
