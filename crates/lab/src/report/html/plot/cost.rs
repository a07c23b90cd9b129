//! Plot 10: the boss's number.

use crate::report::html::bars::{Lying, lying};
use crate::report::html::figure::Figure;
use crate::report::html::scale::Format;
use crate::report::saved::SavedReplay;

/// `None` without a price.
pub(in crate::report::html) fn figure(report: &SavedReplay) -> Option<Figure> {
    let price = report.gpu_hour_usd?;
    let cost = |strategy: &crate::report::saved::SavedStrategy| strategy.metric("usd_per_million_output_tokens");
    let max = report.strategies.iter().filter_map(cost).fold(0.0, f64::max);
    let bars = report.strategies.iter().filter_map(|strategy| {
        let value = cost(strategy)?;
        let text = Format::Dollars.write(value);
        Some(Lying { name: strategy.name.clone(), parts: vec![(0, value, text.clone())], text })
    });
    let bars: Vec<Lying> = bars.collect();
    let hours = |strategy: &crate::report::saved::SavedStrategy, name: &str| {
        strategy.metric(name).map_or_else(|| "–".to_owned(), |s| format!("{:.2} h", s / 3_600.0))
    };
    Some(Figure {
        id: "cost",
        title: "What do a million output tokens cost?".to_owned(),
        description: format!(
            "GPU hours that the fleet was there x {} an hour / output tokens. The fleet is the same for all: what is saved shows \
             as computing time, and as money only if you then serve more or run fewer replicas.",
            Format::Dollars.write(price)
        ),
        is_simulated: true,
        drawings: vec![(String::new(), lying(&bars, max, None))],
        legend: Vec::new(),
        columns: ["", "per million output tokens", "GPU time there", "of it computing", "prefill saved"]
            .map(str::to_owned)
            .into(),
        rows: report
            .strategies
            .iter()
            .map(|strategy| {
                let dollars = cost(strategy).map_or_else(|| "–".to_owned(), |value| Format::Dollars.write(value));
                let times = ["gpu_s", "gpu_busy_s", "gpu_prefill_saved_s"].map(|name| hours(strategy, name));
                [strategy.name.clone(), dollars].into_iter().chain(times).collect()
            })
            .collect(),
    })
}
