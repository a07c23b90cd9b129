//! `docs/benchmarks.md`: the last run of every group, with its machine and date.
//!
//! A group stands between two comments with its name, so that one group can be measured again, perhaps elsewhere,
//! without touching the others.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use super::figure::Measured;
use crate::machine::Machine;
use crate::say::note;
use crate::section;
use crate::workspace::Workspace;

const PAGE: &str = "docs/benchmarks.md";

const INTRODUCTION: &str = "\
# Benchmarks

Every number that the project promises, as it was measured last. This page is written by
`cargo xtask figures --write`; `cargo xtask figures` measures again and prints.

*simulated*: the real gateway and real HTTP, engines with modelled latencies. *real engine*: llama.cpp computes.
*exact*: the product's own code, the same on every machine. *this machine*: timed or weighed, nothing modelled; another
machine gives other numbers, though ratios of one run should agree. A figure without a bar only informs.
";

/// Puts the groups that were measured into the page.
pub(crate) fn write(workspace: &Workspace, measured: &[Measured], machine: &Machine) -> Result<()> {
    let path = workspace.root.join(PAGE);
    let mut page = with_introduction(&fs::read_to_string(&path).unwrap_or_default());
    let groups: BTreeSet<&str> = measured.iter().map(|measured| measured.figure.group).collect();
    for group in groups {
        let members = measured.iter().filter(|measured| measured.figure.group == group);
        page = section::put(&page, group, &section(group, members, machine));
    }
    fs::create_dir_all(workspace.root.join("docs")).context("cannot make docs")?;
    fs::write(&path, page).with_context(|| format!("cannot write {PAGE}"))?;
    note!("wrote {PAGE}");
    Ok(())
}

/// The page with its groups and these words before them, whatever stood there.
fn with_introduction(page: &str) -> String {
    let groups = page.find("<!-- ").map(|from| &page[from..]);
    groups.map_or_else(|| INTRODUCTION.to_owned(), |groups| format!("{INTRODUCTION}\n{groups}"))
}

fn section<'a>(group: &str, members: impl Iterator<Item = &'a Measured>, machine: &Machine) -> String {
    let mut text = format!("## {group}\n\nMeasured on {}: {machine}.\n\n", machine.date);
    text += "| figure | value | unit | bar | holds | measured | how |\n|---|---:|---|---|---|---|---|\n";
    for measured in members {
        let figure = measured.figure;
        let how = match measured.detail() {
            "" => figure.how.to_owned(),
            detail => format!("{} ({detail})", figure.how),
        };
        let cells = [
            format!("`{}`", figure.name),
            measured.value(),
            figure.unit.to_owned(),
            measured.bar(),
            measured.verdict().to_owned(),
            figure.footing.as_str().to_owned(),
            how.replace('|', r"\|"),
        ];
        // A string takes all the text there is memory for.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::{machine, two};
    use super::*;

    #[test]
    fn the_introduction_is_the_one_of_today_and_every_group_stays() {
        let page = "# Old title\n\nOld words.\n\n<!-- slice -->\ntheirs\n<!-- /slice -->\n";
        let groups = "\n<!-- slice -->\ntheirs\n<!-- /slice -->\n";
        assert_eq!(with_introduction(page), format!("{INTRODUCTION}{groups}"));
        assert_eq!(with_introduction(""), INTRODUCTION);
    }

    #[test]
    fn a_section_names_the_machine_and_shows_what_fails() {
        let expected = "\
## slice

Measured on 2026-02-03: Some CPU, 2 cores, 16 GiB memory, Some OS.

| figure | value | unit | bar | holds | measured | how |
|---|---:|---|---|---|---|---|
| `keys_moved` | 20.5 | % | <= 16 | no | exact | keys with another home (2,050 keys) |
| `demo_cache_hit` | 81 | % |  |  | simulated | what engines reused |
";
        assert_eq!(section("slice", two().iter(), &machine()), expected);
    }
}
