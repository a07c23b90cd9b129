//! What routing does, told through its public entry: facts and a fleet in, a decision and a reserved place out.

mod components;
mod failing;
mod fixture;
mod placement;
mod simulation;
mod threshold;
