//! No file of any content does harm: no panic, bounded time, bounded memory, and what is accepted keeps its promises.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::{Config, EXAMPLE, changes};
use super::accepted::EVERYTHING;
use super::{brief, parse, refused};

/// The promises of `model.rs`, checked against whatever was accepted; and that errors can be shown.
fn check(text: &str) {
    match parse(text) {
        Ok((config, _)) => {
            check_promises(&config);
            assert_eq!(changes(&config, &config), [], "{text}");
            assert!(!config.summary().is_empty());
        }
        Err(diagnostics) => {
            let shown = diagnostics.to_string();
            assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
            for found in &diagnostics {
                let position = found.position.unwrap();
                assert!(position.line >= 1 && position.column >= 1);
                let lines = text.split(['\n', '\r']).count();
                assert!(position.line as usize <= lines, "{text:?}\n{shown}");
            }
        }
    }
}

fn check_promises(config: &Config) {
    assert!(!config.endpoints.is_empty());
    for endpoint in &config.endpoints {
        assert!(!endpoint.variants.is_empty());
        assert!(endpoint.variants.iter().any(|variant| variant.weight > 0.0));
        let mut ids = HashSet::new();
        for variant in &endpoint.variants {
            assert!(!variant.replicas.is_empty());
            assert!(variant.weight.is_finite() && variant.weight >= 0.0);
            assert!((1024..=65536).contains(&variant.routing.prefix_length));
            for replica in &variant.replicas {
                assert!(ids.insert(&replica.id) && replica.weight > 0.0 && replica.url.port > 0);
            }
        }
        let components: HashSet<&String> = endpoint.components.iter().map(|component| &component.name).collect();
        for component in &endpoint.components {
            assert!(!component.copies.is_empty());
            assert!(component.copies.iter().all(|copy| ids.contains(&copy.replica)));
        }
        for adapter in &endpoint.adapters {
            assert!(adapter.base.iter().all(|base| components.contains(base)));
            assert!(adapter.replicas.iter().flatten().all(|id| ids.contains(id)));
        }
    }
}

/// Pieces that mean something to YAML or to the configuration.
const PIECES: [&str; 32] = [
    "\n",
    "  ",
    "- ",
    ": ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\"",
    "'",
    "&a ",
    "*a",
    "<<: ",
    "!t ",
    "!!str ",
    "|\n",
    ">-\n",
    "? ",
    "# ",
    "---\n",
    "\t",
    "\r",
    "~",
    "${X}",
    "http://a:1",
    "replicas",
    "endpoints",
    "name",
    "variants",
    "api_key",
    "é",
];

#[derive(Clone, Debug)]
enum Edit {
    Delete { at: usize, len: usize },
    Insert { at: usize, piece: usize },
    CopyLine { from: usize, to: usize },
    Swap { a: usize, b: usize },
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<usize>(), 1..30_usize).prop_map(|(at, len)| Edit::Delete { at, len }),
        (any::<usize>(), 0..PIECES.len()).prop_map(|(at, piece)| Edit::Insert { at, piece }),
        (any::<usize>(), any::<usize>()).prop_map(|(from, to)| Edit::CopyLine { from, to }),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Edit::Swap { a, b }),
    ]
}

fn apply(text: &str, edit: &Edit) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let mut lines: Vec<&str> = text.split('\n').collect();
    match *edit {
        Edit::Delete { at, len } => {
            let at = at % (chars.len() + 1);
            let end = (at + len).min(chars.len());
            chars.drain(at..end);
        }
        Edit::Insert { at, piece } => {
            let at = at % (chars.len() + 1);
            chars.splice(at..at, PIECES[piece].chars());
        }
        Edit::CopyLine { from, to } => {
            let line = lines[from % lines.len()];
            lines.insert(to % lines.len(), line);
            return lines.join("\n");
        }
        Edit::Swap { a, b } => {
            let (a, b) = (a % lines.len(), b % lines.len());
            lines.swap(a, b);
            return lines.join("\n");
        }
    }
    chars.into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_refused_or_keeps_the_promises(text in "\\PC{0,200}") {
        check(&text);
    }

    #[test]
    fn any_bytes_are_refused_or_keep_the_promises(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_pieces_are_refused_or_keep_the_promises(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        check(&pieces.iter().map(|piece| PIECES[*piece]).collect::<String>());
    }

    #[test]
    fn any_change_of_a_good_file_is_refused_or_keeps_the_promises(
        example in any::<bool>(),
        edits in proptest::collection::vec(edit(), 1..6),
    ) {
        let start = if example { EXAMPLE } else { EVERYTHING };
        check(&edits.iter().fold(start.to_owned(), |text, edit| apply(&text, edit)));
    }
}

#[test]
fn hostile_files_are_refused_quickly() {
    let bomb: String = (0..30)
        .map(|i| format!("k{i}: &a{i} [{}]\n", format!("*a{}, ", i - 1).repeat(9)))
        .collect::<String>()
        .replace("*a-1, ", "http://a:1, ");
    let wide_bomb = format!("a: &a \"{}\"\nreplicas: [{}]", "x".repeat(100_000), "*a, ".repeat(200_000));
    let count_bomb = format!(
        "endpoints: [{{name: e, replicas: [http://a:1], components: [{{name: c, copies: [{}]}}]}}]",
        "{replica: 'a:1', count: 64}, ".repeat(10_000)
    );
    let fleet: String = (0..1_000).map(|i| format!("{{id: gpu-number-{i}, url: http://a:{}}}, ", i + 1)).collect();
    let strangers = format!(
        "endpoints: [{{name: e, replicas: [{fleet}], components: [{{name: c, copies: [{}]}}]}}]",
        "gpu-numbers-1, ".repeat(20_000)
    );
    let secrets = format!("replicas: [{}]", "{url: x, api_key: y}, ".repeat(20_000));
    let keys: String = (0..40_000).map(|i| format!("k{i}: 1\n")).collect();
    for (name, text, expected) in [
        ("alias bomb", bomb, "aliases make the file too large or too deep here"),
        ("aliases of a long text", wide_bomb, "aliases make the file too large or too deep here"),
        ("copies", count_bomb, "more than 65536 copies in the file"),
        ("unknown replicas", strangers, "unknown replica \"gpu-numbers-1\" (did you mean"),
        ("many secrets", secrets, "a replica url must begin with http:// or https://"),
        ("many keys", keys, "unknown key \"k0\" in the configuration"),
        ("deep flow", "[".repeat(100_000), "invalid yaml: recursion limit exceeded"),
        ("deep blocks", "- ".repeat(100_000), "invalid yaml: recursion limit exceeded"),
        ("deep keys", "? ".repeat(100_000), "invalid yaml: recursion limit exceeded"),
        ("one long line", format!("replicas: [{}x]", "http://a:1, ".repeat(80_000)), "duplicate replica id \"a:1\""),
        ("one long word", "x".repeat(1 << 20), "the configuration must be a mapping, found "),
        ("one long quote", format!("\"{}", "x".repeat((1 << 20) - 1)), "invalid yaml: unclosed quote"),
        ("comments", "#\n".repeat(1 << 19), "the file is empty"),
    ] {
        let started = Instant::now();
        let found: Vec<String> = refused(&text).iter().map(brief).collect();
        assert!(found.iter().any(|line| line.contains(expected)), "{name}: {:.300}", found.join("\n"));
        assert!(started.elapsed() < Duration::from_secs(10), "{name}: {:?}", started.elapsed());
    }
}
