//! The difference that a newcomer sees: `kvroute demo`, against `random`.

use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::figure::{Bar, Figure, Footing, Reading, Source};
use crate::workspace::Workspace;

/// As long as the demo itself takes when nothing is said.
const SECONDS: &str = "75";

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 9] = [
    figure("demo_ttft_p50_change", "%", Some(Bar::AtMost(-60.0)), "median TTFT of prefix_aware against random"),
    figure("demo_cache_hit", "%", Some(Bar::AtLeast(70.0)), "prompt tokens that the engines reused under prefix_aware"),
    figure("demo_cache_hit_random", "%", None, "prompt tokens that the engines reused under random"),
    figure("demo_ttft_p90_change", "%", None, "90th percentile of TTFT of prefix_aware against random"),
    figure("demo_ttft_p99_change", "%", None, "99th percentile of TTFT of prefix_aware against random"),
    figure("demo_throughput_change", "%", None, "output tokens a second of prefix_aware against random"),
    figure("demo_share_min", "%", None, "requests that the least used replica got under prefix_aware"),
    figure("demo_share_max", "%", None, "requests that the most used replica got under prefix_aware"),
    figure("demo_spill", "%", None, "requests that left their home under prefix_aware"),
];

const fn figure(name: &'static str, unit: &'static str, bar: Option<Bar>, how: &'static str) -> Figure {
    Figure { name, group: "slice", unit, bar, footing: Footing::Simulated, how }
}

/// One strategy's results, as `kvroute demo --json` writes them. Ratios are 0 to 1.
#[derive(Clone, Debug, Deserialize)]
struct Run {
    strategy: String,
    ttft_p50_ms: f64,
    ttft_p90_ms: f64,
    ttft_p99_ms: f64,
    cached_ratio: f64,
    output_tok_s: f64,
    share_min: f64,
    share_max: f64,
    spill_ratio: f64,
}

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let binary = workspace.release_binary()?;
    let path = workspace.figures().join("demo.json");
    fs::create_dir_all(workspace.figures()).context("cannot make the folder for figures")?;
    let step = workspace.step("demo", binary).args(["demo", "--seconds", SECONDS, "--json"]).arg(&path);
    step.run()?.or_fail()?;
    let text = fs::read(&path).with_context(|| format!("cannot read {}", workspace.shown(&path)))?;
    readings(&serde_json::from_slice::<Vec<Run>>(&text).context("cannot read the demo's results")?)
}

fn readings(runs: &[Run]) -> Result<Vec<Reading>> {
    let run = |strategy: &str| {
        let found = runs.iter().find(|run| run.strategy == strategy);
        found.with_context(|| format!("the demo's results do not have {strategy}"))
    };
    let (random, ours) = (run("random")?, run("prefix_aware")?);
    let change = |name, unit, value: fn(&Run) -> f64| {
        let (before, after) = (value(random), value(ours));
        Reading::new(name, (after / before - 1.0) * 100.0, format!("{before:.0} -> {after:.0} {unit}"))
    };
    let percent = |name, ratio: f64| Reading::new(name, ratio * 100.0, String::new());
    Ok(vec![
        change("demo_ttft_p50_change", "ms", |run| run.ttft_p50_ms),
        percent("demo_cache_hit", ours.cached_ratio),
        percent("demo_cache_hit_random", random.cached_ratio),
        change("demo_ttft_p90_change", "ms", |run| run.ttft_p90_ms),
        change("demo_ttft_p99_change", "ms", |run| run.ttft_p99_ms),
        change("demo_throughput_change", "tokens/s", |run| run.output_tok_s),
        percent("demo_share_min", ours.share_min),
        percent("demo_share_max", ours.share_max),
        percent("demo_spill", ours.spill_ratio),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(strategy: &str, ms: f64, cached_ratio: f64) -> Run {
        Run {
            strategy: strategy.to_owned(),
            ttft_p50_ms: ms,
            ttft_p90_ms: ms * 2.0,
            ttft_p99_ms: ms * 3.0,
            cached_ratio,
            output_tok_s: 1e5 / ms,
            share_min: 0.125,
            share_max: 0.25,
            spill_ratio: 0.0,
        }
    }

    #[test]
    fn changes_are_against_random_in_percent_and_every_figure_gets_its_value() {
        let readings = readings(&[run("random", 400.0, 0.25), run("prefix_aware", 100.0, 0.75)]).unwrap();
        let value = |name: &str| readings.iter().find(|reading| reading.name == name).map(|reading| reading.value);
        assert_eq!(value("demo_ttft_p50_change"), Some(-75.0));
        assert_eq!(value("demo_throughput_change"), Some(300.0));
        assert_eq!(value("demo_cache_hit"), Some(75.0));
        assert_eq!(value("demo_cache_hit_random"), Some(25.0));
        assert!(FIGURES.iter().all(|figure| value(figure.name).is_some()));
    }

    #[test]
    fn results_without_one_of_the_two_strategies_are_no_measurement() {
        assert!(readings(&[run("random", 400.0, 0.25)]).unwrap_err().to_string().contains("prefix_aware"));
    }
}
