//! The `kvroute` command: one file a subcommand.

mod analyze;
mod calibrate;
mod check;
mod demo;
mod engine;
mod load;
mod replay;
mod report;
mod serve;
mod sweep;
mod trace;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::Builder;
use tracing_subscriber::EnvFilter;

/// Why it is not the system's: docs/decisions/0010-mimalloc.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Routes each LLM request to the replica that already holds the beginning of its prompt.
#[derive(Debug, Parser)]
#[command(name = "kvroute", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 well, 1 failed, 2 wrong usage, 3 wrong configuration, 99 a --fail-if came true.\n\
                        Log level: KVROUTE_LOG=warn|info|debug (default info)."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway.
    Serve(serve::Args),
    /// Check a configuration, and show what it means.
    Check(check::Args),
    /// Run a simulated engine behind vLLM's HTTP surface (no GPU needed).
    Engine(engine::Args),
    /// Send a workload and report what clients see.
    Load(load::Args),
    /// What other strategies would do with recorded traffic: a fleet in virtual time, no GPU needed.
    Replay(Box<replay::Args>),
    /// Which settings of a strategy to take for recorded traffic.
    Sweep(Box<sweep::Args>),
    /// Fit a preset of the simulated engine to an engine that runs, by a dozen timed requests.
    Calibrate(calibrate::Args),
    /// See the difference: seven simulated replicas, the same traffic through three strategies.
    Demo(demo::Args),
    /// Say whether prefix-aware routing pays on recorded traffic, and with which settings.
    Analyze(analyze::Args),
    /// Make a page of a saved replay, or compare two.
    Report(report::Args),
    /// Look at recorded traffic.
    Trace(trace::Args),
}

/// Why a command failed, as far as its exit code tells.
#[derive(Debug)]
enum Failure {
    /// Exit code 1.
    Failed(anyhow::Error),
    /// Exit code 3; the diagnostics have been printed.
    WrongConfig,
    /// Exit code 99; what came true has been printed.
    Condition,
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = match &cli.command {
        // Their output is a report, which a log would tear apart.
        Command::Analyze(_)
        | Command::Calibrate(_)
        | Command::Demo(_)
        | Command::Load(_)
        | Command::Replay(_)
        | Command::Sweep(_)
        | Command::Report(_)
        | Command::Trace(_) => "error",
        _ => "info",
    };
    let filter = match log_filter(std::env::var("KVROUTE_LOG").ok().as_deref(), level) {
        Ok(filter) => filter,
        Err(problem) => {
            say!("error: {problem}");
            return ExitCode::from(2);
        }
    };
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
    let result = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Engine(args) => engine::run(args),
        Command::Load(args) => load::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Analyze(args) => analyze::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Trace(args) => trace::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::WrongConfig) => ExitCode::from(3),
        Err(Failure::Condition) => ExitCode::from(99),
        Err(Failure::Failed(error)) => {
            say!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What is logged: as the environment says, else from `level` on.
fn log_filter(written: Option<&str>, level: &str) -> Result<EnvFilter, String> {
    let written = written.map(str::trim).filter(|written| !written.is_empty()).unwrap_or(level);
    // A word that is no level would be taken for the name of a module, and everything else be silent.
    let is_level = written.parse::<tracing_subscriber::filter::LevelFilter>().is_ok();
    if !is_level && !written.contains(['=', ',']) {
        return Err(format!("KVROUTE_LOG is {written:?}: write error, warn, info, debug or trace"));
    }
    EnvFilter::try_new(written).map_err(|error| format!("KVROUTE_LOG is {written:?}: {error}"))
}

/// Prints a line to standard error, for people.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => {{
        use std::io::Write;
        // Nobody is left to be told when standard error is closed.
        let _ = writeln!(std::io::stderr(), $($arg)*);
    }};
}

/// Prints a line to standard output, the command's result.
#[macro_export]
macro_rules! print {
    ($($arg:tt)*) => {{
        use std::io::Write;
        // A reader that left (`| head`) is no error.
        let _ = writeln!(std::io::stdout(), $($arg)*);
    }};
}

/// A runtime with all cores. With one there is nobody to hand work to, and nothing need be shared for it.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let has_one = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    let mut builder = if has_one { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_level_is_a_level_or_refused_and_empty_is_the_default() {
        for written in [None, Some(""), Some(" "), Some("warn"), Some("kvroute_gateway=debug,warn")] {
            assert!(log_filter(written, "info").is_ok(), "{written:?}");
        }
        for written in ["bogus", "=", "verbose"] {
            assert!(log_filter(Some(written), "info").is_err(), "{written:?}");
        }
    }
}
