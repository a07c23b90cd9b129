//! One `/v1/models` list out of those of several replicas.
//!
//! Entries are copied byte for byte, so that members no router knows (`parent` of an adapter, `max_model_len`) survive
//! in their order. A replica whose answer cannot be read is left out, and told, rather than failing the list.

use std::collections::BTreeSet;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Entries of the merged list; further ones are left out.
pub const MODELS_MAX: usize = 10_000;

/// The merged list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedModels {
    /// `{"object":"list","data":[...]}`
    pub body: Bytes,
    /// Entries in it.
    pub models: usize,
    /// Further models there would have been beyond [`MODELS_MAX`].
    pub left_out: usize,
    /// Replicas whose answers could not be read.
    pub refused: Vec<Refused>,
}

/// A replica whose answer could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Its position among the bodies given.
    pub replica: usize,
    /// Why.
    pub reason: RefusedReason,
}

/// Why an answer could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedReason {
    /// Longer than the limit given.
    TooLong,
    /// Not an object with a `data` array of objects that have a string `id`.
    NotAList,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replica = self.replica;
        match self.reason {
            RefusedReason::TooLong => {
                write!(f, "model list of replica number {replica} is too long to merge: raise the limit")
            }
            RefusedReason::NotAList => write!(
                f,
                "model list of replica number {replica} is not an object with a data array of models that have an id: \
                 check what the replica answers to /v1/models"
            ),
        }
    }
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

/// Merges the answers of replicas into one list, unique by `id`; of equal ids the first is kept. An answer of more than
/// `body_bytes_max` bytes is refused.
#[must_use]
pub fn merge_models(bodies: &[&[u8]], body_bytes_max: usize) -> MergedModels {
    let mut ids = BTreeSet::new();
    let mut merged = MergedModels { body: Bytes::new(), models: 0, left_out: 0, refused: Vec::new() };
    let mut out = br#"{"object":"list","data":["#.to_vec();
    for (replica, body) in bodies.iter().enumerate() {
        let entries = match read_list(body, body_bytes_max) {
            Ok(entries) => entries,
            Err(reason) => {
                merged.refused.push(Refused { replica, reason });
                continue;
            }
        };
        for (id, raw) in entries {
            if ids.contains(&id) {
                continue;
            }
            if ids.len() == MODELS_MAX {
                merged.left_out += 1;
                continue;
            }
            if !ids.is_empty() {
                out.push(b',');
            }
            out.extend_from_slice(raw.get().as_bytes());
            ids.insert(id);
        }
    }
    out.extend_from_slice(b"]}");
    merged.models = ids.len();
    merged.body = out.into();
    merged
}

/// The entry of the model `id` in a list, as it was written.
#[must_use]
pub fn find_model<'a>(list: &'a [u8], id: &str) -> Option<&'a str> {
    let entries = read_list(list, list.len()).ok()?;
    entries.into_iter().find(|(listed, _)| listed == id).map(|(_, entry)| entry.get())
}

/// The ids of a list with their entries as they were written.
fn read_list(body: &[u8], body_bytes_max: usize) -> Result<Vec<(String, &RawValue)>, RefusedReason> {
    if body.len() > body_bytes_max {
        return Err(RefusedReason::TooLong);
    }
    if !is_object(body) {
        return Err(RefusedReason::NotAList);
    }
    let list: List<'_> = serde_json::from_slice(body).map_err(|_| RefusedReason::NotAList)?;
    let mut entries = Vec::with_capacity(list.data.len());
    for raw in list.data {
        if !is_object(raw.get().as_bytes()) {
            return Err(RefusedReason::NotAList);
        }
        let entry: Entry = serde_json::from_str(raw.get()).map_err(|_| RefusedReason::NotAList)?;
        entries.push((entry.id, raw));
    }
    Ok(entries)
}

/// Whether JSON is an object. A struct's members are taken from an array too, in their order, if nobody asks.
fn is_object(json: &[u8]) -> bool {
    json.trim_ascii_start().starts_with(b"{")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merge(bodies: &[&str]) -> MergedModels {
        merge_models(&bodies.iter().map(|body| body.as_bytes()).collect::<Vec<_>>(), 1 << 20)
    }

    #[test]
    fn lists_are_joined_by_id_and_entries_keep_their_bytes() {
        let first = r#"{"data":[{"z":1,"id":"a","new":{"x":[1.0, 2]}},{"id":"b"}],"object":"list","extra":0}"#;
        let second =
            r#"{"object":"list","data":[{"id":"\u0061","other":1}, {"object":"model","id":"c","parent":"a"}]}"#;
        let merged = merge(&[first, second]);
        let expected = concat!(
            r#"{"object":"list","data":[{"z":1,"id":"a","new":{"x":[1.0, 2]}},{"id":"b"},"#,
            r#"{"object":"model","id":"c","parent":"a"}]}"#
        );
        assert_eq!(merged, MergedModels { body: expected.into(), models: 3, left_out: 0, refused: vec![] });
    }

    #[test]
    fn a_model_is_found_by_its_id_as_it_was_written() {
        let list = br#"{"data":[{"id":"a"}, {"z" :1, "id":"org\/b"}]}"#;
        for (id, entry) in [("a", Some(r#"{"id":"a"}"#)), ("org/b", Some(r#"{"z" :1, "id":"org\/b"}"#)), ("c", None)] {
            assert_eq!(find_model(list, id), entry);
        }
        assert_eq!(find_model(b"<html>", "a"), None);
    }

    #[test]
    fn a_replica_that_cannot_be_read_is_left_out_and_told() {
        let good = r#"{"data":[{"id":"a"}]}"#;
        for bad in [
            "",
            "<html>",
            "[]",
            "{}",
            r#"{"data":{}}"#,
            r#"{"data":[{"id":7}]}"#,
            r#"{"data":[null]}"#,
            r#"[[{"id":"b"}]]"#,
            r#"{"data":[["b"]]}"#,
        ] {
            let merged = merge(&[bad, good]);
            assert_eq!(merged.body, &br#"{"object":"list","data":[{"id":"a"}]}"#[..], "{bad}");
            assert_eq!(merged.refused, [Refused { replica: 0, reason: RefusedReason::NotAList }], "{bad}");
        }
        let merged = merge_models(&[good.as_bytes()], good.len() - 1);
        assert_eq!((merged.models, merged.refused[0].reason), (0, RefusedReason::TooLong));
        assert_eq!(merge(&[]).body, &br#"{"object":"list","data":[]}"#[..]);
    }

    #[test]
    fn the_merged_list_is_bounded() {
        let list = |from: usize| {
            let entries: Vec<_> = (from..from + MODELS_MAX).map(|i| format!(r#"{{"id":"m{i}"}}"#)).collect();
            format!(r#"{{"data":[{}]}}"#, entries.join(","))
        };
        let merged = merge(&[&list(0), &list(5)]);
        assert_eq!((merged.models, merged.left_out), (MODELS_MAX, 5));
    }
}
