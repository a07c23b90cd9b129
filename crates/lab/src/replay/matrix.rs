//! How what prefix-aware routing brings depends on model, prompt, reuse and answer: one small fleet for each combination,
//! with prompts at random places and at home.
//!
//! Prompts are a shared prefix and a question of their own; each prefix is used about so many times. Users wait for their
//! answers, four for each replica. Combinations in which nothing is to be gained are among them on purpose: prefixes that
//! are used once, prefixes of a block or two, answers that take far longer than prompts.

use std::fmt;
use std::sync::Arc;

use kvroute_core::routing::Strategy;
use kvroute_engine::model::Preset;

use super::comparison::{Case, Question, compare};
use super::contender::Contender;
use super::fleet::FleetSpec;
use super::pacing::Pacing;
use super::prepare::{PrepareOptions, prepare};
use super::scenarios::Shared;
use super::sim::Setting;
use super::warmup::Cut;
use crate::InvalidOption;

/// The models: a small one, a large one, and one of many experts.
pub const ENGINES: [&str; 3] = ["llama-3.1-8b-h100", "llama-3.1-70b-h100-tp8", "qwen3-235b-a22b-h100-tp4-fp8"];
/// Tokens of a shared prefix.
pub const PREFIX_TOKENS: [u32; 3] = [256, 2_048, 8_192];
/// Uses of a prefix in the mean.
pub const USES: [f64; 3] = [1.0, 2.0, 5.0];
/// Tokens of an answer.
pub const ANSWER_TOKENS: [u32; 2] = [32, 512];

const QUESTION_TOKENS: u32 = 128;
const REQUESTS: u32 = 1_500;
const USERS_PER_REPLICA: u32 = 4;
const RAMP_US: u64 = 250_000;

/// One combination, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the engine's preset.
    pub engine: &'static str,
    /// Tokens of a shared prefix.
    pub prefix_tokens: u32,
    /// Uses of a prefix in the mean.
    pub uses: f64,
    /// Tokens of an answer.
    pub answer_tokens: u32,
    /// Prompt tokens reused under `random`, 0 to 1.
    pub hit_random: f64,
    /// Prompt tokens reused under `prefix_aware`, 0 to 1.
    pub hit: f64,
    /// Change of the median TTFT against `random`, as a part of it.
    pub ttft_p50: f64,
    /// Change of the 90th percentile of TTFT, the same.
    pub ttft_p90: f64,
    /// Change of output tokens a second, the same.
    pub throughput: f64,
}

/// All of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Replicas of each fleet.
    pub replicas: u32,
    /// In the order of the constants of this module.
    pub rows: Vec<Row>,
}

impl Matrix {
    /// Simulates every combination on a fleet of so many replicas. `progress` is told how many of how many are done.
    ///
    /// # Errors
    /// If there is no replica.
    pub fn simulate(
        replicas: u32,
        seed: u64,
        threads: usize,
        progress: &dyn Fn(usize, usize),
    ) -> Result<Self, InvalidOption> {
        InvalidOption::unless_within("replicas", replicas.into(), 1..=1_024)?;
        let total = ENGINES.len() * PREFIX_TOKENS.len() * USES.len() * ANSWER_TOKENS.len();
        let mut rows = Vec::with_capacity(total);
        for prefix_tokens in PREFIX_TOKENS {
            for uses in USES {
                for answer_tokens in ANSWER_TOKENS {
                    let case = case(seed, prefix_tokens, uses, answer_tokens)?;
                    for engine in ENGINES {
                        progress(rows.len(), total);
                        let question = question(replicas, engine, prefix_tokens, threads);
                        let (hit, ttft, throughput) = outcome(&case, &question)?;
                        rows.push(Row {
                            engine,
                            prefix_tokens,
                            uses,
                            answer_tokens,
                            hit_random: hit[0],
                            hit: hit[1],
                            ttft_p50: ttft[0],
                            ttft_p90: ttft[1],
                            throughput,
                        });
                    }
                }
            }
        }
        let place = |row: &Row| ENGINES.iter().position(|engine| *engine == row.engine);
        rows.sort_by_key(place);
        Ok(Self { replicas, rows })
    }
}

/// Hits of both, changes of both percentiles, change of throughput.
fn outcome(case: &Case, question: &Question) -> Result<([f64; 2], [f64; 2], f64), InvalidOption> {
    let columns = compare(std::slice::from_ref(case), question, &|_, _| {})?;
    let [random, aware] = &columns[..] else { unreachable!("two are compared") };
    let (before, after) = (&random.measures, &aware.measures);
    let part = |before: f64, after: f64| if before > 0.0 { after / before - 1.0 } else { 0.0 };
    let percentile = |at: usize| part(before.ttft_ms.percentiles[at].1, after.ttft_ms.percentiles[at].1);
    Ok((
        [before.locality.delivered_ratio(), after.locality.delivered_ratio()],
        [percentile(0), percentile(1)],
        part(before.output_throughput(), after.output_throughput()),
    ))
}

