//! Conversations on four real llama.cpp servers: `e2e/test_llamacpp.py`, judged by the engines' own `cached_tokens`.

use std::fs;
use std::io;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::figure::{Bar, Figure, Footing, Reading, Source, count};
use crate::e2e::Ready;
use crate::say::note;
use crate::workspace::Workspace;

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 4] = [
    figure(
        "llamacpp_cached_prefix_aware",
        "%",
        Some(Bar::AtLeast(60.0)),
        "prompt tokens that four llama.cpp servers reused over nine conversations under prefix_aware",
    ),
    figure(
        "llamacpp_gain",
        "points",
        Some(Bar::AtLeast(30.0)),
        "how much more of the prompt tokens they reused than under round_robin",
    ),
    figure("llamacpp_cached_round_robin", "%", None, "the same under round_robin"),
    figure("llamacpp_ttft_p50_change", "%", None, "median TTFT that the client saw, against round_robin"),
];

const fn figure(name: &'static str, unit: &'static str, bar: Option<Bar>, how: &'static str) -> Figure {
    Figure { name, group: "slice", unit, bar, footing: Footing::RealEngine, how }
}

/// What the test leaves.
#[derive(Debug, Deserialize)]
struct Runs {
    round_robin: Run,
    prefix_aware: Run,
}

#[derive(Debug, Deserialize)]
struct Run {
    prompt_tokens: u64,
    cached_tokens: u64,
    ttft_p50_ms: f64,
}

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let ready = Ready::make(workspace)?;
    let path = workspace.figures().join("llamacpp.json");
    // What an earlier run left must not pass for this one's.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).context("cannot remove old figures");
        }
        _ => {}
    }
    let test = ready.pytest("llama.cpp", "e2e/test_llamacpp.py")?;
    let Ok(text) = fs::read(&path) else {
        test.or_fail()?;
        anyhow::bail!("the test passed without leaving {}", workspace.shown(&path));
    };
    if !test.is_success() {
        // The test has the same bars as the figures, which will say which of them fell.
        note!("    the conversations were played, but the test does not pass");
    }
    Ok(readings(&serde_json::from_slice(&text).context("cannot read what the test left")?))
}

fn readings(runs: &Runs) -> Vec<Reading> {
    let Runs { round_robin, prefix_aware } = runs;
    let share = |run: &Run| run.cached_tokens as f64 / run.prompt_tokens as f64 * 100.0;
    let detail = |run: &Run| format!("{} of {} tokens", count(run.cached_tokens), count(run.prompt_tokens));
    let ttft = [round_robin.ttft_p50_ms, prefix_aware.ttft_p50_ms];
    vec![
        Reading::new("llamacpp_cached_prefix_aware", share(prefix_aware), detail(prefix_aware)),
        Reading::new("llamacpp_gain", share(prefix_aware) - share(round_robin), String::new()),
        Reading::new("llamacpp_cached_round_robin", share(round_robin), detail(round_robin)),
        Reading::new(
            "llamacpp_ttft_p50_change",
            (ttft[1] / ttft[0] - 1.0) * 100.0,
            format!("{:.0} -> {:.0} ms", ttft[0], ttft[1]),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_is_in_points_of_all_prompt_tokens() {
        let run = |cached_tokens, ttft_p50_ms| Run { prompt_tokens: 1_000, cached_tokens, ttft_p50_ms };
        let readings = readings(&Runs { round_robin: run(250, 80.0), prefix_aware: run(750, 20.0) });
        let values: Vec<f64> = readings.iter().map(|reading| reading.value).collect();
        assert_eq!(values, [75.0, 50.0, 25.0, -75.0]);
        assert!(readings.iter().zip(&FIGURES).all(|(reading, figure)| reading.name == figure.name));
    }
}
