//! `cargo xtask check`: what can be said about the code without running it.

use std::process::ExitCode;

use anyhow::Result;

use crate::docs;
use crate::say::say;
use crate::workspace::Workspace;

/// Cheapest first; the first complaint ends it.
pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    workspace.cargo("format", "fmt --all --check -- --color never").run()?.or_fail()?;
    workspace
        .cargo("lints", "clippy --workspace --all-targets --all-features --keep-going -- -D warnings")
        .run()?
        .or_fail()?;
    let rustdoc = workspace.cargo("rustdoc", "doc --workspace --all-features --no-deps");
    rustdoc.env("RUSTDOCFLAGS", "-D warnings").run()?.or_fail()?;
    docs::check(workspace)?;
    say!("format, lints, rustdoc and generated documents are fine");
    Ok(ExitCode::SUCCESS)
}