fn question(replicas: u32, engine: &str, prefix_tokens: u32, threads: usize) -> Question {
    let preset = Preset::by_name(engine).expect("the presets of this module exist");
    let mut aware = Contender::core(Strategy::PrefixAware);
    aware.prefix_length = Some(key_tokens(prefix_tokens));
    Question {
        contenders: vec![Contender::core(Strategy::Random), aware],
        setting: Setting {
            fleet: FleetSpec::of(replicas, preset),
            pacing: Pacing::Closed { users: replicas * USERS_PER_REPLICA, ramp_us: RAMP_US },
            end_us: u64::MAX,
            events: Vec::new(),
            cut: Cut::Before(REQUESTS / 10),
        },
        percentiles: vec![50.0, 90.0],
        goodput: None,
        threads,
    }
}

/// A key that ends inside the prefix, as one would set it.
fn key_tokens(prefix_tokens: u32) -> u32 {
    prefix_tokens.min(1_024)
}

fn case(seed: u64, prefix_tokens: u32, uses: f64, answer_tokens: u32) -> Result<Case, InvalidOption> {
    let prefixes = (f64::from(REQUESTS) / uses) as u32;
    let shared = Shared {
        prefixes,
        uses,
        // About the requests between two uses of a prefix, as in the published tables.
        live: (prefixes / 8).max(1),
        prefix_tokens,
        question_tokens: QUESTION_TOKENS,
        answer_tokens: (answer_tokens, answer_tokens),
    };
    let options = PrepareOptions { prefix_lengths: vec![key_tokens(prefix_tokens)], seed, ..PrepareOptions::default() };
    let jobs =
        prepare(shared.records(seed), &options).map_err(|error| InvalidOption::new("matrix", error.to_string()))?;
    Ok(Case { seed, jobs: Arc::new(jobs) })
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replicas, rows } = self;
        writeln!(
            f,
            "What prefix_aware brings against random, over {replicas} replicas; prompts are a shared prefix and a question \
             of {QUESTION_TOKENS}"
        )?;
        writeln!(
            f,
            "tokens, {USERS_PER_REPLICA} users for each replica wait for their answers. All of it is simulated."
        )?;
        for engine in ENGINES {
            writeln!(f, "\n{engine}")?;
            writeln!(f, "  prefix  uses  answer       hit (%)   TTFT P50   TTFT P90    output")?;
            for row in rows.iter().filter(|row| row.engine == engine) {
                writeln!(
                    f,
                    "{:>8}{:>6}{:>8}{:>7.0} -> {:>3.0}{:>11}{:>11}{:>10}{}",
                    row.prefix_tokens,
                    row.uses,
                    row.answer_tokens,
                    row.hit_random * 100.0,
                    row.hit * 100.0,
                    change(row.ttft_p50),
                    change(row.ttft_p90),
                    change(row.throughput),
                    if row.gains() { "" } else { "   no gain" },
                )?;
            }
        }
        Ok(())
    }
}

impl Row {
    /// Whether somebody would notice: a tenth of the median or of the 90th percentile, or a fiftieth of throughput.
    pub fn gains(&self) -> bool {
        self.ttft_p50 <= -0.1 || self.ttft_p90 <= -0.1 || self.throughput >= 0.02
    }
}

fn change(part: f64) -> String {
    format!("{:+.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prefixes_that_are_used_often_gain_and_those_used_once_do_not() {
        let matrix = Matrix::simulate(4, 1, 2, &|_, _| {}).unwrap();
        assert_eq!(matrix.rows.len(), 54);
        for row in &matrix.rows {
            if row.uses == 1.0 {
                assert!(!row.gains() && row.hit < 0.02, "{row:?}");
            }
            if row.uses == 5.0 && row.prefix_tokens == 8_192 {
                assert!(row.gains() && row.hit > row.hit_random + 0.2, "{row:?}");
            }
        }
        let printed = matrix.to_string();
        assert!(
            printed.contains("simulated") && printed.lines().filter(|line| line.ends_with("no gain")).count() >= 18
        );
        assert_eq!(Matrix::simulate(0, 1, 1, &|_, _| {}).unwrap_err().option, "replicas");
    }
}
