//! What several test modules share: random documents, written in random ways, and cut at random places.

use proptest::prelude::*;

/// JSON whose members keep their order and may repeat.
#[derive(Debug, Clone)]
pub(crate) enum Json {
    /// Written as it is: literals and numbers.
    Plain(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The document as text. `style` picks white space and which characters are escaped.
    pub(crate) fn written(&self, style: u8) -> String {
        let mut out = String::new();
        self.write(style, &mut out);
        out
    }

    fn write(&self, style: u8, out: &mut String) {
        let space = if style & 1 == 1 { " \r\n\t" } else { "" };
        out.push_str(space);
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::Text(text) => write_string(text, style, out),
            Self::Array(elements) => {
                out.push('[');
                for (i, element) in elements.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    element.write(style, out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (i, (name, value)) in members.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    out.push_str(space);
                    write_string(name, style, out);
                    out.push_str(space);
                    out.push(':');
                    value.write(style, out);
                }
                out.push('}');
            }
        }
        out.push_str(space);
    }
}

fn write_string(text: &str, style: u8, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' if style & 2 == 0 => out.push_str("\\n"),
            '/' if style & 2 == 2 => out.push_str("\\/"),
            _ if c < ' ' || style & 4 == 4 && (c > '~' || c == 'e') => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// Text with what is awkward to cut or escape.
pub(crate) fn any_text() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        4 => "[a-z \"\\\\/\n\u{1}\u{7f}éß漢😀]{0,12}",
        1 => "\\PC{0,20}",
        // Long runs between escapes, which go another way than short ones.
        1 => (200usize..3000, r"[a-zé\\]{1,3}")
            .prop_map(|(bytes, unit)| format!("\n{}\"", unit.repeat(bytes / unit.len()))),
    ]
}

pub(crate) fn any_json() -> impl Strategy<Value = Json> + Clone {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "false",
            "0",
            "-0",
            "7",
            "-1",
            "1.5",
            "1e3",
            "0.0E-2",
            "4294967296",
            "18446744073709551615",
            "18446744073709551616",
        ])
        .prop_map(|text| Json::Plain(text.to_owned())),
        any::<u32>().prop_map(|id| Json::Plain(id.to_string())),
        any_text().prop_map(Json::Text),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::vec((any_text(), inner), 0..6).prop_map(Json::Object),
        ]
    })
}

/// Cuts `bytes` into chunks whose sizes follow `sizes` again and again; empty `sizes` leaves it whole.
pub(crate) fn chunks<'a>(bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut cut = Vec::new();
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at(size.clamp(1, rest.len()));
        cut.push(chunk);
        rest = after;
    }
    if sizes.is_empty() { vec![bytes] } else { cut }
}

/// Sizes for [`chunks`]: whole, byte by byte, and mixtures.
pub(crate) fn any_sizes() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![Just(vec![]), Just(vec![1]), prop::collection::vec(1usize..40, 1..8)]
}
