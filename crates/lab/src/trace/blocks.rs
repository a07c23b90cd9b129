//! Names of blocks as traces write them, and whether there are as many as the prompt's length asks for.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use xxhash_rust::xxh3;

/// Sizes of a block that traces use, besides a format's own.
const TOKENS_USUAL: [u32; 8] = [512, 16, 64, 32, 128, 256, 1024, 8];

/// The name of a block: a number, or a text, of which the hash is taken. A text of 16 hexadecimal digits or fewer is the
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockName(pub(super) u64);

impl BlockName {
    fn of_text(text: &str) -> Self {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let number = u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
        Self(number.unwrap_or_else(|| xxh3::xxh3_64(text.as_bytes())))
    }
}

impl<'de> Deserialize<'de> for BlockName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = BlockName;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a block")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<BlockName, E> {
                Ok(BlockName(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<BlockName, E> {
                Ok(BlockName(value.cast_unsigned()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<BlockName, E> {
                Ok(BlockName::of_text(text))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

/// Names in the space of `scope`: equal ones in different scopes differ.
pub(super) fn scoped(names: &[BlockName], scope: Option<&str>) -> Arc<[u64]> {
    match scope {
        None => names.iter().map(|name| name.0).collect(),
        Some(scope) => {
            let seed = xxh3::xxh3_64(scope.as_bytes());
            names.iter().map(|name| xxh3::xxh3_64_with_seed(&name.0.to_le_bytes(), seed)).collect()
        }
    }
}

/// Whether the names of blocks fit the lengths of prompts, row by row. Traces keep the last block where it is not whole,
/// or leave it out: both fit, and which of them it was is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fit {
    kept: u64,
    left_out: u64,
}

impl Fit {
    /// The blocks of a prompt of `input_tokens`, if so many fit it.
    pub(super) fn check(&mut self, names: usize, tokens: u32, input_tokens: u32) -> Result<(), String> {
        let whole = input_tokens / tokens;
        let has_part = !input_tokens.is_multiple_of(tokens);
        let names = u32::try_from(names).unwrap_or(u32::MAX);
        if names == whole + u32::from(has_part) {
            self.kept += u64::from(has_part);
            return Ok(());
        }
        if names == whole {
            self.left_out += 1;
            return Ok(());
        }
        let wanted = if has_part { format!("{whole} or {}", whole + 1) } else { whole.to_string() };
        Err(format!("{names} block ids do not fit {input_tokens} tokens: at {tokens} a block there are {wanted}"))
    }

    /// What traces of this kind do with the last block, as a sentence; `None` if no row tells.
    pub(super) fn sentence(&self) -> Option<String> {
        match (self.kept, self.left_out) {
            (0, 0) => None,
            (_, 0) => Some("the last block counts where it is not whole (ids = tokens / block, rounded up)".into()),
            (0, _) => {
                Some("the last block is left out where it is not whole (ids = tokens / block, rounded down)".into())
            }
            (kept, left_out) => Some(format!(
                "the last block, where it is not whole, counts in {kept} rows and is left out in {left_out}"
            )),
        }
    }
}

/// Tokens a block, told by rows of (tokens of the prompt, number of names): the first usual size that fits them all, else
/// the one that fits most, `own` before others. With it, how many rows it fits.
pub(super) fn choose_tokens(rows: &[(u32, usize)], own: u32) -> (u32, usize) {
    let fits =
        |tokens: u32| rows.iter().filter(|&&(input, names)| Fit::default().check(names, tokens, input).is_ok()).count();
    let usual = TOKENS_USUAL.into_iter().filter(|&tokens| tokens != own);
    let mut best = (own, fits(own));
    for tokens in usual {
        let count = fits(tokens);
        if count > best.1 {
            best = (tokens, count);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S94: rows whose number of block ids does not fit their length must not become prompts of another length.
    #[test]
    fn as_many_names_fit_as_there_are_blocks_with_or_without_the_last_one_that_is_not_whole() {
        for (input, names, fits) in [
            (20, 2, false),
            (1537, 3, true),
            (1537, 4, true),
            (1537, 5, false),
            (512, 1, true),
            (512, 0, false),
            (513, 1, true),
            (513, 2, true),
            (0, 0, true),
            (0, 1, false),
            (u32::MAX, usize::MAX, false),
        ] {
            let mut fit = Fit::default();
            assert_eq!(fit.check(names, 512, input).is_ok(), fits, "{input} {names}");
        }
        let why = Fit::default().check(2, 512, 20).unwrap_err();
        assert_eq!(why, "2 block ids do not fit 20 tokens: at 512 a block there are 0 or 1");
    }

    /// S94: which of the two it was is found out.
    #[test]
    fn what_became_of_the_last_block_is_told() {
        let told = |rows: &[(u32, usize)]| {
            let mut fit = Fit::default();
            for &(input, names) in rows {
                fit.check(names, 512, input).unwrap();
            }
            fit.sentence().unwrap_or_default()
        };
        assert!(told(&[(513, 2), (1024, 2)]).contains("rounded up"));
        assert!(told(&[(513, 1), (1024, 2)]).contains("rounded down"));
        assert!(told(&[(513, 1), (1025, 3)]).contains("counts in 1 rows and is left out in 1"));
        assert_eq!(told(&[(512, 1)]), "");
    }

    #[test]
    fn the_size_of_a_block_is_told_by_the_lengths() {
        assert_eq!(choose_tokens(&[(1300, 3), (700, 2)], 512), (512, 2));
        assert_eq!(choose_tokens(&[(1300, 82), (700, 44)], 512), (16, 2));
        assert_eq!(choose_tokens(&[(1300, 20), (700, 11), (5, 9)], 512), (64, 2));
        assert_eq!(choose_tokens(&[], 512), (512, 0));
    }

    #[test]
    fn names_are_numbers_or_texts() {
        let names: Vec<BlockName> =
            serde_json::from_str(r#"[7, -1, "00000000000000ff", "not hex", "not hex"]"#).unwrap();
        assert_eq!(names[0].0, 7);
        assert_eq!(names[1].0, u64::MAX);
        assert_eq!(names[2].0, 255);
        assert_eq!(names[3], names[4]);
        assert!(serde_json::from_str::<BlockName>("1.5").is_err());
    }
}
