//! Paths into JSON, written as `jq` writes them: `.a.b`, `.a[0]`, `."with space"`, `.["a.b"]`.

use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Where a value lies in a JSON document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Element(usize),
}

impl FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| format!("{what} in {text}: a path is written like .request.body, .items[0] or .[\"a.b\"]");
        let mut rest = text.strip_prefix('.').ok_or_else(|| wrong("no point at the beginning"))?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end = closing(after).ok_or_else(|| wrong("no closing bracket"))?;
                let inside = &after[..end];
                rest = &after[end + 1..];
                steps.push(match inside.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
                    Some(name) => Step::Member(name.to_owned()),
                    None => Step::Element(inside.parse().map_err(|_| wrong("no number in the brackets"))?),
                });
            } else if let Some(after) = rest.strip_prefix('"') {
                let end = after.find('"').ok_or_else(|| wrong("no closing quote"))?;
                steps.push(Step::Member(after[..end].to_owned()));
                rest = &after[end + 1..];
            } else {
                let end = rest.find(['.', '[']).unwrap_or(rest.len());
                if end == 0 {
                    return Err(wrong("no name between two points"));
                }
                steps.push(Step::Member(rest[..end].to_owned()));
                rest = &rest[end..];
            }
            match rest.strip_prefix('.') {
                Some("") => return Err(wrong("nothing after the last point")),
                Some(after) => rest = after,
                None if rest.is_empty() || rest.starts_with('[') => {}
                None => return Err(wrong("no point between two names")),
            }
        }
        Ok(Self(steps))
    }
}

/// Where the bracket is closed that has been opened; one inside quotes does not count.
fn closing(text: &str) -> Option<usize> {
    match text.strip_prefix('"') {
        Some(quoted) => quoted.find("\"]").map(|at| at + 2),
        None => text.find(']'),
    }
}

impl Path {
    /// What lies there, as it is written; `None` where nothing does, or null.
    pub(super) fn find<'a>(&self, row: &'a [u8]) -> Option<&'a RawValue> {
        let mut value: &RawValue = serde_json::from_slice(row).ok()?;
        for step in &self.0 {
            value = step.deserialize(&mut serde_json::Deserializer::from_str(value.get())).ok()??;
        }
        (value.get() != "null").then_some(value)
    }
}

impl<'de> DeserializeSeed<'de> for &Step {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Step {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<std::borrow::Cow<'de, str>>()? {
            match self {
                Step::Member(wanted) if *wanted == name => found = Some(members.next_value()?),
                _ => {
                    members.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let (mut found, mut at) = (None, 0);
        while let Some(element) = elements.next_element::<&'de RawValue>()? {
            if *self == Step::Element(at) {
                found = Some(element);
            }
            at += 1;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_finds_what_it_names() {
        let row = br#"{"a":{"b":[1,{"c d":"x"}]},"a.b":2,"e\"":0,"n":null}"#;
        for (path, found) in [
            (".a.b[0]", Some("1")),
            (".a.b[1].\"c d\"", Some("\"x\"")),
            (".a.b.[1][\"c d\"]", Some("\"x\"")),
            (".[\"a.b\"]", Some("2")),
            (".a.b[2]", None),
            (".a.b.c", None),
            (".a[0]", None),
            (".n", None),
            (".none.at.all", None),
        ] {
            let path: Path = path.parse().unwrap();
            assert_eq!(path.find(row).map(RawValue::get), found, "{path:?}");
        }
        assert_eq!(".".parse::<Path>().unwrap().find(row).unwrap().get().as_bytes(), row);
        assert!(".a".parse::<Path>().unwrap().find(b"{\"a\": ").is_none());
    }

    #[test]
    fn a_path_that_cannot_be_meant_is_refused() {
        for path in ["", "a", "..a", ".a.", ".a..b", ".a[", ".a[x]", ".a[0]b", ".\"a", ".a[-1]"] {
            let refused = path.parse::<Path>().unwrap_err();
            assert!(refused.contains("a path is written like"), "{path}");
        }
    }
}
