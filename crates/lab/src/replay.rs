//! What another strategy would have done with this traffic: a fleet in virtual time.
//!
//! Every decision is taken by the gateway's own code (`core::router`) over engines that are modelled
//! (`engine::model`), so a replay differs from the gateway by what the model differs from an engine, and by nothing else.
//! Whatever it says about time is *simulated*.
//!
//! [`prepare`](prepare()) makes [`Jobs`] of a trace, [`simulate`] runs one [`Contender`] over them.

mod bootstrap;
mod comparison;
mod contender;
mod fleet;
mod job;
pub mod matrix;
mod measures;
mod outcome;
mod pacing;
mod prepare;
mod report;
mod scenarios;
mod schedule;
mod series;
mod sim;
mod sweep;
#[cfg(test)]
mod tests;
mod warmup;

pub use bootstrap::{Changes, Interval};
pub use comparison::{Case, Column, Question, compare};
pub use contender::{Contender, Rule};
pub use fleet::{FleetSpec, Group};
pub use job::{Job, Jobs, LengthUnit};
pub use measures::{Gpu, Locality, Measures, Queue, Recovery, Share, gpus};
pub use outcome::{Ending, FleetMark, Run, Served};
pub use pacing::{Clock, Pacing};
pub use prepare::{MadeUpPrefixes, PrepareOptions, Unusable, prepare, unit_of};
pub use report::{Condition, Price, Report, Shape, Source, Violation};
pub use scenarios::Scenario;
pub use schedule::{Change, FleetEvent, duration_us};
pub use series::{OverTime, POINTS_MAX, Series};
pub use sim::{Setting, simulate};
pub use sweep::{Axis, CELLS_MAX, Cell, KeyShape, Objective, Sweep, SweepReport, TOLERANCE, key_shapes, sweep};
pub use warmup::{Cut, Warmup};
