//! The lexer itself: one state, one step a byte or run. Strings, numbers and skipping have their own files.

use std::ops::ControlFlow;

use super::gathered::Gathered;
use super::number::Number;
use super::skip::Skip;
use super::stack::Stack;
use super::string::{Form, Piece, Stop, StringReader};
use super::{Error, ErrorKind, Kind, NAME_BYTES_MAX, Scalar, Visitor, Want};

/// What the lexer is in the middle of.
#[derive(Debug, Clone, Copy)]
pub(super) enum State {
    /// A value must begin; after `[` the array may close instead.
    Value {
        or_close: bool,
    },
    /// A member name must begin; after `{` the object may close instead.
    NameStart {
        or_close: bool,
    },
    Name,
    Colon,
    /// After a value in a container: a comma or the end of the container.
    Next,
    Text(Form),
    Number {
        read: bool,
    },
    Literal {
        rest: &'static [u8],
        scalar: Scalar,
        read: bool,
    },
    SkipText {
        escaped: bool,
        report_end: bool,
    },
    SkipNested(Skip),
    /// After the document.
    End,
    Failed(Error),
}

/// A fault inside the current chunk: the kind, and the position in the chunk.
pub(super) type Fault = (ErrorKind, usize);

/// The lexer. See the header of [`crate::json`] for its rules.
#[derive(Debug)]
pub struct Lexer {
    pub(super) state: State,
    pub(super) stack: Stack,
    string: StringReader,
    number: Number,
    name: Vec<u8>,
    gathered: Gathered,
    offset: u64,
}

impl Default for Lexer {
    fn default() -> Self {
        Self::new()
    }
}

