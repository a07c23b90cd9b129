//! Recorded or made traffic, one [`Record`] a request.
//!
//! Every format is read into the same record, and everything that asks something of a trace (statistics, analysis,
//! replay) asks it of records. A record says what the trace says and no more: what is absent is `None`, never a guess.
//! How much a trace can answer is its [`Kind`].
//!
//! The way of a trace: `input` (paths to bytes) -> `rows` (bytes to rows) -> `detect` (which format) -> `formats` (rows
//! to records) -> [`TraceReader`], which leaves out what was asked for and counts the rest.

mod anonymize;
mod blocks;
mod canonical;
mod content;
pub mod convert;
mod csv;
mod detect;
mod error;
mod field;
mod format;
mod formats;
pub mod generate;
mod input;
mod names;
mod path;
mod question;
mod reader;
mod record;
mod reorder;
mod rows;
pub mod scale;
mod selection;
mod sharing;
mod spread;
pub mod stats;
mod summary;
mod time;
mod values;
mod watched;
mod write;

pub use anonymize::{Anonymizer, Key};
pub use error::TraceError;
pub use field::Field;
pub use format::{Format, TimeBase};
pub use names::{SmallNames, regroup};
pub use path::Path;
pub use question::{Question, Refused};
pub use reader::{ReadOptions, TraceReader};
pub use record::{Blocks, Content, Kind, Observed, Record, Segment};
pub use reorder::Reorder;
pub use sharing::{InfiniteCache, Part};
pub use spread::Spread;
pub use summary::Summary;
pub use time::TimeUnit;
pub use watched::Watched;
pub use write::TraceWriter;
