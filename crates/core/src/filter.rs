//! Which places may serve a request, and why the others may not.
//!
//! A place is a replica, or a copy of the invoked component on one. A place that is merely worse off than others (not
//! checked yet, slow to answer checks, asked to be left alone, failing) is dropped only while there are others: a fleet
//! of busy engines that answer no probe in time still serves, and so does one whose engines all failed at one prompt.

use std::collections::HashSet;
use std::sync::Arc;

use crate::abilities::{Demands, Role};
use crate::breaker::{Standing, Verdict};
use crate::decision::{Candidate, Choice, Drop};
use crate::facts::RequestFacts;
use crate::fleet::{Adapter, Component, Copy, Endpoint, EngineId, Replica, TargetId, Variant};
use crate::live::{Duty, Health, Live};
use crate::memory::REPLICAS_MIN;
use crate::prompt::PrefixChain;
use crate::rendezvous;

/// How many failing places are left out for each that is well. Where more fail, that is less a matter of the places than
/// of what is asked of them, and the few others could not bear the load of all.
const FAILING_PER_WELL_MAX: usize = 3;

/// Says whether a target has a path for a request; `None` where all have.
pub type HasPath<'a> = Option<&'a (dyn Fn(TargetId) -> bool + Sync)>;

/// What a request insists on beyond a healthy replica.
#[derive(Clone, Copy, Default)]
pub struct Needs<'a> {
    /// The component whose copies may serve it.
    pub component: Option<&'a Component>,
    /// The adapter it uses, where the configuration has it.
    pub adapter: Option<&'a Adapter>,
    /// The replicas that have its adapter, where their own lists say so.
    pub holders: Option<&'a HashSet<EngineId>>,
    /// What a replica must be able to do.
    pub demands: Demands,
    /// Whether a target has a path for it.
    pub has_path: HasPath<'a>,
}

impl<'a> Needs<'a> {
    /// What a request with these facts asks for at this endpoint; `holders` are the engines that list its model as an
    /// adapter. `None` if there is no such component.
    pub fn of(endpoint: &'a Endpoint, facts: &RequestFacts, holders: Option<&'a HashSet<EngineId>>) -> Option<Self> {
        let (component, model) = (facts.component.as_deref(), facts.model.as_deref());
        let by_model = endpoint.adapters.iter().find(|adapter| Some(adapter.name.as_str()) == model);
        let base_of = |adapter: &Adapter| adapter.base.map(|index| &endpoint.components[index]);
        // What the configuration says of an adapter, or the client by invoking a component, counts before the lists.
        let holders = holders.filter(|_| by_model.is_none() && component.is_none());
        let needs = Self { adapter: by_model, holders, demands: facts.demands, ..Self::default() };
        let Some(name) = component else {
            return Some(Self { component: by_model.and_then(base_of), ..needs });
        };
        if let Some(adapter) = endpoint.adapters.iter().find(|adapter| adapter.component.as_deref() == Some(name)) {
            return Some(Self { component: base_of(adapter), adapter: Some(adapter), ..needs });
        }
        let component = endpoint.components.iter().find(|c| c.name == name)?;
        Some(Self { component: Some(component), ..needs })
    }
}

impl Needs<'_> {
    /// Whether any replica that does all of the work can serve the request, as it is with most.
    fn are_ordinary(&self) -> bool {
        self.has_path.is_none()
            && self.component.is_none()
            && self.adapter.is_none()
            && self.holders.is_none()
            && self.demands == Demands::default()
    }
}

/// A place, before anything is known of it but its name.
struct Place<'a> {
    replica: &'a Replica,
    index: usize,
    copy: Option<(usize, &'a Copy)>,
}

impl<'a> Place<'a> {
    fn target(&self) -> TargetId {
        self.copy.map_or(self.replica.target, |(_, copy)| copy.target)
    }

