//! A report as headings, sentences and tables, written for a terminal or as Markdown.

use std::fmt::Write;

/// A report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Its parts in order.
    pub blocks: Vec<Block>,
}

/// A part of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// What everything else explains.
    Verdict(String),
    /// Begins a section.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// Sentences, each with whether it is a warning.
    Points(Vec<(bool, String)>),
    /// A table.
    Table(Table),
    /// Text that is copied: what it is, its language, itself.
    Code(String, &'static str, String),
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Names of the columns; all empty for none.
    pub columns: Vec<&'static str>,
    /// Cells, row by row.
    pub rows: Vec<Vec<Cell>>,
    /// The row that stands out.
    pub marked: Option<usize>,
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words, to the left.
    Words(String),
    /// A number, to the right.
    Number(String),
    /// A part of a whole, 0..1, as a bar. Only on a terminal.
    Bar(f64),
}

impl Cell {
    /// Words.
    pub fn words(text: impl Into<String>) -> Self {
        Self::Words(text.into())
    }

    /// A number.
    pub fn number(text: impl Into<String>) -> Self {
        Self::Number(text.into())
    }

    fn text(&self) -> String {
        match self {
            Self::Words(text) | Self::Number(text) => text.clone(),
            Self::Bar(part) => bar(*part),
        }
    }
}

/// How a document is written for a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Whether escape sequences may be used.
    pub colour: bool,
}

const BAR_CELLS: usize = 24;
const INDENT: &str = "  ";

fn bar(part: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.clamp(0.0, 1.0) * (BAR_CELLS * 8) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

impl Document {
    /// Adds a part.
    pub fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Begins a section.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.push(Block::Heading(text.into()));
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) {
        self.push(Block::Text(text.into()));
    }

    /// As a terminal shows it.
    pub fn for_terminal(&self, style: Style) -> String {
        let mut out = String::new();
        for block in &self.blocks {
            if !out.is_empty() {
                out.push('\n');
            }
            match block {
                Block::Verdict(text) => {
                    wrapped(text, "", "", style.width).lines().for_each(|line| paint(&mut out, line, "1", style));
                }
                Block::Heading(text) => paint(&mut out, text, "1;36", style),
                Block::Text(text) => out.push_str(&wrapped(text, INDENT, INDENT, style.width)),
                Block::Points(points) => {
                    for (is_warning, text) in points {
                        let mark = if *is_warning { "! " } else { "- " };
                        let text = wrapped(text, &format!("{INDENT}{mark}"), "    ", style.width);
                        if *is_warning && style.colour {
                            out.push_str(&text.replacen("! ", "\x1b[1;33m!\x1b[0m ", 1));
                        } else {
                            out.push_str(&text);
                        }
                    }
                }
                Block::Table(table) => table.for_terminal(&mut out, style),
                Block::Code(title, _, text) => {
                    let _ = writeln!(out, "{INDENT}{title}:\n");
                    text.lines().for_each(|line| {
                        let _ = writeln!(out, "{INDENT}{INDENT}{line}");
                    });
                }
            }
        }
        out
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        for block in &self.blocks {
            if !out.is_empty() {
                out.push('\n');
            }
            let _ = match block {
                Block::Verdict(text) => writeln!(out, "**{}**", escaped(text)),
                Block::Heading(text) => writeln!(out, "## {}", escaped(text)),
                Block::Text(text) => writeln!(out, "{}", escaped(text)),
                Block::Points(points) => points.iter().try_for_each(|(is_warning, text)| {
                    let mark = if *is_warning { "**Warning:** " } else { "" };
                    writeln!(out, "- {mark}{}", escaped(text))
                }),
                Block::Table(table) => {
                    table.markdown(&mut out);
                    Ok(())
                }
                Block::Code(title, language, text) => {
                    writeln!(out, "{}:\n\n```{language}\n{}\n```", escaped(title), text.trim_end())
                }
            };
        }
        out
    }
}

