//! `kvroute report`: what was saved, as a page, and two of them compared.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use kvroute_lab::report::difference;
use kvroute_lab::report::document::Style;
use kvroute_lab::report::html::replay_html;
use kvroute_lab::report::saved::SavedReplay;

use crate::{Failure, print, say};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a page of a saved replay: one HTML file that needs neither network nor scripts.
    Html(HtmlArgs),
    /// Compare two saved replays, strategy by strategy.
    Diff(DiffArgs),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kvroute replay trace.jsonl --json replay.json\n  kvroute report html replay.json --output replay.html"
)]
struct HtmlArgs {
    /// What `kvroute replay --json` wrote.
    report: PathBuf,
    /// The page [default: the report's name with .html].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kvroute report diff before.json after.json")]
struct DiffArgs {
    /// What `kvroute replay --json` wrote before.
    before: PathBuf,
    /// What it wrote after.
    after: PathBuf,
    /// Print Markdown.
    #[arg(long)]
    markdown: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Html(args) => html(args),
        Command::Diff(args) => diff(args),
    }
}

fn html(args: &HtmlArgs) -> Result<(), Failure> {
    let (report, json) = read(&args.report)?;
    let output = args.output.clone().unwrap_or_else(|| args.report.with_extension("html"));
    std::fs::write(&output, replay_html(&report, &json))
        .with_context(|| format!("cannot write {}", output.display()))?;
    say!("wrote {}", output.display());
    Ok(())
}

fn diff(args: &DiffArgs) -> Result<(), Failure> {
    let document = difference(&read(&args.before)?.0, &read(&args.after)?.0);
    if args.markdown {
        print!("{}", document.markdown().trim_end());
        return Ok(());
    }
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print!("{}", document.for_terminal(Style { width: 100, colour }).trim_end());
    Ok(())
}

fn read(path: &Path) -> Result<(SavedReplay, String), Failure> {
    let json = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let report = SavedReplay::read(&json).with_context(|| path.display().to_string())?;
    Ok((report, json))
}
