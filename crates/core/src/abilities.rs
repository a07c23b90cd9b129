//! What a replica can do, and what a request demands of it beyond being well.
//!
//! Engines answer what they cannot do with an error, after the request went there. So a place is left out for what its
//! engine is known to lack; what is not known is left to the engine. How many tokens a text has is not known here either,
//! so there are two bounds: a replica is left out where even the fewest tokens are too many, and comes last where the
//! likely number is.

use std::str::FromStr;

use crate::prompt::BYTES_PER_TOKEN;
use crate::routing::UnknownName;

/// Text of one token at the most, bytes. Long words and runs of white space are cheap; a prompt of nothing else is not
/// one that anybody sends.
const BYTES_PER_TOKEN_MAX: u64 = 16;

/// Which part of the work a replica does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// All of it.
    #[default]
    Both,
    /// Only the prompt's.
    Prefill,
    /// Only the answer's.
    Decode,
}

impl Role {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Role; 3] = [Role::Both, Role::Prefill, Role::Decode];

    /// The name users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Both => "both",
            Role::Prefill => "prefill",
            Role::Decode => "decode",
        }
    }
}

impl FromStr for Role {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|role| role.as_str() == name).ok_or(UnknownName)
    }
}

/// Kinds of input besides text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modalities {
    /// Pictures.
    pub image: bool,
    /// Sound.
    pub audio: bool,
}

impl Modalities {
    /// Every kind.
    pub const ALL: Modalities = Modalities { image: true, audio: true };

    /// Whether all of `wanted` are among them.
    pub fn cover(self, wanted: Modalities) -> bool {
        (self.image || !wanted.image) && (self.audio || !wanted.audio)
    }
}

/// What a replica can do, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Which part of the work it does.
    pub role: Role,
    /// What it can read besides text.
    pub modalities: Modalities,
    /// Tokens of prompt and answer together at the most; `None` where it is not known.
    pub context_tokens_max: Option<u64>,
}

impl Default for Abilities {
    fn default() -> Self {
        Self { role: Role::Both, modalities: Modalities::ALL, context_tokens_max: None }
    }
}

/// What a request demands. The default demands nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demands {
    /// What there is besides text.
    pub modalities: Modalities,
    /// Tokens that the prompt has at least.
    pub tokens_min: u64,
    /// Tokens that prompt and answer likely have.
    pub tokens_likely: u64,
}

impl Demands {
    /// Those of a prompt of `text_bytes` and `token_ids`, and an answer of `answer_tokens_max` where that is said.
    pub fn of_prompt(text_bytes: u64, token_ids: u64, answer_tokens_max: Option<u64>) -> Self {
        Self {
            modalities: Modalities::default(),
            tokens_min: token_ids.saturating_add(text_bytes / BYTES_PER_TOKEN_MAX),
            tokens_likely: (text_bytes / BYTES_PER_TOKEN)
                .saturating_add(token_ids)
                .saturating_add(answer_tokens_max.unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modalities_cover_what_is_wanted_of_them() {
        let image = Modalities { image: true, audio: false };
        assert!(Modalities::ALL.cover(image) && image.cover(image) && image.cover(Modalities::default()));
        assert!(!Modalities::default().cover(image) && !image.cover(Modalities::ALL));
    }

    #[test]
    fn no_number_that_a_client_writes_overflows() {
        let demands = Demands::of_prompt(u64::MAX, u64::MAX, Some(u64::MAX));
        assert_eq!((demands.tokens_min, demands.tokens_likely), (u64::MAX, u64::MAX));
    }
}
