//! `kvroute trace`: looks at recorded traffic.

mod generate;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use flate2::Compression;
use flate2::write::GzEncoder;
use kvroute_lab::trace::convert::{Conversion, ConvertError, convert};
use kvroute_lab::trace::scale::Scale;
use kvroute_lab::trace::stats::Gathering;
use kvroute_lab::trace::{
    Anonymizer, Field, Format, Key, ReadOptions, Spread, TimeBase, TimeUnit, TraceReader, Watched,
};

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
    /// Write a trace as Mooncake's rows, which other tools read; faster, slower, longer or shorter where asked.
    Convert(ConvertArgs),
    /// Write a trace without what it says: hashes of blocks in place of prompts, and of names.
    Anonymize(AnonymizeArgs),
    /// Make a trace from a seed.
    Generate(generate::Args),
}

/// Which trace is read, and how. Shared by all commands that read one.
#[derive(Debug, clap::Args)]
pub(crate) struct Reading {
    /// Files or folders, or - for standard input; .gz, .zst, .xz and .tar are unpacked.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// How a trace is read.
#[derive(Debug, clap::Args)]
pub(crate) struct How {
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
        self.how.open(&self.paths, keep_bodies)
    }
}

impl How {
    /// Begins to read what is at `paths`.
    pub(crate) fn open(&self, paths: &[PathBuf], keep_bodies: bool) -> Result<TraceReader, Failure> {
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
        Ok(TraceReader::open(paths, options)?)
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

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kvroute trace convert agents.tar.xz --to-block-tokens 512 --output agents.jsonl.gz\n  \
    kvroute trace convert requests.jsonl --scale-time 0.5 --output twice-as-fast.jsonl")]
struct ConvertArgs {
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    writing: Writing,
    /// Write the text of prompts, where the trace has it.
    #[arg(long)]
    show_text: bool,
    /// Sessions of which only their own times are known (weka) begin at times drawn from the first so many seconds.
    #[arg(long, help_heading = "Sessions", value_name = "SECONDS")]
    spread_s: Option<f64>,
    /// With --spread-s: no request comes later than this after the one before it in its session.
    #[arg(long, help_heading = "Sessions", value_name = "SECONDS", default_value_t = f64::INFINITY)]
    gap_max_s: f64,
    /// With --spread-s: what the beginnings are drawn with.
    #[arg(long, help_heading = "Sessions", default_value_t = 0)]
    seed: u64,
    /// Multiply the time between requests; 0.5 is twice as fast.
    #[arg(long, help_heading = "Scaling", value_name = "FACTOR", default_value_t = 1.0)]
    scale_time: f64,
    /// Multiply the tokens of prompts, and what they share.
    #[arg(long, help_heading = "Scaling", value_name = "FACTOR", default_value_t = 1.0)]
    scale_input: f64,
    /// Multiply the tokens of answers.
    #[arg(long, help_heading = "Scaling", value_name = "FACTOR", default_value_t = 1.0)]
    scale_output: f64,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without the key nobody can test whether a text was in a prompt. With the same key, traces can be \
    compared.\n\nExamples:\n  \
    kvroute trace anonymize access.log --output share-me.jsonl.gz\n  \
    kvroute trace anonymize access.log --key-file trace.key --output share-me.jsonl.gz"
)]
struct AnonymizeArgs {
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    writing: Writing,
    /// File with the key, 32 hexadecimal digits; made if there is none. Without it the key is random and forgotten.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Tokens a block of the hashes made from text and token ids; a token of text is taken to have four bytes.
    #[arg(long, value_name = "TOKENS", default_value_t = 16)]
    text_block_tokens: u32,
    /// Leave the names of models as they are.
    #[arg(long)]
    keep_models: bool,
}

/// Where a trace is written.
#[derive(Debug, clap::Args)]
pub(crate) struct Writing {
    /// File to write; compressed if it ends in .gz [default: standard output].
    #[arg(short, long, help_heading = "Writing", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Join blocks of hashes to blocks of this many tokens, a multiple of what they have.
    #[arg(long, help_heading = "Writing", value_name = "TOKENS")]
    to_block_tokens: Option<u32>,
}

impl Writing {
    fn open(&self) -> Result<Box<dyn Write>, Failure> {
        create(self.output.as_deref())
    }
}

/// Standard output, or a new file, compressed if it ends in `.gz`.
fn create(path: Option<&Path>) -> Result<Box<dyn Write>, Failure> {
    let Some(path) = path else { return Ok(Box::new(BufWriter::new(std::io::stdout().lock()))) };
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    if path.extension().is_some_and(|extension| extension == "gz") {
        return Ok(Box::new(BufWriter::new(GzEncoder::new(file, Compression::default()))));
    }
    Ok(Box::new(BufWriter::new(file)))
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
        Command::Convert(args) => {
            let spread = |over_s: f64| Spread::new(over_s * 1e3, args.gap_max_s * 1e3, args.seed);
            let conversion = Conversion {
                shows_text: args.show_text,
                spread: args.spread_s.map(spread).transpose()?,
                scale: Some(Scale::new(args.scale_time, args.scale_input, args.scale_output)?),
                ..Conversion::default()
            };
            copy(&args.reading, &args.writing, conversion)
        }
        Command::Anonymize(args) => {
            let key = key(args.key_file.as_deref())?;
            let anonymizer = Anonymizer::new(key, args.text_block_tokens, args.keep_models)?;
            copy(&args.reading, &args.writing, Conversion { anonymizer: Some(anonymizer), ..Conversion::default() })
        }
        Command::Generate(args) => {
            let records = args.records()?;
            let conversion = Conversion { small_names: true, ..Conversion::default() };
            written(convert(records.map(Ok), conversion, create(args.output())?))
        }
    }
}

