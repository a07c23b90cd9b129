//! Which records were asked for, and what their times tell.

use std::sync::Arc;

use xxhash_rust::xxh3;

use super::format::TimeBase;
use super::reader::ReadOptions;
use super::{Record, Summary};

/// Requests a second from which on a unit of time is doubted.
const RATE_PLAUSIBLE_MAX: f64 = 5_000.0;
/// Records below which a rate says nothing.
const RATE_RECORDS_MIN: u64 = 100;

/// Which records were asked for.
pub(super) struct Selection {
    since_ms: Option<f64>,
    until_ms: Option<f64>,
    sample: Option<f64>,
    seed: u64,
    seen: u64,
    first_ms: Option<f64>,
    pub(super) clock: Clock,
}

impl Selection {
    pub(super) fn new(options: &ReadOptions) -> Self {
        Self {
            since_ms: options.since_ms,
            until_ms: options.until_ms,
            sample: options.sample,
            seed: options.sample_seed,
            seen: 0,
            first_ms: None,
            clock: Clock::default(),
        }
    }

    pub(super) fn wants(&mut self, record: &Record) -> bool {
        self.seen += 1;
        if let Some(at_ms) = record.at_ms {
            let since_first = at_ms - *self.first_ms.get_or_insert(at_ms);
            if self.since_ms.is_some_and(|since| since_first < since)
                || self.until_ms.is_some_and(|until| since_first > until)
            {
                return false;
            }
        }
        let Some(part) = self.sample else { return true };
        let draw = match &record.session {
            Some(session) => xxh3::xxh3_64_with_seed(session.as_bytes(), self.seed),
            None => xxh3::xxh3_64_with_seed(&self.seen.to_le_bytes(), self.seed),
        };
        (draw >> 11) as f64 / ((1_u64 << 53) as f64) < part
    }

    pub(super) fn tell(&self, summary: &mut Summary) {
        if let Some(part) = self.sample {
            let share = part * 100.0;
            summary.warnings.push(format!("this is a sample of {share:.3} %: reuse between sessions is understated"));
        }
        let others = summary.records - summary.kinds.into_iter().max().unwrap_or(0);
        if others > 0 {
            summary.warnings.push(format!("{others} of {} requests say less or more than that", summary.records));
        }
        if summary.out_of_order > 0 {
            let count = summary.out_of_order;
            summary.warnings.push(format!("{count} requests are earlier than the one before them"));
        }
        let span_s = self.clock.span_ms() / 1e3;
        let rate = summary.records as f64 / span_s;
        let has_rate = summary.time_base == TimeBase::Trace && summary.records >= RATE_RECORDS_MIN && span_s > 0.0;
        if has_rate && rate > RATE_PLAUSIBLE_MAX {
            summary.warnings.push(format!("{rate:.0} requests a second: is the unit of time right (--time-unit)?"));
        }
    }
}

/// Follows the times of records.
#[derive(Default)]
pub(super) struct Clock {
    last_ms: Option<f64>,
    first_ms: Option<f64>,
    end_ms: Option<f64>,
    session: Option<Arc<str>>,
}

impl Clock {
    pub(super) fn is_late(&mut self, record: &Record, is_per_session: bool) -> bool {
        let Some(at_ms) = record.at_ms else { return false };
        let is_other = is_per_session && self.session != record.session;
        let is_late = !is_other && self.last_ms.is_some_and(|last| at_ms < last);
        self.session.clone_from(&record.session);
        self.last_ms = Some(at_ms);
        self.first_ms = Some(self.first_ms.map_or(at_ms, |first| first.min(at_ms)));
        self.end_ms = Some(self.end_ms.map_or(at_ms, |end| end.max(at_ms)));
        is_late
    }

    fn span_ms(&self) -> f64 {
        self.end_ms.zip(self.first_ms).map_or(0.0, |(end, first)| end - first)
    }
}
