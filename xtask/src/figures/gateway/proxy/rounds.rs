//! Rounds in which both proxies are measured, and what they say together.

use anyhow::Result;

use super::super::super::figure::number;
use super::pair::{Pair, Proxy};

/// One value of each proxy a round, in microseconds.
#[derive(Debug)]
pub(super) struct Rounds {
    nginx: Vec<f64>,
    kvroute: Vec<f64>,
}

impl Rounds {
    /// Measures that often, nginx first in one round and kvroute in the next.
    pub(super) fn run(rounds: usize, pair: &Pair, measure: impl Fn(&Proxy) -> Result<f64>) -> Result<Self> {
        let mut all = Self { nginx: Vec::with_capacity(rounds), kvroute: Vec::with_capacity(rounds) };
        for round in 0..rounds {
            let first = (round % 2 == 1).then(|| measure(&pair.kvroute)).transpose()?;
            all.nginx.push(measure(&pair.nginx)?);
            all.kvroute.push(first.map_or_else(|| measure(&pair.kvroute), Ok)?);
        }
        Ok(all)
    }

    /// kvroute's value divided by nginx's: the median of all rounds.
    pub(super) fn ratio(&self) -> f64 {
        self.of_each(|nginx, kvroute| kvroute / nginx)
    }

    /// kvroute's value less nginx's: the median of all rounds.
    pub(super) fn difference(&self) -> f64 {
        self.of_each(|nginx, kvroute| kvroute - nginx)
    }

    /// The medians themselves.
    pub(super) fn detail(&self) -> String {
        let [nginx, kvroute] = [&self.nginx, &self.kvroute].map(|values| number(median(values.clone())));
        format!("nginx {nginx} us, kvroute {kvroute} us")
    }

    fn of_each(&self, compare: impl Fn(f64, f64) -> f64) -> f64 {
        median(self.nginx.iter().zip(&self.kvroute).map(|(&nginx, &kvroute)| compare(nginx, kvroute)).collect())
    }
}

/// The value in the middle; of an even number the higher of the two. Not a number where there is none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_compared_one_by_one_so_that_a_slow_moment_counts_for_both() {
        let rounds = Rounds { nginx: vec![50.0, 500.0, 50.0], kvroute: vec![60.0, 600.0, 75.0] };
        assert_eq!(rounds.ratio(), 1.2);
        assert_eq!(rounds.difference(), 25.0);
        assert_eq!(rounds.detail(), "nginx 50 us, kvroute 75 us");
    }

    #[test]
    fn the_median_is_a_value_that_was_measured() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 4.0);
        assert!(median(vec![]).is_nan());
    }
}
