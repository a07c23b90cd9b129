//! What is wrong, or doubtful, in a configuration file, and how people read it.
//!
//! A [`Diagnostic`] is self-contained: it carries the position and the offending line, so it can be printed after the
//! file is gone. It never carries a secret (the excerpt is masked where it is cut, see `report.rs`) and never a control
//! character, so it may go to a terminal or into a log as it is.

use std::fmt;
use std::sync::Arc;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but something in it has no effect or is probably not meant.
    Warning,
}

/// A place in the file. Both numbers start at 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// One finding: what is wrong, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Name of the file, as it was given by the caller.
    pub origin: Arc<str>,
    /// Where; absent when the file itself could not be read.
    pub position: Option<Position>,
    /// What is wrong, lowercase, without a full stop.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The line at `position`; absent exactly when the position is.
    pub(super) excerpt: Option<Excerpt>,
}

/// A finding that does not stop the file from being used; its `severity` is [`Severity::Warning`].
pub type Warning = Diagnostic;

/// Everything found in one file: at least one error, and the warnings found besides. Ordered by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    pub(super) origin: Arc<str>,
    pub(super) found: Vec<Diagnostic>,
    /// Findings that were counted but not kept, because a file can produce more of them than anybody reads.
    pub(super) unlisted: usize,
}

/// The offending line, cropped and masked, with the place of the caret under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excerpt {
    pub(super) text: String,
    /// Characters before the caret.
    pub(super) caret_start: usize,
    /// Characters underlined, at least 1.
    pub(super) caret_len: usize,
}

/// Plain text, or text with ANSI colours for a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// No escape sequences.
    Plain,
    /// ANSI SGR colours.
    Ansi,
}

impl Diagnostic {
    /// One line, for logs: `file:line:column: error: message (help)`.
    pub fn headline(&self) -> String {
        let place = match self.position {
            Some(Position { line, column }) => format!("{}:{line}:{column}", self.origin),
            None => self.origin.to_string(),
        };
        let help = self.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{place}: {}: {}{help}", self.severity.word(), self.message)
    }

    /// Several lines with the offending line and a caret under it. `Display` is the same in [`Style::Plain`].
    pub fn render(&self, style: Style) -> impl fmt::Display + '_ {
        Rendered { diagnostic: self, paint: Paint(style) }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.render(Style::Plain).fmt(f)
    }
}

impl Diagnostics {
    /// The findings, by position.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.found.iter()
    }

    /// Every finding in full, then a line that counts them. `Display` is the same in [`Style::Plain`].
    pub fn render(&self, style: Style) -> impl fmt::Display + '_ {
        RenderedAll { diagnostics: self, style }
    }

    fn count(&self, severity: Severity) -> usize {
        self.found.iter().filter(|d| d.severity == severity).count()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.render(Style::Plain).fmt(f)
    }
}

impl std::error::Error for Diagnostics {}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

struct Rendered<'a> {
    diagnostic: &'a Diagnostic,
    paint: Paint,
}

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { severity, origin, position, message, help, excerpt } = self.diagnostic;
        let paint = self.paint;
        let tone = match severity {
            Severity::Error => RED,
            Severity::Warning => YELLOW,
        };
        write!(f, "{}: {}", paint.with(tone, severity.word()), paint.with(BOLD, message))?;
        let gutter = position.map_or(1, |p| p.line.to_string().len());
        match position {
            Some(Position { line, column }) => {
                write!(f, "\n{:gutter$}{} {origin}:{line}:{column}", "", paint.with(BLUE, "-->"))?;
                if let Some(excerpt) = excerpt {
                    let bar = paint.with(BLUE, "|");
                    write!(f, "\n{:gutter$} {bar}", "")?;
                    write!(f, "\n{} {bar} {}", paint.with(BLUE, &line.to_string()), excerpt.text)?;
                    let caret = "^".repeat(excerpt.caret_len);
                    let indent = excerpt.caret_start;
                    write!(f, "\n{:gutter$} {bar} {:indent$}{}", "", "", paint.with(tone, &caret))?;
                }
            }
            None => write!(f, "\n{:gutter$}{} {origin}", "", paint.with(BLUE, "-->"))?,
        }
        if let Some(help) = help {
            write!(f, "\n{:gutter$} {} help: {help}", "", paint.with(BLUE, "="))?;
        }
        Ok(())
    }
}

struct RenderedAll<'a> {
    diagnostics: &'a Diagnostics,
    style: Style,
}

impl fmt::Display for RenderedAll<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in self.diagnostics {
            write!(f, "{}\n\n", diagnostic.render(self.style))?;
        }
        let errors = self.diagnostics.count(Severity::Error);
        let warnings = self.diagnostics.count(Severity::Warning);
        write!(f, "{}: {}", self.diagnostics.origin, counted(errors, "error"))?;
        if warnings > 0 {
            write!(f, ", {}", counted(warnings, "warning"))?;
        }
        if self.diagnostics.unlisted > 0 {
            write!(f, ", {} more not shown", self.diagnostics.unlisted)?;
        }
        Ok(())
    }
}

/// `1 error`, `2 errors`.
pub(super) fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

const RED: &str = "1;31";
const YELLOW: &str = "1;33";
const BLUE: &str = "1;34";
const BOLD: &str = "1";

#[derive(Clone, Copy)]
struct Paint(Style);

impl Paint {
    fn with<'a>(self, code: &'static str, text: &'a str) -> Painted<'a> {
        Painted { code: (self.0 == Style::Ansi).then_some(code), text }
    }
}

struct Painted<'a> {
    code: Option<&'static str>,
    text: &'a str,
}

impl fmt::Display for Painted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "\u{1b}[{code}m{}\u{1b}[0m", self.text),
            None => f.write_str(self.text),
        }
    }
}
