//! One outside command of a habit.
//!
//! Its output goes to `target/xtask/NAME.log`: a step that succeeds is two lines on the terminal, one that fails shows
//! all it said. A step that takes long says every half minute where it is, because a silent build looks like a hang.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::say::note;
use crate::workspace::{Workspace, cargo_program};

const POLL: Duration = Duration::from_millis(50);
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);
/// How much of a log's end is looked at for its last line.
const TAIL_BYTES: u64 = 4 << 10;
/// Settings that hold for every step; a rerun by hand does not need them.
const UNSHOWN: [&str; 2] = ["CARGO_TARGET_DIR", "CARGO_TERM_COLOR"];

/// A command that has not run yet.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    workspace: &'a Workspace,
    name: &'static str,
    command: Command,
}

/// A command that has ended, well or not.
#[derive(Debug)]
pub(crate) struct Finished {
    name: &'static str,
    rerun: String,
    status: ExitStatus,
    log: PathBuf,
}

/// A step that ended badly; its output has been shown.
#[derive(Debug)]
pub(crate) struct StepFailed {
    name: &'static str,
    rerun: String,
    status: ExitStatus,
}

impl<'a> Step<'a> {
    /// A step that runs `program` at the root of the workspace.
    pub(crate) fn new(workspace: &'a Workspace, name: &'static str, program: &OsStr) -> Self {
        let mut command = Command::new(program);
        command
            .current_dir(&workspace.root)
            // Relative to the folder where the habit was called, which may not be the root.
            .env("CARGO_TARGET_DIR", &workspace.target)
            // What is printed is parsed, and read in files.
            .env("CARGO_TERM_COLOR", "never")
            .stdin(Stdio::null());
        Self { workspace, name, command }
    }

    /// Adds arguments.
    pub(crate) fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Adds an argument.
    pub(crate) fn arg(self, argument: impl AsRef<OsStr>) -> Self {
        self.args([argument])
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// It cannot be started. A command that fails is a [`Finished`] like any other.
    pub(crate) fn run(mut self) -> Result<Finished> {
        let rerun = command_line(&self.command, &self.workspace.root);
        note!("==> {}: {rerun}", self.name);
        let folder = self.workspace.target.join("xtask");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let log = folder.join(format!("{}.log", self.name.replace(' ', "-")));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        self.command.stdout(file.try_clone()?).stderr(file);
        let started = Instant::now();
        let mut child = self.command.spawn().with_context(|| format!("cannot start {rerun}"))?;
        let status = wait(&mut child, started, &log).with_context(|| format!("cannot wait for {rerun}"))?;
        let ended = if status.success() { "done" } else { "failed" };
        note!("    {ended} after {:.0} s", started.elapsed().as_secs_f64());
        Ok(Finished { name: self.name, rerun, status, log })
    }
}

impl Finished {
    /// Whether the command succeeded.
    pub(crate) fn is_success(&self) -> bool {
        self.status.success()
    }

    /// All it printed.
    pub(crate) fn output(&self) -> Result<String> {
        let bytes = fs::read(&self.log).with_context(|| format!("cannot read {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Shows what a command printed that failed, and makes the failure an error.
    pub(crate) fn or_fail(self) -> Result<()> {
        if self.is_success() {
            return Ok(());
        }
        let mut log = File::open(&self.log).with_context(|| format!("cannot read {}", self.log.display()))?;
        // Nobody is left to be told when standard error is closed.
        let _ = io::copy(&mut log, &mut io::stderr());
        Err(StepFailed { name: self.name, rerun: self.rerun, status: self.status }.into())
    }
}

impl fmt::Display for StepFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the step `{}` failed ({}); to run it again:\n  {}", self.name, self.status, self.rerun)
    }
}

impl std::error::Error for StepFailed {}

fn wait(child: &mut Child, started: Instant, log: &Path) -> io::Result<ExitStatus> {
    let mut next_sign = SIGN_OF_LIFE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() >= next_sign {
            note!("    {:>3} s: {}", next_sign.as_secs(), last_line(log).unwrap_or_default());
            next_sign += SIGN_OF_LIFE;
        }
        thread::sleep(POLL);
    }
}

/// The last line of a growing file, without its white space.
fn last_line(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let tail = String::from_utf8_lossy(&tail);
    Ok(tail.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default().to_owned())
}

/// The command as a reader at the root would type it.
fn command_line(command: &Command, root: &Path) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let name = name.to_string_lossy();
        if let Some(value) = value.filter(|_| !UNSHOWN.contains(&name.as_ref())) {
            words.push(format!("{name}={}", word(value, root)));
        }
    }
    let is_cargo = command.get_program() == cargo_program();
    words.push(if is_cargo { "cargo".to_owned() } else { word(command.get_program(), root) });
    words.extend(command.get_args().map(|argument| word(argument, root)));
    words.join(" ")
}

/// A word for a shell, relative to the root where it is a path below it.
fn word(text: &OsStr, root: &Path) -> String {
    let relative = Path::new(text).strip_prefix(root).map_or_else(|_| text.to_owned(), OsString::from);
    let text = relative.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(name: &str) -> Workspace {
        let root = std::env::temp_dir().join(format!("xtask-step-{name}-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        Workspace { target: root.join("target"), root }
    }

    #[test]
    fn a_command_is_shown_as_one_would_type_it_at_the_root() {
        let root = Path::new("/home/me/kvroute");
        let cases = [
            ("/home/me/kvroute/target/e2e-venv/bin/python", "target/e2e-venv/bin/python"),
            ("/usr/bin/python3", "/usr/bin/python3"),
            ("--all-features", "--all-features"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ];
        for (text, shown) in cases {
            assert_eq!(word(OsStr::new(text), root), shown);
        }
        let workspace = Workspace { root: root.to_owned(), target: root.join("target") };
        let step = workspace.cargo("docs", "doc --no-deps").env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(command_line(&step.command, root), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }

    #[test]
    fn a_step_that_fails_keeps_its_output_and_names_the_way_to_run_it_again() {
        let workspace = workspace("fails");
        let finished = workspace.step("a look", "ls").arg("no-such-file").run().unwrap();
        assert!(!finished.is_success());
        assert!(finished.output().unwrap().contains("no-such-file"));
        let error = finished.or_fail().unwrap_err().to_string();
        assert!(error.starts_with("the step `a look` failed (exit status: "), "{error}");
        assert!(error.ends_with("to run it again:\n  ls no-such-file"), "{error}");
        fs::remove_dir_all(&workspace.root).unwrap();
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let workspace = workspace("absent");
        let error = workspace.step("nothing", "no-such-program").run().unwrap_err();
        assert!(error.to_string().contains("no-such-program"), "{error}");
        fs::remove_dir_all(&workspace.root).unwrap();
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        let workspace = workspace("tail");
        let path = workspace.root.join("log");
        for (content, last) in [("", ""), ("one\n  two \n\n", "two"), (&"x\n".repeat(5_000), "x")] {
            fs::write(&path, content).unwrap();
            assert_eq!(last_line(&path).unwrap(), last);
        }
        fs::remove_dir_all(&workspace.root).unwrap();
    }
}
