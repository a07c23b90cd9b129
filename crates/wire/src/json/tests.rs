//! `serde_json` is the oracle: what is read is what it reads, and what is refused is what it refuses.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use std::ops::ControlFlow;

use super::*;
use crate::testing::{Json, any_json, any_sizes, any_text, chunks};

/// Rebuilds the document from the calls. Numbers that the lexer does not tell apart become one marker.
#[derive(Default)]
struct Rebuild {
    open: Vec<(Value, Option<String>)>,
    text: Vec<u8>,
    /// Every other string is wanted as it is written.
    is_written: bool,
    root: Option<Value>,
}

fn other_number() -> Value {
    json!("(other number)")
}

impl Rebuild {
    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some((Value::Array(array), _)) => array.push(value),
            Some((Value::Object(object), name)) => {
                object.insert(name.take().expect("a value without a name"), value);
            }
            Some(_) => unreachable!("only containers are open"),
        }
    }
}

impl Visitor for Rebuild {
    fn name(&mut self, name: &[u8]) {
        let (_, slot) = self.open.last_mut().expect("a name outside an object");
        *slot = Some(String::from_utf8_lossy(name).into_owned());
    }

    fn value(&mut self, kind: Kind) -> Want {
        match kind {
            Kind::Object => self.open.push((Value::Object(Map::new()), None)),
            Kind::Array => self.open.push((Value::Array(vec![]), None)),
            Kind::String => {
                self.text.clear();
                self.is_written = !self.is_written;
                if self.is_written {
                    return Want::ReadWritten;
                }
            }
            Kind::Number | Kind::Literal => {}
        }
        Want::Read
    }

    fn text(&mut self, piece: &[u8]) -> ControlFlow<()> {
        assert!(!piece.is_empty());
        self.text.extend_from_slice(piece);
        ControlFlow::Continue(())
    }

    fn text_end(&mut self) {
        let mut text = String::from_utf8(std::mem::take(&mut self.text)).expect("the lexer let bad utf-8 through");
        if self.is_written {
            let written = format!("\"{text}\"");
            text = serde_json::from_str(&written).expect("what is not a text was let through");
            assert_eq!(Value::from(&*text).to_string(), written, "not at its shortest");
        }
        self.put(Value::String(text));
    }

    fn scalar(&mut self, scalar: Scalar) {
        self.put(match scalar {
            Scalar::Null => Value::Null,
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Unsigned(value) => json!(value),
            Scalar::OtherNumber => other_number(),
        });
    }

    fn close(&mut self) {
        let (value, _) = self.open.pop().expect("a close without an open");
        self.put(value);
    }
}

fn rebuilt(bytes: &[u8], sizes: &[usize]) -> Result<Value, Error> {
    let (mut lexer, mut visitor) = (Lexer::new(), Rebuild::default());
    for chunk in chunks(bytes, sizes) {
        lexer.feed(chunk, &mut visitor)?;
    }
    lexer.finish(&mut visitor)?;
    Ok(visitor.root.expect("complete without a value"))
}

/// The oracle's document as [`Rebuild`] sees it.
fn seen(value: Value) -> Value {
    match value {
        Value::Number(number) if !number.is_u64() => other_number(),
        Value::Array(array) => Value::Array(array.into_iter().map(seen).collect()),
        Value::Object(object) => object
            .into_iter()
            .map(|(name, value)| {
                let cut = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
                (String::from_utf8_lossy(cut).into_owned(), seen(value))
            })
            .collect(),
        other => other,
    }
}

/// Long names that are equal after the cut would be merged in another order than the oracle's.
fn has_long_name(json: &Json) -> bool {
    match json {
        Json::Object(members) => {
            members.iter().any(|(name, value)| name.len() > NAME_BYTES_MAX || has_long_name(value))
        }
        Json::Array(elements) => elements.iter().any(has_long_name),
        Json::Plain(_) | Json::Text(_) => false,
    }
}

