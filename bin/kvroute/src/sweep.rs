//! `kvroute sweep`: many settings of one strategy on the same arrivals, and which of them to take.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use kvroute_lab::replay::{Axis, Contender, LengthUnit, Objective, SweepReport, key_shapes, sweep};

use crate::replay::scene::{self, Scene};
use crate::replay::took;
use crate::replay::watch::Watch;
use crate::{Failure, print};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kvroute sweep trace.jsonl.gz --replicas 8\n  \
    kvroute sweep trace.jsonl.gz --axis prefix_length=512,1024,2048,4096 --axis concurrency_threshold=16,32,64\n  \
    kvroute sweep trace.jsonl.gz --strategy prefix_aware --axis replicas=4,6,8,10 --objective request_goodput --goodput ttft:500\n  \
    kvroute sweep --preset aws-8k --axis concurrency_threshold=4,6,8,16,32,64\n\n\
    Engines are modelled and times are simulated; decisions are the gateway's own.")]
pub(crate) struct Args {
    /// Whose settings are varied.
    #[arg(long, value_name = "NAME", default_value = "prefix_aware")]
    strategy: Contender,
    /// A setting and its values: prefix_length, concurrency_threshold, a setting of a baseline, replicas, speed, rate or
    /// users. May be given several times [default: prefix_length and concurrency_threshold].
    #[arg(long, value_name = "SETTING=VALUES")]
    axis: Vec<Axis>,
    /// What is to be small, or many.
    #[arg(long, default_value = "p90_ttft_ms", value_parser = PossibleValuesParser::new(Objective::NAMES.map(|(name, _)| name)))]
    objective: String,
    #[command(flatten)]
    scene: scene::Args,
    /// Write every cell as JSON; - prints it instead of the table.
    #[arg(long, help_heading = "Report", value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let started = Instant::now();
    let objective = Objective::NAMES.iter().find(|(name, _)| *name == args.objective).map(|(_, objective)| *objective);
    let objective = objective.context("clap has checked the name")?;
    let lengths = |unit| axes(args, unit).iter().flat_map(Axis::prefix_lengths).collect::<Vec<u32>>();
    let contenders = [args.strategy.clone()];
    let Scene { question, cases, source } = args.scene.scene(Some(&contenders), lengths, &[])?;
    let jobs = &cases[0].jobs;
    let axes = axes(args, jobs.unit);
    let bar = Watch::new("sweep");
    let sweep = sweep(&cases, &question, &axes, objective, &|done, total| bar.show(done as u64, total as u64))?;
    bar.clear();
    let lengths: Vec<u32> = axes.iter().flat_map(Axis::prefix_lengths).collect();
    let mut assumptions = jobs.assumptions.clone();
    assumptions.extend([question.setting.cut.to_string(), format!("arrivals: {}", question.setting.pacing.describe())]);
    let report = SweepReport {
        sweep,
        keys: key_shapes(jobs, &lengths),
        unit: jobs.unit,
        source: source.name,
        assumptions,
        command: Some(std::env::args().collect::<Vec<_>>().join(" ")),
    };
    match &args.json {
        Some(path) if path.as_os_str() == "-" => print!("{}", serde_json::to_string(&report.json())?),
        Some(path) => {
            let json = serde_json::to_string(&report.json())? + "\n";
            std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
            print!("{}", report.table().trim_end());
        }
        None => print!("{}", report.table().trim_end()),
    }
    took(started);
    Ok(())
}

/// The axes that were asked for, or the two settings of `prefix_aware`.
fn axes(args: &Args, unit: LengthUnit) -> Vec<Axis> {
    if !args.axis.is_empty() {
        return args.axis.clone();
    }
    let default = unit.prefix_length_default();
    let lengths = [default / 4, default / 2, default, default * 2, default * 4, default * 8, default * 16];
    vec![Axis::new("prefix_length", lengths), Axis::new("concurrency_threshold", [4, 8, 16, 32, 64, 128, 256])]
}
