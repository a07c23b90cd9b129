//! `docs/fault-cases.md` names tests that exist.

use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 5] = ["core", "wire", "engine", "gateway", "lab"];

/// All sources below a directory, with their text.
fn sources(directory: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// The case and the last cell of each row.
fn rows(page: &str) -> Vec<(u32, &str)> {
    let rows = page.lines().filter(|line| line.starts_with("| S"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 3, "{row}");
        (cells[0][1..].parse().unwrap(), cells[2])
    })
    .collect()
}

/// What stands between backquotes, where it names a test: crate or `e2e`, module, name.
fn tests_named(cell: &str) -> Vec<(&str, &str, &str)> {
    let quoted = cell.split('`').skip(1).step_by(2);
    let named = quoted.filter_map(|text| {
        let (of, test) = text.split_once(' ')?;
        let (module, name) = test.split_once("::")?;
        (CRATES.contains(&of) || of == "e2e").then_some((of, module, name))
    });
    named.collect()
}

#[test]
fn every_case_has_a_test_that_exists_or_a_reason_or_is_open() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/fault-cases.md")).unwrap();
    let rows = rows(&page);
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "each case once, in their order");
    let mut known = Vec::new();
    for of in CRATES.map(|of| format!("crates/{of}")).iter().map(String::as_str).chain(["e2e"]) {
        for part in ["src", "tests", ""].into_iter().filter(|part| part.is_empty() == (of == "e2e")) {
            let directory = root.join(of).join(part);
            if directory.is_dir() {
                sources(&directory, &mut known);
            }
        }
    }
    for (case, cell) in rows {
        let named = tests_named(cell);
        for (of, module, name) in &named {
            let is_there = known.iter().any(|(path, text)| {
                let path = path.strip_prefix(&root).unwrap().with_extension("");
                let has = |wanted: &str| path.components().any(|part| part.as_os_str() == wanted);
                has(of)
                    && has(module)
                    && (text.contains(&format!("fn {name}(")) || text.contains(&format!("def {name}(")))
            });
            assert!(is_there, "S{case}: there is no {of} {module}::{name}");
        }
        let says_why = cell.contains("cannot happen") || cell.contains("**open**");
        assert!(!named.is_empty() || says_why, "S{case} has neither a test nor a reason");
    }
}
