//! Whether the lab's hit-rate arithmetic is right: `kvroute analyze` against values that others computed for real traces
//! (`../shared/traces`, beside the repository), and against the closed form for a made one.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::figure::{Bar, Figure, Footing, Reading, Source, count};
use crate::workspace::Workspace;

const CONVERSATION: &str = "mooncake/conversation_trace.jsonl.gz";
const SYNTHETIC: &str = "mooncake/synthetic_trace.jsonl.gz";
const TOOLAGENT: &str = "toolagent/mooncake_trace_1000.jsonl.gz";
const WEKA: &str = "weka/weka_le128k_235s_gap30_mooncake512.jsonl.gz";

/// Trace, tokens of one LRU cache, and the part of the prompt tokens that it reuses.
const LRU: [(&str, u64, f64); 11] = [
    (CONVERSATION, 1_350_000, 0.06),
    (CONVERSATION, 3_000_000, 0.139),
    (CONVERSATION, 9_450_000, 0.286),
    (CONVERSATION, 10_000_000, 0.291),
    (SYNTHETIC, 1_350_000, 0.18),
    (SYNTHETIC, 3_000_000, 0.315),
    (SYNTHETIC, 9_450_000, 0.566),
    (SYNTHETIC, 10_000_000, 0.577),
    (WEKA, 1_350_000, 0.118),
    (WEKA, 3_000_000, 0.394),
    (WEKA, 10_000_000, 0.954),
];
/// The same with the eviction of an oracle.
const BELADY: [(&str, u64, f64); 2] = [(CONVERSATION, 9_450_000, 0.374), (SYNTHETIC, 9_450_000, 0.651)];
/// The same for a cache that never forgets.
const INFINITE: [(&str, f64); 4] = [(CONVERSATION, 0.3736), (SYNTHETIC, 0.6512), (TOOLAGENT, 0.3907), (WEKA, 0.9543)];

/// The made trace: prefixes of 15 blocks, prompts of 16, each prefix used so often.
const PREFIXES: u64 = 3_000;
const BLOCKS: u64 = 16;
const USES: [u64; 2] = [5, 6];
const REPLICAS: u32 = 7;

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 2] = [
    figure(
        "hit_rate_off_reference",
        Bar::AtMost(0.5),
        "the largest difference between what `kvroute analyze` says a cache reuses (LRU and Belady of given sizes, and \
         without limit) and the reference values of four traces",
    ),
    figure(
        "hit_rate_off_closed_form",
        Bar::AtMost(1.0),
        "the largest difference to the closed form for prefixes of 15/16 of a prompt, used five and six times over seven \
         replicas, placed at random and by prefix",
    ),
];

const fn figure(name: &'static str, bar: Bar, how: &'static str) -> Figure {
    Figure { name, group: "lab", unit: "points", bar: Some(bar), footing: Footing::Exact, how }
}

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let binary = workspace.release_binary()?;
    let traces = workspace.root.join("../shared/traces");
    ensure!(traces.is_dir(), "there are no traces at ../shared/traces");
    let analyze = |trace: &Path, replicas: u32, kv_tokens: u64| analysis(&binary, trace, replicas, kv_tokens);
    let mut reference = Worst::default();
    for (trace, tokens, expected) in LRU {
        let found = analyze(&traces.join(trace), 1, tokens)?.number("/reuse/limits/pooled_lru")?;
        reference.meet(found, expected, &format!("{trace} by LRU of {} tokens", count(tokens)));
    }
    for (trace, tokens, expected) in BELADY {
        let found = analyze(&traces.join(trace), 1, tokens)?.number("/reuse/limits/pooled_belady")?;
        reference.meet(found, expected, &format!("{trace} by Belady with {} tokens", count(tokens)));
    }
    for (trace, expected) in INFINITE {
        let found = analyze(&traces.join(trace), 1, 1_350_000)?.number("/reuse/limits/infinite")?;
        reference.meet(found, expected, &format!("{trace} without limit"));
    }
    let mut closed = Worst::default();
    let made = workspace.target.join("figures/shared-prefix.jsonl");
    std::fs::create_dir_all(workspace.target.join("figures")).context("cannot make a folder for a trace")?;
    for uses in USES {
        std::fs::write(&made, shared_prefix(uses)).context("cannot write a trace")?;
        let found = analyze(&made, REPLICAS, 1 << 40)?;
        let (random, affine) = closed_form(uses as f64);
        closed.meet(found.number("/reuse/sweep/random/reused_ratio")?, random, &format!("{uses} uses, at random"));
        let by_prefix = found.number("/reuse/sweep/cuts/2/estimate/reused_ratio")?;
        closed.meet(by_prefix, affine, &format!("{uses} uses, by prefix"));
    }
    Ok(vec![reference.reading("hit_rate_off_reference"), closed.reading("hit_rate_off_closed_form")])
}

