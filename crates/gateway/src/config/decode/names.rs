//! Rules for names, and that they are unique. A name that breaks its rule is reported and kept as written, so that
//! references to it do not add errors of their own.

use std::collections::HashMap;

use super::super::report::{Report, Span, quote};
use super::super::yaml::Node;
use super::fields::{text, wrong_type};

/// Longest endpoint, variant or component name. Source: SageMaker's API model.
const SAGEMAKER_NAME_CHARS_MAX: usize = 63;
const REPLICA_ID_CHARS_MAX: usize = 128;
const FREE_NAME_CHARS_MAX: usize = 256;

/// SageMaker's rule: letters, digits and hyphens, no hyphen at either end.
pub(super) fn sagemaker_name(node: &Node, what: &str, report: &mut Report<'_>) -> Option<String> {
    let name = text(node, what, report)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let valid = (1..=SAGEMAKER_NAME_CHARS_MAX).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if !valid {
        let rule = "1 to 63 letters, digits and hyphens, without a hyphen at either end";
        wrong_type(node, what, rule, report);
    }
    Some(name.to_owned())
}

/// A replica id: it goes into headers and metric labels.
pub(super) fn replica_id(node: &Node, report: &mut Report<'_>) -> Option<String> {
    let id = text(node, "replica id", report)?;
    if id.is_empty() || id.len() > REPLICA_ID_CHARS_MAX || !id.bytes().all(|b| b.is_ascii_graphic()) {
        let rule = format!("1 to {REPLICA_ID_CHARS_MAX} visible ascii characters");
        wrong_type(node, "replica id", rule, report);
    }
    Some(id.to_owned())
}

/// A name that others chose: model, adapter, label.
pub(super) fn free_name(node: &Node, what: &str, report: &mut Report<'_>) -> Option<String> {
    let name = text(node, what, report)?;
    if !is_free_name(name) {
        let rule = format!("1 to {FREE_NAME_CHARS_MAX} characters without control characters or spaces at either end");
        wrong_type(node, what, rule, report);
    }
    Some(name.to_owned())
}

/// The rule of [`free_name`].
pub(super) fn is_free_name(name: &str) -> bool {
    name.trim() == name && !name.is_empty() && is_free_text(name)
}

/// Text for people, of at most the length of a name.
pub(super) fn is_free_text(text: &str) -> bool {
    text.chars().count() <= FREE_NAME_CHARS_MAX && !text.chars().any(char::is_control)
}

/// Names taken so far, with the lines where they were.
pub(super) struct Names {
    noun: &'static str,
    ignore_case: bool,
    lines: HashMap<String, u32>,
}

impl Names {
    /// `noun` names the thing in messages ("replica id").
    pub(super) fn new(noun: &'static str) -> Self {
        Self { noun, ignore_case: false, lines: HashMap::new() }
    }

    /// As [`Names::new`]; names that differ in case are the same.
    pub(super) fn ignoring_case(noun: &'static str) -> Self {
        Self { ignore_case: true, ..Self::new(noun) }
    }

    /// Takes `name`, or reports that it is taken.
    pub(super) fn claim(&mut self, name: &str, span: Span, help: &str, report: &mut Report<'_>) {
        let key = if self.ignore_case { name.to_ascii_lowercase() } else { name.to_owned() };
        match self.lines.get(&key) {
            Some(line) => {
                let help = format!("line {line} has it already{help}");
                report.error_with(span, format!("duplicate {} {}", self.noun, quote(name)), help);
            }
            None => {
                self.lines.insert(key, span.line);
            }
        }
    }
}
