//! How often each prefix is used, and in which order.
//!
//! A cache is only tested when a prefix returns after others have passed. Uses back to back flatter
//! every router; a shuffle of the whole run spaces them wider than people do, and needs the fleet to
//! remember everything. So prefixes live in a window: a use goes to one of the longer-waiting half of
//! the live prefixes, and a prefix that is used up makes room for the next one. While the window is
//! full a prefix therefore never returns before half of the others had a turn. At the end the
//! window runs empty and the spacing shrinks with it.
//!
//! Under a Zipf law popularity is a property of the whole run, so there all prefixes are live and the
//! order is a shuffle.

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;

use super::text::below;

/// Uses of each prefix: whole numbers around `mean` that add up to `prefixes x mean`, rounded.
/// `mean` is at least 1.
pub(crate) fn even_uses(prefixes: u32, mean: f64) -> Vec<u32> {
    let upto = |n: u32| (f64::from(n) * mean).round() as u64;
    (0..prefixes).map(|index| (upto(index + 1) - upto(index)) as u32).collect()
}

/// Uses of each prefix when the one of rank `r` is asked for in proportion to `r^-alpha`. They add up
/// as in [`even_uses`], and each prefix is used at least once.
pub(super) fn zipf_uses(prefixes: u32, mean: f64, alpha: f64) -> Vec<u32> {
    let total = (f64::from(prefixes) * mean).round() as u64;
    let spare = total.saturating_sub(u64::from(prefixes));
    // Whole numbers from here on: the last bit of `powf` differs between math libraries, and must not
    // decide who gets a use.
    let weights: Vec<u128> =
        (1..=prefixes).map(|rank| (f64::from(rank).powf(-alpha) * f64::from(1_u32 << 30)).round() as u128).collect();
    let weight_sum: u128 = weights.iter().sum::<u128>().max(1);
    let mut given = 0;
    let mut passed = 0;
    weights
        .into_iter()
        .map(|weight| {
            passed += weight;
            let upto = (u128::from(spare) * passed / weight_sum) as u64;
            let uses = 1 + upto - given;
            given = upto;
            uses as u32
        })
        .collect()
}

/// The prefix of each request, with at most `live` (at least 1) prefixes in use at a time.
pub(super) fn windowed(uses: &[u32], live: u32, rng: &mut ChaCha8Rng) -> Vec<u32> {
    windowed_by(uses, live, |bound| below(rng, bound))
}

/// The same, where `draw` gives a number below its argument.
pub(crate) fn windowed_by(uses: &[u32], live: u32, mut draw: impl FnMut(u32) -> u32) -> Vec<u32> {
    let mut left = uses.to_vec();
    let mut fresh = (0..uses.len() as u32).filter(|&prefix| uses[prefix as usize] > 0);
    let mut window: VecDeque<u32> = fresh.by_ref().take(live as usize).collect();
    let mut order = Vec::with_capacity(uses.iter().map(|&n| n as usize).sum());
    while !window.is_empty() {
        let waiting_longer = window.len().div_ceil(2) as u32;
        let Some(prefix) = window.remove(draw(waiting_longer) as usize) else {
            break;
        };
        order.push(prefix);
        left[prefix as usize] -= 1;
        if left[prefix as usize] > 0 {
            window.push_back(prefix);
        } else {
            window.extend(fresh.next());
        }
    }
    order
}

/// The prefix of each request, all uses of all prefixes shuffled.
pub(super) fn shuffled(uses: &[u32], rng: &mut ChaCha8Rng) -> Vec<u32> {
    let mut order: Vec<u32> =
        (0..).zip(uses).flat_map(|(prefix, &n)| std::iter::repeat_n(prefix, n as usize)).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, below(rng, last as u32 + 1) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::text::{Purpose, stream};

    fn counts(order: &[u32], prefixes: usize) -> Vec<u32> {
        let mut counts = vec![0; prefixes];
        for &prefix in order {
            counts[prefix as usize] += 1;
        }
        counts
    }

    #[test]
    fn even_uses_stay_next_to_the_mean_and_add_up() {
        for (prefixes, mean, total) in [(100, 5.5, 550), (7, 1.0, 7), (3, 2.34, 7), (9, 5.0, 45)] {
            let uses = even_uses(prefixes, mean);
            assert_eq!(uses.iter().sum::<u32>(), total, "{prefixes} x {mean}");
            let near = |n: u32| (f64::from(n) - mean).abs() <= 1.0;
            assert!(uses.iter().all(|&n| near(n)), "{uses:?}");
        }
    }

    #[test]
    fn zipf_uses_fall_with_rank_and_add_up() {
        let uses = zipf_uses(100, 10.0, 1.0);
        assert_eq!(uses.iter().sum::<u32>(), 1_000);
        assert!(uses[0] > 150 && uses[99] <= 3, "{uses:?}");
        // The harmonic law: the second is asked for half as often as the first.
        assert!((f64::from(uses[0]) / f64::from(uses[1]) - 2.0).abs() < 0.1);
        assert_eq!(zipf_uses(4, 3.0, 0.0), [3, 3, 3, 3]);
        // All weight on the first rank.
        assert_eq!(zipf_uses(3, 4.0, 60.0), [10, 1, 1]);
    }

    #[test]
    fn a_prefix_returns_only_after_half_of_the_live_ones() {
        let live = 20;
        let uses = even_uses(200, 6.0);
        let order = windowed(&uses, live, &mut stream(3, Purpose::Order, 0));
        // The last `live` prefixes share a shrinking window; before that the rule is strict.
        let full = order.len() - (live as usize) * 6;
        let mut last_seen = vec![None; 200];
        let mut gaps = Vec::new();
        for (at, &prefix) in order[..full].iter().enumerate() {
            if let Some(before) = last_seen[prefix as usize].replace(at) {
                gaps.push(at - before);
            }
        }
        assert!(gaps.iter().all(|&gap| gap > live as usize / 2), "{gaps:?}");
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        assert!((15.0..25.0).contains(&mean), "mean spacing {mean}");
    }

    proptest! {
        #[test]
        fn every_order_holds_every_use_exactly_once(
            uses in prop::collection::vec(0_u32..6, 1..40),
            live in 1_u32..50,
            seed: u64,
        ) {
            let window = windowed(&uses, live, &mut stream(seed, Purpose::Order, 0));
            prop_assert_eq!(counts(&window, uses.len()), uses.clone());
            let shuffle = shuffled(&uses, &mut stream(seed, Purpose::Order, 0));
            prop_assert_eq!(counts(&shuffle, uses.len()), uses.clone());
            // A window of w never has more than w prefixes between first and last use.
            let mut open = std::collections::BTreeSet::new();
            let mut left = uses.clone();
            for &prefix in &window {
                open.insert(prefix);
                prop_assert!(open.len() <= live as usize);
                left[prefix as usize] -= 1;
                if left[prefix as usize] == 0 {
                    open.remove(&prefix);
                }
            }
        }
    }
}
