//! `cargo xtask fuzz`: every fuzz target in turn, and its result in `docs/reliability.md`.
//!
//! The targets are those that `fuzz/README.md` describes. A target that finds something does not stop the others, but
//! the habit fails. What is run is `cargo fuzz` of a nightly toolchain.

mod outcome;
mod page;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use self::outcome::Outcome;
use self::page::Row;
use crate::machine::Machine;
use crate::say::{note, say};
use crate::step::Step;
use crate::workspace::Workspace;

const README: &str = "fuzz/README.md";
/// An input that takes longer is a finding.
const INPUT_SECONDS_MAX: u32 = 10;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Needs a nightly toolchain and cargo-fuzz: rustup toolchain install nightly --profile minimal; \
                        cargo install cargo-fuzz --locked. Exit code 1 when a target finds something."
)]
pub(crate) struct Args {
    /// Targets; all when absent.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// How long each runs.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

pub(crate) fn run(args: &Args, workspace: &Workspace) -> Result<ExitCode> {
    let readme = fs::read_to_string(workspace.root.join(README)).with_context(|| format!("cannot read {README}"))?;
    let all = page::targets(&readme);
    if let Some(unknown) = args.targets.iter().find(|name| all.iter().all(|target| target.name != **name)) {
        let names: Vec<&str> = all.iter().map(|target| target.name.as_str()).collect();
        bail!("there is no target {unknown}; there are: {}", names.join(", "));
    }
    ensure_cargo_fuzz()?;
    cargo_fuzz(workspace, "fuzz targets", "build").run()?.or_fail()?;
    let mut findings = 0;
    for target in all.iter().filter(|target| args.targets.is_empty() || args.targets.contains(&target.name)) {
        let outcome = fuzz(workspace, &target.name, args.seconds)?;
        say!("{}: {outcome}", target.name);
        findings += u32::from(outcome.is_finding);
        // After each, so that what is interrupted has not run for nothing.
        page::write(workspace, &all, &Row::new(target, &Machine::this().date, &outcome))?;
    }
    Ok(if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one target for its time, or until it finds something.
fn fuzz(workspace: &Workspace, target: &str, seconds: u32) -> Result<Outcome> {
    let corpus = format!("fuzz/corpus/{target}");
    fs::create_dir_all(workspace.root.join(&corpus)).with_context(|| format!("cannot make {corpus}"))?;
    let step = cargo_fuzz(workspace, "fuzz", "run").args([
        target,
        &corpus,
        &format!("fuzz/seeds/{target}"),
        "--",
        "-print_final_stats=1",
    ]);
    let step = step.arg(format!("-max_total_time={seconds}")).arg(format!("-timeout={INPUT_SECONDS_MAX}"));
    let begun = Instant::now();
    let finished = step.run()?;
    let seconds = begun.elapsed().as_secs();
    let output = finished.output()?;
    let is_success = finished.is_success();
    let Some(outcome) = Outcome::of(&output, is_success, seconds) else {
        finished.or_fail()?;
        bail!("the target {target} ended well but did not say what it did");
    };
    if let Some(input) = &outcome.input {
        let shown = Path::new(input).strip_prefix(&workspace.root).unwrap_or(Path::new(input));
        note!("    {target} found something, with the input {}", shown.display());
    }
    Ok(outcome)
}

/// A step of cargo-fuzz. The sanitizers look for faults of unsafe code, which is forbidden here, and make a run several
/// times slower.
fn cargo_fuzz<'a>(workspace: &'a Workspace, name: &'static str, word: &str) -> Step<'a> {
    workspace.step(name, "rustup").args(["run", "nightly", "cargo", "fuzz", word, "--fuzz-dir", "fuzz", "-s", "none"])
}

fn ensure_cargo_fuzz() -> Result<()> {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    ensure!(
        command.status().is_ok_and(|status| status.success()),
        "cargo-fuzz is not installed, or no nightly toolchain; they come with\n  \
         rustup toolchain install nightly --profile minimal\n  cargo install cargo-fuzz --locked"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fuzz_target_is_described_and_every_description_has_its_target() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("fuzz");
        let readme = fs::read_to_string(folder.join("README.md")).unwrap();
        let described: BTreeSet<String> = page::targets(&readme).into_iter().map(|target| target.name).collect();
        let files = folder.join("fuzz_targets").read_dir().unwrap();
        let there: BTreeSet<String> =
            files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        assert_eq!(described, there);
    }
}
