//! Passing over what nobody wants: only the ends of strings and the matching of brackets are looked at.

use kvroute_core::written::{BLOCK_BYTES, Block, Escapes};

use super::lexer::{Fault, Lexer, State};
use super::stack::Stack;
use super::{ErrorKind, Visitor};

/// Bytes that matter outside strings.
const STRUCTURAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 5 {
        table[b"\"{}[]"[i] as usize] = true;
        i += 1;
    }
    table
};

/// A container, or the rest of one, that is being passed over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Skip {
    /// Open containers when it is over.
    floor: u8,
    /// The visitor descended into the container and must hear of its end.
    report_close: bool,
    /// Open containers below the deepest whose kind is remembered. They are counted only: what nobody wants may be
    /// nested as deeply as its sender likes.
    beyond: u32,
    in_string: bool,
    escaped: bool,
}

impl Skip {
    /// The container that begins next.
    pub(super) fn container(stack: &Stack) -> Self {
        Self { floor: stack.depth(), report_close: false, beyond: 0, in_string: false, escaped: false }
    }

    /// The rest of the innermost open container.
    pub(super) fn rest_of_container(stack: &Stack) -> Self {
        debug_assert!(!stack.is_empty());
        Self { floor: stack.depth() - 1, report_close: true, beyond: 0, in_string: false, escaped: false }
    }
}

/// Where the string that `chunk[at..]` is inside of goes on after `chunk`, or the position after its closing quote.
///
/// By blocks, since code and JSON have a quote every few dozen bytes. Where a block begins does not depend on what was in
/// the one before, so that the processor reads ahead.
fn string_end(chunk: &[u8], mut at: usize, escaped: bool) -> Result<usize, bool> {
    let mut escapes = Escapes::begin(escaped);
    while let Some(block) = Block::at(chunk, at) {
        let ends = block.bits_of(b'"') & !escapes.escaped_by(block.bits_of(b'\\'));
        if ends != 0 {
            return Ok(at + ends.trailing_zeros() as usize + 1);
        }
        at += BLOCK_BYTES;
    }
    let mut escaped = escapes.reaches_on();
    for (i, &byte) in chunk.iter().enumerate().skip(at) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Ok(i + 1),
            _ => {}
        }
    }
    Err(escaped)
}

impl Lexer {
    pub(super) fn skip_text<V: Visitor>(
        &mut self,
        chunk: &[u8],
        at: usize,
        escaped: bool,
        report_end: bool,
        visitor: &mut V,
    ) -> usize {
        match string_end(chunk, at, escaped) {
            Ok(end) => {
                self.value_done(end, visitor);
                if report_end {
                    visitor.text_end();
                }
                end
            }
            Err(escaped) => {
                self.state = State::SkipText { escaped, report_end };
                chunk.len()
            }
        }
    }

    pub(super) fn skip_nested<V: Visitor>(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        mut skip: Skip,
        visitor: &mut V,
    ) -> Result<usize, Fault> {
        loop {
            if skip.in_string {
                match string_end(chunk, at, skip.escaped) {
                    Ok(end) => {
                        skip.in_string = false;
                        skip.escaped = false;
                        at = end;
                    }
                    Err(escaped) => {
                        skip.escaped = escaped;
                        break;
                    }
                }
            }
            let Some(found) = chunk[at..].iter().position(|&byte| STRUCTURAL[usize::from(byte)]) else { break };
            let byte_at = at + found;
            at = byte_at + 1;
            match chunk[byte_at] {
                b'"' => skip.in_string = true,
                open @ (b'{' | b'[') => {
                    if skip.beyond > 0 || self.stack.push(open == b'{').is_err() {
                        skip.beyond = skip.beyond.saturating_add(1);
                    }
                }
                _ if skip.beyond > 0 => skip.beyond -= 1,
                close => {
                    if self.stack.top_is_object() != (close == b'}') {
                        return Err((ErrorKind::Syntax, byte_at));
                    }
                    self.stack.pop();
                    if self.stack.depth() == skip.floor {
                        self.value_done(at, visitor);
                        if skip.report_close {
                            visitor.close();
                        }
                        return Ok(at);
                    }
                }
            }
        }
        self.state = State::SkipNested(skip);
        Ok(chunk.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::string_end;

    /// One byte after the other.
    fn naive(chunk: &[u8], at: usize, mut escaped: bool) -> Result<usize, bool> {
        for (i, &byte) in chunk.iter().enumerate().skip(at) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => return Ok(i + 1),
                _ => {}
            }
        }
        Err(escaped)
    }

    proptest! {
        #[test]
        fn a_string_ends_at_its_first_quote_that_is_not_escaped(
            pieces in prop::collection::vec(
                prop::sample::select(vec!["a", "\\\"", "\\\\", "\\n", "\"", "\\\\\\\"", "twenty letters at once"]),
                0..60,
            ),
            backslashes in 0usize..150,
            at in 0usize..4,
            escaped in any::<bool>(),
        ) {
            let text = pieces.concat().replacen("a", &"\\".repeat(backslashes), 1);
            let at = at.min(text.len());
            prop_assert_eq!(string_end(text.as_bytes(), at, escaped), naive(text.as_bytes(), at, escaped));
        }
    }
}
