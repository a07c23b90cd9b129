//! Which replicas may serve a request, and why the others may not.

use crate::decision::{Candidate, Drop};
use crate::fleet::{Adapter, Component, Endpoint, Replica, State, Variant};

/// What a request insists on beyond a healthy replica.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs<'a> {
    /// The component whose copies may serve it.
    pub component: Option<&'a Component>,
    /// The adapter it uses.
    pub adapter: Option<&'a Adapter>,
}

impl<'a> Needs<'a> {
    /// What `component` (by name) and `model` ask for at this endpoint. `None` if there is no such component.
    pub fn of(endpoint: &'a Endpoint, component: Option<&str>, model: Option<&str>) -> Option<Self> {
        let by_model = endpoint.adapters.iter().find(|adapter| Some(adapter.name.as_str()) == model);
        let base_of = |adapter: &Adapter| adapter.base.map(|index| &endpoint.components[index]);
        let Some(name) = component else {
            return Some(Self { component: by_model.and_then(base_of), adapter: by_model });
        };
        if let Some(adapter) = endpoint.adapters.iter().find(|adapter| adapter.component.as_deref() == Some(name)) {
            return Some(Self { component: base_of(adapter), adapter: Some(adapter) });
        }
        let component = endpoint.components.iter().find(|c| c.name == name)?;
        Some(Self { component: Some(component), adapter: by_model })
    }

    /// Why this replica may not serve the request, if it may not.
    fn drop_reason(&self, replica: &Replica, index: usize) -> Option<Drop> {
        match replica.live.state() {
            State::Down => return Some(Drop::Down),
            State::Draining => return Some(Drop::Draining),
            State::Ready => {}
        }
        if self.component.is_some_and(|component| component.copies.iter().all(|copy| copy.replica != index)) {
            return Some(Drop::NoCopy);
        }
        if self.adapter.is_some_and(|adapter| !adapter.is_on(replica)) {
            return Some(Drop::NoAdapter);
        }
        None
    }
}

/// All replicas of the variant as candidates, the unfit marked with their reason. A candidate's copy is the least
/// outstanding one on its replica; strategies that prefer another say so in their choice.
pub fn candidates(variant: &Variant, needs: Needs<'_>) -> Vec<Candidate> {
    let candidate = |(index, replica): (usize, &Replica)| {
        let copies = needs.component.iter().flat_map(|c| c.copies.iter().enumerate());
        let copy = copies.filter(|(_, copy)| copy.replica == index).min_by_key(|(_, copy)| copy.load.in_flight());
        Candidate {
            copy: copy.map(|(i, _)| i),
            target: copy.map_or(replica.target, |(_, copy)| copy.target),
            in_flight: copy.map_or(&replica.live.load, |(_, copy)| &copy.load).in_flight(),
            pending_prefill_tokens: replica.live.load.pending_prefill_tokens(),
            matched_blocks: 0,
            rendezvous: 0.0,
            weight: replica.weight,
            dropped: needs.drop_reason(replica, index),
        }
    };
    variant.replicas.iter().enumerate().map(candidate).collect()
}
