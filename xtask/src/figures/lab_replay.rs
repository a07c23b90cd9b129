//! What the replay promises: published tables within their bands, its speed and memory, and the same bytes for the same
//! seed in every build.
//!
//! All of it is `kvroute replay` of the release build. The conversation trace lies beside the repository
//! (`../shared/traces`); without it its figure cannot be measured, and says so.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use kvroute_core::hash;
use serde_json::Value;

use super::figure::{Bar, Figure, Footing, Reading, Source, count};
use crate::say::note;
use crate::workspace::Workspace;

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 19] = [
    simulated(
        "aws_8k_ttft_p50",
        "%",
        Bar::Within(-77.0, -71.0),
        "median TTFT of prefix_aware against random, `kvroute replay --preset aws-8k`",
    ),
    simulated("aws_8k_ttft_p90", "%", Bar::Within(-42.0, -33.0), "90th percentile of TTFT, the same"),
    simulated("aws_8k_hit_random", "%", Bar::Within(25.0, 28.0), "prompt tokens reused under random, the same"),
    simulated("aws_8k_hit", "%", Bar::Within(78.0, 82.0), "prompt tokens reused under prefix_aware, the same"),
    simulated(
        "aws_8k_throughput",
        "%",
        Bar::Within(11.0, 18.0),
        "output tokens a second of prefix_aware against random, the same",
    ),
    simulated(
        "aws_8k_share_min",
        "%",
        Bar::AtLeast(13.0),
        "requests of the least used replica under prefix_aware, the same",
    ),
    simulated(
        "aws_8k_share_max",
        "%",
        Bar::AtMost(15.5),
        "requests of the most used replica under prefix_aware, the same",
    ),
    simulated(
        "aws_chat_ttft_p50",
        "%",
        Bar::Within(-16.0, -13.0),
        "median TTFT of prefix_aware against random, `kvroute replay --preset aws-chat`",
    ),
    simulated("aws_chat_ttft_p90", "%", Bar::Within(-37.0, -24.0), "90th percentile of TTFT, the same"),
    simulated("aws_chat_hit_random", "%", Bar::Within(25.0, 35.0), "prompt tokens reused under random, the same"),
    simulated("aws_chat_hit", "%", Bar::Within(75.0, 85.0), "prompt tokens reused under prefix_aware, the same"),
    simulated(
        "aws_chat_throughput",
        "%",
        Bar::Within(1.0, 3.0),
        "output tokens a second of prefix_aware against random, the same",
    ),
    simulated(
        "llm_d_37_order",
        "places",
        Bar::AtMost(0.0),
        "neighbours in another order by output tokens/s than the published one (precise, approximate, load, random), \
         `kvroute replay --preset llm-d-37`",
    ),
    simulated(
        "llm_d_37_random",
        "tokens/s",
        Bar::Within(2_169.0, 4_029.0),
        "output of random, the same; published: 3,099",
    ),
    figure(
        "replay_conversation",
        "s",
        Bar::AtMost(2.0),
        Footing::Machine,
        "the conversation trace over 8 replicas by one thread, reading included",
    ),
    figure(
        "replay_million",
        "s",
        Bar::AtMost(300.0),
        Footing::Machine,
        "a million generated requests over 64 replicas by one thread, `kvroute replay --preset million`",
    ),
    figure("replay_million_memory", "MiB", Bar::AtMost(2_048.0), Footing::Machine, "most resident memory of it"),
    figure(
        "replay_same_bytes",
        "differences",
        Bar::AtMost(0.0),
        Footing::Exact,
        "two replays of llm-d-37 in the release build, and the committed digest, which a test holds the debug build against",
    ),
    figure(
        "replay_share_of_real_time",
        "x",
        Bar::AtLeast(1_000.0),
        Footing::Machine,
        "simulated time of the conversation trace for each second that it takes",
    ),
];

const fn simulated(name: &'static str, unit: &'static str, bar: Bar, how: &'static str) -> Figure {
    figure(name, unit, bar, Footing::Simulated, how)
}

const fn figure(name: &'static str, unit: &'static str, bar: Bar, footing: Footing, how: &'static str) -> Figure {
    Figure { name, group: "lab", unit, bar: Some(bar), footing, how }
}

