//! The group `gateway`: what it costs to have kvroute in between, and that it keeps its books.

pub(crate) mod cost;
mod decision;
mod engines;
pub(super) mod liveness;
pub(super) mod memory;
mod programs;
pub(super) mod proxy;
pub(super) mod search;
pub(super) mod storm;
