//! What to do about text that is not YAML, where the parser's words do not say it.

/// Help for a syntax error at `offset` in `text`; `line` is what stands around it. Empty if there is none.
pub(super) fn help(text: &str, line: &str, offset: usize, message: &str) -> String {
    // Inside `{...}` an unquoted value ends at a bracket or brace; nothing in the parser's words says so.
    if line.contains("://[") {
        return "put an ipv6 url in quotes".to_owned();
    }
    if line.contains("${") {
        return "put `${...}` in quotes inside a mapping in braces".to_owned();
    }
    let before = &text[..text.floor_char_boundary(offset)];
    if message.contains("unclosed bracket") {
        return format!("close it with `{}`", if text[before.len()..].starts_with('[') { ']' } else { '}' });
    }
    // What follows an open bracket is read as a part of it, and the error is where that makes no sense any more.
    match innermost_open(before) {
        Some((bracket, line)) if line < line_number(before) => {
            format!("the `{}` of line {line} is not closed", char::from(bracket))
        }
        _ => String::new(),
    }
}

fn line_number(before: &str) -> usize {
    1 + before.bytes().filter(|&byte| byte == b'\n').count()
}

/// The last bracket or brace that is open at the end of `text`, and its line: as far as can be told without parsing.
fn innermost_open(text: &str) -> Option<(u8, usize)> {
    let (mut open, mut quote, mut line) = (Vec::new(), None, 1);
    // What stands before, on the line and right before; a line feed where nothing does.
    let (mut last_word, mut last) = (b'\n', b'\n');
    let mut is_comment = false;
    for byte in text.bytes() {
        let begins_value = matches!(last_word, b'\n' | b':' | b',' | b'[' | b'{' | b'-');
        match byte {
            b'\n' => (line, last_word, is_comment) = (line + 1, b'\n', false),
            _ if is_comment => {}
            _ if quote == Some(byte) => quote = None,
            _ if quote.is_some() => {}
            b'"' | b'\'' if begins_value => quote = Some(byte),
            b'#' if last.is_ascii_whitespace() => is_comment = true,
            b'[' | b'{' if begins_value => open.push((byte, line)),
            b']' | b'}' => drop(open.pop_if(|&mut (opened, _)| opened + 2 == byte)),
            _ => {}
        }
        last = byte;
        if !byte.is_ascii_whitespace() {
            last_word = byte;
        }
    }
    open.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bracket_that_is_open_is_found_and_what_only_looks_like_one_is_not() {
        for (text, expected) in [
            ("a: [b, {c: d}\n", Some((b'[', 1))),
            ("a: [b,\n {c: d, \n", Some((b'{', 2))),
            ("a: [b]\nc: {d: [e]}\n", None),
            ("a: b[\n# [\nc: \"[\"\nd: '{' # {\n", None),
            ("- [\n", Some((b'[', 1))),
            ("[a\n]\n{", Some((b'{', 3))),
            ("", None),
        ] {
            assert_eq!(innermost_open(text), expected, "{text:?}");
        }
    }
}
