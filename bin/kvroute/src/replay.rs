//! `kvroute replay`: strategies side by side on recorded or generated traffic, over a modelled fleet.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use kvroute_engine::model::Preset;
use kvroute_lab::replay::{
    Case, Clock, Condition, Contender, FleetEvent, FleetSpec, Group, LengthUnit, MadeUpPrefixes, Pacing,
    PrepareOptions, Price, Question, Report, Scenario, Setting, Source, Warmup, compare, duration_us, prepare, unit_of,
};
use kvroute_lab::report::Goodput;
use kvroute_lab::trace::{Record, TraceError};

use crate::trace::How;
use crate::{Failure, print, say};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kvroute replay trace.jsonl.gz --replicas 8\n  \
    kvroute replay access.log --strategies random,prefix_aware:prefix_length=8192 --speed 1.5\n  \
    kvroute replay agents.jsonl --sessions --strategies all --seeds 5\n  \
    kvroute replay trace.jsonl --event 600s:add=1 --event 20m:restart=r3 --cold-start 90s\n  \
    kvroute replay --preset aws-8k\n  \
    kvroute replay trace.jsonl --fail-if 'prefix_aware.p90_ttft_ms > 500'\n\n\
    Engines are modelled and times are simulated; decisions are the gateway's own.")]
pub(crate) struct Args {
    /// Files or folders with the trace, or - for standard input; .gz, .zst, .xz and .tar are unpacked.
    #[arg(required_unless_present = "preset")]
    paths: Vec<PathBuf>,
    /// A published table: its traffic, fleet and strategies.
    #[arg(long, value_name = "NAME", value_parser = scenario, conflicts_with = "paths")]
    preset: Option<&'static Scenario>,
    /// What is compared, against the first: names with settings, or core, baselines, all [default: core].
    #[arg(long, value_name = "LIST", value_parser = contenders)]
    strategies: Option<Strategies>,
    /// Length of prefix_aware's keys: characters of text, tokens for traces of hashes [default: 4096 or 1024].
    #[arg(long)]
    prefix_length: Option<u32>,
    /// Requests in flight at which a replica is passed over [default: 32].
    #[arg(long)]
    concurrency_threshold: Option<u32>,

    /// Replicas.
    #[arg(long, help_heading = "Fleet", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    replicas: u32,
    /// Model and hardware of each replica.
    #[arg(long, help_heading = "Fleet", default_value = Preset::ALL[0].name, value_parser = preset)]
    engine: Preset,
    /// Mixed hardware instead, COUNTxENGINE or COUNTxENGINE@WEIGHT, separated by commas.
    #[arg(long, help_heading = "Fleet", value_name = "GROUPS", value_delimiter = ',', conflicts_with_all = ["replicas", "engine"])]
    fleet: Vec<Group>,
    /// Milliseconds from a request's arrival until the engine's scheduler sees it [default: 40].
    #[arg(long, help_heading = "Fleet")]
    overhead_ms: Option<f64>,
    /// Multiplies the time of prefill [default: 1].
    #[arg(long, help_heading = "Fleet")]
    prefill_scale: Option<f64>,
    /// KV tokens of a replica [default: what the engine's hardware leaves].
    #[arg(long, help_heading = "Fleet")]
    kv_tokens: Option<u32>,
    /// A change of the fleet: TIME:add=N, TIME:remove=N, TIME:restart=ID or TIME:deploy. May be given several times.
    #[arg(long, help_heading = "Fleet", value_name = "TIME:CHANGE")]
    event: Vec<FleetEvent>,
    /// How long a replica takes from its start until it serves [default: 60s].
    #[arg(long, help_heading = "Fleet", value_name = "TIME", value_parser = time)]
    cold_start: Option<u64>,

    /// Replay so many times as fast as recorded.
    #[arg(long, help_heading = "Arrivals", default_value_t = 1.0)]
    speed: f64,
    /// So many requests a second (with --sessions: sessions) at random, instead of the trace's times.
    #[arg(long, help_heading = "Arrivals", conflicts_with = "speed")]
    request_rate: Option<f64>,
    /// A turn waits for the answer before it, and for its think time where that is known.
    #[arg(long, help_heading = "Arrivals")]
    sessions: bool,
    /// So many users, each with one session at a time (closed loop).
    #[arg(long, help_heading = "Arrivals", conflicts_with_all = ["speed", "request_rate", "sessions"])]
    users: Option<u32>,
    /// Nothing arrives after this time.
    #[arg(long, help_heading = "Arrivals", value_name = "TIME", value_parser = time)]
    duration: Option<u64>,
    /// What fills the caches and is not counted: a part of the requests, a time, or none [default: 10%].
    #[arg(long, help_heading = "Arrivals", value_name = "PART|TIME")]
    warmup: Option<Warmup>,
    /// Seed of everything that is drawn.
    #[arg(long, help_heading = "Arrivals", default_value_t = 1)]
    seed: u64,
    /// Replay with so many seeds, from --seed on.
    #[arg(long, help_heading = "Arrivals", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,

