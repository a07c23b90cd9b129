//! `kvroute check`: every error of a configuration at once, or what it means.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use kvroute_gateway::config::{self, Config, Style};

use crate::{Failure, print, say};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kvroute check --config kvroute.yaml")]
pub(crate) struct Args {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", default_value = "kvroute.yaml")]
    config: PathBuf,
    /// Take warnings for errors.
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (config, warnings) = read(&args.config)?;
    if args.strict && warnings > 0 {
        return Err(Failure::WrongConfig);
    }
    for line in config.summary() {
        print!("{line}");
    }
    Ok(())
}

/// Reads a configuration; prints its warnings, or its errors. Gives the number of warnings.
pub(crate) fn read(path: &Path) -> Result<(Config, usize), Failure> {
    let style = if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        Style::Ansi
    } else {
        Style::Plain
    };
    match config::load(path) {
        Ok((config, warnings)) => {
            warnings.iter().for_each(|warning| say!("{}\n", warning.render(style)));
            Ok((config, warnings.len()))
        }
        Err(diagnostics) => {
            say!("{}", diagnostics.render(style));
            Err(Failure::WrongConfig)
        }
    }
}
