//! The program that runs the way from a body to a place by itself: `bin/kvroute/examples/decision`.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::programs;
use crate::workspace::Workspace;

/// The program, built.
#[derive(Debug)]
pub(super) struct Decision<'a> {
    workspace: &'a Workspace,
    program: PathBuf,
}

impl<'a> Decision<'a> {
    /// Builds it like the binary, so that what it runs is optimised alike and little has to be compiled twice.
    pub(super) fn build(workspace: &'a Workspace) -> Result<Self> {
        workspace.cargo("decision", "build --release --package kvroute --example decision").run()?.or_fail()?;
        let program = workspace.target.join("release/examples/decision");
        ensure!(program.is_file(), "the build left no {}", workspace.shown(&program));
        Ok(Self { workspace, program })
    }

    /// The numbers that it prints.
    pub(super) fn numbers(&self, arguments: &str) -> Result<Vec<u64>> {
        let step = self.workspace.step("decision", &self.program).args(arguments.split(' ')).run()?;
        let output = step.output()?;
        step.or_fail()?;
        let numbers = output.split_whitespace().map(str::parse).collect::<Result<_, _>>();
        numbers.with_context(|| format!("decision {arguments} printed {output:?}"))
    }

    /// Instructions that one more turn of a case takes, by callgrind. The difference of two runs, so that the start
    /// and the making of bodies are left out; two runs and a subtraction need no runner that must be installed.
    pub(super) fn instructions(&self, case: &str, turns: u64) -> Result<f64> {
        let [once, twice] = [turns, turns * 2].map(|turns| self.run_counted(case, turns));
        Ok((twice? - once?) as f64 / turns as f64)
    }

    fn run_counted(&self, case: &str, turns: u64) -> Result<u64> {
        let valgrind = programs::find("valgrind", "valgrind")?;
        let step = self.workspace.step("callgrind", valgrind);
        let step = step.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&self.program);
        let step = step.args(["repeat", case, &turns.to_string()]).run()?;
        let output = step.output()?;
        step.or_fail()?;
        instructions(&output).context("callgrind did not say how many instructions it saw")
    }
}

/// Reads callgrind's last line, `==123== I   refs:      1,234`.
fn instructions(output: &str) -> Option<u64> {
    let (_, count) = output.lines().rev().find_map(|line| line.split_once("refs:"))?;
    count.trim().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_count_is_read() {
        let output = "==7== Events    : Ir\n==7== Collected : 24188154\n==7== \n==7== I   refs:      24,188,154\n";
        assert_eq!(instructions(output), Some(24_188_154));
        assert_eq!(instructions("valgrind: no such program\n"), None);
    }
}
