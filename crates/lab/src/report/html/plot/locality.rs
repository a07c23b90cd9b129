//! Plot 3: where reuse is lost: available, captured, delivered.

use crate::analyze::words::percent;
use crate::report::html::bars::{Lying, lying};
use crate::report::html::figure::Figure;
use crate::report::saved::SavedReplay;

pub(in crate::report::html) fn figure(report: &SavedReplay) -> Figure {
    let ratios = |strategy: &crate::report::saved::SavedStrategy| {
        ["available_ratio", "captured_ratio", "delivered_ratio"].map(|name| strategy.metric(name).unwrap_or(0.0))
    };
    let bars = report.strategies.iter().map(|strategy| {
        let [available, captured, delivered] = ratios(strategy);
        // What the engine reuses beyond the router's belief is delivered all the same.
        let (captured, available) = (captured.max(delivered), available.max(captured).max(delivered));
        Lying {
            name: strategy.name.clone(),
            parts: vec![
                (2, delivered, format!("delivered: {}", percent(delivered))),
                (4, captured - delivered, format!("captured, not delivered: {}", percent(captured - delivered))),
                (7, available - captured, format!("available, not captured: {}", percent(available - captured))),
            ],
            text: format!("{} of {}", percent(delivered), percent(available)),
        }
    });
    let bars: Vec<Lying> = bars.collect();
    Figure {
        id: "locality",
        title: "Who lost the cache: workload, router or engine?".to_owned(),
        description: "Parts of all prompt tokens. Green was delivered by engines; yellow was at the chosen replica, by the \
                      router's belief, and was not delivered; grey was at some other replica. What is missing to 100 % was \
                      nowhere."
            .to_owned(),
        is_simulated: true,
        drawings: vec![(String::new(), lying(&bars, 1.0, None))],
        legend: Vec::new(),
        columns: ["", "available", "captured", "delivered"].map(str::to_owned).into(),
        rows: report
            .strategies
            .iter()
            .map(|strategy| std::iter::once(strategy.name.clone()).chain(ratios(strategy).map(percent)).collect())
            .collect(),
    }
}
