//! Which format the first rows of a file are in.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::format::{Format, Given, ReadRow};
use super::formats;

/// A row as far as recognising it takes.
#[derive(Debug)]
pub(super) enum Look<'a> {
    /// The members of a JSON object.
    Object(BTreeMap<String, &'a RawValue>),
    /// Something else.
    Text(&'a str),
}

impl<'a> Look<'a> {
    /// A look at a row; `None` where it is not text.
    pub(super) fn at(row: &'a [u8]) -> Option<Self> {
        match serde_json::from_slice(row) {
            Ok(members) => Some(Self::Object(members)),
            Err(_) => std::str::from_utf8(row).ok().map(Self::Text),
        }
    }

    /// It is an object with this member.
    pub(super) fn has(&self, member: &str) -> bool {
        matches!(self, Self::Object(members) if members.contains_key(member))
    }

    /// The member of this name, as it is written.
    pub(super) fn member(&self, name: &str) -> Option<&'a RawValue> {
        match self {
            Self::Object(members) => members.get(name).copied(),
            Self::Text(_) => None,
        }
    }

    /// The names of its members, for messages: those of a trace say nothing about prompts.
    pub(super) fn shape(&self) -> String {
        match self {
            Self::Object(members) => {
                let names: Vec<_> = members.keys().take(12).map(|name| format!("{name:.40}")).collect();
                format!("JSON objects with {}", names.join(", "))
            }
            Self::Text(text) => format!("lines of text, the first with {} characters", text.chars().count()),
        }
    }
}

/// The format that a row tells, if it does.
pub(super) fn format_of(row: &[u8]) -> Option<Format> {
    let look = Look::at(row)?;
    Format::ALL.into_iter().find(|&format| formats::recognises(format, &look))
}

/// The reader of a format, which may look at the first rows.
pub(super) fn reader_of(format: Format, given: &Given, first: &[&[u8]]) -> Box<dyn ReadRow> {
    formats::reader(format, given, first)
}
