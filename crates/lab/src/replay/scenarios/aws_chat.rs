//! Amazon's second table for prefix-aware routing: ShareGPT conversations, seven replicas of Llama 3.1 70B.
//!
//! Published: changes against random in median and P90 TTFT, throughput and hit rates. Not published: which
//! conversations, how many turns, the load. The knobs below make conversations of ShareGPT's shape (messages of a hundred
//! tokens and more, answers of nearly two hundred) of as many turns as repeat the prompts as much as the hit rates say,
//! by users who read for some seconds before they answer: without that the fleet is busier than a throughput of +1 to
//! +3 % allows.

use kvroute_core::moment::Entropy;
use kvroute_engine::model::Preset;

use super::names::{Purpose, Text, between, name};
use super::{Records, Scenario};
use crate::replay::{Cut, FleetSpec, Pacing, Setting};
use crate::trace::Record;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "aws-chat",
    about: "Amazon's table: seven replicas of Llama 3.1 70B, conversations of ShareGPT's shape, one hour",
    published: "prefix-aware against random: TTFT P50 -13..-16 %, P90 -24..-37 %, hits 30 -> 80 %, throughput +1..+3 %",
    strategies: &["random", "least_outstanding", "prefix_aware"],
    prefix_length: 256,
    setting,
    records,
};

const REPLICAS: u32 = 7;
const USERS: u32 = 28;
const HOUR_US: u64 = 3_600_000_000;
/// As in `aws-8k`.
const OVERHEAD_MS: f64 = 90.0;

/// Turns of a conversation, from and to.
const TURNS: (u32, u32) = (3, 9);
/// Tokens of the first message, of a later one, of an answer.
const FIRST_TOKENS: (u32, u32) = (80, 400);
const MESSAGE_TOKENS: (u32, u32) = (40, 240);
const ANSWER_TOKENS: (u32, u32) = (60, 310);
/// More than are begun in an hour.
const SESSIONS: u64 = 15_000;
/// Milliseconds between an answer and the next message, from and to.
const THINK_MS: (u32, u32) = (1_000, 5_000);

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
    Box::new((0..SESSIONS).flat_map(move |session| conversation(seed, session)))
}

fn conversation(seed: u64, session: u64) -> Vec<Record> {
    let mut draw = Entropy::new(name(seed, Purpose::Prefix, session));
    let id: std::sync::Arc<str> = format!("s{session}").into();
    let mut text = Text::default();
    (0..between(&mut draw, TURNS.0, TURNS.1))
        .map(|turn| {
            let place = session << 8 | u64::from(turn);
            let range = if turn == 0 { FIRST_TOKENS } else { MESSAGE_TOKENS };
            text.push(name(seed, Purpose::Question, place), between(&mut draw, range.0, range.1));
            let answer_tokens = between(&mut draw, ANSWER_TOKENS.0, ANSWER_TOKENS.1);
            let delay_ms = (turn > 0).then(|| f64::from(between(&mut draw, THINK_MS.0, THINK_MS.1)));
            let record = Record { session: Some(id.clone()), delay_ms, ..text.request(answer_tokens) };
            text.push(name(seed, Purpose::Answer, place), answer_tokens);
            record
        })
        .collect()
}
