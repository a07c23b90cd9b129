//! Recorded or made traffic, one [`Record`] a request.
//!
//! Every format is read into the same record, and everything that asks something of a trace (statistics, analysis,
//! replay) asks it of records. A record says what the trace says and no more: what is absent is `None`, never a guess.
//! How much a trace can answer is its [`Kind`].

mod record;

pub use record::{Blocks, Content, Kind, Observed, Record, Segment};