impl Lexer {
    /// A lexer at the beginning of a document.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Value { or_close: false },
            stack: Stack::default(),
            string: StringReader::default(),
            number: Number::default(),
            name: Vec::new(),
            gathered: Gathered::default(),
            offset: 0,
        }
    }

    /// Takes the next bytes of the document.
    ///
    /// # Errors
    /// The first thing that cannot be accepted; afterwards the same error for every call.
    pub fn feed<V: Visitor>(&mut self, chunk: &[u8], visitor: &mut V) -> Result<(), Error> {
        if let State::Failed(error) = self.state {
            return Err(error);
        }
        let mut at = 0;
        while at < chunk.len() {
            at = self.step(chunk, at, visitor).map_err(|(kind, at)| self.fail(kind, at))?;
        }
        self.offset += chunk.len() as u64;
        Ok(())
    }

    /// Tells that no more bytes come.
    ///
    /// # Errors
    /// The document was refused before, is incomplete, or absent.
    pub fn finish<V: Visitor>(&mut self, visitor: &mut V) -> Result<(), Error> {
        match self.state {
            State::Failed(error) => Err(error),
            State::End => Ok(()),
            State::Number { read } if self.stack.is_empty() && self.number.is_complete() => {
                self.number_end(0, read, visitor);
                Ok(())
            }
            State::Value { .. } if self.stack.is_empty() => Err(self.fail(ErrorKind::Empty, 0)),
            State::Text(_) => {
                // What has come of the text is told, so that it does not depend on the cut. All is over anyway.
                let _ = self.flush(visitor);
                Err(self.fail(ErrorKind::Truncated, 0))
            }
            _ => Err(self.fail(ErrorKind::Truncated, 0)),
        }
    }

    fn fail(&mut self, kind: ErrorKind, at: usize) -> Error {
        let error = Error { kind, offset: self.offset + at as u64 };
        self.state = State::Failed(error);
        error
    }

    /// Consumes at least one byte of `chunk[at..]` or changes state; returns the new position.
    fn step<V: Visitor>(&mut self, chunk: &[u8], at: usize, visitor: &mut V) -> Result<usize, Fault> {
        match self.state {
            State::Text(form) => self.text(chunk, at, form, visitor),
            State::Name => self.name(chunk, at, visitor),
            State::Number { read } => self.number(chunk, at, read, visitor),
            State::Literal { rest, scalar, read } => self.literal(chunk, at, (rest, scalar, read), visitor),
            State::SkipText { escaped, report_end } => Ok(self.skip_text(chunk, at, escaped, report_end, visitor)),
            State::SkipNested(skip) => self.skip_nested(chunk, at, skip, visitor),
            _ => self.structure(chunk, at, visitor),
        }
    }

    /// White space and the bytes that give a document its shape.
    fn structure<V: Visitor>(&mut self, chunk: &[u8], at: usize, visitor: &mut V) -> Result<usize, Fault> {
        let byte = chunk[at];
        if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
            return Ok(at + 1);
        }
        match (self.state, byte) {
            (State::Value { or_close: true }, b']') | (State::NameStart { or_close: true }, b'}') => {
                self.close(at, visitor);
            }
            (State::Value { .. }, _) => return self.value(byte, at, visitor),
            (State::NameStart { .. }, b'"') => {
                self.name.clear();
                self.state = State::Name;
            }
            (State::Colon, b':') => self.state = State::Value { or_close: false },
            (State::Next, b',') if self.stack.top_is_object() => self.state = State::NameStart { or_close: false },
            (State::Next, b',') => self.state = State::Value { or_close: false },
            (State::Next, b'}') if self.stack.top_is_object() => self.close(at, visitor),
            (State::Next, b']') if !self.stack.top_is_object() => self.close(at, visitor),
            _ => return Err((ErrorKind::Syntax, at)),
        }
        Ok(at + 1)
    }

    /// Begins the value whose first byte is `byte`.
    fn value<V: Visitor>(&mut self, byte: u8, at: usize, visitor: &mut V) -> Result<usize, Fault> {
        let kind = match byte {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b'-' | b'0'..=b'9' => Kind::Number,
            b't' | b'f' | b'n' => Kind::Literal,
            _ => return Err((ErrorKind::Syntax, at)),
        };
        visitor.value_begins(self.offset + at as u64);
        let want = visitor.value(kind);
        if want == Want::Leave && !self.stack.is_empty() {
            self.state = State::SkipNested(Skip::rest_of_container(&self.stack));
            return Ok(at);
        }
        let read = matches!(want, Want::Read | Want::ReadWritten);
        match kind {
            Kind::Object | Kind::Array if !read => {
                self.state = State::SkipNested(Skip::container(&self.stack));
                return Ok(at);
            }
            Kind::Object | Kind::Array => {
                let object = kind == Kind::Object;
                self.stack.push(object).map_err(|too_deep| (too_deep, at))?;
                self.state = match kind {
                    Kind::Object => State::NameStart { or_close: true },
                    _ => State::Value { or_close: true },
                };
            }
            Kind::String if want == Want::ReadWritten => self.state = State::Text(Form::Written),
            Kind::String if read => self.state = State::Text(Form::Plain),
            Kind::String => self.state = State::SkipText { escaped: false, report_end: false },
            Kind::Number => {
                self.number = Number::default();
                self.state = State::Number { read };
                return Ok(at);
            }
            Kind::Literal => {
                let (rest, scalar): (&[u8], _) = match byte {
                    b't' => (b"rue", Scalar::Bool(true)),
                    b'f' => (b"alse", Scalar::Bool(false)),
                    _ => (b"ull", Scalar::Null),
                };
                self.state = State::Literal { rest, scalar, read };
            }
        }
        Ok(at + 1)
    }

    /// The innermost container closes, by the byte at `at`.
    fn close<V: Visitor>(&mut self, at: usize, visitor: &mut V) {
        self.stack.pop();
        self.value_done(at + 1, visitor);
        visitor.close();
    }

    /// A value is over, at `end` in the current chunk.
    pub(super) fn value_done<V: Visitor>(&mut self, end: usize, visitor: &mut V) {
        visitor.value_ends(self.offset + end as u64);
        self.state = if self.stack.is_empty() { State::End } else { State::Next };
    }

    fn name<V: Visitor>(&mut self, chunk: &[u8], mut at: usize, visitor: &mut V) -> Result<usize, Fault> {
        while at < chunk.len() {
            let (piece, next) = self.string.next(chunk, at)?;
            let run = chunk.get(next).is_some_and(|&byte| byte == b'"');
            match piece {
                // The usual name: whole, in this chunk, without escapes.
                Piece::Raw(raw) if run && self.name.is_empty() && self.string.is_whole() => {
                    visitor.name(&raw[..raw.len().min(NAME_BYTES_MAX)]);
                    self.state = State::Colon;
                    return Ok(next + 1);
                }
                Piece::Raw(raw) => {
                    let room = NAME_BYTES_MAX - self.name.len();
                    self.name.extend_from_slice(&raw[..raw.len().min(room)]);
                }
                Piece::Char(c) => {
                    let mut buffer = [0; 4];
                    let encoded = c.encode_utf8(&mut buffer).as_bytes();
                    let room = NAME_BYTES_MAX - self.name.len();
                    self.name.extend_from_slice(&encoded[..encoded.len().min(room)]);
                }
                Piece::Nothing => {}
                Piece::End => {
                    visitor.name(&self.name);
                    self.state = State::Colon;
                    return Ok(next);
                }
            }
            at = next;
        }
        Ok(at)
    }

    fn text<V: Visitor>(&mut self, chunk: &[u8], at: usize, form: Form, visitor: &mut V) -> Result<usize, Fault> {
        let (stop, at) = self.string.gather(chunk, at, form, &mut self.gathered)?;
        let flow = match stop {
            Stop::ChunkEnd => ControlFlow::Continue(()),
            Stop::Enough => self.flush(visitor),
            Stop::Run(run) => match self.flush(visitor) {
                ControlFlow::Continue(()) => visitor.text(run),
                enough => enough,
            },
            Stop::End => {
                // The string is over, so a visitor that has enough has nothing left to skip.
                let _ = self.flush(visitor);
                self.value_done(at, visitor);
                visitor.text_end();
                return Ok(at);
            }
        };
        if flow.is_break() {
            self.string = StringReader::default();
            self.state = State::SkipText { escaped: false, report_end: true };
        }
        Ok(at)
    }

    fn flush<V: Visitor>(&mut self, visitor: &mut V) -> ControlFlow<()> {
        if self.gathered.is_empty() {
            return ControlFlow::Continue(());
        }
        let flow = visitor.text(self.gathered.bytes());
        self.gathered.clear();
        flow
    }

    fn number<V: Visitor>(&mut self, chunk: &[u8], mut at: usize, read: bool, visitor: &mut V) -> Result<usize, Fault> {
        while let Some(&byte) = chunk.get(at) {
            if !self.number.take(byte) {
                if !self.number.is_complete() {
                    return Err((ErrorKind::Syntax, at));
                }
                self.number_end(at, read, visitor);
                return Ok(at);
            }
            at += 1;
            at += self.number.take_digits(&chunk[at..]);
        }
        Ok(at)
    }

    fn number_end<V: Visitor>(&mut self, end: usize, read: bool, visitor: &mut V) {
        self.value_done(end, visitor);
        if read {
            visitor.scalar(self.number.scalar());
        }
    }

    fn literal<V: Visitor>(
        &mut self,
        chunk: &[u8],
        at: usize,
        (rest, scalar, read): (&'static [u8], Scalar, bool),
        visitor: &mut V,
    ) -> Result<usize, Fault> {
        let seen = &chunk[at..chunk.len().min(at + rest.len())];
        if let Some(wrong) = seen.iter().zip(rest).position(|(a, b)| a != b) {
            return Err((ErrorKind::Syntax, at + wrong));
        }
        let rest = &rest[seen.len()..];
        if rest.is_empty() {
            self.value_done(at + seen.len(), visitor);
            if read {
                visitor.scalar(scalar);
            }
        } else {
            self.state = State::Literal { rest, scalar, read };
        }
        Ok(at + seen.len())
    }
}
