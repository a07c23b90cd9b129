//! Values that must not be seen, and where they come from.
//!
//! A secret is written as itself, as `${NAME}` (an environment variable) or as `${file:/path}`. A reference is the
//! whole value: `Bearer ${NAME}` is refused rather than sent as it stands. The result goes into an HTTP header, so it
//! must be visible ASCII. Nothing here puts a secret into a message.

use std::fmt;
use std::fs::File;
use std::io::Read;

/// Largest secret accepted, bytes.
const SECRET_BYTES_MAX: u64 = 16 << 10;

/// A value that `Debug` and `Display` show as `***`. Comparing two takes time that depends on them: compare only
/// secrets of this process with each other, never with what a client sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The value itself, for the header that carries it and for nothing else. Visible ASCII, 1 to 16384 bytes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Where references lead. A trait, since a test cannot set environment variables safely.
pub(super) trait SecretSource {
    /// The value of an environment variable, or why there is none.
    fn env(&self, name: &str) -> Result<String, String>;
    /// The content of a file, or why there is none. One that is larger than `bytes_max` is none.
    fn file(&self, path: &str, bytes_max: u64) -> Result<String, String>;
}

/// The environment and file system of this process.
pub(super) struct ProcessSecrets;

impl SecretSource for ProcessSecrets {
    fn env(&self, name: &str) -> Result<String, String> {
        match std::env::var(name) {
            Ok(value) => Ok(value),
            Err(std::env::VarError::NotPresent) => Err(format!("the environment variable {name} is not set")),
            Err(std::env::VarError::NotUnicode(_)) => Err(format!("the environment variable {name} is not text")),
        }
    }

    fn file(&self, path: &str, bytes_max: u64) -> Result<String, String> {
        let cannot = |error: &dyn fmt::Display| format!("cannot read the file {path}: {error}");
        // Opening a pipe would wait for its writer.
        if !std::fs::metadata(path).map_err(|e| cannot(&e))?.is_file() {
            return Err(cannot(&"not a regular file"));
        }
        let mut text = String::new();
        let file = File::open(path).map_err(|e| cannot(&e))?;
        file.take(bytes_max + 1).read_to_string(&mut text).map_err(|e| cannot(&e))?;
        if text.len() as u64 > bytes_max {
            return Err(cannot(&format!("it is larger than {bytes_max} bytes")));
        }
        Ok(text)
    }
}

/// Follows `${...}` if `written` is one; otherwise it is the value.
///
/// # Errors
/// What is wrong, in words that do not contain the value.
pub(super) fn resolve(written: &str, source: &dyn SecretSource) -> Result<String, String> {
    let Some(reference) = written.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        if written.contains("${") {
            return Err("`${...}` must be the whole value".to_owned());
        }
        return Ok(written.to_owned());
    };
    if let Some(path) = reference.strip_prefix("file:") {
        let mut value = source.file(path, SECRET_BYTES_MAX)?;
        // Editors and `echo` end a file with a newline that is no part of the secret.
        if value.ends_with('\n') {
            value.pop();
            if value.ends_with('\r') {
                value.pop();
            }
        }
        return Ok(value);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if reference.is_empty() || !reference.chars().all(is_name) {
        return Err("a reference is `${NAME}` or `${file:/path}`".to_owned());
    }
    source.env(reference)
}

/// Reads a secret as written in the file.
///
/// # Errors
/// What is wrong, in words that do not contain the value.
pub(super) fn secret(written: &str, source: &dyn SecretSource) -> Result<Secret, String> {
    let value = resolve(written, source)?;
    if value.is_empty() {
        return Err("the value is empty".to_owned());
    }
    if value.len() as u64 > SECRET_BYTES_MAX {
        return Err(format!("the value is longer than {SECRET_BYTES_MAX} bytes"));
    }
    if !value.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(
            "the value contains a space, a line break or another character that a header cannot carry".to_owned()
        );
    }
    Ok(Secret(value))
}