    /// What counts the requests of the place.
    fn live(&self) -> &'a Arc<Live> {
        self.copy.map_or(&self.replica.live, |(_, copy)| &copy.live)
    }

    /// What lives at its address.
    fn engine(&self) -> &'a Live {
        match self.copy {
            Some((_, copy)) if copy.has_own_address => &copy.live,
            _ => &self.replica.live,
        }
    }

    /// Why it cannot serve the request, whatever its state.
    fn unfit(&self, needs: Needs<'_>) -> Option<Drop> {
        if needs.component.is_some() && self.copy.is_none() {
            return Some(Drop::NoCopy);
        }
        if needs.adapter.is_some_and(|adapter| !adapter.is_on(self.replica))
            || needs.holders.is_some_and(|holders| !holders.contains(&self.replica.engine()))
        {
            return Some(Drop::NoAdapter);
        }
        if needs.has_path.is_some_and(|has_path| !has_path(self.target())) {
            return Some(Drop::NoPath);
        }
        let (abilities, demands) = (self.replica.abilities, needs.demands);
        if abilities.role != Role::Both {
            return Some(Drop::OtherRole);
        }
        if !abilities.modalities.cover(demands.modalities) {
            return Some(Drop::NoModality);
        }
        let is_too_long = self.context_tokens_max().is_some_and(|tokens| demands.tokens_min > tokens);
        is_too_long.then_some(Drop::ContextTooShort)
    }

    /// Whether there is no reason to leave it out, if what the request needs is ordinary. The answer to most questions,
    /// and quickly found.
    fn is_plain(&self, standing: Standing, now_us: u64) -> bool {
        let live = &*self.replica.live;
        self.replica.abilities.role == Role::Both
            && standing.verdict == Verdict::Closed
            && live.duty() == Duty::Ready
            && live.health() == Health::Up
            && !live.is_busy(now_us)
    }

    /// As configured, else as the engine says.
    fn context_tokens_max(&self) -> Option<u64> {
        self.replica.abilities.context_tokens_max.or_else(|| self.engine().context_tokens_max())
    }

    /// Why it may not serve the request. `standing` is what the breaker of its engine says.
    fn drop_reason(&self, needs: Needs<'_>, standing: Standing, now_us: u64) -> Option<Drop> {
        let state = || self.state(standing, now_us);
        let is_tight = || {
            let likely = needs.demands.tokens_likely;
            likely > 0 && self.context_tokens_max().is_some_and(|tokens| likely > tokens)
        };
        self.unfit(needs).or_else(state).or_else(|| is_tight().then_some(Drop::ContextTight))
    }

    /// Why it may serve nothing now, or comes last.
    fn state(&self, standing: Standing, now_us: u64) -> Option<Drop> {
        let engine = self.engine();
        if self.replica.live.duty() != Duty::Ready {
            return Some(Drop::Draining);
        }
        match (engine.health(), standing.verdict) {
            (Health::Down, _) => Some(Drop::Down),
            (_, Verdict::Ejected { is_reachable: false, .. }) => Some(Drop::Ejected),
            // From here on they are last resorts.
            (Health::Warming, _) => Some(Drop::Warming),
            (Health::Unresponsive, _) => Some(Drop::Unresponsive),
            (Health::Up, _) if engine.is_busy(now_us) => Some(Drop::Busy),
            (Health::Up, Verdict::Ejected { is_reachable: true, .. }) => Some(Drop::Failing),
            (Health::Up, Verdict::Trial { is_taken: true }) => Some(Drop::OnTrial),
            (Health::Up, Verdict::Trial { is_taken: false } | Verdict::Closed) => None,
        }
    }
}

/// All replicas of the variant, or all copies of the invoked component and the replicas without one; in the replicas'
/// order.
fn places<'a>(variant: &'a Variant, needs: Needs<'a>) -> impl Iterator<Item = Place<'a>> {
    let copies = needs.component.map(|component| {
        let mut places: Vec<(usize, Option<usize>)> =
            component.copies.iter().enumerate().map(|(index, copy)| (copy.replica, Some(index))).collect();
        let mut has_copy = vec![false; variant.replicas.len()];
        places.iter().for_each(|(replica, _)| has_copy[*replica] = true);
        places.extend((0..variant.replicas.len()).filter(|replica| !has_copy[*replica]).map(|replica| (replica, None)));
        places.sort_by_key(|(replica, _)| *replica);
        (component, places)
    });
    let count = copies.as_ref().map_or(variant.replicas.len(), |(_, places)| places.len());
    (0..count).map(move |index| match &copies {
        None => place_of(variant, index),
        Some((component, places)) => {
            let (index, copy) = places[index];
            let copy = copy.map(|copy| (copy, &component.copies[copy]));
            Place { replica: &variant.replicas[index], index, copy }
        }
    })
}

/// The replica at this index as a place, where no component is invoked.
fn place_of(variant: &Variant, index: usize) -> Place<'_> {
    Place { replica: &variant.replicas[index], index, copy: None }
}

/// Whether the replica at this index may serve the request, and nothing is held against it.
pub(crate) fn is_well(variant: &Variant, needs: Needs<'_>, index: usize, now_us: u64) -> bool {
    let place = place_of(variant, index);
    place.drop_reason(needs, place.engine().breaker.standing(now_us), now_us).is_none()
}

/// Whether some place of the variant could serve the request if it were well.
pub(crate) fn has_fit(variant: &Variant, needs: Needs<'_>) -> bool {
    places(variant, needs).any(|place| place.unfit(needs).is_none())
}

