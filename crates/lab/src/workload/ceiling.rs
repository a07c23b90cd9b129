//! How much of a workload's prompt tokens a fleet can at best reuse.
//!
//! Take prefixes that are each used `k` times, fill the share `f` of every prompt, and are never
//! evicted. Sent always to the same replica, a prefix is computed once: `f (k-1)/k` of the tokens are
//! hits. Sent to one of `n` replicas at random, it is computed once on each replica it happens to
//! meet, and it meets `n (1 - (1 - 1/n)^k)` of them. Seven replicas and five to six uses give 80..83 %
//! against 25..30 %, which are the two figures that Amazon published for its prefix-aware routing.

/// Hit ratio when every use of a prefix meets the same replica. `uses` is at least 1,
/// `prefix_share` lies in 0..1.
pub fn hit_ratio_affine(uses: f64, prefix_share: f64) -> f64 {
    prefix_share * (uses - 1.0) / uses
}

/// Hit ratio when every use goes to a replica drawn at random. `uses` is at least 1, `replicas` at
/// least 1, `prefix_share` lies in 0..1.
pub fn hit_ratio_random(uses: f64, replicas: u32, prefix_share: f64) -> f64 {
    let replicas = f64::from(replicas);
    let met = replicas * (1.0 - (1.0 - 1.0 / replicas).powf(uses));
    prefix_share * (uses - met) / uses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_replicas_give_the_published_figures() {
        let cases = [(5.0, 0.800, 0.248), (5.56, 0.820, 0.275), (6.0, 0.833, 0.296)];
        for (uses, affine, random) in cases {
            assert!((hit_ratio_affine(uses, 1.0) - affine).abs() < 6e-4, "{uses}");
            let ratio = hit_ratio_random(uses, 7, 1.0);
            assert!((ratio - random).abs() < 6e-4, "{uses}: {ratio}");
        }
    }

    #[test]
    fn one_replica_makes_random_placement_affine() {
        for uses in [1.0, 2.5, 40.0] {
            let (affine, random) = (hit_ratio_affine(uses, 0.9), hit_ratio_random(uses, 1, 0.9));
            assert!((affine - random).abs() < 1e-12, "{uses}");
        }
    }
}
