//! The specification of the configuration: what is accepted and what it means, every refusal word for word, and that no
//! file of any content does harm.

mod accepted;
mod differences;
mod refused;
mod robust;
mod secrets;

use super::secret::SecretSource;
use super::{Config, Diagnostic, Diagnostics, Position, Warning, parse_with};

/// An environment with `ENGINE_KEY` and `SEED`, and the file `/run/key`.
struct TestSecrets;

impl SecretSource for TestSecrets {
    fn env(&self, name: &str) -> Result<String, String> {
        match name {
            "ENGINE_KEY" => Ok("sk-from-env".to_owned()),
            "SEED" => Ok("0x2a".to_owned()),
            "EMPTY" => Ok(String::new()),
            _ => Err(format!("the environment variable {name} is not set")),
        }
    }

    fn file(&self, path: &str, _: u64) -> Result<String, String> {
        match path {
            "/run/key" => Ok("sk-from-file\n".to_owned()),
            "/run/ca.pem" => Ok(include_str!("../../../tests/it/support/tls/ca.pem").to_owned()),
            "/run/no.pem" => Ok("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned()),
            _ => Err(format!("cannot read the file {path}: not there")),
        }
    }
}

fn parse(text: &str) -> Result<(Config, Vec<Warning>), Diagnostics> {
    parse_with(text, "test.yaml", &TestSecrets)
}

/// Reads a text that must be accepted; warnings are allowed.
fn accepted(text: &str) -> Config {
    match parse(text) {
        Ok((config, _)) => config,
        Err(diagnostics) => panic!("refused:\n{text}\n{diagnostics}"),
    }
}

/// Reads a text that must be refused.
fn refused(text: &str) -> Diagnostics {
    match parse(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(diagnostics) => diagnostics,
    }
}

/// The cases of a text file, each after a line of `====`: a configuration, then what is found in it, a line each after
/// `> `.
fn cases(file: &str) -> Vec<(String, Vec<&str>)> {
    let lines: Vec<&str> = file.split_inclusive('\n').collect();
    lines
        .split(|line| line.starts_with("===="))
        .skip(1)
        .map(|case| {
            let text = case.iter().filter(|line| !line.starts_with("> ")).copied().collect();
            let expected = case.iter().filter_map(|line| line.strip_prefix("> ")).map(str::trim_end).collect();
            (text, expected)
        })
        .collect()
}

/// `line:column message (help)`.
fn brief(found: &Diagnostic) -> String {
    let Some(Position { line, column }) = found.position else { panic!("no position: {found}") };
    let help = found.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{line}:{column} {}{help}", found.message)
}