const CONVERSATION: &str = "../shared/traces/mooncake/conversation_trace.jsonl.gz";
const DIGEST: &str = "crates/lab/src/replay/scenarios/llm-d-37.digest";

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let replay = Replay { binary: workspace.release_binary()?, folder: workspace.figures(), workspace };
    fs::create_dir_all(&replay.folder).context("cannot make the folder for figures")?;
    let mut readings = Vec::new();
    aws(&replay, "aws-8k", &mut readings)?;
    aws(&replay, "aws-chat", &mut readings)?;
    llm_d(&replay, &mut readings)?;
    same_bytes(&replay, &mut readings)?;
    million(&replay, &mut readings)?;
    conversation(&replay, &mut readings)?;
    Ok(readings)
}

/// The command, and where its results go.
struct Replay<'a> {
    binary: PathBuf,
    folder: PathBuf,
    workspace: &'a Workspace,
}

impl Replay<'_> {
    /// Runs it with these arguments; gives its JSON.
    fn run(&self, name: &'static str, args: &[&str]) -> Result<Value> {
        let path = self.folder.join(format!("{name}.json"));
        let step = self.workspace.step(name, &self.binary).arg("replay").args(args).arg("--json").arg(&path);
        step.run()?.or_fail()?;
        let text = fs::read(&path).with_context(|| format!("cannot read {}", self.workspace.shown(&path)))?;
        serde_json::from_slice(&text).context("cannot read the results")
    }
}

/// The strategy of this name.
fn strategy<'a>(json: &'a Value, name: &str) -> Result<&'a Value> {
    let all = json["strategies"].as_array().context("the results have no strategies")?;
    all.iter().find(|strategy| strategy["name"] == name).with_context(|| format!("the results do not have {name}"))
}

fn number(strategy: &Value, pointer: &str) -> Result<f64> {
    strategy.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("the results have no {pointer}"))
}

fn aws(replay: &Replay<'_>, preset: &'static str, readings: &mut Vec<Reading>) -> Result<()> {
    let json = replay.run(preset, &["--preset", preset])?;
    let (random, ours) = (strategy(&json, "random")?, strategy(&json, "prefix_aware")?);
    let is_8k = preset == "aws-8k";
    let change = |metric: &str, unit: &str| -> Result<(f64, String)> {
        let (before, after) = (number(random, metric)?, number(ours, metric)?);
        Ok(((after / before - 1.0) * 100.0, format!("{before:.0} -> {after:.0} {unit}")))
    };
    let mut push = |names: [&'static str; 2], (value, detail): (f64, String)| {
        readings.push(Reading::new(names[usize::from(!is_8k)], value, detail));
    };
    push(["aws_8k_ttft_p50", "aws_chat_ttft_p50"], change("/metrics/median_ttft_ms", "ms")?);
    push(["aws_8k_ttft_p90", "aws_chat_ttft_p90"], change("/metrics/p90_ttft_ms", "ms")?);
    push(["aws_8k_throughput", "aws_chat_throughput"], change("/metrics/output_throughput", "tokens/s")?);
    let percent =
        |strategy: &Value, metric: &str| Ok::<_, anyhow::Error>((number(strategy, metric)? * 100.0, String::new()));
    push(["aws_8k_hit_random", "aws_chat_hit_random"], percent(random, "/metrics/delivered_ratio")?);
    push(["aws_8k_hit", "aws_chat_hit"], percent(ours, "/metrics/delivered_ratio")?);
    if is_8k {
        push(["aws_8k_share_min", ""], percent(ours, "/metrics/share_min")?);
        push(["aws_8k_share_max", ""], percent(ours, "/metrics/share_max")?);
    }
    Ok(())
}

fn llm_d(replay: &Replay<'_>, readings: &mut Vec<Reading>) -> Result<()> {
    let json = replay.run("llm-d-37", &["--preset", "llm-d-37"])?;
    let published = ["llm_d_weighted:view=events", "llm_d_weighted", "least_outstanding", "random"];
    let output = |name: &&str| number(strategy(&json, name)?, "/metrics/output_throughput");
    let outputs: Vec<f64> = published.iter().map(output).collect::<Result<_>>()?;
    let (wrong, shown) = order(&outputs);
    readings.push(Reading::new("llm_d_37_order", wrong as f64, shown));
    readings.push(Reading::new("llm_d_37_random", outputs[3], String::new()));
    Ok(())
}

