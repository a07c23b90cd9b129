//! `cargo xtask test` and `cargo xtask e2e`: every test, or those with real clients and engines.
//!
//! From nothing the workspace is built twice and not more: once in the dev profile for its tests, and once in release
//! for the binary that the clients talk to. The last line on standard output is the tally, whatever happened.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::docs;
use crate::e2e::Ready;
use crate::figures;
use crate::say::{note, say};
use crate::step::Finished;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// What tests add to a sum that outlives their failure.
type Steps = fn(&Workspace, &mut Tally) -> Result<()>;

/// Rust tests, generated documents, the instruction budget, then the end-to-end tests.
pub(crate) fn everything(workspace: &Workspace) -> ExitCode {
    close(workspace, |workspace, tally| {
        rust(workspace, tally)?;
        docs::check(workspace)?;
        *tally += Tally::ONE_PASSED;
        *tally += figures::instruction_budget(workspace)?;
        clients_and_engines(workspace, tally)
    })
}

/// The end-to-end tests.
pub(crate) fn end_to_end(workspace: &Workspace) -> ExitCode {
    close(workspace, clients_and_engines)
}

/// Runs the steps and prints the closing line.
fn close(workspace: &Workspace, steps: Steps) -> ExitCode {
    let mut tally = Tally::default();
    let result = steps(workspace, &mut tally);
    if let Err(error) = &result {
        note!("error: {error:#}");
    }
    say!("{}", closing(tally, result.is_ok()));
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the closing line says: a step that broke before it could count must not read as "0 failed".
fn closing(tally: Tally, is_ok: bool) -> Tally {
    Tally { failed: if is_ok { tally.failed } else { tally.failed.max(1) }, ..tally }
}

fn rust(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    // Terse, so that the output of a failure is not lost among a thousand names of tests that passed.
    let tests = workspace.cargo("rust tests", "test --workspace --all-features --no-fail-fast -- --quiet").run()?;
    count(tests, tally, |output| Some(Tally::of_cargo_test(output)))
}

fn clients_and_engines(workspace: &Workspace, tally: &mut Tally) -> Result<()> {
    let tests = Ready::make(workspace)?.pytest("end-to-end tests", "e2e")?;
    count(tests, tally, Tally::of_pytest)
}

/// Adds a step's tests to the sum, then fails if the step did.
fn count(tests: Finished, tally: &mut Tally, read: fn(&str) -> Option<Tally>) -> Result<()> {
    let counted = read(&tests.output()?);
    if let Some(counted) = counted {
        note!("    {counted}");
        *tally += counted;
    }
    tests.or_fail()?;
    counted.map(drop).context("the tests ended well but did not say how many they were")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_no_test_reported_still_counts_as_one() {
        let tally = |failed| Tally { passed: 5, failed, skipped: 0 };
        for (failed, is_ok, said) in [(0, true, 0), (0, false, 1), (3, false, 3)] {
            assert_eq!(closing(tally(failed), is_ok), tally(said));
        }
    }
}
