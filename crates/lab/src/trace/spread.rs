//! Sessions that are known one by one, put beside each other in time.

use std::collections::BTreeMap;
use std::sync::Arc;

use xxhash_rust::xxh3;

use super::Record;
use crate::InvalidOption;

/// How sessions lie to each other, where the trace does not say ([`TimeBase::Session`](super::TimeBase)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    over_ms: f64,
    gap_ms_max: f64,
    seed: u64,
}

impl Spread {
    /// Sessions begin at times drawn evenly from the first `over_ms`; what lies more than `gap_ms_max` after the request
    /// before it comes that much earlier, so that nobody waits for a night in which a session was left alone.
    ///
    /// # Errors
    /// One of them is not a time.
    pub fn new(over_ms: f64, gap_ms_max: f64, seed: u64) -> Result<Self, InvalidOption> {
        if !(over_ms >= 0.0 && over_ms.is_finite()) {
            return Err(InvalidOption::new("spread", "sessions begin within 0 or more seconds"));
        }
        if gap_ms_max.is_nan() || gap_ms_max <= 0.0 {
            return Err(InvalidOption::new("gap_max", "a gap is longer than 0 seconds"));
        }
        Ok(Self { over_ms, gap_ms_max, seed })
    }

    /// The records in the order of their new times. What has no session or no time keeps its time.
    pub fn apply(&self, mut records: Vec<Record>) -> Vec<Record> {
        let mut sessions: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
        for (place, record) in records.iter().enumerate() {
            if let (Some(session), Some(_)) = (&record.session, record.at_ms) {
                sessions.entry(root(session)).or_default().push(place);
            }
        }
        for (session, mut places) in sessions {
            places.sort_by(|&one, &other| at(&records[one]).total_cmp(&at(&records[other])));
            let draw = xxh3::xxh3_64_with_seed(session.as_bytes(), self.seed);
            let mut new_ms = (draw >> 11) as f64 / (1_u64 << 53) as f64 * self.over_ms;
            let mut old_ms = places.first().map_or(0.0, |&place| at(&records[place]));
            for place in places {
                let record = &mut records[place];
                new_ms += (at(record) - old_ms).min(self.gap_ms_max);
                old_ms = at(record);
                record.at_ms = Some(new_ms);
                record.delay_ms = record.delay_ms.map(|delay| delay.min(self.gap_ms_max));
            }
        }
        records.sort_by(|one, other| at(one).total_cmp(&at(other)));
        records
    }
}

fn at(record: &Record) -> f64 {
    record.at_ms.unwrap_or(0.0)
}

/// The session that an agent beside it belongs to: they began together.
fn root(session: &Arc<str>) -> Arc<str> {
    match session.split_once('/') {
        Some((root, _)) => root.into(),
        None => Arc::clone(session),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(session: &str, at_ms: f64) -> Record {
        Record { session: Some(session.into()), at_ms: Some(at_ms), delay_ms: Some(90.0), ..Record::default() }
    }

    #[test]
    fn sessions_keep_their_own_times_and_begin_apart() {
        let records =
            vec![record("a", 0.0), record("a/1", 10.0), record("a", 500.0), record("b", 0.0), record("b", 7.0)];
        let spread = Spread::new(1e6, 50.0, 3).unwrap();
        let after = spread.apply(records.clone());
        assert_eq!(after, spread.apply(records));
        assert!(after.is_sorted_by(|one, other| one.at_ms <= other.at_ms));
        let times = |root: &str| -> Vec<f64> {
            after.iter().filter(|r| r.session.as_deref().unwrap().starts_with(root)).map(at).collect()
        };
        let (a, b) = (times("a"), times("b"));
        let gaps = |times: &[f64]| times.windows(2).map(|pair| (pair[1] - pair[0]).round()).collect::<Vec<_>>();
        assert_eq!((gaps(&a), gaps(&b)), (vec![10.0, 50.0], vec![7.0]));
        assert!((a[0] - b[0]).abs() > 1.0);
        assert!(after.iter().all(|record| record.delay_ms == Some(50.0)));
        assert!(Spread::new(-1.0, 1.0, 0).is_err() && Spread::new(1.0, 0.0, 0).is_err());
    }
}
