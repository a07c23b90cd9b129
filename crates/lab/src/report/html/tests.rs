use super::*;
use crate::analyze::{Analysis, Analyzer, Options};
use crate::trace::{Blocks, Content, Record};

fn analysis(name: &str) -> Analysis {
    let mut analyzer = Analyzer::new(Options::default());
    for i in 0..600u64 {
        let document = i % 60;
        let ids: Vec<u64> = [0, 100 + document, 200 + document, 10_000 + i].into();
        analyzer.push(&Record {
            at_ms: Some(i as f64 * 200.0),
            session: Some(format!("{name}{}", i % 50).into()),
            content: Content::Blocks(Blocks { ids: ids.into(), tokens: 512 }),
            input_tokens: Some(2048),
            output_tokens: Some(100),
            ..Record::default()
        });
    }
    analyzer.finish(|_| {})
}

fn page() -> String {
    let provenance = Provenance {
        command: "kvroute analyze '</script><b>x' --html out.html".to_owned(),
        source: "<trace> & co".to_owned(),
        assumptions: vec!["times are milliseconds".to_owned()],
    };
    analysis_html(&analysis("s"), &provenance)
}

#[test]
fn every_chart_of_an_analysis_is_there_with_title_description_and_table() {
    let page = page();
    for id in ["reuse-limits", "prefix-lengths", "thresholds", "heat-map", "reuse-distance", "prefix-tree", "shape"] {
        let from = page.find(&format!("<figure id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}"));
        let figure = &page[from..from + page[from..].find("</figure>").unwrap()];
        for part in ["<title", "<desc", "role=\"img\"", "<table>", "<summary>"] {
            assert!(figure.contains(part), "{id} has no {part}");
        }
        assert!(!figure.contains("NaN") && !figure.contains("inf"), "{id}");
    }
}

#[test]
fn the_file_needs_nothing_from_elsewhere_and_nothing_in_it_runs_that_is_not_ours() {
    let page = page();
    assert!(page.contains("default-src 'none'"));
    for outside in ["http://", "https://", "src=", "@import", "url("] {
        let found = page.match_indices(outside).map(|(at, _)| &page[at.saturating_sub(20)..at + 30]);
        // The address of a replica in the settings is text.
        let found: Vec<&str> = found.filter(|text| !text.contains("10.0.0.")).collect();
        assert!(found.is_empty(), "{found:?}");
    }
    assert_eq!(page.matches("<script").count(), 2, "a name became an element");
    assert!(page.contains("&lt;trace&gt; &amp; co"));
    assert!(page.len() < 400 << 10, "{}", page.len());
}

#[test]
fn the_data_in_the_file_is_the_analysis() {
    let page = page();
    let from = page.find("id=\"data\">").unwrap() + "id=\"data\">".len();
    let data = &page[from..from + page[from..].find("</script>").unwrap()];
    let expected = serde_json::to_value(analysis("s")).unwrap();
    let found: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(found["advice"], expected["advice"]);
}

#[test]
fn what_is_simulated_is_labelled_and_what_is_counted_is_not() {
    let page = page();
    let tag_of = |id: &str| {
        let from = page.find(&format!("<figure id=\"{id}\">")).unwrap();
        page[from..from + 400].contains("class=\"tag\"")
    };
    assert!(tag_of("prefix-lengths") && tag_of("thresholds"));
    assert!(!tag_of("reuse-distance") && !tag_of("shape"));
}

#[test]
fn a_trace_of_lengths_has_a_page_too() {
    let mut analyzer = Analyzer::new(Options::default());
    for i in 0..50 {
        analyzer.push(&Record { at_ms: Some(f64::from(i)), input_tokens: Some(100), ..Record::default() });
    }
    let page = analysis_html(&analyzer.finish(|_| {}), &Provenance::default());
    assert!(page.contains("cannot be told") && page.contains("id=\"shape\""));
}

fn replay_page() -> String {
    let json = crate::report::saved_sample::sample().to_string();
    let page = replay_html(&crate::report::saved::SavedReplay::read(&json).unwrap(), &json);
    // To be looked at while charts are worked on.
    if let Some(path) = std::env::var_os("KVROUTE_REPLAY_PAGE") {
        std::fs::write(path, &page).unwrap();
    }
    page
}

#[test]
fn every_chart_of_a_replay_is_there_and_labelled_simulated() {
    let page = replay_page();
    for id in ["ttft-cdf", "percentiles", "locality", "hits-over-time", "shares", "spill", "cost", "recovery"] {
        let from = page.find(&format!("<figure id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}"));
        let figure = &page[from..from + page[from..].find("</figure>").unwrap()];
        for part in ["<title", "<desc", "role=\"img\"", "<table>", "class=\"tag\""] {
            assert!(figure.contains(part), "{id} has no {part}");
        }
        assert!(!figure.contains("NaN") && !figure.contains("inf\""), "{id}");
    }
    assert_eq!(page.matches("<script").count(), 2, "a name became an element");
    assert!(page.len() < 400 << 10, "{}", page.len());
}

#[test]
fn a_replay_begins_with_its_verdict_and_says_where_another_router_is_faster() {
    let page = replay_page().replace('\u{a0}', " ");
    assert!(page.contains(
        "<h1>prefix_aware has a P90 TTFT of 1.9 s where random has 3.0 s (-37 %, 95 % interval -45 % to -30 %)"
    ));
    assert!(page.contains("lmetric, a rule of another router, is faster still: 1.5 s."));
    assert!(page.contains("prefix_length: 4096"), "1,024 tokens are about 4,096 characters");
}

#[test]
fn of_strategies_that_are_as_good_at_the_90th_percentile_the_one_with_the_lower_median_is_named() {
    let mut json = crate::report::saved_sample::sample();
    let strategies = json["strategies"].as_array_mut().unwrap();
    let mut rival = strategies[1].clone();
    rival["name"] = "least_outstanding".into();
    rival["rule"] = "least_outstanding".into();
    rival["metrics"]["p90_ttft_ms"] = 1890.0.into();
    rival["metrics"]["median_ttft_ms"] = 1400.0.into();
    strategies.push(rival);
    let json = json.to_string();
    let page = replay_html(&crate::report::saved::SavedReplay::read(&json).unwrap(), &json);
    assert!(page.contains("<h1>prefix_aware has a P90 TTFT"));
}

#[test]
fn a_fleet_without_events_and_a_replay_without_a_price_have_no_charts_of_these() {
    let mut json = crate::report::saved_sample::sample();
    json["gpu_hour_usd"] = serde_json::Value::Null;
    for strategy in json["strategies"].as_array_mut().unwrap() {
        strategy["marks"] = serde_json::json!([]);
    }
    let json = json.to_string();
    let page = replay_html(&crate::report::saved::SavedReplay::read(&json).unwrap(), &json);
    assert!(!page.contains("id=\"cost\"") && !page.contains("id=\"recovery\""));
}

#[test]
fn a_page_of_many_strategies_stays_small() {
    let mut json = crate::report::saved_sample::sample();
    let strategies = json["strategies"].as_array_mut().unwrap();
    let one = strategies[1].clone();
    for i in 0..17 {
        let mut more = one.clone();
        more["name"] = format!("prefix_aware:prefix_length={i}").into();
        strategies.push(more);
    }
    let json = json.to_string();
    let page = replay_html(&crate::report::saved::SavedReplay::read(&json).unwrap(), &json);
    assert!(json.len() > 300_000 && page.len() < 400 << 10, "{} {}", json.len(), page.len());
    assert!(page.contains("left out of the page"));
}
