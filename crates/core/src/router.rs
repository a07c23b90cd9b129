//! Facts + fleet + moment -> decision, with the load reserved in the same breath.
//!
//! [`route`] reads top to bottom: which variant, which replicas may serve the request, what each is believed to hold,
//! what the strategy picks, and the place taken. Loads are read and the place is taken under the variant's lock, so a
//! burst of requests sees its own beginning: no two decisions act on the same count.

use std::fmt;

use smallvec::SmallVec;

use crate::decision::{CHOICES_MAX, Candidate, Choice, Decision, Drop, Reason};
use crate::facts::{RequestFacts, tokens_of_bytes};
use crate::filter::{self, Needs};
use crate::fleet::{Endpoint, Turn, Variant};
use crate::load::Reservation;
use crate::moment::{Entropy, Moment};
use crate::prompt::BLOCK_BYTES;
use crate::routing::Strategy;
use crate::strategy::{self, Pick, eligible, least_outstanding, prefix_aware, random, round_robin, session};

/// A request that has been given its place.
#[derive(Debug)]
pub struct Routed<'a> {
    /// Where it goes and why.
    pub decision: Decision,
    /// Its place on the first choice.
    pub reservation: Reservation,
    /// What it asked for; retries need it.
    pub needs: Needs<'a>,
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
                write!(f, "no replica can take the request now (")?;
                for (i, (drop, count)) in dropped.iter().enumerate() {
                    write!(f, "{}{count} {}", if i > 0 { ", " } else { "" }, drop.as_str())?;
                }
                write!(f, ")")
            }
        }
    }
}

impl std::error::Error for NoRoute {}

/// Decides where a request to `endpoint` goes, and takes its place there.
pub fn route<'a>(endpoint: &'a Endpoint, facts: &RequestFacts, moment: Moment) -> Result<Routed<'a>, NoRoute> {
    let mut entropy = moment.entropy;
    let needs = Needs::of(endpoint, facts.component.as_deref(), facts.model.as_deref())
        .ok_or_else(|| NoRoute::UnknownComponent(facts.component.clone().unwrap_or_default()))?;
    let index = variant_of(endpoint, facts, needs, &mut entropy)?;
    let variant = &endpoint.variants[index];
    // What replicas hold is asked before the lock: it is a belief, and the only part whose cost grows with the prompt.
    let matched: SmallVec<[usize; 16]> =
        variant.replicas.iter().map(|replica| replica.live.cache.matched_blocks(&facts.prompt.chain)).collect();

    let mut turn = variant.turn.lock();
    let mut candidates = filter::candidates(variant, needs);
    for (candidate, &blocks) in candidates.iter_mut().zip(&matched) {
        candidate.matched_blocks = blocks;
    }
    if eligible(&candidates).next().is_none() {
        return Err(NoRoute::NoReplica(count_drops(&candidates)));
    }
    let pick = pick(index, variant, needs, facts, &mut candidates, &mut turn, &mut entropy);
    let decision = decide(index, variant.routing.strategy, pick, candidates, facts);
    let uncached = facts.prompt_tokens_estimated.saturating_sub(tokens_of_bytes(decision.captured_bytes));
    let reservation = take(variant, needs, pick.choice, uncached);
    drop(turn);

    reservation.replica().cache.insert(&facts.prompt.chain);
    Ok(Routed { decision, reservation, needs })
}

/// Takes the place of a later choice of a decision, those before it having failed. Gives the place with the text bytes
/// of the prompt that it is believed to hold; `None` where there is no such choice.
pub fn take_next(
    endpoint: &Endpoint,
    needs: Needs<'_>,
    decision: &Decision,
    attempt: usize,
    facts: &RequestFacts,
) -> Option<(Reservation, u64)> {
    let choice = *decision.choices.get(attempt)?;
    let variant = &endpoint.variants[decision.variant];
    let held = held_bytes(&decision.candidates[choice.replica], facts);
    let uncached = facts.prompt_tokens_estimated.saturating_sub(tokens_of_bytes(held));
    let turn = variant.turn.lock();
    let reservation = take(variant, needs, choice, uncached);
    drop(turn);
    reservation.replica().cache.insert(&facts.prompt.chain);
    Some((reservation, held))
}

