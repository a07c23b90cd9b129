//! What routing does, told through its public entry: facts and a fleet in, a decision and a reserved place out.

mod abilities;
mod components;
mod discovery;
mod failing;
mod fixture;
mod placement;
mod simulation;
mod threshold;
