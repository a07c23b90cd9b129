//! A chart with its question, what it shows in words, a legend, and its numbers as a table.

use std::fmt::Write;

use super::escape::html;
use super::svg::Svg;

/// A chart, or several small ones, of a report.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    /// Unique in the page; letters and hyphens.
    pub(super) id: &'static str,
    /// The question that it answers.
    pub(super) title: String,
    /// What is to be seen, in a sentence or two.
    pub(super) description: String,
    /// Whether numbers are those of a model.
    pub(super) is_simulated: bool,
    /// Drawings, each with a caption that may be empty.
    pub(super) drawings: Vec<(String, Svg)>,
    /// Names of the series, by their number.
    pub(super) legend: Vec<String>,
    /// Names of the columns.
    pub(super) columns: Vec<String>,
    /// The numbers.
    pub(super) rows: Vec<Vec<String>>,
}

/// Colours and dash patterns that are told apart; after that they repeat.
pub(super) const SERIES: usize = 8;

/// The class of a series.
pub(super) fn series_class(index: usize) -> String {
    format!("s{}", index % SERIES)
}

impl Figure {
    /// As HTML.
    pub(super) fn html(&self) -> String {
        let mut out = String::new();
        let tag = if self.is_simulated { r#" <span class="tag">simulated</span>"# } else { "" };
        let (id, title) = (self.id, html(&self.title));
        let _ = write!(out, r#"<figure id="{id}"><figcaption><h3>{title}{tag}</h3>"#);
        let _ = write!(out, "<p>{}</p></figcaption>", html(&self.description));
        let _ = write!(out, r#"<div class="plots{}">"#, if self.drawings.len() > 1 { " several" } else { "" });
        for (index, (caption, svg)) in self.drawings.iter().enumerate() {
            let name = if caption.is_empty() { self.title.clone() } else { format!("{}: {caption}", self.title) };
            out.push_str(r#"<div class="plot">"#);
            if !caption.is_empty() {
                let _ = write!(out, "<h4>{}</h4>", html(caption));
            }
            out.push_str(&svg.element(&format!("{id}-{index}"), &name, &self.description));
            out.push_str("</div>");
        }
        out.push_str("</div>");
        self.write_legend(&mut out);
        self.write_table(&mut out);
        out.push_str("</figure>\n");
        out
    }

    fn write_legend(&self, out: &mut String) {
        if self.legend.len() < 2 {
            return;
        }
        out.push_str(r#"<ul class="legend">"#);
        for (index, name) in self.legend.iter().enumerate() {
            let class = series_class(index);
            let _ = write!(
                out,
                r#"<li><svg width="34" height="10" aria-hidden="true"><line x1="0" y1="5" x2="34" y2="5" class="line {class}"/></svg>{}</li>"#,
                html(name)
            );
        }
        out.push_str("</ul>");
    }

    fn write_table(&self, out: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        out.push_str("<details><summary>The numbers</summary>");
        out.push_str(&table(&self.columns, &self.rows));
        out.push_str("</details>");
    }
}

/// A table; cells that begin with a digit, a sign or nothing are numbers.
pub(super) fn table(columns: &[String], rows: &[Vec<String>]) -> String {
    let mut out = String::from(r#"<div class="scroll"><table><thead><tr>"#);
    for column in columns {
        let _ = write!(out, r#"<th scope="col">{}</th>"#, html(column));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let is_number = cell.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '$' | '–'));
            let (element, class) = match (index, is_number) {
                (0, _) => ("th scope=\"row\"", ""),
                (_, true) => ("td", " class=\"n\""),
                (_, false) => ("td", ""),
            };
            let end = if index == 0 { "th" } else { "td" };
            let _ = write!(out, "<{element}{class}>{}</{end}>", html(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    out
}
