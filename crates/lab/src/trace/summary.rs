//! What became of a trace while it was read.

use std::fmt;

use super::Kind;
use super::format::{Format, TimeBase};

/// Reasons that are kept.
pub(super) const REASONS_MAX: usize = 3;

/// What was read, what was assumed, and what was left out.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// The format; `None` if no file was recognised.
    pub format: Option<Format>,
    /// Files that were read.
    pub files: u64,
    /// Files that lay beside them and are no traces.
    pub files_left_out: u64,
    /// Rows in them, those that are not about a request included.
    pub rows: u64,
    /// Records given.
    pub records: u64,
    /// Rows that could not be used.
    pub skipped: u64,
    /// The first of them, as `file:line: reason`.
    pub skipped_first: Vec<String>,
    /// Records left out because it was asked for.
    pub left_out: u64,
    /// Records of each kind: lengths, hashes, content.
    pub kinds: [u64; 3],
    /// What times are counted from.
    pub time_base: TimeBase,
    /// Records without a time.
    pub without_time: u64,
    /// Records that are earlier than the one before them (of their session, where that is what times are counted from).
    pub out_of_order: u64,
    /// What was assumed, a sentence each.
    pub assumptions: Vec<String>,
    /// What makes answers doubtful, a sentence each.
    pub warnings: Vec<String>,
}

impl Summary {
    /// What can be asked of most of the records.
    pub fn kind(&self) -> Kind {
        let [lengths, hashes, content] = self.kinds;
        if lengths > hashes + content {
            Kind::Lengths
        } else if hashes > content {
            Kind::Hashes
        } else if content > 0 {
            Kind::Content
        } else {
            Kind::Lengths
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = self.format.map_or("no known format", Format::name);
        let plural = |count: u64, one: &'static str, many: &'static str| if count == 1 { one } else { many };
        let records = plural(self.records, "request", "requests");
        let files = plural(self.files, "file", "files");
        write!(f, "{format}: {} {records} in {} {files}, {}", self.records, self.files, self.kind())?;
        for assumption in &self.assumptions {
            write!(f, "\n  assumed: {assumption}")?;
        }
        if self.left_out > 0 {
            write!(f, "\n  left out as asked: {}", self.left_out)?;
        }
        if self.skipped > 0 {
            let rows = plural(self.skipped, "row", "rows");
            write!(f, "\n  skipped: {} {rows} of {}", self.skipped, self.rows)?;
            for reason in &self.skipped_first {
                write!(f, "\n    {reason}")?;
            }
        }
        let more = self.files_left_out.saturating_sub(REASONS_MAX as u64);
        if more > 0 {
            write!(f, "\n  warning: {more} more files were left out")?;
        }
        for warning in &self.warnings {
            write!(f, "\n  warning: {warning}")?;
        }
        Ok(())
    }
}
