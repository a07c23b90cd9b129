//! `cargo xtask figures`: every number that the project promises, measured.
//!
//! A figure has a name, a unit and, where something is promised, a bar. Figures that one measurement gives together
//! share a [`Source`]: a file here and an entry in [`SOURCES`]. A source that cannot measure does not stop the others,
//! but its figures do not hold.

mod answer;
mod demo;
mod figure;
mod forwarding;
mod gateway;
mod http;
mod lab_hits;
mod lab_replay;
mod llamacpp;
mod page;
mod placement;
mod process;
mod report;

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

pub(crate) use self::figure::count;
use self::figure::{Figure, Measured, Reading, Source};
pub(crate) use self::gateway::cost::budget as instruction_budget;
use crate::machine::Machine;
use crate::say::{note, say};
use crate::workspace::Workspace;

/// Everything that can be measured, quickest first.
const SOURCES: [Source; 12] = [
    placement::SOURCE,
    forwarding::SOURCE,
    lab_hits::SOURCE,
    gateway::search::SOURCE,
    gateway::cost::SOURCE,
    gateway::memory::SOURCE,
    gateway::proxy::SOURCE,
    gateway::liveness::SOURCE,
    gateway::storm::SOURCE,
    lab_replay::SOURCE,
    llamacpp::SOURCE,
    demo::SOURCE,
];

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 1 when a figure fails its bar or cannot be measured.")]
pub(crate) struct Args {
    /// One group or one figure; all when absent.
    #[arg(value_name = "GROUP|NAME")]
    selection: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Put the results of whole groups into docs/benchmarks.md, with this machine and the date.
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(args: &Args, workspace: &Workspace) -> Result<ExitCode> {
    let selection = args.selection.as_deref();
    let is_chosen = |figure: &Figure| selection.is_none_or(|word| word == figure.group || word == figure.name);
    let figures = || SOURCES.iter().flat_map(|source| source.figures);
    if !figures().any(is_chosen) {
        bail!("there is no such figure or group; there are:\n{}", report::names(figures()));
    }
    ensure!(
        !args.write || selection.is_none_or(|word| figures().any(|figure| figure.group == word)),
        "--write needs a whole group, so that a page is one run on one machine"
    );
    let machine = Machine::this();
    let mut measured: Vec<Measured> = SOURCES.iter().flat_map(|source| measure(source, is_chosen, workspace)).collect();
    measured.retain(|measured| is_chosen(measured.figure));
    if args.json {
        say!("{}", report::json(&measured, &machine));
    } else {
        say!("{}", report::table(&measured));
    }
    if args.write {
        page::write(workspace, &measured, &machine)?;
    }
    let fallen = measured.iter().filter(|measured| measured.holds() == Some(false)).count();
    if fallen > 0 {
        note!("{fallen} of {} figures do not hold", measured.len());
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// All figures of a source, if any of them is chosen.
fn measure(source: &'static Source, is_chosen: impl Fn(&Figure) -> bool, workspace: &Workspace) -> Vec<Measured> {
    if !source.figures.iter().any(is_chosen) {
        return Vec::new();
    }
    let readings = (source.measure)(workspace).map_err(|error| format!("{error:#}"));
    if let Err(error) = &readings {
        note!("error: {error}");
    }
    let reading = |figure: &Figure| match &readings {
        Err(error) => Err(error.lines().next().unwrap_or_default().to_owned()),
        Ok(readings) => find(readings, figure.name),
    };
    source.figures.iter().map(|figure| Measured { figure, reading: reading(figure) }).collect()
}

fn find(readings: &[Reading], name: &str) -> Result<Reading, String> {
    match readings.iter().find(|reading| reading.name == name) {
        Some(reading) if reading.value.is_finite() => Ok(reading.clone()),
        Some(reading) => Err(format!("the measurement gave {}", reading.value)),
        None => Err("the measurement did not give it".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_no_figure_is_called_like_a_group() {
        let figures: Vec<&Figure> = SOURCES.iter().flat_map(|source| source.figures).collect();
        let names: BTreeSet<&str> = figures.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), figures.len());
        assert!(figures.iter().all(|figure| !names.contains(figure.group)));
    }

    #[test]
    fn a_value_that_is_no_number_is_not_a_measurement() {
        let readings = [Reading::new("good", 1.0, String::new()), Reading::new("bad", f64::NAN, String::new())];
        assert!(find(&readings, "good").is_ok());
        assert!(find(&readings, "bad").is_err());
        assert!(find(&readings, "absent").is_err());
    }
}