/// How many neighbours do not fall, and all as text.
fn order(outputs: &[f64]) -> (usize, String) {
    let wrong = outputs.windows(2).filter(|pair| pair[0] <= pair[1]).count();
    let shown: Vec<String> = outputs.iter().map(|output| count(*output as u64)).collect();
    (wrong, format!("{} tokens/s", shown.join(" > ")))
}

fn same_bytes(replay: &Replay<'_>, readings: &mut Vec<Reading>) -> Result<()> {
    let args = ["--preset", "llm-d-37", "--strategies", "random,prefix_aware"];
    let bytes = || -> Result<Vec<u8>> {
        let mut json = replay.run("same-bytes", &args)?;
        // How it was called is not what it found.
        json["command"] = Value::Null;
        Ok(serde_json::to_vec(&json)?)
    };
    let (first, second) = (bytes()?, bytes()?);
    let digest = format!("{:016x}", hash::bytes(&first, 0));
    let committed = fs::read_to_string(replay.workspace.root.join(DIGEST)).context("cannot read the digest")?;
    let differences = usize::from(first != second) + usize::from(digest != committed.trim());
    readings.push(Reading::new("replay_same_bytes", differences as f64, format!("digest {digest}")));
    Ok(())
}

fn million(replay: &Replay<'_>, readings: &mut Vec<Reading>) -> Result<()> {
    let path = replay.folder.join("million.json");
    let args = ["replay", "--preset", "million", "--strategies", "prefix_aware", "--threads", "1", "--json"];
    let started = Instant::now();
    let mut child =
        std::process::Command::new(&replay.binary).args(args).arg(&path).stdout(std::process::Stdio::null()).spawn()?;
    let mut peak_kib = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak_kib = peak_kib.max(resident_peak_kib(child.id()).unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let took_s = started.elapsed().as_secs_f64();
    ensure!(status.success(), "the replay of a million requests failed");
    readings.push(Reading::new("replay_million", took_s, String::new()));
    readings.push(Reading::new("replay_million_memory", peak_kib as f64 / 1024.0, String::new()));
    Ok(())
}

/// The most memory that a process ever held, as Linux tells.
fn resident_peak_kib(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

fn conversation(replay: &Replay<'_>, readings: &mut Vec<Reading>) -> Result<()> {
    let trace = replay.workspace.root.join(CONVERSATION);
    if !trace.exists() {
        note!("no {CONVERSATION} beside the repository: the speed on it is not measured");
        return Ok(());
    }
    let trace = trace.display().to_string();
    let args = [trace.as_str(), "--replicas", "8", "--strategies", "prefix_aware", "--threads", "1"];
    let started = Instant::now();
    let json = replay.run("conversation", &args)?;
    let took_s = started.elapsed().as_secs_f64();
    let span_s = number(&json, "/trace/span_s")?;
    let detail = format!("{} requests", count(number(&json, "/trace/requests")? as u64));
    readings.push(Reading::new("replay_conversation", took_s, detail));
    readings.push(Reading::new("replay_share_of_real_time", span_s / took_s, String::new()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn neighbours_that_do_not_fall_are_counted() {
        assert_eq!(order(&[9_000.0, 8_000.0, 4_000.0, 3_900.0]).0, 0);
        assert_eq!(order(&[8_000.0, 9_000.0, 4_000.0, 4_000.0]).0, 2);
        assert_eq!(order(&[9_450.0, 8_000.0]).1, "9,450 > 8,000 tokens/s");
    }

    #[test]
    fn what_the_results_lack_is_named() {
        let json = json!({ "strategies": [{ "name": "random", "metrics": { "p90_ttft_ms": null } }] });
        assert!(strategy(&json, "session").unwrap_err().to_string().contains("session"));
        let random = strategy(&json, "random").unwrap();
        assert!(number(random, "/metrics/p90_ttft_ms").unwrap_err().to_string().contains("p90"));
    }
}
