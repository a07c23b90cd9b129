//! One self-contained HTML file: no network, no script needed, light and dark, prints.
//!
//! Charts are SVG written here, each with a title, a description and its numbers as a table. The data lies in the file
//! as JSON. A strict content security policy keeps even a wrongly escaped name from doing anything.
//!
//! - `page`: the order of a report, and its frame.
//! - `figure`: a chart with its question, legend and table.
//! - `svg`, `scale`, `axes`: what charts are drawn with.
//! - `lines`, `bars`, `blocks`: kinds of charts.
//! - `plot`: the charts of a report, one file each.

mod analysis;
mod axes;
mod bars;
mod blocks;
mod escape;
mod figure;
mod lines;
mod page;
mod plot;
mod replay;
mod scale;
mod svg;
#[cfg(test)]
mod tests;

pub use analysis::analysis_html;
pub use replay::replay_html;

/// Where a report is from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Provenance {
    /// The command that makes it again.
    pub command: String,
    /// What was read.
    pub source: String,
    /// What was assumed while reading, a sentence each.
    pub assumptions: Vec<String>,
}