/// Whether some place of the variant may serve the request, if only as a last resort.
pub(crate) fn has_candidate(variant: &Variant, needs: Needs<'_>, now_us: u64) -> bool {
    places(variant, needs).any(|place| {
        let standing = place.engine().breaker.standing(now_us);
        place.drop_reason(needs, standing, now_us).is_none_or(Drop::is_last_resort)
    })
}

/// Whether every replica may serve the request, with nothing held against it and no failure that weighs.
pub(crate) fn are_all_plain(variant: &Variant, needs: Needs<'_>, now_us: u64) -> bool {
    needs.are_ordinary()
        && (0..variant.replicas.len()).map(|index| place_of(variant, index)).all(|place| {
            let standing = place.engine().breaker.standing(now_us);
            standing.penalty == 0 && place.is_plain(standing, now_us)
        })
}

/// Blocks of a prompt that a place is believed to hold.
pub(crate) fn matched_blocks(variant: &Variant, needs: Needs<'_>, choice: Choice, chain: &PrefixChain) -> usize {
    let engine = match (needs.component, choice.copy) {
        (Some(component), Some(copy)) if component.copies[copy].has_own_address => &component.copies[copy].live,
        _ => &variant.replicas[choice.replica].live,
    };
    engine.cache.matched_blocks(chain)
}

/// The most blocks of a prompt that some place which may serve the request is believed to hold. Where there are many,
/// only the one is asked that was sent the most of it last.
pub(crate) fn available_blocks(variant: &Variant, needs: Needs<'_>, chain: &PrefixChain, now_us: u64) -> usize {
    let held = |place: Place<'_>| {
        let standing = place.engine().breaker.standing(now_us);
        let may_serve = place.drop_reason(needs, standing, now_us).is_none_or(Drop::is_last_resort);
        if may_serve { place.engine().cache.matched_blocks(chain) } else { 0 }
    };
    if needs.component.is_some() || variant.replicas.len() < REPLICAS_MIN {
        return places(variant, needs).map(held).max().unwrap_or(0);
    }
    variant.last_sent.of_longest(chain).map_or(0, |index| held(place_of(variant, index)))
}

/// All places as candidates, the unfit and the tried marked with their reason.
pub(crate) fn candidates(variant: &Variant, needs: Needs<'_>, tried: &[Choice], now_us: u64) -> Vec<Candidate> {
    let is_ordinary = needs.are_ordinary();
    let mut candidates: Vec<Candidate> = Vec::with_capacity(variant.replicas.len());
    for place in places(variant, needs) {
        let (live, copy) = (place.live(), place.copy.map(|(index, _)| index));
        let choice = Choice { replica: place.index, copy, target: place.target() };
        let standing = place.engine().breaker.standing(now_us);
        let dropped = if tried.contains(&choice) {
            Some(Drop::Tried)
        } else if is_ordinary && place.is_plain(standing, now_us) {
            None
        } else {
            place.drop_reason(needs, standing, now_us)
        };
        candidates.push(Candidate {
            replica: place.index,
            copy,
            target: choice.target,
            in_flight: live.load.in_flight(),
            penalty: standing.penalty,
            rendezvous: 0.0,
            copy_rendezvous: 0.0,
            weight: place.replica.weight,
            dropped,
        });
    }
    take_back_last_resorts(&mut candidates);
    candidates
}

/// Those that were dropped only because others are better off, where the others are too few.
fn take_back_last_resorts(candidates: &mut [Candidate]) {
    let (mut well, mut failing) = (0, 0);
    for candidate in candidates.iter() {
        well += usize::from(candidate.is_eligible());
        failing += usize::from(candidate.dropped == Some(Drop::Failing));
    }
    let is_taken_back = |drop: Drop| match well {
        0 => drop.is_last_resort(),
        _ => drop == Drop::Failing && failing > FAILING_PER_WELL_MAX * well,
    };
    for candidate in candidates.iter_mut().filter(|candidate| candidate.dropped.is_some_and(is_taken_back)) {
        candidate.dropped = None;
    }
}

/// Gives every candidate its rendezvous scores for a key.
pub(crate) fn score(variant: &Variant, needs: Needs<'_>, candidates: &mut [Candidate], key: u64) {
    for candidate in candidates {
        let replica = &variant.replicas[candidate.replica];
        candidate.rendezvous = rendezvous::score(key, replica.key, replica.weight);
        if let (Some(component), Some(copy)) = (needs.component, candidate.copy) {
            candidate.copy_rendezvous = rendezvous::score(key, component.copies[copy].key, 1.0);
        }
    }
}
