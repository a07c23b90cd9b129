//! One word for each habit of this repository: `cargo xtask WORD`.
//!
//! Every habit is a list of steps, each an outside command whose output goes to a log file and is shown only when the
//! command fails. The first step that fails ends the habit, with the command that runs that step again. Progress and
//! errors go to standard error, results to standard output.

mod check;
mod docs;
mod e2e;
mod figures;
mod fuzz;
mod machine;
mod say;
mod section;
mod step;
mod tally;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use self::say::note;
use self::workspace::Workspace;

/// One word for each habit of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    habit: Habit,
}

#[derive(Debug, Subcommand)]
enum Habit {
    /// Formatting, lints, rustdoc and generated documents.
    Check,
    /// Every test: Rust, generated documents, real clients and real engines. Sets up what it needs.
    Test,
    /// Real clients and real engines against the release binary.
    E2e,
    /// Measure what the project promises: every figure with its bar.
    Figures(figures::Args),
    /// Feed every parser with what nobody would send, and note the results in docs/reliability.md.
    Fuzz(fuzz::Args),
    /// Write the documents that are generated from code.
    Docs(docs::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match Workspace::find().and_then(|workspace| run(&cli.habit, &workspace)) {
        Ok(code) => code,
        Err(error) => {
            note!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(habit: &Habit, workspace: &Workspace) -> Result<ExitCode> {
    match habit {
        Habit::Check => check::run(workspace),
        Habit::Test => Ok(test::everything(workspace)),
        Habit::E2e => Ok(test::end_to_end(workspace)),
        Habit::Figures(args) => figures::run(args, workspace),
        Habit::Fuzz(args) => fuzz::run(args, workspace),
        Habit::Docs(args) => docs::run(args, workspace),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