impl Table {
    fn for_terminal(&self, out: &mut String, style: Style) {
        let header = self.columns.iter().any(|name| !name.is_empty());
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.text().chars().count());
            cells.max().unwrap_or(0).max(self.columns[column].chars().count())
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let is_number = |column: usize| {
            self.rows.first().and_then(|row| row.get(column)).is_some_and(|cell| matches!(cell, Cell::Number(_)))
        };
        let line = |cells: &[String], mark: &str| {
            let mut line = format!("{mark:<2}");
            for (column, cell) in cells.iter().enumerate() {
                let space = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
                let _ =
                    if is_number(column) { write!(line, "{space}{cell}  ") } else { write!(line, "{cell}{space}  ") };
            }
            line.trim_end().to_owned()
        };
        if header {
            let names: Vec<String> = self.columns.iter().map(|&name| name.to_owned()).collect();
            paint(out, &line(&names, ""), "2", style);
        }
        for (index, row) in self.rows.iter().enumerate() {
            let is_marked = self.marked == Some(index);
            let cells: Vec<String> = row.iter().map(Cell::text).collect();
            let text = line(&cells, if is_marked { "> " } else { "" });
            paint(out, &text, if is_marked { "1" } else { "" }, style);
        }
    }

    fn markdown(&self, out: &mut String) {
        let is_bar = |column: usize| {
            self.rows.first().and_then(|row| row.get(column)).is_some_and(|cell| matches!(cell, Cell::Bar(_)))
        };
        let shown: Vec<usize> = (0..self.columns.len()).filter(|&column| !is_bar(column)).collect();
        let mut line = |cells: Vec<String>| {
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        };
        line(shown.iter().map(|&column| escaped(self.columns[column])).collect());
        let align = |column: usize| match self.rows.first().and_then(|row| row.get(column)) {
            Some(Cell::Number(_)) => "---:",
            _ => "---",
        };
        line(shown.iter().map(|&column| align(column).to_owned()).collect());
        for (index, row) in self.rows.iter().enumerate() {
            let cell = |&column: &usize| {
                let text = escaped(&row.get(column).map(Cell::text).unwrap_or_default());
                if self.marked == Some(index) && !text.is_empty() { format!("**{text}**") } else { text }
            };
            line(shown.iter().map(cell).collect());
        }
    }
}

/// A line, with the escape sequence of `code` where that may be.
fn paint(out: &mut String, line: &str, code: &str, style: Style) {
    let _ = if style.colour && !code.is_empty() {
        writeln!(out, "\x1b[{code}m{line}\x1b[0m")
    } else {
        writeln!(out, "{line}")
    };
}

/// Lines of at most `width` columns, where words allow it. A percent sign stays with its number.
fn wrapped(text: &str, first: &str, others: &str, width: usize) -> String {
    let mut out = String::from(first);
    let mut column = first.chars().count();
    let mut is_first = true;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let sign = words.next_if(|next| next.starts_with('%'));
        let length = word.chars().count() + sign.map_or(0, |sign| 1 + sign.chars().count());
        if !is_first && column + 1 + length > width {
            out.push('\n');
            out.push_str(others);
            column = others.chars().count();
        } else if !is_first {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        if let Some(sign) = sign {
            out.push(' ');
            out.push_str(sign);
        }
        column += length;
        is_first = false;
    }
    out.push('\n');
    out
}

/// Text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '|' | '*' | '_' | '<' | '`' | '[' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let row = |name: &str, value: &str, part| vec![Cell::words(name), Cell::number(value), Cell::Bar(part)];
        let table = Table {
            columns: vec!["what", "reused", ""],
            rows: vec![row("random", "31 %", 0.31), row("same | home", "100 %", 1.0)],
            marked: Some(1),
        };
        Document {
            blocks: vec![
                Block::Verdict("It pays.".into()),
                Block::Heading("Limits".into()),
                Block::Points(vec![(true, "a_b ".repeat(40)), (false, "c".into())]),
                Block::Table(table),
                Block::Code("kvroute".into(), "yaml", "a: 1\n".into()),
            ],
        }
    }

    #[test]
    fn lines_keep_to_the_width_and_columns_stand_under_each_other() {
        let text = document().for_terminal(Style { width: 60, colour: false });
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(!text.contains('\x1b'));
        let random = text.lines().find(|line| line.contains("random")).unwrap();
        let home = text.lines().find(|line| line.contains("same")).unwrap();
        let end = |line: &str| line.chars().position(|c| c == '%').unwrap();
        assert_eq!(end(random), end(home));
        assert!(home.starts_with("> ") && home.ends_with(&"█".repeat(BAR_CELLS)), "{home}");
    }

    #[test]
    fn markdown_has_tables_without_bars_and_shows_text_as_it_is() {
        let text = document().markdown();
        assert!(
            text.contains("| what | reused |\n| --- | ---: |\n| random | 31 % |\n| **same \\| home** | **100 %** |"),
            "{text}"
        );
        assert!(text.contains("**Warning:** a\\_b") && text.contains("```yaml\na: 1\n```"));
    }

    #[test]
    fn colour_is_used_only_where_it_may_be() {
        assert!(document().for_terminal(Style { width: 60, colour: true }).contains("\x1b[1mIt pays.\x1b[0m"));
    }
}
