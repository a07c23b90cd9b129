//! Changes to a request's body that leave every other byte as it was.
//!
//! A few features change a body: a model alias, a stream flag, asking for the usage. Reading a body into a document and
//! writing it again would drop what a document does not keep (order, repeated members, the spelling of numbers) and
//! cost more than routing does. So a [`Plan`] only says which bytes to replace by which; what it leaves is passed on in
//! the slices it came in.
//!
//! Rules:
//! - An edit is about one member of the top level. Engines differ in which of repeated members they take, so all of
//!   them are changed. Two edits must not name the same member.
//! - A member that is not there is added as the first, since that place is known whatever follows.
//! - The values put in are the caller's, and must be JSON; [`json_string`] makes one of a string.
//! - Only what is needed is checked: a body that is malformed inside a member that is left alone stays so.

use std::fmt;
use std::ops::{ControlFlow, Range};

use bytes::Bytes;

use crate::json::{self, Kind, Lexer, Scalar, Visitor, Want};

/// Occurrences of edited members in one body. Sensible ones have each once, and a plan costs memory for every one.
pub const OCCURRENCES_MAX: usize = 64;

/// One change. `value` is JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Replaces the value of a member, if there is one.
    Replace {
        /// The member.
        name: &'a str,
        /// Its new value.
        value: &'a [u8],
    },
    /// Replaces the value of a member, or adds it.
    Set {
        /// The member.
        name: &'a str,
        /// Its value.
        value: &'a [u8],
    },
    /// Does the same inside the object that a member holds; a member that holds no object is made one.
    SetIn {
        /// The member that holds an object.
        object: &'a str,
        /// The member of that object.
        name: &'a str,
        /// Its value.
        value: &'a [u8],
    },
}

impl Edit<'_> {
    /// The member of the top level.
    fn member(&self) -> &str {
        match self {
            Self::Replace { name, .. } | Self::Set { name, .. } | Self::SetIn { object: name, .. } => name,
        }
    }

    /// What the whole member's value becomes.
    fn value(&self) -> Vec<u8> {
        match self {
            Self::Replace { value, .. } | Self::Set { value, .. } => value.to_vec(),
            Self::SetIn { name, value, .. } => [b"{", &member_text(name, value)[..], b"}"].concat(),
        }
    }
}

fn member_text(name: &str, value: &[u8]) -> Vec<u8> {
    [&json_string(name)[..], b":", value].concat()
}

/// A string as JSON, quotes included.
#[must_use]
pub fn json_string(text: &str) -> Vec<u8> {
    // Strings cannot fail to serialise.
    serde_json::to_vec(text).unwrap_or_default()
}

/// Bytes of the body that others take the place of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// Offsets in the body; empty where something is put in.
    pub range: Range<u64>,
    /// What comes there.
    pub with: Bytes,
}

/// What to replace in one body, in ascending order and without overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    splices: Vec<Splice>,
}

/// Why a body cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteError {
    /// It cannot be read.
    Json(json::Error),
    /// It is JSON, but not an object.
    NotAnObject,
    /// The members to change occur more often than [`OCCURRENCES_MAX`].
    TooManyOccurrences,
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "body cannot be changed: {error}"),
            Self::NotAnObject => write!(f, "body cannot be changed: it is json, but not an object"),
            Self::TooManyOccurrences => {
                write!(
                    f,
                    "body cannot be changed: the same members occur more than {OCCURRENCES_MAX} times, send each once"
                )
            }
        }
    }
}

impl std::error::Error for RewriteError {}

impl Plan {
    /// Finds where the edits apply in a complete body, given in slices cut anywhere.
    ///
    /// # Errors
    /// The body cannot be changed; see [`RewriteError`].
    pub fn new<'b>(body: impl IntoIterator<Item = &'b [u8]>, edits: &[Edit<'_>]) -> Result<Self, RewriteError> {
        debug_assert!(
            edits.iter().enumerate().all(|(i, edit)| edits[..i].iter().all(|other| other.member() != edit.member())),
            "two edits of one member"
        );
        let mut finder = Finder::new(edits);
        let mut lexer = Lexer::new();
        for slice in body {
            lexer.feed(slice, &mut finder).map_err(RewriteError::Json)?;
            if finder.splices.len() > OCCURRENCES_MAX {
                return Err(RewriteError::TooManyOccurrences);
            }
        }
        lexer.finish(&mut finder).map_err(RewriteError::Json)?;
        finder.into_plan()
    }

    /// What is replaced, in ascending order.
    #[must_use]
    pub fn splices(&self) -> &[Splice] {
        &self.splices
    }

