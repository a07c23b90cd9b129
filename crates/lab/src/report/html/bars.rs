//! Bars: upright in groups, or lying with their names, whole or in parts.

use super::axes::Frame;
use super::figure::series_class;
use super::scale::{Axis, Format};
use super::svg::{Anchor, Svg};

/// A bar, and how far its value may be off.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bar {
    pub(super) value: f64,
    pub(super) range: Option<(f64, f64)>,
}

/// Groups of upright bars: for each group a name, and a bar a series.
pub(super) fn grouped(size: (f64, f64), y: Axis, groups: &[(String, Vec<Bar>)], names: &[String]) -> Svg {
    let mut frame = Frame::with_names(size, y);
    let (left, right, _, bottom) = frame.area();
    let slot = (right - left) / groups.len().max(1) as f64;
    for (index, (name, bars)) in groups.iter().enumerate() {
        let from = left + slot * index as f64 + slot * 0.1;
        let width = slot * 0.8 / bars.len().max(1) as f64;
        for (series, bar) in bars.iter().enumerate() {
            let x = from + width * series as f64;
            let top = frame.y_at(bar.value);
            let series_name = names.get(series).map_or("", String::as_str);
            let tip = format!("{name}, {series_name}: {}", frame.y.format.write(bar.value));
            let class = format!("bar {}", series_class(series));
            frame.svg.rect((x + 0.5, top), (width - 1.0, bottom - top), &class, &tip);
            if let Some((low, high)) = bar.range {
                let middle = x + width / 2.0;
                let (low, high) = (frame.y_at(low), frame.y_at(high));
                frame.svg.line((middle, low), (middle, high), "whisker");
                frame.svg.line((middle - 3.0, low), (middle + 3.0, low), "whisker");
                frame.svg.line((middle - 3.0, high), (middle + 3.0, high), "whisker");
            }
        }
        frame.svg.text((left + slot * (index as f64 + 0.5), bottom + 18.0), Anchor::Middle, "label", name);
    }
    frame.svg.line((left, bottom), (right, bottom), "axis");
    frame.svg
}

/// A histogram: bars without gaps. `edges` are names of some lower edges.
pub(super) fn histogram(size: (f64, f64), label: &str, bars: &[(String, u64)], x_label: &str) -> Svg {
    let y = Axis::from_zero(label, Format::Amount, bars.iter().map(|bar| bar.1 as f64));
    let mut frame = Frame::with_names(size, y);
    let (left, right, _, bottom) = frame.area();
    let width = (right - left) / bars.len().max(1) as f64;
    let every = (bars.len() / 6).max(1);
    for (index, (edge, count)) in bars.iter().enumerate() {
        let x = left + width * index as f64;
        let top = frame.y_at(*count as f64);
        let tip = format!("from {edge}: {}", Format::Amount.write(*count as f64));
        frame.svg.rect((x + 0.5, top), (width - 1.0, bottom - top), "bar s0", &tip);
        if index.is_multiple_of(every) {
            frame.svg.text((x, bottom + 17.0), Anchor::Start, "tick", edge);
        }
    }
    frame.svg.line((left, bottom), (right, bottom), "axis");
    frame.svg.text((f64::midpoint(left, right), bottom + 36.0), Anchor::Middle, "label", x_label);
    frame.svg
}

/// A lying bar: its name, and its parts from left to right as series, value and name.
#[derive(Debug, Clone)]
pub(super) struct Lying {
    pub(super) name: String,
    pub(super) parts: Vec<(usize, f64, String)>,
    /// What stands behind it.
    pub(super) text: String,
}

/// Lying bars under each other, of one scale that ends at `max`. `mark` is a place on it with a word.
pub(super) fn lying(rows: &[Lying], max: f64, mark: Option<(f64, &str)>) -> Svg {
    const ROW: f64 = 44.0;
    const LEFT: f64 = 8.0;
    const RIGHT: f64 = 150.0;
    const WIDTH: f64 = 720.0;
    let head = if mark.is_some() { 16.0 } else { 0.0 };
    let mut svg = Svg::new(WIDTH, head + rows.len() as f64 * ROW + 8.0);
    let scale = |value: f64| (value / if max > 0.0 { max } else { 1.0 }).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT);
    for (index, row) in rows.iter().enumerate() {
        let top = head + index as f64 * ROW;
        svg.text((LEFT, top + 14.0), Anchor::Start, "label", &row.name);
        let mut x = LEFT;
        for (series, value, name) in &row.parts {
            let width = scale(*value);
            svg.rect((x, top + 20.0), (width, 16.0), &format!("bar {}", series_class(*series)), name);
            x += width;
        }
        svg.text((x + 6.0, top + 33.0), Anchor::Start, "label", &row.text);
    }
    if let Some((value, text)) = mark {
        let x = LEFT + scale(value);
        svg.line((x, head), (x, svg.height - 4.0), "mark");
        svg.text((x + 4.0, 11.0), Anchor::Start, "note", text);
    }
    svg
}
