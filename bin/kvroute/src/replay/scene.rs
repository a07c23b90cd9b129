//! What a simulation is of: the trace or published table, the fleet, the arrivals. Shared by `replay` and `sweep`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kvroute_engine::model::Preset;
use kvroute_lab::replay::{
    Case, Clock, Contender, FleetEvent, FleetSpec, Group, LengthUnit, MadeUpPrefixes, Pacing, PrepareOptions, Question,
    Scenario, Setting, Source, Warmup, duration_us, prepare, unit_of,
};
use kvroute_lab::report::Goodput;
use kvroute_lab::trace::{Record, TraceError};

use super::watch::Watch;
use crate::trace::How;
use crate::{Failure, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files or folders with the trace, or - for standard input; .gz, .zst, .xz and .tar are unpacked.
    #[arg(required_unless_present = "preset")]
    paths: Vec<PathBuf>,
    /// A published table: its traffic, fleet and strategies.
    #[arg(long, value_name = "NAME", value_parser = scenario, conflicts_with = "paths")]
    preset: Option<&'static Scenario>,
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

    /// Count requests a second that keep limits, such as "ttft:500 tpot:50" (ms).
    #[arg(long, help_heading = "Report")]
    goodput: Option<Goodput>,
    /// Simulations at a time [default: as many as there are cores].
    #[arg(long, help_heading = "Report")]
    threads: Option<usize>,
}

/// All that a simulation needs.
pub(crate) struct Scene {
    pub(crate) question: Question,
    pub(crate) cases: Vec<Case>,
    pub(crate) source: Source,
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

impl Args {
    /// Replicas of a fleet of equals.
    pub(crate) fn replicas(&self) -> u32 {
        self.replicas
    }

    /// The first seed.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Simulations at a time.
    pub(crate) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Reads the trace, or makes the traffic, and puts the question.
    ///
    /// `strategies` are what is compared unless a table says otherwise; `lengths` are further prefix lengths that keys
    /// are wanted of, and `percentiles` further ones beside 50, 90 and 99.
    pub(crate) fn scene(
        &self,
        strategies: Option<&[Contender]>,
        lengths: impl FnOnce(LengthUnit) -> Vec<u32>,
        percentiles: &[f64],
    ) -> Result<Scene, Failure> {
        match self.preset {
            Some(scenario) => of_scenario(self, scenario, strategies, lengths, percentiles),
            None => of_trace(self, strategies, lengths, percentiles),
        }
    }
}

/// A published table, with what the user wants otherwise.
fn of_scenario(
    args: &Args,
    scenario: &'static Scenario,
    strategies: Option<&[Contender]>,
    lengths: impl FnOnce(LengthUnit) -> Vec<u32>,
    percentiles: &[f64],
) -> Result<Scene, Failure> {
    let mut setting = (scenario.setting)();
    if let Some(users) = args.users {
        setting.pacing = Pacing::Closed { users, ramp_us: RAMP_US };
    }
    setting.end_us = args.duration.unwrap_or(setting.end_us);
    let list = match strategies {
        Some(list) => list.to_vec(),
        None => Contender::list(&scenario.strategies.join(","))?,
    };
    let mut question = question(args, setting, list, scenario.prefix_length, percentiles)?;
    let mut all_lengths = prefix_lengths(&question.contenders, scenario.prefix_length);
    all_lengths.extend(lengths(LengthUnit::Tokens));
    let cases = seeds(args).map(|seed| scenario.case(seed, &all_lengths));
    let cases: Vec<Case> = cases.collect::<Result<_, _>>()?;
    say!("{}: {}\npublished, {}", scenario.name, scenario.about, scenario.published);
    settle_warmup(args, &mut question, &cases);
    let source = Source { name: scenario.name.to_owned(), format: "generated".to_owned(), digest: None };
    Ok(Scene { question, cases, source })
}

/// Microseconds between the first requests of two users.
const RAMP_US: u64 = 100_000;

fn of_trace(
    args: &Args,
    strategies: Option<&[Contender]>,
    lengths: impl FnOnce(LengthUnit) -> Vec<u32>,
    percentiles: &[f64],
) -> Result<Scene, Failure> {
    let setting = setting(args);
    let pacing = setting.pacing;
    let list = strategies.map_or_else(|| Contender::all_core().collect(), <[Contender]>::to_vec);
    let mut reader = args.how.open(&args.paths, false)?;
    let bar = Watch::new("read");
    let first = reader.next().transpose()?;
    let unit = first.as_ref().map_or(LengthUnit::Characters, unit_of);
    let mut question = question(args, setting, list, unit.prefix_length_default(), percentiles)?;
    let mut all_lengths = prefix_lengths(&question.contenders, unit.prefix_length_default());
    all_lengths.extend(lengths(unit));
    let options = PrepareOptions {
        prefix_lengths: all_lengths,
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
    Ok(Scene { question, cases, source: Source { name, format, digest: None } })
}

/// Fleet and arrivals over a trace.
fn setting(args: &Args) -> Setting {
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
    Setting { fleet, pacing, end_us, events: Vec::new(), cut }
}

fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

fn seeds(args: &Args) -> impl Iterator<Item = u64> {
    (0..args.seeds).map(|more| args.seed.wrapping_add(more))
}

/// What is asked, with the settings that hold for all strategies.
fn question(
    args: &Args,
    mut setting: Setting,
    list: Vec<Contender>,
    length: u32,
    percentiles: &[f64],
) -> Result<Question, Failure> {
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
    let mut percentiles: Vec<f64> = percentiles.iter().copied().chain([50.0, 90.0, 99.0]).collect();
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
        threads: args.threads(),
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
