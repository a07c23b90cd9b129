//! Why a request cannot be routed, in words.

use std::fmt;

use crate::decision::{Candidate, Drop};

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

impl NoRoute {
    /// For want of an eligible one among these.
    pub(super) fn among(candidates: &[Candidate]) -> Self {
        let drops = count_drops(candidates);
        let is_unfit = !drops.is_empty() && drops.iter().all(|(drop, _)| drop.is_for_good());
        if is_unfit { Self::Unfit(drops) } else { Self::NoReplica(drops) }
    }
}

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
