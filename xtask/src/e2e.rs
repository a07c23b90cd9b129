//! What the end-to-end tests need: a virtual environment with the real clients and engines, and the release binary.
//!
//! The environment is `e2e-venv` in the target folder, so that `cargo clean` takes it away too. It is made again when
//! `e2e/requirements.txt` is no longer the text that it was made from.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::Finished;
use crate::workspace::Workspace;

const REQUIREMENTS: &str = "e2e/requirements.txt";
/// The oldest Python for which every pinned package exists.
const PYTHON_MIN: (u32, u32) = (3, 11);
/// Prints the version, and fails where virtual environments cannot be made.
const PROBE: &str = "import sys; print(*sys.version_info[:2]); import ensurepip, venv";

/// Everything ready to run end-to-end tests.
#[derive(Debug)]
pub(crate) struct Ready<'a> {
    workspace: &'a Workspace,
    python: PathBuf,
    binary: PathBuf,
}

impl<'a> Ready<'a> {
    /// Makes the virtual environment, unless it is there, and builds the binary.
    pub(crate) fn make(workspace: &'a Workspace) -> Result<Self> {
        let python = virtual_environment(workspace)?;
        let binary = workspace.release_binary()?;
        Ok(Self { workspace, python, binary })
    }

    /// Runs the tests under `path`. Measurements are left in the workspace's folder for figures.
    pub(crate) fn pytest(&self, name: &'static str, path: &str) -> Result<Finished> {
        self.workspace
            .step(name, &self.python)
            .args(["-m", "pytest", path, "-q", "--color=no"])
            .env("KVROUTE_BIN", &self.binary)
            .env("KVROUTE_FIGURES_DIR", self.workspace.figures())
            .run()
    }
}

/// Gives the path of the environment's Python.
fn virtual_environment(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target.join("e2e-venv");
    let python = folder.join("bin/python");
    let stamp = folder.join("requirements.stamp");
    let wanted = fs::read(workspace.root.join(REQUIREMENTS)).with_context(|| format!("cannot read {REQUIREMENTS}"))?;
    if python.is_file() && is_current(&stamp, &wanted) {
        return Ok(python);
    }
    let system = system_python()?;
    workspace.step("virtual environment", system).args(["-m", "venv", "--clear"]).arg(&folder).run()?.or_fail()?;
    let pip = workspace.step("real clients and engines", &python);
    pip.args("-m pip install --quiet --no-input --disable-pip-version-check -r".split(' '))
        .arg(REQUIREMENTS)
        .run()?
        .or_fail()?;
    // Last, so that what was interrupted is made again.
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(python)
}

/// The stamp is the text itself: a hash of it would only say less.
fn is_current(stamp: &Path, wanted: &[u8]) -> bool {
    fs::read(stamp).is_ok_and(|made_from| made_from == wanted)
}

/// A Python that can make virtual environments: the one `PYTHON` names, else `python3`.
fn system_python() -> Result<OsString> {
    let python = env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let shown = python.to_string_lossy().into_owned();
    let output = match Command::new(&python).args(["-c", PROBE]).output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (major, minor) = PYTHON_MIN;
            bail!("the end-to-end tests need Python {major}.{minor} or later, and there is no {shown} on the path")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot start {shown}")),
    };
    judge(&shown, &String::from_utf8_lossy(&output.stdout), output.status.success())?;
    Ok(python)
}

/// Says what is wrong with a Python that answered the probe.
fn judge(python: &str, version: &str, can_make_environments: bool) -> Result<()> {
    let mut numbers = version.split_whitespace().map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        bail!("{python} does not say its version");
    };
    if (major, minor) < PYTHON_MIN {
        let (least_major, least_minor) = PYTHON_MIN;
        bail!(
            "the end-to-end tests need Python {least_major}.{least_minor} or later, and {python} is {major}.{minor}; \
             set PYTHON to a later one"
        );
    }
    if !can_make_environments {
        bail!(
            "{python} cannot make a virtual environment with pip; on Debian and Ubuntu the package \
             python{major}.{minor}-venv is missing"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_that_will_not_do_is_refused_with_what_to_do_about_it() {
        let cases = [
            ("3 11\n", true, None),
            ("4 0\n", true, None),
            ("3 9\n", true, Some("python3 is 3.9; set PYTHON to a later one")),
            ("3 12\n", false, Some("python3.12-venv is missing")),
            ("", false, Some("python3 does not say its version")),
        ];
        for (version, can_make_environments, complaint) in cases {
            let judged = judge("python3", version, can_make_environments).map_err(|error| error.to_string());
            match complaint {
                None => assert_eq!(judged, Ok(())),
                Some(words) => assert!(judged.clone().is_err_and(|error| error.contains(words)), "{judged:?}"),
            }
        }
    }

    #[test]
    fn an_environment_is_current_only_when_it_was_made_from_these_requirements() {
        let stamp = env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        assert!(!is_current(&stamp, b"boto3==1.44.8\n"));
        fs::write(&stamp, "boto3==1.44.8\n").unwrap();
        assert!(is_current(&stamp, b"boto3==1.44.8\n"));
        assert!(!is_current(&stamp, b"boto3==1.44.9\n"));
        fs::remove_file(&stamp).unwrap();
    }
}
