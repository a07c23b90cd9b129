//! Seeded 64-bit hashing with a fixed definition.
//!
//! Several gateways must place the same prompt on the same replica without talking, today and after an upgrade, so
//! everything here is part of the wire contract between them: the test vectors below may never change. XXH3 is used
//! for bytes because its definition is fixed and it costs under a microsecond for 16 KB.

use xxhash_rust::xxh3;

/// Hashes bytes under a seed.
pub fn bytes(data: &[u8], seed: u64) -> u64 {
    xxh3::xxh3_64_with_seed(data, seed)
}

/// Spreads every input bit over the whole word (the finaliser of MurmurHash3, with Stafford's constants).
pub fn finish(x: u64) -> u64 {
    let x = almost_finish(x);
    x ^ (x >> 31)
}

fn almost_finish(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
}

const FIRST_MASK: u64 = 0x2d35_8dcc_aa6c_78a5;
const SECOND_MASK: u64 = 0x8bb8_4b93_962e_acc9;

/// Combines two hashes; the order matters.
pub fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ FIRST_MASK) * u128::from(b ^ SECOND_MASK);
    finish((product as u64) ^ ((product >> 64) as u64) ^ b.rotate_left(32))
}

/// One side of [`mix`], prepared to be the second argument again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    masked: u64,
    rotated: u64,
}

impl Second {
    pub(crate) fn of(b: u64) -> Self {
        Self { masked: b ^ SECOND_MASK, rotated: b.rotate_left(32) }
    }
}

/// The index of the one among `seconds` whose mix with `a` is the highest, and the last such. 0 if there is none.
pub(crate) fn highest_mix(a: u64, seconds: &[Second]) -> usize {
    /// The last step of `finish` changes the bits below these only.
    const KEPT: u64 = !(u64::MAX >> 31);
    let a = u128::from(a ^ FIRST_MASK);
    let (mut highest, mut at_least, mut at) = (0, 0, 0);
    for (index, second) in seconds.iter().enumerate() {
        let product = a * u128::from(second.masked);
        let almost = almost_finish((product as u64) ^ ((product >> 64) as u64) ^ second.rotated);
        if almost >= at_least {
            let mix = almost ^ (almost >> 31);
            if mix >= highest {
                (highest, at_least, at) = (mix, mix & KEPT, index);
            }
        }
    }
    at
}

/// Natural logarithm of `(x + 1/2) / 2^64`, a negative number.
///
/// Written with additions, multiplications and divisions only, which IEEE 754 defines to the last bit, because the
/// platform's own logarithm may differ between machines and gateways must agree on weighted choices.
pub fn ln_unit(x: u64) -> f64 {
    const LN_2: f64 = std::f64::consts::LN_2;
    let value = (x >> 12) as f64 + 0.5; // 52 bits and a half, so that nothing is rounded
    let bits = value.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | (1023 << 52)); // in [1, 2)
    // ln m = 2 atanh((m-1)/(m+1)); the argument is below 1/3, so 17 odd powers reach 1e-17.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    for k in (0..17).rev() {
        sum = sum * square + 1.0 / (2 * k + 1) as f64;
    }
    (exponent - 52) as f64 * LN_2 + 2.0 * z * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_same_in_every_version() {
        assert_eq!(bytes(b"", 0), 0x2d06_8005_38d3_94c2);
        assert_eq!(bytes(b"the same system prompt", 7), 0xbe66_38b7_2c25_dd8a);
        assert_eq!(mix(1, 2), 0xcdce_f86a_72ca_8f3d);
        assert_eq!(finish(1), 0x5692_161d_100b_05e5);
    }

    #[test]
    fn the_highest_mix_is_that_of_all_mixes() {
        for a in (0..2_000).map(finish) {
            let seconds: Vec<u64> = (0..60).map(|b| finish(a ^ b)).collect();
            let highest = (0..60).max_by_key(|b| mix(a, seconds[*b])).expect("there are some");
            let prepared: Vec<Second> = seconds.iter().map(|b| Second::of(*b)).collect();
            assert_eq!(highest_mix(a, &prepared), highest);
        }
        assert_eq!(highest_mix(1, &[]), 0);
    }

    #[test]
    fn mixing_depends_on_the_order() {
        assert_ne!(mix(1, 2), mix(2, 1));
        assert_ne!(mix(0, 0), mix(0, 1));
    }

    #[test]
    fn the_logarithm_agrees_with_the_platforms() {
        for x in [0u64, 1 << 12, 1 << 40, u64::MAX / 3, u64::MAX / 2, u64::MAX / 8 * 7] {
            let expected = (((x >> 12) as f64 + 0.5) / (1u64 << 52) as f64).ln();
            let got = ln_unit(x);
            assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{x}: {got} {expected}");
        }
        assert!(ln_unit(u64::MAX) < 0.0, "a score must stay finite");
    }
}