    #[command(flatten)]
    how: How,
    /// Tokens of an answer where the trace does not say.
    #[arg(long, help_heading = "Reading", default_value_t = 256)]
    output_tokens: u32,
    /// For traces of lengths only: the first part of every prompt is one of so many made-up prefixes.
    #[arg(long, help_heading = "Reading", value_name = "SHARE:COUNT")]
    synthesize_prefixes: Option<MadeUpPrefixes>,
    /// The model that is no adapter: requests for any other run with a LoRA adapter of that name.
    #[arg(long, help_heading = "Reading", value_name = "MODEL")]
    base_model: Option<String>,

    /// Percentiles in JSON and CSV.
    #[arg(long, help_heading = "Report", value_delimiter = ',', default_value = "50,90,99")]
    metric_percentiles: Vec<f64>,
    /// Count requests a second that keep limits, such as "ttft:500 tpot:50" (ms).
    #[arg(long, help_heading = "Report")]
    goodput: Option<Goodput>,
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
    /// Exit with code 99 if this is true, such as 'p90_ttft_ms > 500'. May be given several times.
    #[arg(long, help_heading = "Report", value_name = "CONDITION")]
    fail_if: Vec<Condition>,
    /// Simulations at a time [default: as many as there are cores].
    #[arg(long, help_heading = "Report")]
    threads: Option<usize>,
}

/// So that clap takes a list for one value.
#[derive(Clone, Debug)]
struct Strategies(Vec<Contender>);

fn contenders(text: &str) -> Result<Strategies, String> {
    Contender::list(text).map(Strategies).map_err(|error| error.to_string())
}

fn scenario(name: &str) -> Result<&'static Scenario, String> {
    Scenario::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = Scenario::ALL.iter().map(|scenario| scenario.name).collect();
        format!("the presets are {}", known.join(", "))
    })
}

fn preset(name: &str) -> Result<Preset, String> {
    Preset::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name).collect();
        format!("the engines are {}", known.join(", "))
    })
}

