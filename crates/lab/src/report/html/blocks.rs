//! Charts of filled areas: a heat map, and an icicle.

use super::svg::{Anchor, Svg};

/// A cell of a heat map.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    /// How strong its colour is, 0..1.
    pub(super) strength: f64,
    /// What is written into it.
    pub(super) text: String,
    /// Whether it is outlined.
    pub(super) is_outlined: bool,
    /// Whether it is the chosen one.
    pub(super) is_chosen: bool,
}

/// Rows from top to bottom of cells from left to right, with names.
pub(super) fn heat_map(rows: &[(String, Vec<Cell>)], columns: &[String], x_label: &str, y_label: &str) -> Svg {
    const LEFT: f64 = 78.0;
    const TOP: f64 = 8.0;
    const HEIGHT: f64 = 30.0;
    let width = (640.0 / columns.len().max(1) as f64).min(90.0);
    let bottom = TOP + HEIGHT * rows.len() as f64;
    let mut svg = Svg::new(LEFT + width * columns.len() as f64 + 4.0, bottom + 42.0);
    for (row, (name, cells)) in rows.iter().enumerate() {
        let y = TOP + HEIGHT * row as f64;
        svg.text((LEFT - 6.0, y + 19.0), Anchor::End, "tick", name);
        for (column, cell) in cells.iter().enumerate() {
            let x = LEFT + width * column as f64;
            // Ten steps are told apart; more only make the file longer.
            let class = format!("heat h{}", (cell.strength.clamp(0.0, 1.0) * 9.0).round());
            let tip = format!("{y_label} {name}, {x_label} {}: {}", columns[column], cell.text);
            svg.rect((x + 1.0, y + 1.0), (width - 2.0, HEIGHT - 2.0), &class, &tip);
            let class = if cell.strength > 0.55 { "cell light" } else { "cell" };
            svg.text((x + width / 2.0, y + 19.0), Anchor::Middle, class, &cell.text);
        }
    }
    for (row, (_, cells)) in rows.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.is_outlined || cell.is_chosen) {
            let place = (LEFT + width * column as f64 + 1.0, TOP + HEIGHT * row as f64 + 1.0);
            let class = if cell.is_chosen { "outline chosen" } else { "outline" };
            svg.rect(place, (width - 2.0, HEIGHT - 2.0), class, "");
        }
    }
    for (column, name) in columns.iter().enumerate() {
        svg.text((LEFT + width * (column as f64 + 0.5), bottom + 15.0), Anchor::Middle, "tick", name);
    }
    svg.text((LEFT + width * columns.len() as f64 / 2.0, bottom + 34.0), Anchor::Middle, "label", x_label);
    svg.text_upwards((12.0, f64::midpoint(TOP, bottom)), y_label);
    svg
}

/// A block of an icicle: across, the part of a whole that it is; down, from where to where it goes.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) across: (f64, f64),
    pub(super) down: (f64, f64),
    pub(super) depth: usize,
    pub(super) name: String,
}

/// Blocks under each other; `ends` are depths that are marked at the left.
pub(super) fn icicle(blocks: &[Block], depth_max: f64, marks: &[(f64, String)], y_label: &str) -> Svg {
    const LEFT: f64 = 78.0;
    const WIDTH: f64 = 720.0;
    const HEIGHT: f64 = 300.0;
    const TOP: f64 = 6.0;
    let mut svg = Svg::new(WIDTH, HEIGHT + 34.0);
    let x = |part: f64| LEFT + part * (WIDTH - LEFT - 8.0);
    let y = |depth: f64| TOP + depth / depth_max.max(1.0) * (HEIGHT - TOP);
    for (depth, text) in marks {
        svg.line((LEFT - 4.0, y(*depth)), (WIDTH - 8.0, y(*depth)), "grid");
        svg.text((LEFT - 8.0, y(*depth) + 4.0), Anchor::End, "tick", text);
    }
    for block in blocks {
        let (from, to) = (x(block.across.0), x(block.across.1));
        let (top, end) = (y(block.down.0), y(block.down.1));
        let class = format!("ice i{}", block.depth % 4);
        svg.rect((from + 0.5, top), ((to - from - 1.0).max(0.5), (end - top).max(1.0)), &class, &block.name);
        // About seven units a letter.
        if to - from > block.name.len() as f64 * 6.6 && end - top > 16.0 {
            svg.text((f64::midpoint(from, to), f64::midpoint(top, end) + 4.0), Anchor::Middle, "cell", &block.name);
        } else if to - from > 40.0 && end - top > 16.0 {
            let short = block.name.split(':').next().unwrap_or_default();
            svg.text((f64::midpoint(from, to), f64::midpoint(top, end) + 4.0), Anchor::Middle, "cell", short);
        }
    }
    svg.line((LEFT, TOP), (LEFT, HEIGHT), "axis");
    svg.text((f64::midpoint(LEFT, WIDTH), HEIGHT + 26.0), Anchor::Middle, "label", "part of the requests");
    svg.text_upwards((12.0, HEIGHT / 2.0), y_label);
    svg
}
