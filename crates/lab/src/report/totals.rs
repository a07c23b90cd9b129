//! Sums over the successful requests of a run.

use std::collections::BTreeMap;

use crate::load::Outcome;

/// The sums.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) completed: usize,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// `None` when no answer of the run had the number. Once one has, its absence elsewhere is a
    /// zero: vLLM leaves the details out for an answer without hits.
    pub(super) cached_tokens: Option<u64>,
    /// Requests by the replica that answered.
    pub(super) by_replica: BTreeMap<String, u64>,
    /// Requests by the router's reason.
    pub(super) decisions: BTreeMap<String, u64>,
}

impl Totals {
    pub(super) fn of(outcome: &Outcome) -> Self {
        let mut totals = Self::default();
        for record in outcome.served() {
            totals.completed += 1;
            totals.input_tokens += u64::from(record.prompt_tokens);
            totals.output_tokens += u64::from(record.output_tokens);
            if let Some(cached) = record.cached_tokens {
                *totals.cached_tokens.get_or_insert(0) += u64::from(cached);
            }
            if let Some(index) = record.replica {
                let name = outcome.replicas.name(index).to_owned();
                *totals.by_replica.entry(name).or_default() += 1;
            }
            if let Some(index) = record.decision {
                let name = outcome.decisions.name(index).to_owned();
                *totals.decisions.entry(name).or_default() += 1;
            }
        }
        totals
    }

    /// Share of each replica among the requests whose replica is known, 0..1.
    pub(super) fn shares(&self) -> BTreeMap<String, f64> {
        let known: u64 = self.by_replica.values().sum();
        self.by_replica
            .iter()
            .map(|(name, &requests)| (name.clone(), ratio(requests, known).unwrap_or_default()))
            .collect()
    }

    /// Part of the decisions that left the preferred replica because of load, 0..1; `None` when the
    /// router named no reasons.
    pub(super) fn spill_ratio(&self) -> Option<f64> {
        let spilled = self.decisions.iter().filter(|(reason, _)| reason.starts_with("spill")).map(|(_, n)| n).sum();
        ratio(spilled, self.decisions.values().sum())
    }
}

/// `part / whole`, unless the whole is nothing.
pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