fn stats(args: &StatsArgs) -> Result<(), Failure> {
    let mut reader = args.reading.open(false)?;
    let mut gathering = Gathering::default();
    for record in Watched::new(&mut reader, "reading") {
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

fn copy(reading: &Reading, writing: &Writing, conversion: Conversion) -> Result<(), Failure> {
    let mut reader = reading.open(false)?;
    let out = writing.open()?;
    let is_spread = conversion.spread.is_some();
    let conversion = Conversion { to_block_tokens: writing.to_block_tokens, small_names: true, ..conversion };
    let converted = convert(Watched::new(&mut reader, "converting"), conversion, out);
    let summary = reader.summary();
    written(converted)?;
    say!("{summary}");
    if summary.records == 0 {
        return Err(anyhow::anyhow!("the trace holds no request that can be used").into());
    }
    if summary.time_base == TimeBase::Session && !is_spread {
        say!("  warning: when sessions began is not known, so all begin together in what was written (--spread-s)");
    }
    Ok(())
}

/// A reader that left (`| head`) is no error.
fn written(converted: Result<u64, ConvertError>) -> Result<(), Failure> {
    match converted {
        Err(ConvertError::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        converted => Ok(converted.map(|_| ())?),
    }
}

/// The key in the file, which is made if there is none; a random one without a file.
fn key(path: Option<&Path>) -> Result<Key, Failure> {
    let random = || -> anyhow::Result<Key> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).context("no random bytes")?;
        Ok(Key::new(bytes))
    };
    let Some(path) = path else {
        say!(
            "the key is random and not kept: what another run writes cannot be compared with this (--key-file keeps it)"
        );
        return Ok(random()?);
    };
    let read = std::fs::read_to_string(path);
    match read {
        Ok(text) => Ok(Key::parse(&text).with_context(|| format!("in {}", path.display()))?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = random()?;
            write_secret(path, &key.digits()).with_context(|| format!("cannot write {}", path.display()))?;
            say!("wrote a new key to {}: keep it to yourself", path.display());
            Ok(key)
        }
        Err(error) => Err(anyhow::Error::new(error).context(format!("cannot read {}", path.display())).into()),
    }
}

/// Writes a new file that only its owner may read.
fn write_secret(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    writeln!(options.open(path)?, "{text}")
}
