//! The table of results in `docs/reliability.md`.

use std::fs;

use anyhow::{Context, Result};

use super::outcome::Outcome;
use crate::figures::count;
use crate::section;
use crate::workspace::Workspace;

const PAGE: &str = "docs/reliability.md";
const SECTION: &str = "fuzz";
const HEADER: &str = "\
| target | what is read | held against | date | seconds | executions | findings |
|---|---|---|---|---:|---:|---:|
";

/// A fuzz target as `fuzz/README.md` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) name: String,
    reads: String,
    held_against: String,
}

/// A line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    target: String,
    text: String,
}

/// The targets in a text with lines like "| `name` | what is read | held against |".
pub(crate) fn targets(readme: &str) -> Vec<Target> {
    let rows = readme.lines().map(cells).filter_map(|cells| match cells[..] {
        [name, reads, held_against] => {
            let name = name.strip_prefix('`')?.strip_suffix('`')?;
            Some(Target { name: name.to_owned(), reads: reads.to_owned(), held_against: held_against.to_owned() })
        }
        _ => None,
    });
    rows.collect()
}

impl Row {
    /// The result of a run.
    pub(crate) fn new(target: &Target, date: &str, outcome: &Outcome) -> Self {
        let Outcome { seconds, executions, is_finding, .. } = outcome;
        let results = [date, &seconds.to_string(), &count(*executions), &u8::from(*is_finding).to_string()];
        Self { target: target.name.clone(), text: line(target, results) }
    }
}

/// Puts a result into the page.
pub(crate) fn write(workspace: &Workspace, all: &[Target], row: &Row) -> Result<()> {
    let path = workspace.root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let table = table(section::get(&page, SECTION).unwrap_or_default(), all, row);
    fs::write(&path, section::put(&page, SECTION, &table)).with_context(|| format!("cannot write {PAGE}"))
}

/// All targets, with this result and those that were there.
fn table(before: &str, all: &[Target], row: &Row) -> String {
    let mut table = HEADER.to_owned();
    for target in all {
        let results = before.lines().map(cells).find(|cells| cells.first() == Some(&&*format!("`{}`", target.name)));
        table += &match results.as_deref() {
            _ if row.target == target.name => row.text.clone(),
            Some(&[_, _, _, date, seconds, executions, findings]) => {
                line(target, [date, seconds, executions, findings])
            }
            _ => line(target, ["not yet", "", "", ""]),
        };
    }
    table
}

fn line(target: &Target, results: [&str; 4]) -> String {
    let Target { name, reads, held_against } = target;
    format!("| `{name}` | {reads} | {held_against} | {} |\n", results.join(" | "))
}

/// The cells of a line of a table; none of any other line.
fn cells(line: &str) -> Vec<&str> {
    let row = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    row.map(|row| row.split('|').map(str::trim).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "\
# Targets

| target | what is read | held against |
|---|---|---|
| `one` | JSON | `serde_json` |
| `two` | paths | - |

`one` | is not | a line of the table, but `three`
";

    fn run(seconds: u64, is_finding: bool) -> Outcome {
        Outcome { seconds, executions: 1_234_567, is_finding, input: None }
    }

    #[test]
    fn targets_are_the_lines_of_the_table() {
        let targets = targets(README);
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn a_result_replaces_its_own_and_the_others_stay() {
        let all = targets(README);
        let first = table("", &all, &Row::new(&all[1], "2026-02-03", &run(600, false)));
        let one = "| `one` | JSON | `serde_json` | not yet |  |  |  |\n";
        let two = "| `two` | paths | - | 2026-02-03 | 600 | 1,234,567 | 0 |\n";
        assert_eq!(first, [HEADER, one, two].concat());
        let second = table(&first, &all, &Row::new(&all[0], "2026-02-04", &run(5, true)));
        let one = "| `one` | JSON | `serde_json` | 2026-02-04 | 5 | 1,234,567 | 1 |\n";
        assert_eq!(second, [HEADER, one, two].concat());
    }

    #[test]
    fn a_target_that_is_no_more_has_no_result_and_a_description_is_the_one_of_today() {
        let all = targets(README);
        let before = "| `gone` | x | y | 2026-01-01 | 1 | 1 | 0 |\n| `one` | old | words | 2026-01-01 | 2 | 3 | 0 |\n";
        let after = table(before, &all, &Row::new(&all[1], "2026-02-03", &run(600, false)));
        assert!(
            after.contains("| `one` | JSON | `serde_json` | 2026-01-01 | 2 | 3 | 0 |\n") && !after.contains("gone")
        );
    }
}
