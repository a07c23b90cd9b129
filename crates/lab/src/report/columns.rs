//! Tables with strategies as columns: values, and their changes against the first column.

/// A value, and its change against the first strategy.
pub(crate) struct Cell {
    pub(crate) value: String,
    pub(crate) change: Option<Change>,
}

/// A difference, as it is shown.
pub(crate) struct Change {
    pub(crate) text: String,
    judgement: Judgement,
}

#[derive(Clone, Copy)]
enum Judgement {
    Better,
    Worse,
    Neither,
}

/// How a metric is compared with the first strategy's.
#[derive(Clone, Copy)]
pub(crate) enum Comparison {
    /// In percent; less is better.
    LessPercent,
    /// In percent; more is better.
    MorePercent,
    /// In percentage points; more is better.
    MorePoints,
    /// Not at all: what is better depends on the rest.
    No,
}

/// A table: a column of labels, then one a strategy, which has a cell a label. `colour` marks changes green or red with
/// ANSI sequences.
pub(crate) fn table(labels: &[&str], columns: &[(&str, &[Cell])], colour: bool) -> String {
    let mut lines: Vec<String> = [""].iter().chain(labels).map(|&label| label.to_owned()).collect();
    pad_left_aligned(&mut lines);
    for (name, cells) in columns {
        push_column(&mut lines, name, cells, colour);
    }
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn pad_left_aligned(lines: &mut [String]) {
    let width = lines.iter().map(|line| width(line)).max().unwrap_or_default();
    for line in lines {
        line.push_str(&spaces(width - self::width(line)));
    }
}

/// Adds a strategy's column: its name, then values and changes in two right-aligned columns.
fn push_column(lines: &mut [String], name: &str, cells: &[Cell], colour: bool) {
    let changes = cells.iter().filter_map(|cell| cell.change.as_ref());
    let change_width = changes.map(|change| 1 + width(&change.text)).max().unwrap_or_default();
    let values = cells.iter().map(|cell| width(&cell.value)).max().unwrap_or_default();
    let value_width = values.max(width(name).saturating_sub(change_width));
    let name_indent = value_width + change_width - width(name);
    let (head, rows) = lines.split_at_mut(1);
    for line in head {
        line.push_str(&format!("{GAP}{}{name}", spaces(name_indent)));
    }
    for (line, cell) in rows.iter_mut().zip(cells) {
        line.push_str(&format!("{GAP}{}{}", spaces(value_width - width(&cell.value)), cell.value));
        let change = cell.change.as_ref();
        let used = change.map_or(0, |change| width(&change.text));
        line.push_str(&spaces(change_width - used));
        line.push_str(&change.map(|change| change.shown(colour)).unwrap_or_default());
    }
}

/// Between two strategies.
const GAP: &str = "   ";

fn width(text: &str) -> usize {
    text.chars().count()
}

fn spaces(n: usize) -> String {
    " ".repeat(n)
}

impl Cell {
    /// A value with so many decimals, and its change against another; `-` where there is none.
    pub(crate) fn new(value: Option<f64>, base: Option<f64>, decimals: usize, comparison: Comparison) -> Self {
        Self {
            value: value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}")),
            change: value.zip(base).and_then(|(value, base)| comparison.of(value, base)),
        }
    }
}

impl Comparison {
    /// The change, unless there is nothing it could be measured against.
    fn of(self, value: f64, base: f64) -> Option<Change> {
        let relative = (base > 0.0).then(|| (value / base - 1.0) * 100.0);
        let (amount, unit, good) = match self {
            Self::LessPercent => (relative?, "%", -1.0),
            Self::MorePercent => (relative?, "%", 1.0),
            Self::MorePoints => (value - base, "pt", 1.0),
            Self::No => return None,
        };
        // Rounded first, so that nothing reads as "-0.0" and nothing that reads as zero is coloured.
        let amount = (amount * 10.0).round() / 10.0 + 0.0;
        let judgement = match amount * good {
            better if better > 0.0 => Judgement::Better,
            worse if worse < 0.0 => Judgement::Worse,
            _ => Judgement::Neither,
        };
        Some(Change { text: format!("{amount:+.1}{unit}"), judgement })
    }
}

impl Change {
    fn shown(&self, colour: bool) -> String {
        match (colour, self.judgement) {
            (true, Judgement::Better) => format!("\x1b[32m{}\x1b[0m", self.text),
            (true, Judgement::Worse) => format!("\x1b[31m{}\x1b[0m", self.text),
            _ => self.text.clone(),
        }
    }
}
