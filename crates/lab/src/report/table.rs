//! The table: 50 columns, labels 40 wide, sections in the order of vLLM's benchmark.

use std::fmt;

use super::{Report, percent_label};
use crate::{
    load::{Ending, LoopKind},
    stats::Summary,
};

const WIDTH: usize = 50;
const LABEL_WIDTH: usize = 40;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        heading(f, " Serving Benchmark Result ", '=')?;
        self.volume(f)?;
        latency(f, "Time to First Token", "TTFT", &self.ttft_ms)?;
        let per_token = "Time per Output Token (excl. 1st token)";
        latency(f, per_token, "TPOT", &self.tpot_ms)?;
        latency(f, "Inter-token Latency", "ITL", &self.itl_ms)?;
        latency(f, "End-to-end Latency", "E2EL", &self.e2el_ms)?;
        self.cache(f)?;
        self.schedule(f)?;
        self.router(f)?;
        self.failures(f)?;
        heading(f, "", '=')
    }
}

impl Report {
    fn volume(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "Successful requests:", self.completed)?;
        row(f, "Failed requests:", self.failed)?;
        if self.cut > 0 {
            row(f, "Requests cut at the end:", self.cut)?;
        }
        if let Some(limit) = self.pacing.max_concurrency {
            row(f, "Maximum request concurrency:", limit)?;
        }
        if self.pacing.request_rate.is_finite() {
            let label = "Request rate configured (RPS):";
            number(f, label, self.pacing.request_rate)?;
        }
        number(f, "Benchmark duration (s):", self.duration_s)?;
        row(f, "Total input tokens:", self.input_tokens)?;
        row(f, "Total generated tokens:", self.output_tokens)?;
        number(f, "Request throughput (req/s):", self.request_throughput())?;
        if let Some(goodput) = self.request_goodput {
            number(f, "Request goodput (req/s):", goodput)?;
        }
        number(f, "Output token throughput (tok/s):", self.output_throughput())?;
        row(f, "Peak concurrent requests:", self.in_flight_peak)?;
        let total = self.total_token_throughput();
        number(f, "Total token throughput (tok/s):", total)
    }

    fn cache(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        heading(f, "Cache Hit Details", '-')?;
        row(f, "Total prompt tokens:", self.input_tokens)?;
        match (self.cached_tokens, self.cached_ratio()) {
            (Some(cached), Some(ratio)) => {
                row(f, "Cached tokens:", cached)?;
                number(f, "Cache hit rate (%):", ratio * 100.0)
            }
            _ => row(f, "Cached tokens:", "not reported"),
        }
    }

    fn schedule(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        heading(f, "Schedule", '-')?;
        let kind = self.pacing.loop_kind();
        row(f, "Loop:", kind.name())?;
        if kind == LoopKind::Open {
            number(f, "Burstiness:", self.pacing.burstiness)?;
        }
        row(f, "Seed:", self.seed)?;
        match self.ending {
            Ending::Finished => {}
            Ending::TimeOver => row(f, "Ended:", "time over")?,
            Ending::Stopped => row(f, "Ended:", "stopped")?,
        }
        if self.warmups_failed > 0 {
            row(f, "Failed warm-up requests:", self.warmups_failed)?;
        }
        summary(f, "Schedule Lag", &self.schedule_lag_ms)?;
        if self.client_queue_ms.mean > 0.0 {
            summary(f, "Client Queue Time", &self.client_queue_ms)?;
        }
        Ok(())
    }

    fn router(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shares.is_empty() && self.decisions.is_empty() {
            return Ok(());
        }
        heading(f, "Router", '-')?;
        for (replica, share) in &self.shares {
            number(f, &format!("Share of {replica} (%):"), share * 100.0)?;
        }
        for (reason, requests) in &self.decisions {
            row(f, &format!("Decisions {reason}:"), requests)?;
        }
        Ok(())
    }

    fn failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.failures.is_empty() {
            return Ok(());
        }
        heading(f, "Failures", '-')?;
        for (label, failure) in &self.failures {
            row(f, &format!("{label}:"), failure.count)?;
            if !failure.example.is_empty() {
                writeln!(f, "  {}", failure.example)?;
            }
        }
        Ok(())
    }
}

fn heading(f: &mut fmt::Formatter<'_>, title: &str, fill: char) -> fmt::Result {
    let around = WIDTH.saturating_sub(title.chars().count());
    let (left, right) = (around / 2, around.div_ceil(2));
    let line = |n: usize| String::from(fill).repeat(n);
    writeln!(f, "{}{title}{}", line(left), line(right))
}

fn row(f: &mut fmt::Formatter<'_>, label: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{label:<LABEL_WIDTH$} {value}")
}

fn number(f: &mut fmt::Formatter<'_>, label: &str, value: f64) -> fmt::Result {
    row(f, label, format_args!("{value:.2}"))
}

fn latency(f: &mut fmt::Formatter<'_>, title: &str, name: &str, metric: &Summary) -> fmt::Result {
    heading(f, title, '-')?;
    summary(f, name, metric)
}

fn summary(f: &mut fmt::Formatter<'_>, name: &str, metric: &Summary) -> fmt::Result {
    number(f, &format!("Mean {name} (ms):"), metric.mean)?;
    number(f, &format!("Median {name} (ms):"), metric.median)?;
    // The median has its row already.
    for &(percent, value) in metric.percentiles.iter().filter(|(percent, _)| *percent != 50.0) {
        let percent = percent_label(percent);
        number(f, &format!("P{percent} {name} (ms):"), value)?;
    }
    Ok(())
}
