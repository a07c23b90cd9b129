//! `kvroute trace`: looks at recorded traffic.

use std::path::PathBuf;

use clap::Subcommand;
use kvroute_lab::trace::stats::Gathering;
use kvroute_lab::trace::{Field, Format, ReadOptions, TimeUnit, TraceReader};

use crate::{Failure, print, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what a trace is like: lengths, arrivals, sessions, and how much of its prompts repeats.
    Stats(StatsArgs),
}

/// Which trace is read, and how. Shared by all commands that read one.
#[derive(Debug, clap::Args)]
pub(crate) struct Reading {
    /// Files or folders, or - for standard input; .gz, .zst, .xz and .tar are unpacked.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Format, where it is not to be told by the first rows.
    #[arg(long, help_heading = "Reading", value_parser = format)]
    format: Option<Format>,
    /// Where a field is in a log of your own, such as time=.ts, body=.request or usage=.response.usage. May be given
    /// several times.
    #[arg(long, help_heading = "Reading", value_name = "NAME=PATH", value_parser = Field::parse)]
    field: Vec<(Field, kvroute_lab::trace::Path)>,
    /// Unit of times that are numbers: s, ms, us or ns [default: what the format has].
    #[arg(long, help_heading = "Reading", value_name = "UNIT", value_parser = time_unit)]
    time_unit: Option<TimeUnit>,
    /// Tokens a block of hashes [default: told by the lengths].
    #[arg(long, help_heading = "Reading", value_name = "TOKENS")]
    block_tokens: Option<u32>,
    /// Read at most this many requests.
    #[arg(long, help_heading = "Reading", value_name = "COUNT")]
    max_records: Option<u64>,
    /// Leave out what comes before this many seconds after the first request.
    #[arg(long, help_heading = "Reading", value_name = "SECONDS")]
    since_s: Option<f64>,
    /// Leave out what comes after this many seconds after the first request.
    #[arg(long, help_heading = "Reading", value_name = "SECONDS")]
    until_s: Option<f64>,
    /// Keep this part of the sessions (0 to 1), and of the requests without one.
    #[arg(long, help_heading = "Reading", value_name = "PART")]
    sample: Option<f64>,
}

impl Reading {
    /// Begins to read.
    pub(crate) fn open(&self, keep_bodies: bool) -> Result<TraceReader, Failure> {
        let options = ReadOptions {
            format: self.format,
            time_unit: self.time_unit,
            block_tokens: self.block_tokens,
            records_max: self.max_records,
            since_ms: self.since_s.map(|s| s * 1e3),
            until_ms: self.until_s.map(|s| s * 1e3),
            sample: self.sample,
            sample_seed: 0,
            keep_bodies,
            fields: self.field.clone(),
        };
        Ok(TraceReader::open(&self.paths, options)?)
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kvroute trace stats requests.jsonl.gz\n  \
    zcat access.log.*.gz | kvroute trace stats --json -")]
struct StatsArgs {
    #[command(flatten)]
    reading: Reading,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn format(text: &str) -> Result<Format, String> {
    Format::named(text).ok_or_else(|| {
        let names: Vec<_> = Format::ALL.into_iter().map(Format::name).collect();
        format!("the formats are {}", names.join(", "))
    })
}

fn time_unit(text: &str) -> Result<TimeUnit, String> {
    let found = TimeUnit::ALL.into_iter().find(|unit| unit.symbol() == text);
    found.ok_or_else(|| "the units are s, ms, us and ns".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Stats(args) => stats(args),
    }
}

fn stats(args: &StatsArgs) -> Result<(), Failure> {
    let mut reader = args.reading.open(false)?;
    let mut gathering = Gathering::default();
    for record in &mut reader {
        gathering.add(&record?);
    }
    let summary = reader.summary();
    say!("{summary}");
    if summary.records == 0 {
        return Err(anyhow::anyhow!("the trace holds no request that can be used").into());
    }
    let stats = gathering.finish(&summary);
    if args.json {
        print!("{}", serde_json::to_string_pretty(&stats)?);
    } else {
        print!("\n{stats}");
    }
    Ok(())
}
