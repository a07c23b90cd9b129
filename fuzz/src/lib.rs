//! What several targets share: cutting the input, and a document rebuilt from the lexer's calls.

use std::ops::ControlFlow;

use kvroute_wire::json::{Error, Kind, Lexer, NAME_BYTES_MAX, Scalar, Visitor, Want};
use serde_json::{Map, Value};

/// The first byte of the input picks a variant, the second how the rest is cut.
pub fn split(data: &[u8]) -> Option<(u8, u8, &[u8])> {
    let (&[variant, cut], rest) = data.split_first_chunk()?;
    Some((variant, cut, rest))
}

/// Cuts `bytes` into chunks of sizes that follow from `cut`; 0 leaves it whole.
pub fn chunks(bytes: &[u8], cut: u8) -> Vec<&[u8]> {
    let (mut rest, mut state, mut out) = (bytes, u32::from(cut), Vec::new());
    if cut == 0 {
        return vec![bytes];
    }
    while !rest.is_empty() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let size = if cut < 8 { usize::from(cut) } else { (state >> 24) as usize % 40 + 1 };
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        out.push(chunk);
        rest = after;
    }
    out
}

/// A number that the lexer does not tell from others.
pub fn other_number() -> Value {
    Value::from("(other number)")
}

/// Rebuilds a document from the calls, and checks the positions that it is told.
#[derive(Default)]
pub struct Rebuild {
    open: Vec<(Value, Option<String>)>,
    text: Vec<u8>,
    /// Every other string is wanted as it is written.
    is_written: bool,
    root: Option<Value>,
    /// A name was so long that it may have been cut.
    pub long_name: bool,
    begun: Vec<u64>,
    ended: u64,
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

    /// The document, or why there is none.
    pub fn read(bytes: &[u8], cut: u8) -> (Result<Value, Error>, bool) {
        let (mut lexer, mut visitor) = (Lexer::new(), Self::default());
        let fed = chunks(bytes, cut).into_iter().try_for_each(|chunk| lexer.feed(chunk, &mut visitor));
        let outcome = fed.and_then(|()| lexer.finish(&mut visitor));
        assert!(outcome.is_err() || visitor.begun.is_empty(), "a value has no end");
        (outcome.map(|()| visitor.root.expect("complete without a value")), visitor.long_name)
    }
}

impl Visitor for Rebuild {
    fn name(&mut self, name: &[u8]) {
        assert!(name.len() <= NAME_BYTES_MAX);
        self.long_name |= name.len() == NAME_BYTES_MAX;
        let (_, slot) = self.open.last_mut().expect("a name outside an object");
        *slot = Some(String::from_utf8_lossy(name).into_owned());
    }

    fn value_begins(&mut self, offset: u64) {
        assert!(offset >= self.ended);
        self.begun.push(offset);
    }

    fn value_ends(&mut self, offset: u64) {
        assert!(self.begun.pop().expect("an end without a beginning") < offset && offset > self.ended);
        self.ended = offset;
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
        let mut text = String::from_utf8(std::mem::take(&mut self.text)).expect("bad utf-8 was let through");
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
            Scalar::Unsigned(value) => Value::from(value),
            Scalar::OtherNumber => other_number(),
        });
    }

    fn close(&mut self) {
        let (value, _) = self.open.pop().expect("a close without an open");
        self.put(value);
    }
}

/// The oracle's document as [`Rebuild`] sees it.
pub fn seen(value: Value) -> Value {
    match value {
        Value::Number(number) if !number.is_u64() => other_number(),
        Value::Array(array) => Value::Array(array.into_iter().map(seen).collect()),
        Value::Object(object) => object.into_iter().map(|(name, value)| (name, seen(value))).collect(),
        other => other,
    }
}
