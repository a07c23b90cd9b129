//! A replay as a page.

use super::Provenance;
use super::page::{Page, Section, Snippet, Tile};
use super::plot;
use crate::analyze::settings::Settings;
use crate::analyze::words::{amount, count, milliseconds, percent, seconds, small};
use crate::report::saved::{SavedReplay, SavedStrategy};

/// Characters that a token is taken to have where lengths are in tokens.
const CHARACTERS_PER_TOKEN: u32 = 4;

/// Bytes of a page at most, so that it can be mailed and opens at once.
const BYTES_MAX: usize = 400_000;

/// The page of a replay. `json` is its report, which is put into the page, without its series if that would make the page
/// too large.
pub fn replay_html(report: &SavedReplay, json: &str) -> String {
    let html = page(report, json);
    if html.len() <= BYTES_MAX {
        return html;
    }
    let Ok(mut data) = serde_json::from_str::<serde_json::Value>(json) else { return html };
    for strategy in data["strategies"].as_array_mut().into_iter().flatten() {
        strategy["series"] = "left out of the page: `kvroute replay --json` writes them".into();
    }
    page(report, &data.to_string())
}

fn page(report: &SavedReplay, json: &str) -> String {
    let best = best(report);
    let mut page = Page {
        kind: format!("kvroute replay, simulated: {}", report.source.name),
        verdict: verdict(report, best),
        tiles: tiles(report, best),
        settings: settings(report, best),
        sections: sections(report),
        data: json.trim().to_owned(),
        ..Page::default()
    };
    page.method.push(("Requests".to_owned(), requests(report)));
    page.method.push(("Fleet".to_owned(), fleet(report)));
    page.method.push(("Arrivals".to_owned(), report.arrivals.clone()));
    page.method.push(("Seeds".to_owned(), report.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")));
    if let Some(digest) = &report.source.digest {
        page.method.push(("Digest".to_owned(), digest.clone()));
    }
    page.provenance(&Provenance {
        command: report.command.clone().unwrap_or_default(),
        source: format!("{}, {}", report.source.name, report.source.format),
        assumptions: report.assumptions.clone(),
    });
    page.method.push(("Method".to_owned(), METHOD.to_owned()));
    page.html()
}

const METHOD: &str = "A discrete-event simulation: the gateway's own decision code over modelled engines, every strategy on \
                      the same arrivals. Differences are paired, with bootstrap intervals of 95 %. Strategies of other \
                      routers are written from their published rules.";

/// A 90th percentile of TTFT up to so many times the lowest is as good as that.
const AS_GOOD: f64 = 1.02;

/// Of kvroute's own strategies the one with the lowest 90th percentile of TTFT; of those that are as good there, the one
/// with the lowest median.
fn best(report: &SavedReplay) -> &SavedStrategy {
    let metric = |strategy: &SavedStrategy, name: &str| strategy.metric(name).unwrap_or(f64::INFINITY);
    let own = || report.strategies.iter().filter(|strategy| !strategy.is_baseline);
    let lowest = own().map(|strategy| metric(strategy, "p90_ttft_ms")).fold(f64::INFINITY, f64::min);
    own()
        .filter(|strategy| metric(strategy, "p90_ttft_ms") <= lowest * AS_GOOD)
        .min_by(|a, b| metric(a, "median_ttft_ms").total_cmp(&metric(b, "median_ttft_ms")))
        .unwrap_or(&report.strategies[0])
}

fn verdict(report: &SavedReplay, best: &SavedStrategy) -> String {
    let first = &report.strategies[0];
    let value = |strategy: &SavedStrategy, name: &str| strategy.metric(name).unwrap_or(f64::NAN);
    if best.name == first.name {
        return format!("Nothing else that was tried beats {} on this traffic.", first.name);
    }
    let mut text = format!(
        "{} has a P90 TTFT of {} where {} has {}",
        best.name,
        milliseconds(value(best, "p90_ttft_ms")),
        first.name,
        milliseconds(value(first, "p90_ttft_ms")),
    );
    if let Some(change) = best.changes.as_ref().and_then(|changes| changes.get("p90_ttft_percent")) {
        text.push_str(&format!(
            " ({}, 95 % interval {} to {})",
            signed(change.value),
            signed(change.low),
            signed(change.high)
        ));
    }
    text.push_str(&format!(
        ", and reuses {} of the prompt tokens instead of {}: simulated on {}.",
        percent(value(best, "delivered_ratio")),
        percent(value(first, "delivered_ratio")),
        fleet(report)
    ));
    if let Some(better) = better_baseline(report, best) {
        text.push_str(&format!(
            " {}, a rule of another router, is faster still: {}.",
            better.name,
            milliseconds(value(better, "p90_ttft_ms"))
        ));
    }
    text
}

/// A rule of another router that is clearly faster.
fn better_baseline<'a>(report: &'a SavedReplay, best: &SavedStrategy) -> Option<&'a SavedStrategy> {
    let ours = best.metric("p90_ttft_ms")?;
    let p90 = |strategy: &SavedStrategy| strategy.metric("p90_ttft_ms").unwrap_or(f64::INFINITY);
    let fastest =
        report.strategies.iter().filter(|strategy| strategy.is_baseline).min_by(|a, b| p90(a).total_cmp(&p90(b)))?;
    (p90(fastest) < ours * 0.98).then_some(fastest)
}

