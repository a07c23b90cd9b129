//! Lines over two axes.

use super::axes::Frame;
use super::figure::series_class;
use super::scale::Axis;
use super::svg::Svg;

/// A line; `None` where it is interrupted.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// A chart of lines.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    pub(super) size: (f64, f64),
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    /// Number of the first line's colour and dashes.
    pub(super) first_series: usize,
    /// Whether points are shown: for few of them.
    pub(super) has_points: bool,
    /// Places on the x axis with a word, and whether they are the ones to choose.
    pub(super) x_marks: Vec<(f64, String, bool)>,
    /// Places on the y axis with a word.
    pub(super) y_marks: Vec<(f64, String)>,
}

impl Lines {
    pub(super) fn new(size: (f64, f64), x: Axis, y: Axis, lines: Vec<Line>) -> Self {
        Self { size, x, y, lines, first_series: 0, has_points: false, x_marks: Vec::new(), y_marks: Vec::new() }
    }

    pub(super) fn draw(self) -> Svg {
        let mut frame = Frame::new(self.size, self.x, self.y);
        for (y, text) in &self.y_marks {
            frame.mark_y(*y, "mark", text);
        }
        for (number, (x, text, is_chosen)) in self.x_marks.iter().filter(|mark| !mark.1.is_empty()).enumerate() {
            frame.mark_x(*x, number, if *is_chosen { "mark chosen" } else { "mark" }, text);
        }
        for (x, ..) in self.x_marks.iter().filter(|mark| mark.1.is_empty()) {
            frame.mark_x(*x, 0, "mark", "");
        }
        for (index, line) in self.lines.iter().enumerate() {
            let class = series_class(self.first_series + index);
            // Dashes tell lines apart; one alone needs none.
            let dashes = if self.lines.len() == 1 { " alone" } else { "" };
            let points: Vec<Option<(f64, f64)>> = line.points.iter().map(|&(x, y)| y.map(|y| frame.at(x, y))).collect();
            frame.svg.path(&points, &format!("line {class}{dashes}"), &line.name);
            if self.has_points {
                for (&(x, y), place) in line.points.iter().zip(&points) {
                    if let (Some(y), Some(place)) = (y, place) {
                        let tip = format!("{}: {}", frame.x.format.write(x), frame.y.format.write(y));
                        frame.svg.circle(*place, 3.5, &format!("dot {class}"), &tip);
                    }
                }
            }
        }
        frame.svg
    }
}