fn variant_of(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    needs: Needs<'_>,
    entropy: &mut Entropy,
) -> Result<usize, NoRoute> {
    let named = match &facts.variant {
        None => None,
        Some(name) => {
            let position = endpoint.variants.iter().position(|variant| *variant.name == **name);
            Some(position.ok_or_else(|| NoRoute::UnknownVariant(name.clone()))?)
        }
    };
    match (needs.component, named) {
        (Some(component), Some(index)) if component.variant != index => Err(NoRoute::ComponentElsewhere {
            component: component.name.clone(),
            variant: endpoint.variants[index].name.to_string(),
        }),
        (Some(component), _) => Ok(component.variant),
        (None, Some(index)) => Ok(index),
        (None, None) => Ok(variant_by_weight(&endpoint.variants, entropy)),
    }
}

fn variant_by_weight(variants: &[Variant], entropy: &mut Entropy) -> usize {
    if variants.len() == 1 {
        return 0;
    }
    let total: f64 = variants.iter().map(|variant| variant.weight).sum();
    let mut point = entropy.unit() * total;
    let mut picked = 0;
    for (index, variant) in variants.iter().enumerate().filter(|(_, variant)| variant.weight > 0.0) {
        picked = index;
        point -= variant.weight;
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
    turn: &mut Turn,
    entropy: &mut Entropy,
) -> Pick {
    let routing = &variant.routing;
    let threshold = routing.prefix_aware.concurrency_threshold;
    let key = match routing.strategy {
        Strategy::Random => return random::pick(candidates, entropy),
        Strategy::RoundRobin => return round_robin::pick(candidates, turn),
        Strategy::LeastOutstanding => return least_outstanding::pick(candidates, entropy),
        Strategy::PrefixAware => facts.prefix_key(index),
        Strategy::Session => facts.session,
    };
    let Some(key) = key else {
        return Pick { reason: Reason::NoPrefix, ..least_outstanding::pick(candidates, entropy) };
    };
    prefix_aware::score(candidates, key, |index| variant.replicas[index].key);
    match routing.strategy {
        Strategy::Session => session::pick(candidates, key, threshold, needs.component, entropy),
        _ => prefix_aware::pick(candidates, key, threshold, needs.component, entropy),
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
    let captured = held_bytes(&candidates[pick.choice.replica], facts);
    let decision = Decision {
        strategy,
        variant,
        reason: pick.reason,
        choices: ordered_choices(&candidates, pick.choice),
        home: pick.home,
        available_bytes: available,
        captured_bytes: captured,
        candidates,
    };
    debug_assert!(decision.choices.iter().all(|c| decision.candidates[c.replica].is_eligible()), "dropped but chosen");
    debug_assert!(decision.captured_bytes <= decision.available_bytes, "the chosen is one of the candidates");
    decision
}

/// The pick, then the best of the rest: by rendezvous score where there is one, then by load.
fn ordered_choices(candidates: &[Candidate], first: Choice) -> SmallVec<[Choice; CHOICES_MAX]> {
    let mut choices: SmallVec<[Choice; CHOICES_MAX]> = SmallVec::new();
    choices.push(first);
    while choices.len() < CHOICES_MAX {
        let rest = eligible(candidates).filter(|(index, _)| choices.iter().all(|choice| choice.replica != *index));
        let next = rest.max_by(|(_, a), (_, b)| {
            a.rendezvous.total_cmp(&b.rendezvous).then(b.relative_load().total_cmp(&a.relative_load()))
        });
        let Some((index, _)) = next else { break };
        choices.push(strategy::choice(candidates, index));
    }
    choices
}

fn take(variant: &Variant, needs: Needs<'_>, choice: Choice, uncached_tokens: u64) -> Reservation {
    let replica = variant.replicas[choice.replica].live.clone();
    let copy = choice.copy.and_then(|index| needs.component.map(|component| component.copies[index].load.clone()));
    Reservation::take(replica, copy, uncached_tokens)
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
