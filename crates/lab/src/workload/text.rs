//! Text of a given length from a seed.
//!
//! ChaCha is specified bit by bit, and everything below it is integer arithmetic, so the text is the
//! same on every platform. The word list is part of that contract: changing it changes every
//! workload, which the digest tests notice.

use std::sync::OnceLock;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::BYTES_PER_TOKEN;

/// Bytes of the hexadecimal mark and its space at the start of a text.
const MARK_BYTES: usize = 9;

/// Fewest tokens of a text: room for the mark that makes it unique.
pub(super) const TOKENS_MIN: u64 = 4;
/// Most tokens of a text (4 MiB).
pub(super) const TOKENS_MAX: u64 = 1 << 20;

/// What a text is for. Each purpose draws from streams of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Prefix = 1,
    Suffix = 2,
    System = 3,
    Turn = 4,
    Warmup = 5,
    Order = 6,
    Arrivals = 7,
    Distinct = 8,
}

/// The random stream number `index` of a purpose.
pub(super) fn stream(seed: u64, purpose: Purpose, index: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8..16].copy_from_slice(&(purpose as u64).to_le_bytes());
    key[16..24].copy_from_slice(&index.to_le_bytes());
    ChaCha8Rng::from_seed(key)
}

/// The random stream of a run's schedule, apart from all streams of its texts.
pub(crate) fn arrival_stream(seed: u64) -> ChaCha8Rng {
    stream(seed, Purpose::Arrivals, 0)
}

/// A number in `0..bound`, by multiplication rather than by rejection so that one draw is one word of
/// the stream. The bias is below `bound / 2^32`. `bound` must not be zero.
pub(super) fn below(rng: &mut ChaCha8Rng, bound: u32) -> u32 {
    let wide = u64::from(rng.next_u32()) * u64::from(bound);
    (wide >> 32) as u32
}

/// Text number `index` of a purpose, exactly `4 x tokens` bytes of ASCII.
///
/// It opens with a mark that differs between any two indices below 2^32, and between purposes for
/// indices below 2^24.
pub(super) fn text(seed: u64, purpose: Purpose, index: u64, tokens: u32) -> String {
    let bytes = tokens as usize * BYTES_PER_TOKEN;
    let mut rng = stream(seed, purpose, index);
    let mut out = String::with_capacity(bytes + MARK_BYTES);
    out.push_str(&format!("{:08x}", mark(seed, purpose, index)));
    let words = words();
    while out.len() < bytes {
        out.push(' ');
        out.push_str(words[below(&mut rng, words.len() as u32) as usize]);
    }
    out.truncate(bytes);
    out
}

/// A bijection of the low 32 bits of `index` for every seed: xor, odd multiplications and
/// xor-shifts can each be undone, so marks of different indices differ.
fn mark(seed: u64, purpose: Purpose, index: u64) -> u32 {
    let mut x = (index as u32) ^ ((purpose as u32) << 24);
    x ^= (seed as u32) ^ ((seed >> 32) as u32);
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

fn words() -> &'static [&'static str] {
    static WORDS: OnceLock<Vec<&'static str>> = OnceLock::new();
    WORDS.get_or_init(|| include_str!("words.txt").lines().collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_are_unique_lowercase_and_short() {
        let list = words();
        let unique: BTreeSet<_> = list.iter().collect();
        assert!(list.len() >= 1_500, "{} words", list.len());
        assert_eq!(unique.len(), list.len());
        for word in list {
            assert!(word.bytes().all(|b| b.is_ascii_lowercase()), "{word}");
            assert!((1..=9).contains(&word.len()), "{word}");
        }
    }

    #[test]
    fn text_has_exactly_four_bytes_a_token_and_needs_no_escaping() {
        for tokens in [4, 5, 100, 2_048] {
            let text = text(7, Purpose::Prefix, 3, tokens);
            assert_eq!(text.len(), tokens as usize * 4);
            let escaped = serde_json::to_string(&text).unwrap();
            assert_eq!(escaped.len(), text.len() + 2);
        }
    }

    #[test]
    fn texts_of_one_purpose_differ_within_their_first_eight_characters() {
        for seed in [0, 1, u64::MAX] {
            let heads: BTreeSet<_> =
                (0..20_000).map(|index| text(seed, Purpose::Prefix, index, 4)[..8].to_owned()).collect();
            assert_eq!(heads.len(), 20_000, "seed {seed}");
        }
    }

    #[test]
    fn draws_below_a_bound_cover_it_evenly() {
        let mut rng = stream(1, Purpose::Order, 0);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[below(&mut rng, 10) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (850..1_150).contains(n)), "{seen:?}");
    }
}
