//! A million requests over 64 replicas: how long a replay of a large fleet takes.
//!
//! Not a published table. Prefixes of 2,048 tokens, twenty uses each, questions of 256 tokens, answers of 64 to 128, a
//! request every 2.5 ms.

use kvroute_engine::model::Preset;

use super::shared::Shared;
use super::{Records, Scenario};
use crate::replay::{Clock, Cut, FleetSpec, Pacing, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "million",
    about: "a million requests over 64 replicas of Llama 3.1 8B, for the speed of the replay itself",
    published: "nothing: it is no table of anybody's",
    strategies: &["random", "prefix_aware"],
    prefix_length: 1_024,
    setting,
    records,
};

const REPLICAS: u32 = 64;
const RATE: f64 = 400.0;
const PREFIXES: u32 = 50_000;
const USES: f64 = 20.0;
const LIVE: u32 = 4_000;
const PREFIX_TOKENS: u32 = 2_048;
const QUESTION_TOKENS: u32 = 256;
const ANSWER_TOKENS: (u32, u32) = (64, 128);

fn setting() -> Setting {
    Setting {
        fleet: FleetSpec::of(REPLICAS, Preset::by_name("llama-3.1-8b-h100").unwrap_or_default()),
        pacing: Pacing::Open(Clock::Poisson { rate: RATE }),
        end_us: u64::MAX,
        events: Vec::new(),
        cut: Cut::Before(100_000),
    }
}

fn records(seed: u64) -> Records {
    let shared = Shared {
        prefixes: PREFIXES,
        uses: USES,
        live: LIVE,
        prefix_tokens: PREFIX_TOKENS,
        question_tokens: QUESTION_TOKENS,
        answer_tokens: ANSWER_TOKENS,
    };
    shared.records(seed)
}