fn agrees(bytes: &[u8], sizes: &[usize]) {
    let shown = String::from_utf8_lossy(bytes);
    match (serde_json::from_slice::<Value>(bytes), rebuilt(bytes, sizes)) {
        (Ok(theirs), Ok(ours)) => assert_eq!(seen(theirs), ours, "{shown}"),
        (Err(_), Err(_)) => {}
        (Err(error), Ok(_)) => assert!(error.to_string().contains("number out of range"), "{error}: {shown}"),
        (Ok(_), Err(error)) => panic!("{error}: {shown}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_read_is_what_serde_json_reads(json in any_json(), style in 0u8..8, sizes in any_sizes()) {
        prop_assume!(!has_long_name(&json));
        agrees(json.written(style).as_bytes(), &sizes);
    }

    #[test]
    fn what_is_damaged_is_refused_where_serde_json_refuses(
        json in any_json(),
        style in 0u8..8,
        sizes in any_sizes(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, any::<u8>()), 1..4),
    ) {
        prop_assume!(!has_long_name(&json));
        let mut bytes = json.written(style).into_bytes();
        for (index, how, byte) in damage {
            if bytes.is_empty() {
                break;
            }
            let at = index.index(bytes.len());
            match how {
                0 => bytes.truncate(at),
                1 => bytes[at] = byte,
                2 => bytes.insert(at, b"{}[]\",:\\ue0-.tn"[usize::from(byte) % 15]),
                _ => drop(bytes.remove(at)),
            }
        }
        agrees(&bytes, &sizes);
    }

    #[test]
    fn random_bytes_of_json_s_alphabet_are_judged_alike(text in "[\\[\\]{}\",:\\\\ue0-9Ee.truefalsn+ -]{0,24}", sizes in any_sizes()) {
        agrees(text.as_bytes(), &sizes);
    }

    #[test]
    fn skipping_a_well_formed_value_ends_exactly_at_its_end(
        skipped in any_json(),
        style in 0u8..8,
        sizes in any_sizes(),
        want in prop::sample::select(vec![Want::Skip, Want::Leave]),
        after in any_text(),
    ) {
        let array = Json::Array(vec![Json::Array(vec![skipped.clone(), skipped]), Json::Text(after.clone())]);
        let mut visitor = SkipFirst { want, depth: 0, closes: 0, text: vec![] };
        let mut lexer = Lexer::new();
        for chunk in chunks(array.written(style).as_bytes(), &sizes) {
            lexer.feed(chunk, &mut visitor).unwrap();
        }
        lexer.finish(&mut visitor).unwrap();
        prop_assert_eq!(visitor.closes, 2);
        prop_assert_eq!(String::from_utf8(visitor.text).unwrap(), after);
    }

    #[test]
    fn a_value_s_bytes_are_where_it_is_told_to_be(json in any_json(), style in 0u8..8, sizes in any_sizes()) {
        let document = json.written(style);
        let (mut lexer, mut visitor) = (Lexer::new(), Spans::default());
        for chunk in chunks(document.as_bytes(), &sizes) {
            lexer.feed(chunk, &mut visitor).unwrap();
        }
        lexer.finish(&mut visitor).unwrap();
        prop_assert!(visitor.open.is_empty());
        prop_assert_eq!(visitor.spans.len(), values_in(&json));
        for (start, end) in visitor.spans {
            let bytes = &document.as_bytes()[start as usize..end as usize];
            prop_assert_eq!(bytes, bytes.trim_ascii());
            prop_assert!(serde_json::from_slice::<Value>(bytes).is_ok());
        }
    }

    #[test]
    fn a_visitor_that_has_enough_gets_no_more_of_that_string(text in any_text(), sizes in any_sizes(), style in 0u8..8) {
        let array = Json::Array(vec![Json::Text(text.clone()), Json::text("after")]);
        let mut visitor = FirstPiece { strings: vec![], begun: false };
        let mut lexer = Lexer::new();
        for chunk in chunks(array.written(style).as_bytes(), &sizes) {
            lexer.feed(chunk, &mut visitor).unwrap();
        }
        lexer.finish(&mut visitor).unwrap();
        prop_assert_eq!(visitor.strings.len(), 2);
        prop_assert!(text.as_bytes().starts_with(&visitor.strings[0]));
        prop_assert!(b"after".starts_with(&visitor.strings[1][..]));
    }
}

