//! Text that stays text, whatever is in it.

/// Text for HTML, also inside attributes. A percent sign stays with its number.
pub(super) fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            ' ' if characters.peek() == Some(&'%') => out.push('\u{a0}'),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are no part of HTML.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// JSON that cannot end the script element that it stands in, nor be taken for anything but JSON.
pub(super) fn json(text: &str) -> String {
    text.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_element_that_it_stands_in() {
        let hostile = "</script><img src=x onerror='alert(1)'>&\u{2028}\"\u{0}";
        assert_eq!(html("5 % of"), "5\u{a0}% of");
        assert!(!html(hostile).contains(['<', '"', '\'', '\u{0}']));
        let value = serde_json::json!({ "name": hostile });
        let embedded = json(&value.to_string());
        assert!(!embedded.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&embedded).unwrap(), value);
    }
}
