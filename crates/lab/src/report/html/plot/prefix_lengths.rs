//! Plot 7: what a prefix length does to reuse, keys and balance.

use crate::analyze::cuts::Cut;
use crate::analyze::repeats::Repeats;
use crate::analyze::sweep::Sweep;
use crate::analyze::words::{count, milliseconds, percent};
use crate::report::html::axes::SMALL;
use crate::report::html::figure::Figure;
use crate::report::html::lines::{Line, Lines};
use crate::report::html::scale::{Axis, Format};
use crate::report::html::svg::Svg;

/// A small multiple: caption, label of the value, how it is written, the value.
type Panel = (&'static str, Format, fn(&Cut) -> Option<f64>);

const PANELS: [Panel; 4] = [
    ("reused", Format::Percent, |cut| Some(cut.estimate.reused_ratio)),
    ("different keys", Format::Amount, |cut| Some(cut.keys as f64)),
    ("requests of the most used key", Format::Percent, |cut| Some(cut.key_share_max)),
    ("TTFT, 90th percentile", Format::Milliseconds, |cut| cut.estimate.ttft_p90_ms),
];

/// `None` if no length was tried.
pub(in crate::report::html) fn figure(sweep: &Sweep, repeats: &Repeats) -> Option<Figure> {
    sweep.cuts.first()?;
    let panels = PANELS.iter().enumerate().filter(|(_, panel)| sweep.cuts.iter().any(|cut| (panel.2)(cut).is_some()));
    let drawings = panels.map(|(index, panel)| (panel.0.to_owned(), draw(sweep, repeats, index, panel))).collect();
    let advised = sweep.advised().map_or_else(String::new, |cut| {
        format!(" Advised: {} characters, {} tokens.", count(u64::from(cut.prefix_length)), count(cut.tokens))
    });
    Some(Figure {
        id: "prefix-lengths",
        title: "Which prefix_length?".to_owned(),
        description: format!(
            "Too short, and everything has one key; too long, and nothing meets what it could reuse. The dashed lines are \
             where shared beginnings end.{advised}"
        ),
        is_simulated: true,
        drawings,
        legend: Vec::new(),
        columns: [
            "prefix_length",
            "tokens",
            "keys",
            "most used key",
            "reused",
            "busiest replica",
            "spilled",
            "TTFT mean",
            "TTFT P90",
        ]
        .map(str::to_owned)
        .into(),
        rows: sweep.cuts.iter().map(row).collect(),
    })
}

fn row(cut: &Cut) -> Vec<String> {
    let estimate = &cut.estimate;
    let time = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), milliseconds);
    vec![
        count(u64::from(cut.prefix_length)),
        count(cut.tokens),
        count(cut.keys as u64),
        percent(cut.key_share_max),
        percent(estimate.reused_ratio),
        percent(estimate.share_max),
        percent(estimate.spilled_ratio),
        time(estimate.ttft_mean_ms),
        time(estimate.ttft_p90_ms),
    ]
}

fn draw(sweep: &Sweep, repeats: &Repeats, index: usize, (caption, format, value): &Panel) -> Svg {
    let points: Vec<(f64, Option<f64>)> = sweep.cuts.iter().map(|cut| (cut.tokens as f64, value(cut))).collect();
    let x = Axis::log("tokens", Format::Amount, points.iter().map(|point| point.0));
    let y = match format {
        Format::Percent => Axis::parts(""),
        Format::Amount => Axis::log("", *format, points.iter().filter_map(|point| point.1)),
        _ => Axis::from_zero("", *format, points.iter().filter_map(|point| point.1)),
    };
    let mut chart = Lines::new(SMALL, x, y, vec![Line { name: (*caption).to_owned(), points }]);
    chart.first_series = index;
    chart.has_points = true;
    let systems = repeats.system_prompts();
    chart.x_marks = systems.iter().take(3).map(|branch| (branch.to_tokens as f64, String::new(), false)).collect();
    chart.x_marks.extend(sweep.advised().map(|cut| (cut.tokens as f64, "advised".to_owned(), true)));
    chart.draw()
}