/// Collects where the values are.
#[derive(Default)]
struct Spans {
    open: Vec<u64>,
    spans: Vec<(u64, u64)>,
}

fn values_in(json: &Json) -> usize {
    1 + match json {
        Json::Array(elements) => elements.iter().map(values_in).sum(),
        Json::Object(members) => members.iter().map(|(_, value)| values_in(value)).sum(),
        Json::Plain(_) | Json::Text(_) => 0,
    }
}

impl Visitor for Spans {
    fn name(&mut self, _: &[u8]) {}

    fn value_begins(&mut self, offset: u64) {
        self.open.push(offset);
    }

    fn value_ends(&mut self, offset: u64) {
        self.spans.push((self.open.pop().expect("an end without a beginning"), offset));
    }

    fn value(&mut self, kind: Kind) -> Want {
        // Of what holds no values, half is passed over: its end must be told all the same.
        let holds_values = matches!(kind, Kind::Object | Kind::Array);
        if holds_values || self.spans.len().is_multiple_of(2) { Want::Read } else { Want::Skip }
    }

    fn text(&mut self, _: &[u8]) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn text_end(&mut self) {}

    fn scalar(&mut self, _: Scalar) {}

    fn close(&mut self) {}
}

/// Passes over (or leaves at) the elements of the inner array and reads the string after it.
struct SkipFirst {
    want: Want,
    depth: u8,
    closes: u8,
    text: Vec<u8>,
}

impl Visitor for SkipFirst {
    fn name(&mut self, _: &[u8]) {
        unreachable!("names are only in what is skipped");
    }

    fn value(&mut self, _: Kind) -> Want {
        if self.depth == 2 {
            return self.want;
        }
        self.depth += 1;
        Want::Read
    }

    fn text(&mut self, piece: &[u8]) -> ControlFlow<()> {
        self.text.extend_from_slice(piece);
        ControlFlow::Continue(())
    }

    fn text_end(&mut self) {}

    fn scalar(&mut self, _: Scalar) {
        unreachable!("scalars are only in what is skipped");
    }

    fn close(&mut self) {
        self.closes += 1;
        self.depth -= 1;
    }
}

/// Takes one piece of every string.
struct FirstPiece {
    strings: Vec<Vec<u8>>,
    begun: bool,
}

impl Visitor for FirstPiece {
    fn name(&mut self, _: &[u8]) {}

    fn value(&mut self, _: Kind) -> Want {
        Want::Read
    }

    fn text(&mut self, piece: &[u8]) -> ControlFlow<()> {
        assert!(!std::mem::replace(&mut self.begun, true), "a piece after break");
        self.strings.push(piece.to_vec());
        ControlFlow::Break(())
    }

    fn text_end(&mut self) {
        if !std::mem::take(&mut self.begun) {
            self.strings.push(vec![]);
        }
    }

    fn scalar(&mut self, _: Scalar) {}

    fn close(&mut self) {}
}