fn signed(percent: f64) -> String {
    format!("{percent:+.0} %")
}

fn tiles(report: &SavedReplay, best: &SavedStrategy) -> Vec<Tile> {
    let first = &report.strategies[0];
    let mut tiles = Vec::new();
    let mut push = |value: Option<String>, what: String| {
        tiles.extend(value.map(|value| Tile { value, what }));
    };
    let change = |name: &str| Some((best.metric(name)? / first.metric(name)? - 1.0) * 100.0);
    let n = count(report.trace.requests);
    push(
        change("p90_ttft_ms").map(signed),
        format!("P90 TTFT of {} against {}, n = {n} (simulated)", best.name, first.name),
    );
    push(change("median_ttft_ms").map(signed), format!("median TTFT against {} (simulated)", first.name));
    let tokens = best.metric("delivered_ratio").zip(best.metric("prompt_tokens")).map(|(part, all)| part * all);
    push(tokens.map(amount), "prompt tokens not computed again (simulated)".to_owned());
    let saved = |strategy: &SavedStrategy| strategy.metric("gpu_prefill_saved_s");
    let per_day = saved(best).zip(saved(first)).zip(report.trace.span_s.filter(|span| *span > 0.0));
    push(
        per_day.map(|((ours, theirs), span)| format!("{:+.1} h", (ours - theirs) / span * 24.0)),
        format!("GPU time saved by reuse in a day of such traffic, against {} (simulated)", first.name),
    );
    tiles
}

fn settings(report: &SavedReplay, best: &SavedStrategy) -> Vec<Snippet> {
    let Some(strategy) = ["random", "round_robin", "least_outstanding", "prefix_aware", "session"]
        .into_iter()
        .find(|name| *name == best.rule)
    else {
        return Vec::new();
    };
    let is_prefix = strategy == "prefix_aware";
    let factor = if report.prefix_length_unit == "tokens" { CHARACTERS_PER_TOKEN } else { 1 };
    let length = best.prefix_length.filter(|_| is_prefix);
    let characters = length.map(|length| length.saturating_mul(factor).clamp(1024, 65_536));
    let settings = Settings {
        strategy,
        prefix_length: characters,
        prefix_tokens: characters.map(|length| u64::from(length / CHARACTERS_PER_TOKEN)),
        concurrency_threshold: best.concurrency_threshold.filter(|_| is_prefix || strategy == "session"),
        key_skip_lines: Vec::new(),
    };
    let mut snippets = vec![Snippet { title: "kvroute.yaml".to_owned(), text: settings.yaml() }];
    if is_prefix || strategy == "least_outstanding" {
        let text = serde_json::to_string_pretty(&settings.routing_config()).unwrap_or_default();
        snippets.push(Snippet { title: "SageMaker: RoutingConfig of the production variant".to_owned(), text });
    }
    snippets
}

fn requests(report: &SavedReplay) -> String {
    let span = report.trace.span_s.map_or_else(String::new, |span| format!(" over {}", seconds(span)));
    format!("{}{span}, {} prompt tokens", count(report.trace.requests), amount(report.trace.prompt_tokens as f64))
}

fn fleet(report: &SavedReplay) -> String {
    let groups = report
        .fleet
        .groups
        .iter()
        .map(|group| format!("{} replicas of {}", small(group.replicas as usize), group.preset));
    groups.collect::<Vec<_>>().join(" and ")
}

fn sections(report: &SavedReplay) -> Vec<Section> {
    let mut why = Section { heading: "Why", ..Section::default() };
    why.figures.extend(plot::ttft_cdf::figure(report));
    why.figures.push(plot::percentiles::figure(report));
    why.figures.push(plot::locality::figure(report));
    why.figures.extend(plot::over_time::hits(report));
    why.figures.push(plot::shares::figure(report));
    why.figures.extend(plot::spill::figure(report));
    why.figures.extend(plot::cost::figure(report));
    let mut risks = Section { heading: "What could go wrong", ..Section::default() };
    risks.figures.extend(plot::recovery::figure(report));
    let trace =
        Section { heading: "The trace", figures: vec![plot::shape::of_replay(&report.trace)], ..Section::default() };
    vec![why, risks, trace]
}
