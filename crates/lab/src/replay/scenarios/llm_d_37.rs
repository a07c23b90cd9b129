//! llm-d's "37 % capacity" table: four replicas of Llama 3.1 70B on four H100 each, 83 groups of three prompts, a shared
//! prefix of 8,000 tokens, questions of 1,000 and answers of 1,000, at 20 requests a second.
//!
//! The name is the part of the fleet's KV memory that the prefixes of all groups take. Questions are three a group and
//! repeat, as the generator's do. Published at this rate, output tokens/s and mean TTFT in seconds: precise 9,295 and
//! 0.201, approximate 6,748 and 7.6, load 3,206 and 93, random 3,099 and 95. Not published: how long the rate was held.

use kvroute_core::{hash, moment::Entropy};
use kvroute_engine::model::Preset;

use super::names::{Purpose, Text, name};
use super::{Records, Scenario};
use crate::replay::{Clock, Cut, FleetSpec, Pacing, Setting};
use crate::trace::Record;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "llm-d-37",
    about: "llm-d's table: four replicas of Llama 3.1 70B, 83 prefixes of 8,000 tokens, 20 requests a second",
    published: "output tokens/s and mean TTFT: precise 9,295 and 0.20 s, approximate 6,748 and 7.6 s, load 3,206 and 93 s, \
                random 3,099 and 95 s",
    strategies: &[
        "random",
        "least_outstanding",
        "llm_d_weighted",
        "llm_d_weighted:view=events",
        "llm_d_sticky",
        "prefix_aware",
        "prefix_aware:concurrency_threshold=1024",
        "lmetric",
    ],
    prefix_length: 2_048,
    setting,
    records,
};

const REPLICAS: u32 = 4;
const PRESET: &str = "llama-3.1-70b-h100-tp4";
/// Requests a second, and for how long: a lower rate before, which warms the caches as the published ladder of rates
/// does, and the one that is measured, when all of the first have been answered.
const WARMUP: Stage = Stage { from_s: 0, rate: 10, seconds: 50 };
const MEASURED: Stage = Stage { from_s: 900, rate: 20, seconds: 60 };

struct Stage {
    from_s: u32,
    rate: u32,
    seconds: u32,
}

const GROUPS: u32 = 83;
const PROMPTS: u32 = 3;
const PREFIX_TOKENS: u32 = 8_000;
const QUESTION_TOKENS: u32 = 1_000;
const ANSWER_TOKENS: u32 = 1_000;

fn setting() -> Setting {
    // vLLM of 2025, when the table was measured, looked for room for a prompt's first chunk only.
    let preset = Preset { whole_prompt_must_fit: false, ..Preset::by_name(PRESET).unwrap_or_default() };
    Setting {
        fleet: FleetSpec::of(REPLICAS, preset),
        pacing: Pacing::Open(Clock::Trace { speed: 1.0 }),
        end_us: u64::MAX,
        events: Vec::new(),
        cut: Cut::Until(u64::from(MEASURED.from_s) * 1_000_000),
    }
}

fn records(seed: u64) -> Records {
    let mut entropy = Entropy::new(seed);
    // Like its generator (inference-perf's): all prompts in a random order, again and again.
    let mut prompts: Vec<u32> = (0..GROUPS * PROMPTS).collect();
    for last in (1..prompts.len()).rev() {
        prompts.swap(last, entropy.below(last as u32 + 1) as usize);
    }
    let mut prompts = prompts.into_iter().cycle();
    let mut held = |stage: &Stage| {
        let mut at_ms = f64::from(stage.from_s) * 1e3;
        let prompts = prompts.by_ref().take((stage.rate * stage.seconds) as usize);
        prompts
            .map(|prompt| {
                at_ms -= hash::ln_unit(entropy.next_u64()) * 1e3 / f64::from(stage.rate);
                Record { at_ms: Some(at_ms), ..request(seed, prompt) }
            })
            .collect::<Vec<_>>()
    };
    let records: Vec<Record> = [WARMUP, MEASURED].iter().flat_map(&mut held).collect();
    Box::new(records.into_iter())
}

fn request(seed: u64, prompt: u32) -> Record {
    let mut text = Text::default();
    text.push(name(seed, Purpose::Prefix, u64::from(prompt / PROMPTS)), PREFIX_TOKENS);
    text.push(name(seed, Purpose::Question, u64::from(prompt)), QUESTION_TOKENS);
    text.request(ANSWER_TOKENS)
}