#[test]
fn awkward_documents_are_judged_as_serde_json_judges_them() {
    let table: &[&[u8]] = &[
        b"",
        b" \n",
        b"0",
        b"01",
        b"-",
        b"-0",
        b"1.",
        b"1.e1",
        b"1e+",
        b"12 ",
        b"1 2",
        b"tru",
        b"nulll",
        b"+1",
        b".5",
        b"NaN",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"{\"a\":1,}",
        b"{\"a\"}",
        b"{a:1}",
        b"{\"a\":}",
        b"{\"a\":1]",
        b"[}",
        b"]",
        b"\"\\x\"",
        b"\"\\u12g4\"",
        b"\"\\ud83d\\ude00\"",
        b"\"\\ud83d\"",
        b"\"\\ud83d\\n\"",
        b"\"\\ud83d\\ud83d\"",
        b"\"\\ude00\"",
        b"\"\\ud83d\\ue000\"",
        b"\"\x00\"",
        b"\"\x1f\"",
        b"\"\t\"",
        b"\"\xff\"",
        b"\"\xc3\"",
        b"\"\xc3\\n\"",
        b"\"\xc3\\n\xa9\"",
        b"\"\xc3\" \"\xa9\"",
        b"{\"\xc3\":1}",
        b"{\"\xc3\xa9\":1}",
        b"{\"\\u00e9\xff\":1}",
        b"\"\xc3\xa9\"",
        b"\"\xed\xa0\x80\"",
        b"\"\xf4\x90\x80\x80\"",
        b"\"\xf0\x9f\x98\x80\"",
        b"\xef\xbb\xbf{}",
        b"{}{}",
        b"{} x",
        b"\"a",
        b"{\"a\":{\"b\":[1,[2,{}]]},\"a\":0}",
    ];
    for document in table {
        agrees(document, &[]);
        agrees(document, &[1]);
    }
}

#[test]
fn depth_ends_where_serde_json_s_ends_and_nowhere_in_what_is_skipped() {
    for depth in [usize::from(DEPTH_MAX), usize::from(DEPTH_MAX) + 1, 100_000] {
        let nested = "[".repeat(depth) + &"]".repeat(depth);
        agrees(nested.as_bytes(), &[]);
        let in_skipped = format!("[{nested}]");
        let mut visitor = SkipFirst { want: Want::Skip, depth: 1, closes: 0, text: vec![] };
        let outcome = Lexer::new().feed(in_skipped.as_bytes(), &mut visitor);
        assert_eq!((outcome, visitor.closes), (Ok(()), 1), "what is skipped ends where it ends");
    }
}

#[test]
fn brackets_must_match_in_what_is_skipped() {
    for (document, offset) in [("[{]]", 2), ("[[}]", 2), ("[{\"]\":[1,2}}]", 10)] {
        for size in [1, 100] {
            let mut visitor = SkipFirst { want: Want::Skip, depth: 1, closes: 0, text: vec![] };
            let mut lexer = Lexer::new();
            let error = chunks(document.as_bytes(), &[size])
                .into_iter()
                .try_for_each(|chunk| lexer.feed(chunk, &mut visitor))
                .unwrap_err();
            assert_eq!((error.kind, error.offset), (ErrorKind::Syntax, offset), "{document}");
        }
    }
}

#[test]
fn errors_say_where() {
    for (document, sizes, offset) in [
        ("[1,x]", vec![], 3),
        ("[1,x]", vec![1], 3),
        ("{\"a\":tru3}", vec![2], 8),
        ("[1]]", vec![3], 3),
        ("[{\"a\":[}", vec![1], 7),
    ] {
        let error = rebuilt(document.as_bytes(), &sizes).expect_err(document);
        assert_eq!((error.kind, error.offset), (ErrorKind::Syntax, offset), "{document}");
    }
    let (mut lexer, mut visitor) = (Lexer::new(), Rebuild::default());
    let first = lexer.feed(b"[}", &mut visitor).unwrap_err();
    assert_eq!(lexer.feed(b"[]", &mut visitor), Err(first));
    assert_eq!(lexer.finish(&mut visitor), Err(first));
}

#[test]
fn a_long_name_is_cut_and_never_equals_a_known_one() {
    let name = "n".repeat(10_000);
    for sizes in [vec![], vec![7]] {
        let value = rebuilt(format!("{{\"{name}\":1,\"\\u006eame\":2}}").as_bytes(), &sizes).unwrap();
        let names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, ["name".to_owned(), "n".repeat(NAME_BYTES_MAX)]);
    }
}
