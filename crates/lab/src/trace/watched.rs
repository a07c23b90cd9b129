//! A bar for whoever watches a long trace being read.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::{Record, TraceError, TraceReader};

/// Whatever takes less time has no bar.
const QUIET: Duration = Duration::from_secs(1);
/// Records between two looks at the clock.
const RECORDS_A_LOOK: u64 = 256;

/// Gives the records of a trace, with a bar on standard error where that is a terminal and it takes long.
pub struct Watched<'a> {
    reader: &'a mut TraceReader,
    label: &'static str,
    begun: Instant,
    records: u64,
    bar: Option<ProgressBar>,
}

impl<'a> Watched<'a> {
    /// `label` stands before the bar.
    pub fn new(reader: &'a mut TraceReader, label: &'static str) -> Self {
        Self { reader, label, begun: Instant::now(), records: 0, bar: None }
    }

    fn look(&mut self) {
        if self.begun.elapsed() < QUIET {
            return;
        }
        let (read, total) = self.reader.progress();
        let bar = self.bar.get_or_insert_with(|| {
            let bar = total.map_or_else(ProgressBar::no_length, ProgressBar::new);
            let template = "{prefix} [{bar:30}] {bytes} of {total_bytes}  {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
            bar.set_prefix(self.label);
            bar
        });
        bar.set_position(read);
        bar.set_message(format!("{} requests", self.records));
    }
}

impl Iterator for Watched<'_> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.reader.next();
        self.records += 1;
        if self.records.is_multiple_of(RECORDS_A_LOOK) {
            self.look();
        }
        next
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
