//! How far a simulation is, for whoever watches.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar on standard error, if that is a terminal and it takes more than two seconds.
pub(crate) struct Watch {
    what: &'static str,
    started: Instant,
    bar: OnceLock<ProgressBar>,
}

impl Watch {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, started: Instant::now(), bar: OnceLock::new() }
    }

    pub(crate) fn show(&self, done: u64, total: u64) {
        if self.started.elapsed() < Duration::from_secs(2) || !std::io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} % {eta}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total).with_style(style).with_message(self.what)
        });
        bar.set_length(total);
        bar.set_position(done);
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
