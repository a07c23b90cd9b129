//! The group `gateway`: what it costs to have kvroute in between, and that it keeps its books.

mod programs;
pub(super) mod proxy;
