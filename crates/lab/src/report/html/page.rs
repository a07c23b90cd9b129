//! The frame and the order of a report: verdict, tiles, what to set, evidence, what repeats, what could go wrong, how it
//! was made, the data.

use std::fmt::Write;

use super::Provenance;
use super::escape;
use super::figure::Figure;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Nothing from elsewhere, whatever a name in the report may hold.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// A number that is seen first.
#[derive(Debug, Clone)]
pub(super) struct Tile {
    pub(super) value: String,
    pub(super) what: String,
}

/// Text to be copied.
#[derive(Debug, Clone)]
pub(super) struct Snippet {
    pub(super) title: String,
    pub(super) text: String,
}

/// A part of a report with a heading.
#[derive(Debug, Clone, Default)]
pub(super) struct Section {
    pub(super) heading: &'static str,
    pub(super) text: String,
    /// Sentences, each with whether it is a warning.
    pub(super) points: Vec<(bool, String)>,
    pub(super) figures: Vec<Figure>,
}

/// A report.
#[derive(Debug, Clone, Default)]
pub(super) struct Page {
    /// What kind of report it is, above the verdict.
    pub(super) kind: String,
    pub(super) verdict: String,
    pub(super) tiles: Vec<Tile>,
    pub(super) settings: Vec<Snippet>,
    pub(super) sections: Vec<Section>,
    /// Names and values that say how it was made.
    pub(super) method: Vec<(String, String)>,
    /// What was assumed, a sentence each.
    pub(super) assumptions: Vec<String>,
    /// JSON.
    pub(super) data: String,
}

impl Page {
    /// Says where the report is from.
    pub(super) fn provenance(&mut self, provenance: &Provenance) {
        self.method.push(("Read".to_owned(), provenance.source.clone()));
        self.method.push(("Made by".to_owned(), format!("kvroute {}", env!("CARGO_PKG_VERSION"))));
        self.method.push(("Command".to_owned(), provenance.command.clone()));
        self.assumptions.extend(provenance.assumptions.iter().cloned());
    }

    /// The file.
    pub(super) fn html(&self) -> String {
        let mut out = String::with_capacity(128 << 10);
        let title = escape::html(self.verdict.split([':', '.']).next().unwrap_or_default());
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        );
        let _ = writeln!(
            out,
            "<p class=\"kind\">{}</p>\n<h1>{}</h1>",
            escape::html(&self.kind),
            escape::html(&self.verdict)
        );
        self.write_tiles(&mut out);
        self.write_settings(&mut out);
        self.sections.iter().for_each(|section| section.write(&mut out));
        self.write_method(&mut out);
        let data = escape::json(&self.data);
        let _ = write!(
            out,
            "</main>\n<script type=\"application/json\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
        );
        out
    }

    fn write_tiles(&self, out: &mut String) {
        if self.tiles.is_empty() {
            return;
        }
        out.push_str("<div class=\"tiles\">\n");
        for tile in &self.tiles {
            let (value, what) = (escape::html(&tile.value), escape::html(&tile.what));
            let _ = writeln!(out, "<div class=\"tile\"><b>{value}</b><span>{what}</span></div>");
        }
        out.push_str("</div>\n");
    }

    fn write_settings(&self, out: &mut String) {
        if self.settings.is_empty() {
            return;
        }
        out.push_str("<h2>Set these</h2>\n<div class=\"set\">\n");
        for snippet in &self.settings {
            let (title, text) = (escape::html(&snippet.title), escape::html(snippet.text.trim_end()));
            let _ = writeln!(out, "<section><h3>{title}</h3><pre data-copy>{text}</pre></section>");
        }
        out.push_str("</div>\n");
    }

    fn write_method(&self, out: &mut String) {
        out.push_str("<h2>How this was made</h2>\n");
        if !self.assumptions.is_empty() {
            out.push_str("<p>Assumed:</p><ul class=\"points\">");
            for assumption in &self.assumptions {
                let _ = write!(out, "<li>{}</li>", escape::html(assumption));
            }
            out.push_str("</ul>\n");
        }
        out.push_str("<dl>");
        for (name, value) in &self.method {
            let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escape::html(name), escape::html(value));
        }
        out.push_str("</dl>\n<p id=\"save\" class=\"soft\">All data of this report is in this file, as JSON.</p>\n");
    }
}

impl Section {
    fn write(&self, out: &mut String) {
        if self.points.is_empty() && self.figures.is_empty() && self.text.is_empty() {
            return;
        }
        let _ = writeln!(out, "<h2>{}</h2>", escape::html(self.heading));
        if !self.text.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", escape::html(&self.text));
        }
        if !self.points.is_empty() {
            out.push_str("<ul class=\"points\">");
            for (is_warning, text) in &self.points {
                let class = if *is_warning { " class=\"warn\"" } else { "" };
                let _ = write!(out, "<li{class}>{}</li>", escape::html(text));
            }
            out.push_str("</ul>\n");
        }
        self.figures.iter().for_each(|figure| out.push_str(&figure.html()));
    }
}
