//! An analysis as a page.

use super::Provenance;
use super::page::{Page, Section, Snippet, Tile};
use super::plot;
use crate::analyze::advice::Topic;
use crate::analyze::words::{amount, count, milliseconds, percent};
use crate::analyze::{Analysis, Reuse};
use crate::report::analysis::trace_sentence;

/// The page of an analysis.
pub fn analysis_html(analysis: &Analysis, provenance: &Provenance) -> String {
    let mut page = Page {
        kind: "kvroute analyze".to_owned(),
        verdict: analysis.advice.verdict.clone(),
        tiles: tiles(analysis),
        settings: settings(analysis),
        sections: sections(analysis),
        data: serde_json::to_string(analysis).unwrap_or_default(),
        ..Page::default()
    };
    page.method.push(("Trace".to_owned(), trace_sentence(analysis)));
    page.provenance(provenance);
    if let Some(reuse) = &analysis.reuse {
        page.method.push(("Method".to_owned(), method(reuse)));
    }
    page.assumptions.extend(analysis.advice.refused.iter().map(|text| format!("Cannot be told: {text}")));
    page.html()
}

fn tiles(analysis: &Analysis) -> Vec<Tile> {
    let tile = |value: String, what: &str| Tile { value, what: what.to_owned() };
    let load = &analysis.load;
    let Some(reuse) = &analysis.reuse else {
        return vec![
            tile(count(load.requests as u64), "requests"),
            tile(amount(load.input.mean), "prompt tokens each, on average"),
        ];
    };
    let mut tiles = vec![tile(
        percent(reuse.sweep.random.reused_ratio),
        "of the prompt tokens reused, placed at random (simulated)",
    )];
    if let Some(cut) = reuse.sweep.advised() {
        tiles.push(tile(percent(cut.estimate.reused_ratio), "reused with the settings below (simulated)"));
    }
    tiles.push(tile(percent(reuse.limits.infinite), "repeat: nothing can reuse more"));
    if let Some((ours, random)) =
        reuse.sweep.advised().and_then(|cut| Some((cut.estimate.ttft_p90_ms?, reuse.sweep.random.ttft_p90_ms?)))
    {
        let what = format!("90th percentile of TTFT, instead of {} at random (simulated)", milliseconds(random));
        tiles.push(Tile { value: milliseconds(ours), what });
    }
    tiles
}

fn settings(analysis: &Analysis) -> Vec<Snippet> {
    let advice = &analysis.advice;
    let snippet = |title: &str, text: String| Snippet { title: title.to_owned(), text };
    let yaml = advice.kvroute_yaml.iter().map(|yaml| snippet("kvroute.yaml", yaml.clone()));
    let config = advice.sagemaker_routing_config.iter().map(|config| {
        let text = serde_json::to_string_pretty(config).unwrap_or_default();
        snippet("SageMaker: RoutingConfig of the production variant", text)
    });
    yaml.chain(config).collect()
}

fn sections(analysis: &Analysis) -> Vec<Section> {
    let is_risk = |topic: Topic| !matches!(topic, Topic::Repeats | Topic::PrefixLength | Topic::ConcurrencyThreshold);
    let points = |wanted: fn(bool) -> bool| -> Vec<(bool, String)> {
        let findings = analysis.advice.findings.iter().filter(|finding| wanted(is_risk(finding.topic)));
        findings.map(|finding| (finding.is_warning, finding.text.clone())).collect()
    };
    let mut evidence = Section { heading: "Why", points: points(|is_risk| !is_risk), ..Section::default() };
    let mut repeats = Section { heading: "What repeats", ..Section::default() };
    if let Some(reuse) = &analysis.reuse {
        evidence.figures.push(plot::reuse_limits::figure(analysis, reuse));
        evidence.figures.extend(plot::prefix_lengths::figure(&reuse.sweep, &reuse.repeats));
        evidence.figures.extend(plot::thresholds::figure(&reuse.sweep));
        evidence.figures.extend(plot::heat_map::figure(&reuse.sweep));
        evidence.figures.push(plot::reuse_distance::figure(&reuse.limits, &analysis.fleet));
        repeats.figures.extend(plot::prefix_tree::figure(&reuse.repeats));
    }
    let risks = Section { heading: "What could go wrong", points: points(|is_risk| is_risk), ..Section::default() };
    let trace =
        Section { heading: "The trace", figures: vec![plot::shape::figure(&analysis.shape)], ..Section::default() };
    vec![evidence, repeats, risks, trace]
}

fn method(reuse: &Reuse) -> String {
    format!(
        "Prompts are compared every {} {}. What is reused at most is counted; what a fleet would do is simulated: each \
         replica has an LRU cache and computes prompts one after the other at the preset's speed, over {} requests and {} \
         seeds, at a threshold of {}. It leaves out batching and chunked prefill: kvroute replay has them.",
        reuse.grid.step,
        reuse.grid.unit.as_str(),
        count(reuse.sweep.requests as u64),
        reuse.sweep.seeds,
        reuse.sweep.concurrency_threshold
    )
}
