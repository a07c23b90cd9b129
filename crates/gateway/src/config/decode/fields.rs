//! Combinators: from a node of the tree to a value, or to an error in the report.
//!
//! Decoding never stops. What is wrong is reported and its default stands in, so that one run shows everything; since
//! an error was reported, the stand-in never leaves the module. [`Fields`] remembers which keys were asked for, and so
//! knows the unknown ones without a second list that could go stale.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::super::report::{Report, Span, quote};
use super::super::yaml::{Entry, Node, Scalar, Value};
use super::suggest::{did_you_mean, place_of};

/// The entries of a mapping that is being decoded.
pub(super) struct Fields<'n> {
    what: &'static str,
    span: Span,
    entries: &'n [Entry],
    asked: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// `what` names the mapping in messages ("endpoint").
    pub(super) fn of(node: &'n Node, what: &'static str, report: &mut Report<'_>) -> Option<Self> {
        Self::of_either(node, what, "a mapping", report)
    }

    /// As [`Fields::of`], where something else than a mapping would have been right too.
    pub(super) fn of_either(
        node: &'n Node,
        what: &'static str,
        expected: &str,
        report: &mut Report<'_>,
    ) -> Option<Self> {
        match &node.value {
            Value::Map(entries) => Some(Self { what, span: node.span, entries, asked: Vec::new() }),
            _ => {
                wrong_type(node, what, expected, report);
                None
            }
        }
    }

    /// The value under `key`. `key:` without a value counts as absent, since that is what commenting out all of a
    /// section leaves.
    pub(super) fn get(&mut self, key: &'static str) -> Option<&'n Node> {
        self.asked.push(key);
        let entry = self.entries.iter().find(|entry| &*entry.key == key)?;
        (!matches!(entry.value.value, Value::Null)).then_some(&entry.value)
    }

    /// The place of a key, for findings about its presence.
    pub(super) fn key_span(&self, key: &str) -> Option<Span> {
        self.entries.iter().find(|entry| &*entry.key == key).map(|entry| entry.key_span)
    }

    /// As [`Fields::get`]; reports when it is absent.
    pub(super) fn required(&mut self, key: &'static str, help: &str, report: &mut Report<'_>) -> Option<&'n Node> {
        let node = self.get(key);
        if node.is_none() {
            let (what, span) = (self.what, self.key_span(key).unwrap_or(self.span));
            report.error_with(span, format!("{what} has no {key}"), help);
        }
        node
    }

    /// A whole number in `range`, else `default`.
    pub(super) fn integer<T: TryFrom<u64>>(
        &mut self,
        key: &'static str,
        default: T,
        range: RangeInclusive<u64>,
        report: &mut Report<'_>,
    ) -> T {
        let number = self.get(key).and_then(|node| integer(node, key, range, report));
        number.and_then(|n| T::try_from(n).ok()).unwrap_or(default)
    }

    /// `true` or `false`, else `default`.
    pub(super) fn boolean(&mut self, key: &'static str, default: bool, report: &mut Report<'_>) -> bool {
        let Some(node) = self.get(key) else { return default };
        match plain(node) {
            Some("true" | "True" | "TRUE") => true,
            Some("false" | "False" | "FALSE") => false,
            _ => {
                wrong_type(node, key, "true or false", report);
                default
            }
        }
    }

    /// Reports every key that nobody asked for.
    pub(super) fn finish(self, report: &mut Report<'_>) {
        for entry in self.entries {
            if self.asked.iter().any(|known| *known == &*entry.key) {
                continue;
            }
            let elsewhere = place_of(&entry.key).map(|place| format!("it belongs to {place}"));
            let help = elsewhere
                .or_else(|| did_you_mean(&entry.key, self.asked.iter().copied(), report))
                .unwrap_or_else(|| format!("known keys: {}", self.asked.join(", ")));
            report.error_with(entry.key_span, format!("unknown key {} in {}", quote(&entry.key), self.what), help);
        }
    }
}

