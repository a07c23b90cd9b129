//! Prints `docs/operate/metrics.md`: every metric of the gateway, from the table that the gateway itself registers.
//! `cargo xtask docs` writes the page, `cargo xtask check` holds that it is up to date.

use std::io::{self, Write};

use kvroute_gateway::telemetry::names::{ALL, Kind, Metric};

const INTRODUCTION: &str = "\
# Metrics

The gateway's metrics in Prometheus' text format, at `/metrics` on the admin port. This page is written by
`cargo xtask docs` from the table in `crates/gateway/src/telemetry/names.rs`.

Times are in seconds. Label values are names from the configuration and fixed words, never anything that a client
sent. What belongs to a variant or replica disappears from the page with it, requests under way there included.

| metric | kind | labels | meaning |
|---|---|---|---|
";

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(INTRODUCTION.as_bytes())?;
    for metric in ALL {
        writeln!(out, "{}", row(metric))?;
    }
    let histograms = ALL.iter().filter(|metric| metric.kind == Kind::Histogram).count();
    writeln!(
        out,
        "\nThe {histograms} histograms have `_bucket`, `_sum` and `_count` series; the buckets of tokens and requests are \
         vLLM's, so that quantiles of the gateway and of its engines can be compared."
    )
}

fn row(metric: &Metric) -> String {
    let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
    let Metric { name, kind, help, .. } = metric;
    format!("| `{name}` | {} | {} | {} |", kind.as_str(), labels.join(", "), help.replace('|', r"\|"))
}
