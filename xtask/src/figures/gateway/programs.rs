//! Programs of the system that measurements need, and the cores that they share.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, process};

use anyhow::{Context, Result, bail, ensure};

/// Where distributions keep servers, which is not on everybody's path.
const SERVERS: &str = "/usr/sbin";

/// The path of a program; the error says which Debian package has it.
pub(super) fn find(name: &str, package: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from(SERVERS)]);
    let found = folders.map(|folder| folder.join(name)).find(|program| program.is_file());
    found.with_context(|| format!("{name} is not installed (Debian: apt install {package})"))
}

/// Two cores, one for a proxy and one for all that is around it. This thread, and what it starts, stays on the second
/// until this value is dropped.
#[derive(Debug)]
pub(super) struct Cores {
    /// For the proxy.
    pub(super) proxy: usize,
    /// For load and replicas.
    pub(super) around: usize,
    before: String,
}

impl Cores {
    /// Takes them of those that this process may use.
    pub(super) fn take() -> Result<Self> {
        let before = affinity(None)?;
        let (proxy, around) = ends(&before).with_context(|| format!("taskset speaks of cores {before:?}"))?;
        ensure!(proxy != around, "two cores are needed, one for the proxy and one for all that is around it");
        affinity(Some(&around.to_string()))?;
        Ok(Self { proxy, around, before })
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        // What could be set can be set back; if not, the next measurement has one core less and says so.
        let _ = affinity(Some(&self.before));
    }
}

/// The first and the last core of a list such as `0-3,8`.
fn ends(list: &str) -> Option<(usize, usize)> {
    let mut numbers = list.split([',', '-']).map(str::parse);
    let first = numbers.next()?.ok()?;
    Some((first, numbers.next_back().unwrap_or(Ok(first)).ok()?))
}

/// Sets the cores of this program's main thread; gives those that it may use then.
fn affinity(cores: Option<&str>) -> Result<String> {
    let taskset = find("taskset", "util-linux")?;
    let mut command = Command::new(taskset);
    command.arg("--cpu-list").arg("--pid").args(cores).arg(process::id().to_string());
    let output = command.output().context("cannot start taskset")?;
    ensure!(output.status.success(), "taskset: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().rsplit_once(": ") {
        Some((_, list)) => Ok(list.to_owned()),
        None => bail!("taskset says {text:?}"),
    }
}

/// Time that all threads of a process have spent on a core, in nanoseconds.
pub(super) fn cpu_ns(process: u32) -> Result<u64> {
    let tasks = Path::new("/proc").join(process.to_string()).join("task");
    let mut sum = 0;
    for task in tasks.read_dir().with_context(|| format!("cannot read {}", tasks.display()))? {
        // A thread that ended meanwhile has no file any more.
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let spent = text.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        sum += spent.with_context(|| format!("schedstat is {text:?}"))?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_core_of_a_list_are_read() {
        let cases = [("0,1", Some((0, 1))), ("0-3,8", Some((0, 8))), ("2-5", Some((2, 5))), ("7", Some((7, 7)))];
        for (list, expected) in cases {
            assert_eq!(ends(list), expected, "{list}");
        }
        assert_eq!(ends(""), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_package() {
        assert!(find("sh", "dash").is_ok());
        let error = find("no-such-program", "some-package").unwrap_err().to_string();
        assert_eq!(error, "no-such-program is not installed (Debian: apt install some-package)");
    }
}