/// Reports that `what` must be `expected` but is something else.
pub(super) fn wrong_type(node: &Node, what: &str, expected: impl Display, report: &mut Report<'_>) {
    wrong_type_with(node, what, expected, "", report);
}

pub(super) fn wrong_type_with(
    node: &Node,
    what: &str,
    expected: impl Display,
    help: impl Into<String>,
    report: &mut Report<'_>,
) {
    let found = match &node.value {
        Value::Null => "nothing".to_owned(),
        Value::Scalar(Scalar { text, plain: true }) => quote(text),
        Value::Scalar(Scalar { text, plain: false }) => format!("the text {}", quote(text)),
        Value::List(_) => "a list".to_owned(),
        Value::Map(_) => "a mapping".to_owned(),
    };
    report.error_with(node.span, format!("{what} must be {expected}, found {found}"), help);
}

/// The text of an unquoted scalar: the only thing that can be a number or a boolean.
fn plain(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(Scalar { text, plain: true }) => Some(text),
        _ => None,
    }
}

/// The text of a scalar as written, quoted or not: `model: 0123` is the name `0123`.
pub(super) fn text<'n>(node: &'n Node, what: &str, report: &mut Report<'_>) -> Option<&'n str> {
    match &node.value {
        Value::Scalar(scalar) => Some(&scalar.text),
        _ => {
            wrong_type(node, what, "text", report);
            None
        }
    }
}

/// The items of a list with at least one.
pub(super) fn list<'n>(node: &'n Node, what: &str, help: &str, report: &mut Report<'_>) -> &'n [Node] {
    match &node.value {
        Value::List(items) if items.is_empty() => {
            report.error_with(node.span, format!("{what} is empty"), help);
            &[]
        }
        Value::List(items) => items,
        _ => {
            wrong_type_with(node, what, "a list", help, report);
            &[]
        }
    }
}

/// A whole number, decimal or `0x...`.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

pub(super) fn integer(node: &Node, what: &str, range: RangeInclusive<u64>, report: &mut Report<'_>) -> Option<u64> {
    let value = plain(node).and_then(whole_number).filter(|n| range.contains(n));
    if value.is_none() {
        let help = match &node.value {
            Value::Scalar(scalar) => number_help(scalar, what),
            _ => String::new(),
        };
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        wrong_type_with(node, what, expected, help, report);
    }
    value
}

/// A number that is finite and for which `accept` holds.
pub(super) fn number(
    node: &Node,
    what: &str,
    expected: &str,
    accept: impl Fn(f64) -> bool,
    report: &mut Report<'_>,
) -> Option<f64> {
    let value = plain(node).and_then(|text| text.parse::<f64>().ok()).filter(|n| n.is_finite() && accept(*n));
    if value.is_none() {
        wrong_type(node, what, expected, report);
    }
    value
}

/// What to write for a number with quotes or with a unit.
fn number_help(scalar: &Scalar, key: &str) -> String {
    let text = scalar.text.trim();
    if !scalar.plain && whole_number(text).is_some() {
        return "remove the quotes".to_owned();
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let factor: Option<u64> = if key.ends_with("_ms") {
        [("ms", 1), ("s", 1_000), ("m", 60_000), ("min", 60_000), ("h", 3_600_000)]
            .iter()
            .find_map(|(name, factor)| (*name == unit).then_some(*factor))
    } else if key.ends_with("_bytes_max") {
        [("b", 0), ("k", 10), ("kb", 10), ("kib", 10), ("m", 20), ("mb", 20), ("mib", 20), ("g", 30), ("gib", 30)]
            .iter()
            .find_map(|(name, shift)| (*name == unit).then_some(1 << *shift))
    } else {
        None
    };
    let value = digits.parse::<u64>().ok().zip(factor).and_then(|(n, factor)| n.checked_mul(factor));
    value.map(|n| format!("write it without a unit: {n}")).unwrap_or_default()
}
