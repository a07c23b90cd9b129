//! Text as JSON writes it at its shortest: `"`, `\\` and control characters are escaped, by one letter where there is one;
//! everything else stands for itself.
//!
//! It is the form in which prompts are hashed. Most clients write it so. It is as good a name for the text as the text itself, since there is one for each, and a
//! string that is written so needs no un-escaping: its bytes are handed on as they came.

mod block;
mod chars;

use memchr::memchr;

pub use self::block::{BLOCK_BYTES, Block, Escapes};
pub use self::chars::Chars;

/// How many bytes of `chunk`, which begins between two characters of a string, stand as they should: up to the closing
/// quote, an escape that is to be written otherwise, is none, or is not all there, or the end.
pub fn run(chunk: &[u8]) -> usize {
    let mut escapes = Escapes::begin(false);
    let mut at = 0;
    while let Some(block) = Block::at(chunk, at) {
        let (quotes, backslashes) = (block.bits_of(b'"'), block.bits_of(b'\\'));
        let escaped = escapes.escaped_by(backslashes);
        let ends = quotes & !escaped;
        let others = escaped & !(quotes | backslashes | block.bits_of_any(*b"nrtbf"));
        if ends | others != 0 {
            let stop = (ends | others).trailing_zeros();
            let is_escape = others >> stop & 1;
            return at + stop as usize - is_escape as usize;
        }
        at += BLOCK_BYTES;
    }
    if escapes.reaches_on() {
        at -= 1;
    }
    while let Some(&byte) = chunk.get(at) {
        at += match byte {
            b'"' => break,
            b'\\' if matches!(chunk.get(at + 1), Some(b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'f')) => 2,
            b'\\' => break,
            _ => 1,
        };
    }
    at
}

/// The text as it is written.
#[must_use]
pub fn written(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    text.chars().for_each(|c| write(c, |bytes| out.extend_from_slice(bytes)));
    String::from_utf8(out).expect("whole characters")
}

/// The text that is written so; what is no escape of this form stays as it is.
#[must_use]
pub fn plain(written: &str) -> String {
    let mut out = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let letter = after.chars().next();
        let code = || u8::from_str_radix(after.strip_prefix("u00")?.get(..2)?, 16).ok();
        let (c, len) = match letter {
            Some(c @ ('"' | '\\')) => (c, 1),
            Some('n') => ('\n', 1),
            Some('r') => ('\r', 1),
            Some('t') => ('\t', 1),
            Some('b') => ('\u{8}', 1),
            Some('f') => ('\u{c}', 1),
            _ => code().map_or(('\\', 0), |code| (char::from(code), 5)),
        };
        out.push(c);
        rest = &after[len..];
    }
    out.push_str(rest);
    out
}

/// How long a text is that is written so: a piece of one, not cut inside an escape.
#[must_use]
pub fn plain_bytes(written: &[u8]) -> usize {
    let (mut bytes, mut at) = (written.len(), 0);
    while let Some(found) = written.get(at..).and_then(|rest| memchr(b'\\', rest)) {
        let more = if written.get(at + found + 1) == Some(&b'u') { 5 } else { 1 };
        bytes = bytes.saturating_sub(more);
        at += found + 1 + more;
    }
    bytes
}

/// Hands the character to `out` as it is written.
pub fn write(c: char, out: impl FnOnce(&[u8])) {
    let letter = match c {
        '"' | '\\' => c as u8,
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        '\0'..='\u{1f}' => {
            let hex = |digit: u8| if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
            let code = c as u8;
            return out(&[b'\\', b'u', b'0', b'0', hex(code >> 4), hex(code & 0xF)]);
        }
        _ => return out(c.encode_utf8(&mut [0; 4]).as_bytes()),
    };
    out(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_run_ends_before_the_first_thing_that_is_written_otherwise(
            runs in prop::collection::vec(prop::sample::select(vec!["a", "\\n", "\\\"", "\\\\", "\\t", "thirty letters without a stop  "]), 0..40),
            end in prop::sample::select(vec!["", "\"", "\\", "\\u00e9", "\\/", "\\x"]),
            rest in prop::sample::select(vec!["", "and more, as long as a block and something, so that it is looked at"]),
        ) {
            let written = runs.concat();
            let rest = if end.is_empty() || end == "\\" { "" } else { rest };
            prop_assert_eq!(run(format!("{written}{end}{rest}").as_bytes()), written.len());
        }

        #[test]
        fn a_text_is_written_as_serde_json_writes_it(text in any::<String>(), controls in "[\\x00-\\x1f]{0,9}") {
            let text = text + &controls;
            let written = written(&text);
            prop_assert_eq!(plain_bytes(written.as_bytes()), text.len());
            prop_assert_eq!(plain(&written), &text[..]);
            prop_assert_eq!(format!("\"{written}\""), serde_json::to_string(&text).unwrap());
        }
    }
}