    /// Whether the body stays as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.splices.is_empty()
    }

    /// The bytes of the changed body, out of those of the body that was planned for.
    #[must_use]
    pub fn body_bytes(&self, body_bytes: u64) -> u64 {
        let change = |splice: &Splice| (splice.with.len() as u64, splice.range.end - splice.range.start);
        let (added, removed) = self.splices.iter().map(change).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        body_bytes + added - removed
    }

    /// The changed body. What is left of the given slices, which are those that were planned for, is shared with them.
    #[must_use]
    pub fn apply(&self, body: &[Bytes]) -> Vec<Bytes> {
        let mut out = Vec::with_capacity(body.len() + 2 * self.splices.len());
        let mut splices = self.splices.iter().peekable();
        // Offset of the slice, and up to where the body has been dealt with.
        let (mut offset, mut done) = (0, 0);
        for slice in body {
            let end = offset + slice.len() as u64;
            while let Some(splice) = splices.next_if(|splice| splice.range.start < end) {
                keep(slice, offset, done..splice.range.start, &mut out);
                out.push(splice.with.clone());
                done = splice.range.end;
            }
            keep(slice, offset, done..end, &mut out);
            (offset, done) = (end, done.max(end));
        }
        out
    }
}

/// Takes over the bytes at `range` of the body, as far as they lie in the slice at `offset`.
fn keep(slice: &Bytes, offset: u64, range: Range<u64>, out: &mut Vec<Bytes>) {
    let within = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX).min(slice.len());
    let (start, end) = (within(range.start), within(range.end));
    if start < end {
        out.push(slice.slice(start..end));
    }
}

/// An object that members may be added to: where its first one would stand, and whether it has any.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    inside: u64,
    has_members: bool,
    /// The edit's member has been found in it.
    found: bool,
}

/// What the walk found in the member that it is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Other,
    /// A member to change, by the number of its edit.
    Edited(usize),
    /// The member to change inside the object of an edit.
    Inner(usize),
}

struct Finder<'e> {
    edits: &'e [Edit<'e>],
    found: Vec<bool>,
    splices: Vec<Splice>,
    depth: u8,
    top: Option<Open>,
    inner: Open,
    inner_edit: usize,
    at: At,
    begins: u64,
    /// The value that is passed over is to be replaced by this.
    replaces: Option<Vec<u8>>,
}

impl<'e> Finder<'e> {
    fn new(edits: &'e [Edit<'e>]) -> Self {
        Self {
            edits,
            found: vec![false; edits.len()],
            splices: Vec::new(),
            depth: 0,
            top: None,
            inner: Open::default(),
            inner_edit: 0,
            at: At::Other,
            begins: 0,
            replaces: None,
        }
    }

    fn into_plan(mut self) -> Result<Plan, RewriteError> {
        let top = self.top.ok_or(RewriteError::NotAnObject)?;
        let missing = self
            .edits
            .iter()
            .zip(&self.found)
            .filter(|(edit, found)| !**found && !matches!(edit, Edit::Replace { .. }));
        let texts: Vec<_> = missing.map(|(edit, _)| member_text(edit.member(), &edit.value())).collect();
        if !texts.is_empty() {
            self.splices.insert(0, added(texts.join(&b','), top));
        }
        if self.splices.len() > OCCURRENCES_MAX {
            return Err(RewriteError::TooManyOccurrences);
        }
        Ok(Plan { splices: self.splices })
    }

    /// The number of the edit of a member of the top level.
    fn edit_of(&self, name: &[u8]) -> Option<usize> {
        // The lexer cuts long names, and none that is edited is as long as what is left of one.
        self.edits.iter().position(|edit| edit.member().as_bytes() == name)
    }
}

/// Puts members into an object.
fn added(mut members: Vec<u8>, object: Open) -> Splice {
    if object.has_members {
        members.push(b',');
    }
    Splice { range: object.inside..object.inside, with: members.into() }
}

