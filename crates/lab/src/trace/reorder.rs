//! Records in the order of their times, where they are nearly so: logs that are written when answers end.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Record;

/// Puts records in order that lie at most so many records from their place. One without a time keeps its place behind
/// the one before it.
#[derive(Debug)]
pub struct Reorder {
    window: usize,
    waiting: BinaryHeap<Waiting>,
    taken: u64,
    last_ms: f64,
}

#[derive(Debug)]
struct Waiting {
    at_ms: f64,
    place: u64,
    record: Record,
}

impl Ord for Waiting {
    /// The heap gives its greatest first, which is to be the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at_ms.total_cmp(&self.at_ms).then_with(|| other.place.cmp(&self.place))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl Reorder {
    /// Holds up to `window` records.
    pub fn new(window: usize) -> Self {
        Self { window, waiting: BinaryHeap::new(), taken: 0, last_ms: f64::NEG_INFINITY }
    }

    /// Takes the next record; gives the one whose turn it is, once enough wait.
    pub fn push(&mut self, record: Record) -> Option<Record> {
        self.last_ms = record.at_ms.unwrap_or(self.last_ms);
        self.waiting.push(Waiting { at_ms: self.last_ms, place: self.taken, record });
        self.taken += 1;
        if self.waiting.len() > self.window { self.pop() } else { None }
    }

    /// Gives the next of those that wait, when no more come.
    pub fn pop(&mut self) -> Option<Record> {
        self.waiting.pop().map(|waiting| waiting.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_the_order_of_their_times_within_the_window() {
        let mut reorder = Reorder::new(2);
        let mut given = Vec::new();
        for at in [Some(3.0), Some(1.0), None, Some(2.0), Some(5.0), Some(4.0)] {
            given.extend(reorder.push(Record { at_ms: at, ..Record::default() }));
        }
        while let Some(record) = reorder.pop() {
            given.push(record);
        }
        let times: Vec<_> = given.iter().map(|record| record.at_ms).collect();
        assert_eq!(times, [Some(1.0), None, Some(2.0), Some(3.0), Some(4.0), Some(5.0)]);
    }
}