/// The largest difference so far.
#[derive(Default)]
struct Worst {
    points: f64,
    what: String,
    values: u64,
}

impl Worst {
    fn meet(&mut self, found: f64, expected: f64, what: &str) {
        let points = (found - expected).abs() * 100.0;
        self.values += 1;
        if points >= self.points {
            self.points = points;
            self.what = format!("{what}: {:.2} % instead of {:.2} %", found * 100.0, expected * 100.0);
        }
    }

    fn reading(self, name: &'static str) -> Reading {
        Reading::new(name, self.points, format!("of {} values, {}", self.values, self.what))
    }
}

struct Analysis(serde_json::Value);

impl Analysis {
    fn number(&self, pointer: &str) -> Result<f64> {
        self.0.pointer(pointer).and_then(serde_json::Value::as_f64).with_context(|| format!("no {pointer}"))
    }
}

fn analysis(binary: &Path, trace: &Path, replicas: u32, kv_tokens: u64) -> Result<Analysis> {
    let options = ["--json".to_owned(), format!("--replicas={replicas}"), format!("--kv-tokens={kv_tokens}")];
    let mut command = Command::new(binary);
    command.arg("analyze").args(options.map(OsString::from)).arg(trace).stderr(Stdio::null());
    let output = command.output().context("cannot start kvroute")?;
    ensure!(output.status.success(), "kvroute analyze failed on {}", trace.display());
    Ok(Analysis(serde_json::from_slice(&output.stdout).context("cannot read the analysis")?))
}

/// Rows of a trace in Mooncake's format: every prefix is used once before any is used again.
fn shared_prefix(uses: u64) -> String {
    let mut text = String::new();
    for round in 0..uses {
        for prefix in 0..PREFIXES {
            let shared = (0..BLOCKS - 1).map(|block| prefix * BLOCKS + block);
            let own = 1_000_000_000 + round * PREFIXES + prefix;
            let ids: Vec<String> = shared.chain([own]).map(|id| id.to_string()).collect();
            let at_ms = (round * PREFIXES + prefix) * 200;
            let (tokens, ids) = (BLOCKS * 512, ids.join(","));
            let _ = writeln!(
                text,
                r#"{{"timestamp":{at_ms},"input_length":{tokens},"output_length":10,"hash_ids":[{ids}]}}"#
            );
        }
    }
    text
}

/// Parts of the prompt tokens that are reused: placed at random, and by prefix.
fn closed_form(uses: f64) -> (f64, f64) {
    let share = (BLOCKS - 1) as f64 / BLOCKS as f64;
    let replicas = f64::from(REPLICAS);
    let met = replicas * (1.0 - (1.0 - 1.0 / replicas).powf(uses));
    (share * (uses - met) / uses, share * (uses - 1.0) / uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_difference_is_the_figure() {
        let mut worst = Worst::default();
        worst.meet(0.5, 0.503, "a");
        worst.meet(0.51, 0.5, "b");
        worst.meet(0.5, 0.5, "c");
        let reading = worst.reading("hit_rate_off_reference");
        assert!(
            (reading.value - 1.0).abs() < 1e-9 && reading.detail.starts_with("of 3 values, b: 51.00 %"),
            "{reading:?}"
        );
    }

    #[test]
    fn the_closed_form_gives_the_published_figures_and_the_trace_is_as_long_as_it_says() {
        let (random, affine) = closed_form(5.0);
        let whole = BLOCKS as f64 / (BLOCKS - 1) as f64;
        assert!((affine * whole - 0.8).abs() < 1e-9 && (random * whole - 0.248).abs() < 1e-3);
        assert_eq!(shared_prefix(2).lines().count() as u64, 2 * PREFIXES);
    }
}
