//! Rendezvous (highest-random-weight) hashing.
//!
//! Every replica gets a score from the key and its own id; the highest score is the key's home. Any replica may join
//! or leave and only the keys that had, or now get, their highest score there move (1/N of them); the scores order all
//! replicas, so fallbacks need no second mechanism; and gateways that know the same ids agree whatever the order in
//! which they learned them.

use crate::hash::{self, Second};

/// Finds homes among many replicas. Among equal weights the score orders like the hash itself, so only the best of each
/// weight needs a logarithm.
#[derive(Debug)]
pub(crate) struct Homes(Vec<Class>);

/// The replicas of one weight.
#[derive(Debug)]
struct Class {
    weight: f64,
    /// Their parts of the scores.
    keys: Vec<u64>,
    /// The same, prepared: most of the time goes into walking over these.
    prepared: Vec<Second>,
    /// Their indices in the variant.
    replicas: Vec<usize>,
}

impl Homes {
    /// Of replicas with these keys and weights.
    pub(crate) fn of(replicas: impl Iterator<Item = (u64, f64)>) -> Self {
        let mut classes: Vec<Class> = Vec::new();
        for (index, (key, weight)) in replicas.enumerate() {
            let class = match classes.iter_mut().position(|class| class.weight == weight) {
                Some(class) => &mut classes[class],
                None => {
                    classes.push(Class { weight, keys: Vec::new(), prepared: Vec::new(), replicas: Vec::new() });
                    classes.last_mut().expect("one was just added")
                }
            };
            class.keys.push(key);
            class.prepared.push(Second::of(key));
            class.replicas.push(index);
        }
        Self(classes)
    }

    /// The index of the replica with the highest score for a key; `None` where there is none.
    pub(crate) fn of_key(&self, key: u64) -> Option<usize> {
        let mut home: Option<(f64, usize)> = None;
        for class in &self.0 {
            let at = hash::highest_mix(key, &class.prepared);
            let score = score(key, class.keys[at], class.weight);
            if home.is_none_or(|(highest, _)| score > highest) {
                home = Some((score, class.replicas[at]));
            }
        }
        home.map(|(_, index)| index)
    }
}

/// The score of a replica for a key: higher is better. `weight` must be positive; a replica of twice the weight is the
/// home of twice as many keys.
pub fn score(key: u64, replica_key: u64, weight: f64) -> f64 {
    // -w / ln(u) orders like u itself when all weights are equal.
    -weight / hash::ln_unit(hash::mix(key, replica_key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(key: u64, replicas: &[(u64, f64)]) -> usize {
        let best =
            replicas.iter().map(|&(id, weight)| score(key, id, weight)).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        best.expect("there are replicas").0
    }

    fn ids(n: usize) -> Vec<(u64, f64)> {
        (0..n).map(|i| (hash::bytes(format!("r{i}").as_bytes(), 0), 1.0)).collect()
    }

    #[test]
    fn scaling_from_seven_to_eight_replicas_and_back_moves_only_the_new_ones_keys() {
        let (seven, eight) = (ids(7), ids(8));
        let keys: Vec<u64> = (0..10_000u64).map(hash::finish).collect();
        let moved = keys.iter().filter(|&&k| home(k, &seven) != home(k, &eight)).count();
        assert!(
            keys.iter().all(|&k| home(k, &eight) == 7 || home(k, &seven) == home(k, &eight)),
            "only moves to the new"
        );
        assert!(moved as f64 / 10_000.0 <= 1.0 / 7.0 + 0.02, "{moved} keys moved");
    }

    #[test]
    fn the_home_is_the_replica_with_the_highest_score_whatever_the_weights() {
        for weights in [&[1.0][..], &[1.0, 2.5], &[0.5, 3.0, 1.0, 7.25, 9.0]] {
            let mut replicas = ids(40);
            replicas.iter_mut().enumerate().for_each(|(i, replica)| replica.1 = weights[i % weights.len()]);
            let homes = Homes::of(replicas.iter().copied());
            for key in (0..5_000u64).map(hash::finish) {
                assert_eq!(homes.of_key(key), Some(home(key, &replicas)));
            }
        }
        assert_eq!(Homes::of(std::iter::empty()).of_key(1), None);
    }

    #[test]
    fn keys_spread_in_proportion_to_weight() {
        let mut replicas = ids(4);
        replicas[3].1 = 3.0;
        let mut counts = [0u32; 4];
        (0..60_000u64).for_each(|k| counts[home(hash::finish(k), &replicas)] += 1);
        for (i, expected) in [10_000.0, 10_000.0, 10_000.0, 30_000.0].into_iter().enumerate() {
            let off = (f64::from(counts[i]) - expected).abs() / expected;
            assert!(off < 0.04, "replica {i} has {} keys, expected about {expected}", counts[i]);
        }
    }
}
