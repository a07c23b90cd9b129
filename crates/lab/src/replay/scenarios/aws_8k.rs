//! Amazon's table for prefix-aware routing: shared prefixes of 8,192 tokens, seven replicas of Llama 3.1 70B.
//!
//! Published: changes against random in median and P90 TTFT, throughput, hit rates and shares. Not published: load, data
//! type, lengths of questions and answers, uses of a prefix. Taken here: questions of 128 tokens and answers of 384 to
//! 512, as the closed form of the hit rates says five uses of a prefix, four users a replica in a closed loop, and bf16
//! on eight H100. The fixed overhead is fitted: with it the cached median takes the place among the others that the
//! published percentages give it.

use kvroute_engine::model::Preset;

use super::shared::Shared;
use super::{Records, Scenario};
use crate::replay::{Cut, FleetSpec, Pacing, Setting};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "aws-8k",
    about: "Amazon's table: seven replicas of Llama 3.1 70B, shared prefixes of 8,192 tokens, one hour",
    published: "prefix-aware against random: TTFT P50 -71..-77 %, P90 -33..-37 %, hits 25 -> 82 %, throughput +15..+16 %, \
                shares 13.3..15.4 %",
    strategies: &["random", "least_outstanding", "prefix_aware"],
    prefix_length: 2_048,
    setting,
    records,
};

const REPLICAS: u32 = 7;
const USERS: u32 = 28;
const HOUR_US: u64 = 3_600_000_000;
/// From arrival to scheduler. Fitted; published fleets suggest 40 to 100 ms.
const OVERHEAD_MS: f64 = 90.0;

const PREFIX_TOKENS: u32 = 8_192;
const QUESTION_TOKENS: u32 = 128;
const ANSWER_TOKENS: (u32, u32) = (384, 512);
const USES: f64 = 5.3;
/// More than are asked for in an hour.
const PREFIXES: u32 = 5_000;
/// Prefixes in use at a time: about the requests between two uses of one.
const LIVE: u32 = 200;

fn setting() -> Setting {
    Setting {
        fleet: FleetSpec::of(REPLICAS, Preset { overhead_ms: OVERHEAD_MS, ..Preset::default() }),
        pacing: Pacing::Closed { users: USERS, ramp_us: 250_000 },
        end_us: HOUR_US,
        events: Vec::new(),
        cut: Cut::Until(HOUR_US / 12),
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
