//! `kvroute replay`: strategies side by side on recorded or generated traffic, over a modelled fleet.

pub(crate) mod scene;
pub(crate) mod watch;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use kvroute_lab::replay::matrix::Matrix;
use kvroute_lab::replay::{Condition, Contender, Price, Report, compare};
use kvroute_lab::report::html::replay_html;
use kvroute_lab::report::saved::SavedReplay;

use self::scene::Scene;
use self::watch::Watch;
use crate::{Failure, print, say};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kvroute replay trace.jsonl.gz --replicas 8\n  \
    kvroute replay access.log --strategies random,prefix_aware:prefix_length=8192 --speed 1.5\n  \
    kvroute replay agents.jsonl --sessions --strategies all --seeds 5\n  \
    kvroute replay trace.jsonl --event 600s:add=1 --event 20m:restart=r3 --cold-start 90s\n  \
    kvroute replay --preset aws-8k\n  \
    kvroute replay --matrix\n  \
    kvroute replay trace.jsonl --fail-if 'prefix_aware.p90_ttft_ms > 500'\n\n\
    Engines are modelled and times are simulated; decisions are the gateway's own.")]
pub(crate) struct Args {
    /// What is compared, against the first: names with settings, or core, baselines, all [default: core].
    #[arg(long, value_name = "LIST", value_parser = contenders)]
    strategies: Option<Strategies>,
    /// How the gain of prefix_aware depends on model, prompt, reuse and answer, instead of a trace: fleets of --replicas, with
    /// --seed.
    #[arg(long, conflicts_with_all = ["paths", "preset", "strategies"])]
    matrix: bool,
    #[command(flatten)]
    scene: scene::Args,

    /// Percentiles in JSON and CSV.
    #[arg(long, help_heading = "Report", value_delimiter = ',', default_value = "50,90,99")]
    metric_percentiles: Vec<f64>,
    /// Price of one GPU and hour in US dollars, for the cost of a million output tokens.
    #[arg(long, help_heading = "Report", value_name = "USD")]
    gpu_hour_usd: Option<f64>,
    /// Write JSON with every number and every series for plots; - prints it instead of the table.
    #[arg(long, help_heading = "Report", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a Markdown table; - prints it instead of the table.
    #[arg(long, help_heading = "Report", value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write CSV; - prints it instead of the table.
    #[arg(long, help_heading = "Report", value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a report with plots as one HTML file, which needs neither network nor scripts.
    #[arg(long, help_heading = "Report", value_name = "FILE")]
    html: Option<PathBuf>,
    /// Exit with code 99 if this is true, such as 'p90_ttft_ms > 500'. May be given several times.
    #[arg(long, help_heading = "Report", value_name = "CONDITION")]
    fail_if: Vec<Condition>,
}

/// So that clap takes a list for one value.
#[derive(Clone, Debug)]
struct Strategies(Vec<Contender>);

fn contenders(text: &str) -> Result<Strategies, String> {
    Contender::list(text).map(Strategies).map_err(|error| error.to_string())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let started = Instant::now();
    if args.matrix {
        return matrix(args, started);
    }
    let strategies = args.strategies.as_ref().map(|strategies| strategies.0.as_slice());
    let Scene { question, cases, source } = args.scene.scene(strategies, |_| Vec::new(), &args.metric_percentiles)?;
    let bar = Watch::new("replay");
    let columns = compare(&cases, &question, &|done, total| bar.show(done as u64, total as u64))?;
    bar.clear();
    let mut report = Report::new(columns, question, &cases, source);
    report.price = args.gpu_hour_usd.map(|gpu_hour_usd| Price { gpu_hour_usd });
    report.command = Some(std::env::args().collect::<Vec<_>>().join(" "));
    tell(args, &report)?;
    took(started);
    check(args, &report)
}

fn matrix(args: &Args, started: Instant) -> Result<(), Failure> {
    let bar = Watch::new("matrix");
    let threads = args.scene.threads();
    let told = |done, total| bar.show(done as u64, total as u64);
    let matrix = Matrix::simulate(args.scene.replicas(), args.scene.seed(), threads, &told)?;
    bar.clear();
    print!("{}", matrix.to_string().trim_end());
    took(started);
    Ok(())
}

/// Says how long it took, if that was long.
pub(crate) fn took(started: Instant) {
    if started.elapsed() > Duration::from_secs(2) {
        say!("simulated in {:.1} s", started.elapsed().as_secs_f64());
    }
}

fn tell(args: &Args, report: &Report) -> Result<(), Failure> {
    let mut is_printed = false;
    let mut write = |path: &Option<PathBuf>, make: &dyn Fn() -> anyhow::Result<String>| -> Result<(), Failure> {
        match path {
            Some(path) if path.as_os_str() == "-" => {
                is_printed = true;
                print!("{}", make()?.trim_end());
                Ok(())
            }
            Some(path) => {
                Ok(std::fs::write(path, make()?).with_context(|| format!("cannot write {}", path.display()))?)
            }
            None => Ok(()),
        }
    };
    write(&args.json, &|| Ok(serde_json::to_string(&report.json())? + "\n"))?;
    write(&args.markdown, &|| Ok(report.markdown()))?;
    write(&args.csv, &|| Ok(report.csv()))?;
    write(&args.html, &|| {
        let json = serde_json::to_string(&report.json())?;
        Ok(replay_html(&SavedReplay::read(&json)?, &json))
    })?;
    if !is_printed {
        let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        print!("{}", report.table(width(), colour).trim_end());
    }
    Ok(())
}

/// Characters of a line where nothing else is said.
const WIDTH: usize = 120;

/// Characters of a line.
fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(WIDTH)
}

fn check(args: &Args, report: &Report) -> Result<(), Failure> {
    let mut came_true = false;
    for condition in &args.fail_if {
        for violation in condition.violations(report)? {
            came_true = true;
            say!("{violation}");
        }
    }
    if came_true { Err(Failure::Condition) } else { Ok(()) }
}
