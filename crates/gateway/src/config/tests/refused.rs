//! Every refusal, word for word.

use std::fs;

use super::super::{EXAMPLE, Severity, Style, load, parse as parse_public};
use super::{brief, cases, parse, refused};

#[test]
fn every_mistake_is_named_with_its_place_and_a_way_out() {
    let cases = cases(include_str!("refused.txt"));
    assert!(cases.len() > 50, "{} cases", cases.len());
    for (text, expected) in cases {
        assert_ne!(expected, Vec::<&str>::new(), "{text}");
        let found: Vec<String> = refused(&text).iter().map(brief).collect();
        assert_eq!(found, expected, "in\n{text}");
    }
}

#[test]
fn a_file_with_everything_wrong_is_refused_in_one_go() {
    for (text, expected) in cases(include_str!("everything_wrong.txt")) {
        assert!(expected.len() >= 10);
        assert_eq!(refused(&text).iter().map(brief).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_finding_is_shown_with_its_line_a_caret_and_help() {
    let text = "replicas: [http://a:1]\ntimeouts:\n  connect_ms: 2s  # too long\n";
    let expected = "\
warning: prefix_aware has no effect: variant \"main\" has one replica
 --> test.yaml:1:11
  |
1 | replicas: [http://a:1]
  |           ^
  = help: it needs at least two

error: connect_ms must be a whole number from 1 to 600000, found \"2s\"
 --> test.yaml:3:15
  |
3 |   connect_ms: 2s  # too long
  |               ^^
  = help: write it without a unit: 2000

test.yaml: 1 error, 1 warning";
    let diagnostics = refused(text);
    assert_eq!(diagnostics.to_string(), expected);
    let headline = "test.yaml:3:15: error: connect_ms must be a whole number from 1 to 600000, found \"2s\" \
                    (write it without a unit: 2000)";
    assert_eq!(diagnostics.iter().last().unwrap().headline(), headline);

    let coloured = diagnostics.render(Style::Ansi).to_string();
    assert!(coloured.contains("\u{1b}[1;31merror\u{1b}[0m"), "{coloured}");
    let mut plain = String::new();
    for part in coloured.split('\u{1b}') {
        plain.push_str(part.strip_prefix('[').and_then(|code| code.split_once('m')).map_or(part, |(_, rest)| rest));
    }
    assert_eq!(plain, expected, "colours change nothing else");
}

#[test]
fn carets_count_characters_and_long_lines_are_cropped() {
    let many = "http://c:1, ".repeat(30);
    let text = format!("replicas: [\"http://żółw:1\", http://b:1, {many}x]\n");
    let diagnostics = refused(&text);
    let first = diagnostics.iter().next().unwrap().to_string();
    let caret = first.lines().nth(4).unwrap();
    assert_eq!(caret, "  |            ^^^^^^^^^^^^^^^");
    let last = diagnostics.iter().last().unwrap();
    assert_eq!(last.message, "a replica url must begin with http:// or https://");
    let rendered = last.to_string();
    let (line, caret) = (rendered.lines().nth(3).unwrap(), rendered.lines().nth(4).unwrap());
    assert!(line.chars().count() < 110 && line.starts_with("1 | …"), "{line}");
    let column = caret.chars().position(|c| c == '^').unwrap();
    assert_eq!(line.chars().nth(column), Some('x'), "{rendered}");
}

#[test]
fn a_file_cannot_write_to_the_terminal_that_shows_its_errors() {
    let text = "\"a\\e[31m\": 1\nreplicas: [\"\u{85}http://a:1\"] # \u{85}\n";
    let shown = refused(text).to_string();
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
}

#[test]
fn findings_beyond_two_hundred_are_counted_only() {
    let text = format!("replicas: [{}]", "x, ".repeat(300));
    let diagnostics = refused(&text);
    assert_eq!(diagnostics.iter().count(), 200);
    assert!(diagnostics.to_string().ends_with("test.yaml: 200 errors, 100 more not shown"));
}

#[test]
fn an_error_is_shown_however_many_warnings_come_before_it() {
    let same: String = (0..300).map(|i| format!("{{id: a{i}, url: http://a:1}}, ")).collect();
    let text = format!("replicas: [{same}x]");
    let diagnostics = refused(&text);
    assert_eq!(diagnostics.iter().last().unwrap().message, "a replica url must begin with http:// or https://");
    assert!(diagnostics.to_string().ends_with("test.yaml: 1 error, 199 warnings, 100 more not shown"));
}

#[test]
fn warnings_come_with_the_errors() {
    let diagnostics = refused("replicas: [http://a:1]\nx: 1");
    let severities: Vec<Severity> = diagnostics.iter().map(|d| d.severity).collect();
    assert_eq!(severities, [Severity::Warning, Severity::Error]);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = std::env::temp_dir().join(format!("kvroute-config-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let at = |name: &str| folder.join(name);
    fs::write(at("good.yaml"), EXAMPLE).unwrap();
    fs::write(at("bad.yaml"), b"listen: 0.0.0.0:1\nx: \xff\n").unwrap();
    fs::write(at("large.yaml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(load(at("good.yaml")).unwrap(), parse(EXAMPLE).unwrap());
    for (name, message) in [
        ("none.yaml", "cannot read the configuration: No such file or directory (os error 2)"),
        ("bad.yaml", "cannot read the configuration: line 2 is not utf-8 text"),
        ("large.yaml", "cannot read the configuration: the file is larger than 1048576 bytes"),
    ] {
        let diagnostics = load(at(name)).unwrap_err();
        let expected = format!("error: {message}\n --> {0}\n\n{0}: 1 error", at(name).display());
        assert_eq!(diagnostics.to_string(), expected);
    }
    fs::remove_dir_all(&folder).unwrap();
    let too_large = parse_public(&"#".repeat((1 << 20) + 1), "stdin").unwrap_err();
    assert_eq!(too_large.iter().map(brief).collect::<Vec<_>>(), ["1:1 the file is larger than 1048576 bytes"]);
}