impl Visitor for Finder<'_> {
    fn name(&mut self, name: &[u8]) {
        self.at = match (self.depth, self.edits.get(self.inner_edit)) {
            (1, _) => {
                self.top = self.top.map(|top| Open { has_members: true, ..top });
                self.edit_of(name).map_or(At::Other, At::Edited)
            }
            (_, Some(Edit::SetIn { name: inner, .. })) => {
                self.inner.has_members = true;
                if inner.as_bytes() == name { At::Inner(self.inner_edit) } else { At::Other }
            }
            _ => At::Other,
        };
    }

    fn value_begins(&mut self, offset: u64) {
        self.begins = offset;
    }

    fn value(&mut self, kind: Kind) -> Want {
        let open = Open { inside: self.begins + 1, ..Open::default() };
        if self.depth == 0 {
            if kind != Kind::Object {
                return Want::Skip;
            }
            (self.top, self.depth) = (Some(open), 1);
            return Want::Read;
        }
        match self.at {
            At::Other => {}
            At::Edited(number) => {
                self.found[number] = true;
                if matches!(self.edits[number], Edit::SetIn { .. }) && kind == Kind::Object {
                    (self.inner, self.inner_edit, self.depth) = (open, number, 2);
                    return Want::Read;
                }
                self.replaces = Some(self.edits[number].value());
            }
            At::Inner(number) => {
                self.inner.found = true;
                if let Edit::SetIn { value, .. } = self.edits[number] {
                    self.replaces = Some(value.to_vec());
                }
            }
        }
        Want::Skip
    }

    fn value_ends(&mut self, offset: u64) {
        // Beyond the limit the plan is refused, so what is found there need not be kept.
        if let Some(with) = self.replaces.take()
            && self.splices.len() <= OCCURRENCES_MAX
        {
            self.splices.push(Splice { range: self.begins..offset, with: with.into() });
        }
    }

    fn text(&mut self, _: &[u8]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn text_end(&mut self) {}

    fn scalar(&mut self, _: Scalar) {}

    fn close(&mut self) {
        if self.depth == 2
            && !self.inner.found
            && let Edit::SetIn { name, value, .. } = self.edits[self.inner_edit]
            && self.splices.len() <= OCCURRENCES_MAX
        {
            self.splices.push(added(member_text(name, value), self.inner));
        }
        self.depth = self.depth.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::testing::{Json, any_json, any_sizes, any_text, chunks};

    fn rewritten(body: &[u8], sizes: &[usize], edits: &[Edit<'_>]) -> Result<Vec<u8>, RewriteError> {
        let slices = chunks(body, sizes);
        let plan = Plan::new(slices.iter().copied(), edits)?;
        let slices: Vec<_> = slices.into_iter().map(Bytes::copy_from_slice).collect();
        let changed = plan.apply(&slices).concat();
        assert_eq!(plan.body_bytes(body.len() as u64), changed.len() as u64);
        Ok(changed)
    }

    const MODEL: Edit<'_> = Edit::Replace { name: "model", value: b"\"new\"" };
    const STREAM: Edit<'_> = Edit::Set { name: "stream", value: b"true" };
    const USAGE: Edit<'_> = Edit::SetIn { object: "stream_options", name: "include_usage", value: b"true" };

    fn text(body: &str, edit: Edit<'_>) -> String {
        let whole = rewritten(body.as_bytes(), &[], &[edit]).expect(body);
        for size in 1..5 {
            assert_eq!(rewritten(body.as_bytes(), &[size], &[edit]).as_ref(), Ok(&whole), "cut by {size}: {body}");
        }
        String::from_utf8(whole).unwrap()
    }

    /// S05, S11: what is not the value itself stays as it was, whatever is unusual about it.
    #[test]
    fn only_the_value_of_the_member_changes() {
        for (before, after) in [
            (r#"{"model":"old"}"#, r#"{"model":"new"}"#),
            (
                r#" { "a" : 1.0e0 , "model" :  "old"  , "z":[{"model":"x"}] } "#,
                r#" { "a" : 1.0e0 , "model" :  "new"  , "z":[{"model":"x"}] } "#,
            ),
            (
                r#"{"model":null,"model":{"a":[1]},"m\u006fdel":12}"#,
                r#"{"model":"new","model":"new","m\u006fdel":"new"}"#,
            ),
            (
                r#"{"messages":[{"content":"{\"model\":1}"}],"model":"a\"b"}"#,
                r#"{"messages":[{"content":"{\"model\":1}"}],"model":"new"}"#,
            ),
            (r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#),
            ("{}", "{}"),
        ] {
            assert_eq!(text(before, MODEL), after);
        }
    }

    #[test]
    fn a_member_that_is_not_there_is_added() {
        for (before, after) in [
            ("{}", r#"{"stream":true}"#),
            ("\n{ \n} ", "\n{\"stream\":true \n} "),
            (r#"{ "a":1}"#, r#"{"stream":true, "a":1}"#),
            (r#"{"stream":false,"a":1}"#, r#"{"stream":true,"a":1}"#),
            (r#"{"a":{"stream":1}}"#, r#"{"stream":true,"a":{"stream":1}}"#),
        ] {
            assert_eq!(text(before, STREAM), after);
        }
    }

    #[test]
    fn a_member_of_a_member_is_set_whatever_is_there() {
        for (before, after) in [
            ("{}", r#"{"stream_options":{"include_usage":true}}"#),
            (r#"{"stream_options":null}"#, r#"{"stream_options":{"include_usage":true}}"#),
            (r#"{"stream_options":[{}]}"#, r#"{"stream_options":{"include_usage":true}}"#),
            (r#"{"stream_options":{ }}"#, r#"{"stream_options":{"include_usage":true }}"#),
            (
                r#"{"stream_options":{"x":{"include_usage":0}}}"#,
                r#"{"stream_options":{"include_usage":true,"x":{"include_usage":0}}}"#,
            ),
            (
                r#"{"stream_options":{"include_usage":false,"x":1,"include_usage":null}}"#,
                r#"{"stream_options":{"include_usage":true,"x":1,"include_usage":true}}"#,
            ),
            (
                r#"{"stream_options":{},"stream_options":5}"#,
                r#"{"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}"#,
            ),
        ] {
            assert_eq!(text(before, USAGE), after);
        }
    }

    #[test]
    fn a_body_that_cannot_be_changed_is_refused_with_the_reason() {
        let refused = |body: &str| rewritten(body.as_bytes(), &[], &[STREAM]).unwrap_err();
        assert_eq!(refused("[{}]"), RewriteError::NotAnObject);
        assert_eq!(refused("7"), RewriteError::NotAnObject);
        assert!(matches!(refused(r#"{"a":1"#), RewriteError::Json(_)));
        assert!(matches!(refused("{} {}"), RewriteError::Json(_)));
        assert!(matches!(refused(""), RewriteError::Json(_)));
        let body = |times: usize| format!(r#"{{{}"a":1}}"#, r#""stream":1,"#.repeat(times));
        assert!(rewritten(body(OCCURRENCES_MAX).as_bytes(), &[], &[STREAM]).is_ok());
        assert_eq!(refused(&body(OCCURRENCES_MAX + 1)), RewriteError::TooManyOccurrences);
        assert_eq!(refused(&body(100_000)), RewriteError::TooManyOccurrences);
    }

    #[test]
    fn what_stays_is_not_copied() {
        let body = Bytes::from_static(br#"{"a":1,"model":"m","z":2}"#);
        let pieces = Plan::new([&body[..]], &[MODEL]).unwrap().apply(std::slice::from_ref(&body));
        assert_eq!(pieces.len(), 3);
        assert_eq!((pieces[0].as_ptr(), pieces[2].as_ptr()), (body.as_ptr(), body[18..].as_ptr()));
    }

    fn any_name() -> impl Strategy<Value = String> {
        let known = prop::sample::select(vec!["model", "stream", "stream_options", "messages"]);
        prop_oneof![3 => known.prop_map(str::to_owned), 1 => any_text()]
    }

    fn any_options() -> impl Strategy<Value = Json> {
        let name = prop_oneof![Just("include_usage".to_owned()), any_text()];
        prop::collection::vec((name, any_json()), 0..3).prop_map(Json::Object)
    }

    /// The edits on a document.
    fn edited(mut value: Value) -> Value {
        let body = value.as_object_mut().unwrap();
        if let Some(model) = body.get_mut("model") {
            *model = "new".into();
        }
        body.insert("stream".to_owned(), true.into());
        let options = body.entry("stream_options").or_insert(Value::Null);
        if !options.is_object() {
            *options = serde_json::json!({});
        }
        options["include_usage"] = true.into();
        value
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn a_changed_body_reads_as_the_changed_document(
            members in prop::collection::vec((any_name(), prop_oneof![any_json(), any_options()]), 0..6),
            style in 0u8..8,
            sizes in any_sizes(),
        ) {
            let body = Json::Object(members).written(style);
            let changed = rewritten(body.as_bytes(), &sizes, &[MODEL, STREAM, USAGE]).unwrap();
            let before: Value = serde_json::from_str(&body).unwrap();
            let after: Value = serde_json::from_slice(&changed).unwrap();
            prop_assert_eq!(after, edited(before));
        }

        #[test]
        fn bytes_outside_the_splices_stay(
            members in prop::collection::vec((any_name(), any_json()), 0..6),
            style in 0u8..8,
        ) {
            let body = Json::Object(members).written(style);
            let plan = Plan::new([body.as_bytes()], &[MODEL, STREAM, USAGE]).unwrap();
            let changed = plan.apply(&[Bytes::from(body.clone())]).concat();
            let (mut rest, mut at) = (&changed[..], 0);
            for splice in plan.splices() {
                let (start, end) = (splice.range.start as usize, splice.range.end as usize);
                prop_assert!(at <= start && start <= end);
                rest = rest.strip_prefix(&body.as_bytes()[at..start]).and_then(|r| r.strip_prefix(&splice.with[..])).unwrap();
                at = end;
            }
            prop_assert_eq!(rest, &body.as_bytes()[at..]);
        }
    }
}
