//! The gateway's configuration: one YAML file -> [`Config`], with every error at once.
//!
//! `serve`, `check` and reload go through the same [`load`]: parse into a tree whose nodes know their place (`yaml`),
//! decode it with combinators that report and go on (`decode`), and hand out a [`Config`] in which every default is
//! filled in and every reference checked (`model`), or [`Diagnostics`] that show each problem with its line, a caret
//! and what to do. On reload [`changes`] says what differs.
//!
//! Rules:
//! * A key that is not known is an error, never ignored: a misspelt limit must not silently be its default.
//! * A section may be empty (`timeouts:` with everything commented out): its defaults apply. An empty list is an error.
//! * Each level of `routing` (top, endpoint, variant) changes only what it names.
//! * Secrets are never in a message, an excerpt, a summary, a diff or a `Debug` print.
//! * A file of any content is read in bounded time and memory: 1 MiB of text, 32 levels, aliases weighed as if written
//!   out, 65536 copies, 200 findings.
//!
//! [`EXAMPLE`] is the complete file with every key at its default.

mod changes;
mod decode;
mod diagnostic;
mod model;
mod replica_url;
mod report;
mod secret;
mod summary;
mod syntax;
#[cfg(test)]
mod tests;
mod yaml;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub use self::changes::{Change, ChangeKind, Subject, changes};
pub use self::diagnostic::{Diagnostic, Diagnostics, Position, Severity, Style, Warning};
pub use self::model::{
    Adapter, Api, Component, Config, Copy, Cors, Endpoint, Health, Limits, Replica, ReplicaTls, Routing, Scrape,
    Timeouts, Variant,
};
pub use self::replica_url::{ReplicaUrl, ReplicaUrlError};
pub use self::secret::Secret;

use self::report::{Report, printable};
use self::secret::{ProcessSecrets, SecretSource};

/// A complete, commented configuration in which every setting has its default.
pub const EXAMPLE: &str = include_str!("example.yaml");

/// Reads and checks a configuration file.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or has errors: all of them, with the warnings besides.
pub fn load(path: impl AsRef<Path>) -> Result<(Config, Vec<Warning>), Diagnostics> {
    let path = path.as_ref();
    let origin = path.display().to_string();
    match read(path) {
        Ok(text) => parse(&text, &origin),
        Err(error) => Err(unreadable(&origin, &error)),
    }
}

/// Checks the text of a configuration; `origin` names it in messages. Secrets that the text refers to are read from
/// this process's environment and files.
///
/// # Errors
/// Every error in the text, with the warnings besides.
pub fn parse(text: &str, origin: &str) -> Result<(Config, Vec<Warning>), Diagnostics> {
    parse_with(text, origin, &ProcessSecrets)
}

fn parse_with(text: &str, origin: &str, secrets: &dyn SecretSource) -> Result<(Config, Vec<Warning>), Diagnostics> {
    let mut report = Report::new(text, origin);
    let config = yaml::read(text, &mut report).and_then(|root| decode::config(&root, &mut report, secrets));
    match config {
        Some(config) if !report.has_errors() => Ok((config, report.finish().found)),
        _ => Err(report.finish()),
    }
}

/// At most one byte more than is accepted, so that `/dev/zero` is an error like any other.
fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(yaml::TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > yaml::TEXT_BYTES_MAX {
        return Err(io::Error::other(format!("the file is larger than {} bytes", yaml::TEXT_BYTES_MAX)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        io::Error::other(format!("line {line} is not utf-8 text"))
    })
}

fn unreadable(origin: &str, error: &io::Error) -> Diagnostics {
    let origin = printable(origin).into();
    let found = Diagnostic {
        severity: Severity::Error,
        origin: std::sync::Arc::clone(&origin),
        position: None,
        message: format!("cannot read the configuration: {error}"),
        help: None,
        excerpt: None,
    };
    Diagnostics { origin, found: vec![found], unlisted: 0 }
}
