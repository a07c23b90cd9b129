//! The frame of a chart: axes, marks and grid.

use super::scale::Axis;
use super::svg::{Anchor, Svg};

/// A drawing with axes.
pub(super) struct Frame {
    pub(super) svg: Svg,
    pub(super) x: Axis,
    pub(super) y: Axis,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// Size of a chart that fills a column.
pub(super) const LARGE: (f64, f64) = (720.0, 320.0);
/// Size of a small multiple.
pub(super) const SMALL: (f64, f64) = (350.0, 210.0);

impl Frame {
    /// Draws both axes.
    pub(super) fn new((width, height): (f64, f64), x: Axis, y: Axis) -> Self {
        let mut frame = Self {
            svg: Svg::new(width, height),
            x,
            y,
            left: 62.0,
            right: width - 16.0,
            top: 14.0,
            bottom: height - 44.0,
        };
        frame.draw_y();
        frame.draw_x();
        frame
    }

    /// Draws the upward axis only; below come names.
    pub(super) fn with_names((width, height): (f64, f64), y: Axis) -> Self {
        let x = Axis::parts("");
        let mut frame = Self {
            svg: Svg::new(width, height),
            x,
            y,
            left: 62.0,
            right: width - 16.0,
            top: 14.0,
            bottom: height - 44.0,
        };
        frame.draw_y();
        frame
    }

    /// Where a point lies in the drawing.
    pub(super) fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x_at(x), self.y_at(y))
    }

    pub(super) fn x_at(&self, x: f64) -> f64 {
        self.left + self.x.at(x) * (self.right - self.left)
    }

    pub(super) fn y_at(&self, y: f64) -> f64 {
        self.bottom - self.y.at(y) * (self.bottom - self.top)
    }

    /// Left, right, top and bottom of the area inside the axes.
    pub(super) fn area(&self) -> (f64, f64, f64, f64) {
        (self.left, self.right, self.top, self.bottom)
    }

    /// A line up from a place on the x axis, with a word near its top: on one of three lines, so that the words of marks
    /// that are close to each other can be read.
    pub(super) fn mark_x(&mut self, x: f64, number: usize, class: &str, text: &str) {
        let at = self.x_at(x);
        let (top, bottom) = (self.top, self.bottom);
        self.svg.line((at, top), (at, bottom), class);
        let is_right = at > f64::midpoint(self.left, self.right);
        let (anchor, beside) = if is_right { (Anchor::End, -4.0) } else { (Anchor::Start, 4.0) };
        let down = top + 9.0 + (number % 3) as f64 * 12.0;
        self.svg.text((at + beside, down), anchor, "note", text);
    }

    /// A line across from a place on the y axis, with a word at its right end.
    pub(super) fn mark_y(&mut self, y: f64, class: &str, text: &str) {
        let at = self.y_at(y);
        let (left, right) = (self.left, self.right);
        self.svg.line((left, at), (right, at), class);
        self.svg.text((right, at - 4.0), Anchor::End, "note", text);
    }

    fn draw_y(&mut self) {
        let ticks = self.y.ticks(if self.svg.height > 250.0 { 5 } else { 4 });
        for tick in ticks {
            let y = self.y_at(tick);
            self.svg.line((self.left, y), (self.right, y), "grid");
            let text = self.y.format.write(tick);
            self.svg.text((self.left - 6.0, y + 4.0), Anchor::End, "tick", &text);
        }
        let label = self.y.label.clone();
        self.svg.text_upwards((12.0, f64::midpoint(self.top, self.bottom)), &label);
    }

    fn draw_x(&mut self) {
        let ticks = self.x.ticks(if self.svg.width > 500.0 { 8 } else { 4 });
        for tick in ticks {
            let x = self.x_at(tick);
            self.svg.line((x, self.bottom), (x, self.bottom + 4.0), "axis");
            let text = self.x.format.write(tick);
            // A long word at the edge would be cut off.
            let anchor = if x + text.len() as f64 * 3.5 > self.svg.width { Anchor::End } else { Anchor::Middle };
            self.svg.text((x, self.bottom + 17.0), anchor, "tick", &text);
        }
        self.svg.line((self.left, self.bottom), (self.right, self.bottom), "axis");
        let middle = f64::midpoint(self.left, self.right);
        let label = self.x.label.clone();
        self.svg.text((middle, self.bottom + 36.0), Anchor::Middle, "label", &label);
    }
}
