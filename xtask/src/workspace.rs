//! Where things are, and the commands that most habits share.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::step::Step;

/// This checkout.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The folder of the root manifest.
    pub(crate) root: PathBuf,
    /// Cargo's target folder, wherever environment and configuration put it.
    pub(crate) target: PathBuf,
}

#[derive(serde::Deserialize)]
struct Metadata {
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

impl Workspace {
    /// Asks cargo, which knows every way to move the target folder.
    pub(crate) fn find() -> Result<Self> {
        let mut command = Command::new(cargo_program());
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        let output = command.output().context("cannot start cargo")?;
        ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
        let Metadata { workspace_root: root, target_directory: target } =
            serde_json::from_slice(&output.stdout).context("cannot read cargo's metadata")?;
        Ok(Self { root, target })
    }

    /// A step that runs cargo with these arguments, separated by spaces.
    pub(crate) fn cargo(&self, name: &'static str, arguments: &str) -> Step<'_> {
        self.step(name, cargo_program()).args(arguments.split(' '))
    }

    /// A step that runs a program in the root folder.
    pub(crate) fn step(&self, name: &'static str, program: impl AsRef<OsStr>) -> Step<'_> {
        Step::new(self, name, program.as_ref())
    }

    /// Builds the release binary, as `cargo run --release` does, and gives its path.
    pub(crate) fn release_binary(&self) -> Result<PathBuf> {
        self.cargo("release binary", "build --release --package kvroute").run()?.or_fail()?;
        let binary = self.target.join("release/kvroute");
        ensure!(binary.is_file(), "the build left no {}", self.shown(&binary));
        Ok(binary)
    }

    /// Where measurements are left as JSON.
    pub(crate) fn figures(&self) -> PathBuf {
        self.target.join("figures")
    }

    /// A path as a reader at the root would type it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }
}

/// The cargo that runs this program, else the one on the path.
pub(crate) fn cargo_program() -> PathBuf {
    env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}
