//! SVG as text.

use std::fmt::Write;

use super::escape::html;

/// A drawing.
#[derive(Debug, Clone)]
pub(super) struct Svg {
    pub(super) width: f64,
    pub(super) height: f64,
    body: String,
}

/// Which point of a text is at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    /// A rectangle; `tip` is shown when the pointer is over it.
    pub(super) fn rect(&mut self, (x, y): (f64, f64), (w, h): (f64, f64), class: &str, tip: &str) {
        let (w, h) = (w.max(0.0), h.max(0.0));
        let _ =
            write!(self.body, r#"<rect x="{}" y="{}" width="{}" height="{}" class="{class}""#, n(x), n(y), n(w), n(h));
        self.close("rect", tip);
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let _ =
            write!(self.body, r#"<line x1="{}" y1="{}" x2="{}" y2="{}" class="{class}"/>"#, n(x1), n(y1), n(x2), n(y2));
    }

    /// A line through points; `None` interrupts it.
    pub(super) fn path(&mut self, points: &[Option<(f64, f64)>], class: &str, tip: &str) {
        let mut is_begun = false;
        let _ = write!(self.body, r#"<path class="{class}" d=""#);
        for point in points {
            if let Some((x, y)) = point {
                let _ = write!(self.body, "{}{} {}", if is_begun { 'L' } else { 'M' }, n(*x), n(*y));
            }
            is_begun = point.is_some();
        }
        self.body.push('"');
        self.close("path", tip);
    }

    pub(super) fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str, tip: &str) {
        let _ = write!(self.body, r#"<circle cx="{}" cy="{}" r="{}" class="{class}""#, n(x), n(y), n(radius));
        self.close("circle", tip);
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y) = (n(x), n(y));
        let text = html(text);
        let _ = write!(self.body, r#"<text x="{x}" y="{y}" text-anchor="{anchor}" class="{class}">{text}</text>"#);
    }

    /// A text along the left edge, from below.
    pub(super) fn text_upwards(&mut self, (x, y): (f64, f64), text: &str) {
        let (x, y) = (n(x), n(y));
        let text = html(text);
        let _ = write!(
            self.body,
            r#"<text transform="translate({x} {y}) rotate(-90)" text-anchor="middle" class="label">{text}</text>"#
        );
    }

    fn close(&mut self, element: &str, tip: &str) {
        let _ = if tip.is_empty() {
            write!(self.body, "/>")
        } else {
            write!(self.body, "><title>{}</title></{element}>", html(tip))
        };
    }

    /// The drawing as an element with a title and a description for those who do not see it.
    pub(super) fn element(&self, id: &str, title: &str, description: &str) -> String {
        let (title, description) = (html(title), html(description));
        let (w, h) = (n(self.width), n(self.height));
        format!(
            r#"<svg viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{title}</title><desc id="{id}-d">{description}</desc>{}</svg>"#,
            self.body
        )
    }
}

/// A number with a decimal where it has one: a tenth of a pixel is enough.
fn n(value: f64) -> String {
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_interrupts_a_path_and_names_are_escaped() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.path(&[Some((0.0, 1.25)), Some((1.0, 2.0)), None, Some((3.0, 4.0))], "s0", "<a>");
        let element = svg.element("p", "a & b", "");
        assert!(element.contains(r#"d="M0 1.2L1 2M3 4"><title>&lt;a&gt;</title></path>"#), "{element}");
        assert!(element.contains("a &amp; b"));
    }
}
