//! What is different between two saved replays: before and after a change of settings, version or traffic.

use super::document::{Block, Cell, Document, Table};
use super::saved::{SavedReplay, SavedStrategy};
use crate::analyze::words::{count, milliseconds, percent, points};

/// A number that is compared: its name, what it is called, how it is written, and whether less is better.
struct Compared {
    metric: &'static str,
    name: &'static str,
    write: fn(f64) -> String,
    change: fn(f64, f64) -> String,
    is_less_better: bool,
}

const fn time(metric: &'static str, name: &'static str) -> Compared {
    Compared { metric, name, write: milliseconds, change: relative, is_less_better: true }
}

const fn part(metric: &'static str, name: &'static str, is_less_better: bool) -> Compared {
    Compared { metric, name, write: percent, change: absolute, is_less_better }
}

const COMPARED: [Compared; 9] = [
    time("median_ttft_ms", "TTFT median"),
    time("p90_ttft_ms", "TTFT P90"),
    time("p99_ttft_ms", "TTFT P99"),
    time("p90_e2el_ms", "to the last token, P90"),
    part("delivered_ratio", "prompt tokens reused", false),
    part("share_max", "share of the busiest replica", true),
    part("spill_ratio", "left their home", true),
    Compared {
        metric: "output_throughput",
        name: "output tokens a second",
        write: |value| count(value.max(0.0).round() as u64),
        change: relative,
        is_less_better: false,
    },
    Compared {
        metric: "failed",
        name: "failed requests",
        write: |value| count(value.max(0.0).round() as u64),
        change: |before, after| format!("{:+.0}", after - before),
        is_less_better: true,
    },
];

/// Changes smaller than this part are not called better or worse: simulations are noisy.
const WORTH: f64 = 0.02;

fn relative(before: f64, after: f64) -> String {
    if before == 0.0 { "–".to_owned() } else { format!("{:+.1} %", (after / before - 1.0) * 100.0) }
}

fn absolute(before: f64, after: f64) -> String {
    let text = points(after - before);
    if after >= before { format!("+{text}") } else { text }
}

/// Compares strategies of equal name, `before` with `after`.
pub fn difference(before: &SavedReplay, after: &SavedReplay) -> Document {
    let mut document = Document::default();
    let pairs: Vec<(&SavedStrategy, &SavedStrategy)> = before
        .strategies
        .iter()
        .filter_map(|a| Some((a, after.strategies.iter().find(|b| b.name == a.name)?)))
        .collect();
    let (better, worse) = tally(&pairs);
    document.push(Block::Verdict(match (pairs.len(), better, worse) {
        (0, _, _) => "The two reports have no strategy in common.".to_owned(),
        (_, 0, 0) => format!("No number of the {} strategies in both reports changed by more than 2 %.", pairs.len()),
        (n, better, worse) => {
            format!("Of the numbers of {n} strategies in both reports, {better} are better and {worse} are worse by more than 2 %.")
        }
    }));
    let notes = inputs(before, after);
    if !notes.is_empty() {
        document.push(Block::Points(notes.into_iter().map(|note| (true, note)).collect()));
    }
    for (a, b) in pairs {
        document.heading(a.name.clone());
        let rows = COMPARED.iter().filter_map(|compared| row(compared, a, b)).collect();
        document.push(Block::Table(Table { columns: vec!["", "before", "after", "change", ""], rows, marked: None }));
    }
    document
}

fn row(compared: &Compared, a: &SavedStrategy, b: &SavedStrategy) -> Option<Vec<Cell>> {
    let (before, after) = (a.metric(compared.metric)?, b.metric(compared.metric)?);
    let verdict = match judged(compared, before, after) {
        Some(true) => "better",
        Some(false) => "worse",
        None => "",
    };
    Some(vec![
        Cell::words(compared.name),
        Cell::number((compared.write)(before)),
        Cell::number((compared.write)(after)),
        Cell::number((compared.change)(before, after)),
        Cell::words(verdict),
    ])
}

/// Whether it became better; `None` where that cannot be told.
fn judged(compared: &Compared, before: f64, after: f64) -> Option<bool> {
    let is_notable = (after - before).abs() > WORTH * before.abs();
    is_notable.then_some((after < before) == compared.is_less_better)
}

fn tally(pairs: &[(&SavedStrategy, &SavedStrategy)]) -> (usize, usize) {
    let judgements = pairs.iter().flat_map(|(a, b)| {
        COMPARED.iter().filter_map(|compared| judged(compared, a.metric(compared.metric)?, b.metric(compared.metric)?))
    });
    judgements.fold(
        (0, 0),
        |(better, worse), is_better| {
            if is_better { (better + 1, worse) } else { (better, worse + 1) }
        },
    )
}

/// What else is different, so that numbers do not say what they seem to.
fn inputs(before: &SavedReplay, after: &SavedReplay) -> Vec<String> {
    let mut notes = Vec::new();
    if before.source.digest != after.source.digest || before.trace.requests != after.trace.requests {
        notes.push(format!(
            "The requests are not the same: {} of {}, then {} of {}.",
            count(before.trace.requests),
            before.source.name,
            count(after.trace.requests),
            after.source.name
        ));
    }
    if before.fleet != after.fleet {
        notes.push("The fleets are not the same.".to_owned());
    }
    if before.arrivals != after.arrivals {
        notes.push(format!("Requests do not arrive alike: {}, then {}.", before.arrivals, after.arrivals));
    }
    if before.seeds != after.seeds {
        notes.push("The seeds are not the same.".to_owned());
    }
    if before.version != after.version {
        notes.push(format!("The reports are of kvroute {} and {}.", before.version, after.version));
    }
    let only = |a: &SavedReplay, b: &SavedReplay| -> Vec<String> {
        let is_missing = |strategy: &&SavedStrategy| b.strategies.iter().all(|other| other.name != strategy.name);
        a.strategies.iter().filter(is_missing).map(|strategy| strategy.name.clone()).collect()
    };
    for (names, which) in [(only(before, after), "first"), (only(after, before), "second")] {
        if !names.is_empty() {
            notes.push(format!("Only in the {which}: {}.", names.join(", ")));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::document::Style;
    use super::super::saved_sample::sample;
    use super::*;

    fn text(before: &SavedReplay, after: &SavedReplay) -> String {
        difference(before, after).for_terminal(Style { width: 100, colour: false })
    }

    #[test]
    fn numbers_of_equal_strategies_are_compared_and_other_inputs_are_said() {
        let before = SavedReplay::read(&sample().to_string()).unwrap();
        assert!(text(&before, &before).starts_with("No number of the 3 strategies"));
        let mut after = before.clone();
        after.strategies[1].metrics.insert("p90_ttft_ms".into(), Some(950.0));
        after.strategies[1].metrics.insert("delivered_ratio".into(), Some(0.30));
        after.strategies[2].name = "lmetric:queued".into();
        after.trace.requests = 900;
        let text = text(&before, &after);
        assert!(text.contains("1 are better and 1 are worse"), "{text}");
        assert!(text.contains("1.9 s  950 ms      -50.0 %  better"), "{text}");
        assert!(text.contains("-8.0 points  worse"), "{text}");
        assert!(
            text.contains("The requests are not the same") && text.contains("Only in the second: lmetric:queued"),
            "{text}"
        );
    }
}