fn time(text: &str) -> Result<u64, String> {
    duration_us(text).ok_or_else(|| "a time is written as 90s, 10m or 1h".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let started = Instant::now();
    let (question, cases, source) = match args.preset {
        Some(scenario) => of_scenario(args, scenario)?,
        None => of_trace(args)?,
    };
    let bar = Watch::new("replay");
    let columns = compare(&cases, &question, &|done, total| bar.show(done as u64, total as u64))?;
    bar.clear();
    let mut report = Report::new(columns, question, &cases, source);
    report.price = args.gpu_hour_usd.map(|gpu_hour_usd| Price { gpu_hour_usd });
    report.command = Some(std::env::args().collect::<Vec<_>>().join(" "));
    tell(args, &report)?;
    if started.elapsed() > Duration::from_secs(2) {
        say!("simulated in {:.1} s", started.elapsed().as_secs_f64());
    }
    check(args, &report)
}

/// A published table, with what the user wants otherwise.
fn of_scenario(args: &Args, scenario: &'static Scenario) -> Result<(Question, Vec<Case>, Source), Failure> {
    let mut setting = (scenario.setting)();
    if let Some(users) = args.users {
        setting.pacing = Pacing::Closed { users, ramp_us: RAMP_US };
    }
    setting.end_us = args.duration.unwrap_or(setting.end_us);
    let list = match &args.strategies {
        Some(Strategies(list)) => list.clone(),
        None => Contender::list(&scenario.strategies.join(","))?,
    };
    let question = question(args, setting, list, scenario.prefix_length)?;
    let lengths = prefix_lengths(&question.contenders, scenario.prefix_length);
    let cases = seeds(args).map(|seed| scenario.case(seed, &lengths));
    let cases: Vec<Case> = cases.collect::<Result<_, _>>()?;
    say!("{}: {}\npublished, {}", scenario.name, scenario.about, scenario.published);
    let mut question = question;
    settle_warmup(args, &mut question, &cases);
    Ok((question, cases, Source { name: scenario.name.to_owned(), format: "generated".to_owned(), digest: None }))
}

/// Microseconds between the first requests of two users.
const RAMP_US: u64 = 100_000;

fn of_trace(args: &Args) -> Result<(Question, Vec<Case>, Source), Failure> {
    let clock = match args.request_rate {
        Some(rate) => Clock::Poisson { rate },
        None => Clock::Trace { speed: args.speed },
    };
    let pacing = match args.users {
        Some(users) => Pacing::Closed { users, ramp_us: RAMP_US },
        None if args.sessions => Pacing::Sessions(clock),
        None => Pacing::Open(clock),
    };
    let groups = match args.fleet.is_empty() {
        true => vec![Group { count: args.replicas, preset: args.engine, weight: 1.0 }],
        false => args.fleet.clone(),
    };
    let fleet = FleetSpec { groups, ..FleetSpec::of(1, args.engine) };
    let end_us = args.duration.unwrap_or(u64::MAX);
    let cut = Warmup::default().cut(0, end_us);
    let setting = Setting { fleet, pacing, end_us, events: Vec::new(), cut };
    let list = match &args.strategies {
        Some(Strategies(list)) => list.clone(),
        None => Contender::all_core().collect(),
    };

    let mut reader = args.how.open(&args.paths, false)?;
    let bar = Watch::new("read");
    let first = reader.next().transpose()?;
    let unit = first.as_ref().map_or(LengthUnit::Characters, unit_of);
    let mut question = question(args, setting, list, unit.prefix_length_default())?;
    let options = PrepareOptions {
        prefix_lengths: prefix_lengths(&question.contenders, unit.prefix_length_default()),
        output_tokens: args.output_tokens,
        made_up: args.synthesize_prefixes,
        base_model: args.base_model.clone(),
        seed: args.seed,
    };
    let mut broken: Option<TraceError> = None;
    let mut read = 0u64;
    let records = first.into_iter().chain(std::iter::from_fn(|| -> Option<Record> {
        read += 1;
        if read.is_multiple_of(1_024) {
            let (done, total) = reader.progress();
            bar.show(done, total.unwrap_or(0));
        }
        reader.next()?.map_err(|error| broken = Some(error)).ok()
    }));
    let jobs = prepare(records, &options);
    bar.clear();
    if let Some(error) = broken {
        return Err(error.into());
    }
    let mut jobs = jobs?;
    let summary = reader.summary();
    pacing.check(summary.time_base)?;
    jobs.assumptions.splice(0..0, summary.assumptions.iter().chain(&summary.warnings).cloned());
    if summary.skipped > 0 {
        let first = summary.skipped_first.first().map_or("", String::as_str);
        jobs.assumptions.push(format!("{} rows could not be read; the first: {first}", summary.skipped));
    }
    let jobs = Arc::new(jobs);
    let cases: Vec<Case> = seeds(args).map(|seed| Case { seed, jobs: jobs.clone() }).collect();
    settle_warmup(args, &mut question, &cases);
    let name = args.paths.iter().map(|path| name_of(path)).collect::<Vec<_>>().join(", ");
    let format = summary.format.map(|format| format.to_string()).unwrap_or_default();
    Ok((question, cases, Source { name, format, digest: None }))
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn seeds(args: &Args) -> impl Iterator<Item = u64> {
    (0..args.seeds).map(|more| args.seed.wrapping_add(more))
}

/// What is asked, with the settings that hold for all strategies.
fn question(args: &Args, mut setting: Setting, list: Vec<Contender>, length: u32) -> Result<Question, Failure> {
    for group in &mut setting.fleet.groups {
        let preset = &mut group.preset;
        preset.overhead_ms = args.overhead_ms.unwrap_or(preset.overhead_ms);
        preset.prefill_scale = args.prefill_scale.unwrap_or(preset.prefill_scale);
        preset.kv_tokens = args.kv_tokens.unwrap_or(preset.kv_tokens);
    }
    setting.events.extend(args.event.iter().cloned());
    setting.fleet.cold_start_us = args.cold_start.unwrap_or(setting.fleet.cold_start_us);
    let contenders = list.into_iter().map(|mut contender| {
        contender.prefix_length.get_or_insert(args.prefix_length.unwrap_or(length));
        contender.concurrency_threshold = contender.concurrency_threshold.or(args.concurrency_threshold);
        contender
    });
    let mut percentiles: Vec<f64> = args.metric_percentiles.iter().copied().chain([50.0, 90.0, 99.0]).collect();
    if percentiles.iter().any(|percent| !(0.0..=100.0).contains(percent)) {
        return Err(anyhow::anyhow!("--metric-percentiles: percentiles are within 0..100").into());
    }
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    Ok(Question {
        contenders: contenders.collect(),
        setting,
        percentiles,
        goodput: args.goodput,
        threads: args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
    })
}

fn settle_warmup(args: &Args, question: &mut Question, cases: &[Case]) {
    if args.preset.is_some() && args.warmup.is_none() {
        return;
    }
    let requests = cases.first().map_or(0, |case| case.jobs.list.len());
    question.setting.cut = args.warmup.unwrap_or_default().cut(requests, question.setting.end_us);
}

fn prefix_lengths(contenders: &[Contender], default: u32) -> Vec<u32> {
    contenders.iter().map(|contender| contender.prefix_length.unwrap_or(default)).collect()
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

/// A progress bar on standard error, if that is a terminal and it takes more than two seconds.
struct Watch {
    what: &'static str,
    started: Instant,
    bar: OnceLock<ProgressBar>,
}

impl Watch {
    fn new(what: &'static str) -> Self {
        Self { what, started: Instant::now(), bar: OnceLock::new() }
    }

    fn show(&self, done: u64, total: u64) {
        if self.started.elapsed() < Duration::from_secs(2) || !std::io::stderr().is_terminal() {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let style = ProgressStyle::with_template("{msg} {bar:40} {percent:>3} % {eta}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(total).with_style(style).with_message(self.what)
        });
        bar.set_length(total);
        bar.set_position(done);
    }

    fn clear(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
