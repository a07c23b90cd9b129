//! `cargo xtask docs`: documents that are generated from code.
//!
//! Each page is printed by an example of the crate that knows the facts. So this crate need not depend on that one
//! (every habit would wait for the gateway to build), the product's binary has no subcommand that only its authors
//! use, and the page's text stands beside the table it describes.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::say::note;
use crate::workspace::Workspace;

/// Each page and the example that prints it.
const PAGES: [(&str, &str); 1] = [("docs/operate/metrics.md", "metrics_page")];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail where a document is out of date.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args, workspace: &Workspace) -> Result<ExitCode> {
    if args.check {
        check(workspace)?;
    } else {
        write(workspace)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails where a document is not what its code says.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    for (page, example) in PAGES {
        let found = fs::read_to_string(workspace.root.join(page)).unwrap_or_default();
        if found != generate(workspace, example)? {
            bail!("{page} is out of date; to write it again:\n  cargo xtask docs");
        }
    }
    Ok(())
}

fn write(workspace: &Workspace) -> Result<()> {
    for (page, example) in PAGES {
        let text = generate(workspace, example)?;
        let path = workspace.root.join(page);
        let folder = path.parent().context("a page is in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {page}"))?;
        note!("wrote {page}");
    }
    Ok(())
}

/// What the example prints.
fn generate(workspace: &Workspace, example: &str) -> Result<String> {
    // With the packages and features of `cargo test --workspace --all-features`: with others, cargo would build most
    // dependencies a second time.
    let build = workspace.cargo("generated documents", "build --workspace --all-features --example");
    build.arg(example).run()?.or_fail()?;
    let program = workspace.target.join("debug/examples").join(example);
    let output = Command::new(&program).output().with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8(output.stdout).with_context(|| format!("{example} does not print text"))
}
