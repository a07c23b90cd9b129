//! What to know, finding by finding.

use super::{Finding, Topic, advised_threshold, threshold};
use crate::analyze::load::StayFrom;
use crate::analyze::repeats::Branch;
use crate::analyze::serialisation::WORTH;
use crate::analyze::words::{amount, count, milliseconds, percent, rate, seconds, small};
use crate::analyze::{Analysis, Reuse, repeats as tree};

/// System prompts named one by one.
const SYSTEM_PROMPTS_MAX: usize = 5;

/// All findings, the most important first.
pub(super) fn all(analysis: &Analysis) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(reuse) = &analysis.reuse {
        findings.extend(repeats(reuse));
        findings.extend(too_short_a_key(analysis, reuse));
        findings.extend(prefix_length(reuse));
        findings.extend(hot_prefix(analysis, reuse));
    }
    findings.extend(concurrency(analysis));
    if let Some(reuse) = &analysis.reuse {
        findings.extend(blocks(analysis, reuse));
        findings.extend(memory(reuse));
    }
    findings.extend(serialisation(analysis));
    findings.extend(load(analysis));
    findings.extend(trace(analysis));
    findings
}

fn finding(topic: Topic, text: String) -> Finding {
    Finding { topic, is_warning: false, text }
}

fn warning(topic: Topic, text: String) -> Finding {
    Finding { topic, is_warning: true, text }
}

fn repeats(reuse: &Reuse) -> Option<Finding> {
    let systems = reuse.repeats.system_prompts();
    let shown = &systems[..systems.len().min(SYSTEM_PROMPTS_MAX)];
    let parts = shown.iter().enumerate().map(|(index, branch)| {
        let (requests, tokens) = (percent(branch.share), count(branch.to_tokens));
        match index {
            0 => format!("{requests} of the requests begin with the same {tokens} tokens"),
            _ => format!("{requests} with another {tokens}"),
        }
    });
    let parts = listed(&parts.collect::<Vec<_>>());
    let most = reuse.repeats.root.branches.iter().map(|branch| branch.share).fold(tree::SHARE_MIN, f64::max);
    let text = match shown {
        [] => format!(
            "No beginning is shared by more than {} of the requests. What repeats is {} of the prompt tokens, in \
             smaller groups: documents, or conversations that go on.",
            percent(most),
            percent(reuse.limits.infinite)
        ),
        [all] if all.share > 0.99 => format!(
            "All requests begin with the same {} tokens, then part in {} ways.",
            count(all.to_tokens),
            count(u64::from(all.ways_on))
        ),
        _ => format!("{parts}."),
    };
    Some(finding(Topic::Repeats, text))
}

/// What the advised length is.
fn prefix_length(reuse: &Reuse) -> Option<Finding> {
    let (cut, (from, to)) = (reuse.sweep.advised()?, reuse.sweep.plateau?);
    let mut text = format!(
        "Set prefix_length to {} ({} tokens): {} different keys, of which the most used has {} of the requests.",
        count(u64::from(cut.prefix_length)),
        count(cut.tokens),
        count(cut.keys as u64),
        percent(cut.key_share_max)
    );
    if from < to {
        let length = |index: usize| count(u64::from(reuse.sweep.cuts[index].prefix_length));
        let what = if cut.estimate.ttft_mean_ms.is_some() { "latencies" } else { "reuse and balance" };
        text.push_str(&format!(" From {} to {} {what} are about as good.", length(from), length(to)));
    }
    Some(finding(Topic::PrefixLength, text))
}

/// What a length below the system prompts would do.
fn too_short_a_key(analysis: &Analysis, reuse: &Reuse) -> Option<Finding> {
    let fair = 1.0 / f64::from(analysis.fleet.replicas);
    let systems = reuse.repeats.system_prompts();
    let hot: Vec<&Branch> = systems.into_iter().filter(|branch| branch.share > fair).take(SYSTEM_PROMPTS_MAX).collect();
    let [first, ..] = hot[..] else { return None };
    let text = if first.share > 0.9 {
        format!(
            "A prefix_length of {} tokens or less gives {} of the requests one key: one replica would be the home of all of \
             them, and the others would only get what it cannot take.",
            count(first.to_tokens),
            percent(first.share)
        )
    } else {
        let parts = hot.iter().map(|branch| {
            let (tokens, share) = (count(branch.to_tokens), percent(branch.share));
            format!("at {tokens} tokens or less the {share} ({:.1} times)", branch.share / fair)
        });
        format!(
            "A prefix_length that ends inside a shared beginning gives all its requests one key and one replica more than its \
             fair share of {}: {}.",
            percent(fair),
            listed(&parts.collect::<Vec<_>>())
        )
    };
    Some(warning(Topic::PrefixLength, text))
}

/// `a, b and c`.
fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

fn hot_prefix(analysis: &Analysis, reuse: &Reuse) -> Option<Finding> {
    let cut = reuse.sweep.advised()?;
    let fair = 1.0 / f64::from(analysis.fleet.replicas);
    (cut.key_share_max > fair && analysis.fleet.replicas > 1).then(|| {
        warning(
            Topic::HotPrefix,
            format!(
                "At that length one key has {} of the requests, more than the {} that is a replica's fair share. Its home \
                 will be the busiest; concurrency_threshold is what sends the rest elsewhere, so keep it low enough.",
                percent(cut.key_share_max),
                percent(fair)
            ),
        )
    })
}

fn concurrency(analysis: &Analysis) -> Option<Finding> {
    let demand = analysis.demand.as_ref()?;
    let from = match demand.stay_from {
        StayFrom::Trace => "as the trace says".to_owned(),
        StayFrom::Preset => format!("like {}, simulated", analysis.fleet.preset),
    };
    let mut text = format!(
        "Set concurrency_threshold to {}: {} requests a second over {} replicas, each staying {} ({from}), are {} in \
         flight on a replica, and at less than two to three times that, homes are left so often that hardly anything is \
         reused.",
        advised_threshold(analysis),
        rate(analysis.load.rate_per_s.unwrap_or(0.0)),
        small(analysis.fleet.replicas as usize),
        milliseconds(demand.stay_ms),
        rate(demand.in_flight_mean)
    );
    if advised_threshold(analysis) > threshold(Some(demand.in_flight_mean)) {
        text.push_str(" Traffic comes in bursts, so a quick simulation does better with more than that.");
    }
    text.push_str(" It counts for each gateway: divide it by their number.");
    Some(finding(Topic::ConcurrencyThreshold, text))
}

fn blocks(analysis: &Analysis, reuse: &Reuse) -> Option<Finding> {
    let lost = reuse.rounding.repeated_ratio - reuse.rounding.cached_ratio;
    let too_short = reuse.rounding.too_short_ratio;
    (lost >= 0.02 || too_short >= 0.05).then(|| {
        warning(
            Topic::Blocks,
            format!(
                "Shared but shorter than one block: engines keep whole KV blocks of {} tokens, so of the {} that repeat, {} \
                 can be reused; {} of the requests share something with earlier ones, but less than a block.",
                count(u64::from(analysis.fleet.block_tokens)),
                percent(reuse.rounding.repeated_ratio),
                percent(reuse.rounding.cached_ratio),
                percent(too_short)
            ),
        )
    })
}

fn memory(reuse: &Reuse) -> Option<Finding> {
    let limits = &reuse.limits;
    (limits.infinite - limits.pooled_lru >= 0.03).then(|| {
        finding(
            Topic::Memory,
            format!(
                "KV memory limits reuse: {} tokens in all caches hold {} of the prompt tokens until they come again, of {} \
                 that repeat. With perfect eviction it would be {}. More memory, or a tier below it, would help more than \
                 any routing.",
                amount(limits.pooled_tokens as f64),
                percent(limits.pooled_lru),
                percent(limits.infinite),
                percent(limits.pooled_belady)
            ),
        )
    })
}

fn serialisation(analysis: &Analysis) -> Vec<Finding> {
    let Some(found) = &analysis.serialisation else { return Vec::new() };
    let mut findings = Vec::new();
    let mut warn = |ratio: f64, text: String| {
        if ratio >= WORTH {
            findings.push(warning(Topic::Serialisation, format!("{} of the prompts {text}", percent(ratio))));
        }
    };
    let skip = if found.first_line_beginnings.is_empty() {
        "key_skip_lines leaves such lines out of kvroute's keys (--show-text tells how they begin)".to_owned()
    } else {
        format!("key_skip_lines: {} leaves them out of kvroute's keys", quoted(&found.first_line_beginnings))
    };
    warn(
        found.first_line_ratio,
        format!(
            "share everything but their first line with others. No cache can reuse anything after it: move that line to the \
             end of the prompt. {skip}, but the engine still sees a new prompt."
        ),
    );
    // What the first line explains is not said twice.
    if found.ids_ratio > found.first_line_ratio * 1.2 {
        warn(
            found.ids_ratio,
            "have a first message that others equal but for numbers, dates or ids in it. Nothing after the first of these \
             can be reused: move them to the end."
                .to_owned(),
        );
    }
    warn(
        found.message_order_ratio,
        "hold the same messages as others in another order: keep one order, the most shared first.".to_owned(),
    );
    warn(
        found.tool_order_ratio.unwrap_or(0.0),
        "list the same tools as others in another order. Engines put tools before the messages: sort them by name."
            .to_owned(),
    );
    warn(
        found.body_ratio.unwrap_or(0.0),
        "begin with the same text as others in a body with other bytes (order of members, white space, parameters before \
         the messages). Keys of native bodies are made of bytes: set native_prefix_source: message_text in kvroute; on \
         SageMaker, whose PrefixLength counts body bytes there, write JSON with the messages first and members in one order."
            .to_owned(),
    );
    findings
}

fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(", "))
}

fn load(analysis: &Analysis) -> Option<Finding> {
    let demand = analysis.demand.as_ref()?;
    (demand.prefill_busy_reusing >= 0.85).then(|| {
        warning(
            Topic::Load,
            format!(
                "This fleet is too small for the trace: computing prompts alone would take {} of its time without reuse and \
                 {} with all that is possible ({}). Latencies mean little then: try --replicas.",
                percent(demand.prefill_busy),
                percent(demand.prefill_busy_reusing),
                analysis.fleet.preset
            ),
        )
    })
}

fn trace(analysis: &Analysis) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_short = analysis.load.span_s.is_some_and(|span| span < 600.0) || analysis.load.requests < 1_000;
    if is_short && analysis.load.requests > 0 {
        let span = analysis.load.span_s.map_or_else(String::new, |span| format!(" over {}", seconds(span)));
        let requests = count(analysis.load.requests as u64);
        let text = format!("The trace is short ({requests} requests{span}): a longer one would show more reuse.");
        findings.push(finding(Topic::Trace, text));
    }
    if let Some(reuse) = analysis.reuse.as_ref().filter(|reuse| reuse.coarsened > 0) {
        let step = count(u64::from(reuse.grid.step));
        let unit = reuse.grid.unit.as_str();
        let text =
            format!("To bound memory, prompts were compared every {step} {unit}: a little less seems to repeat.");
        findings.push(finding(Topic::Trace, text));
    }
    if let Some(sweep) = analysis.reuse.as_ref().map(|reuse| &reuse.sweep)
        && sweep.requests < analysis.load.requests
    {
        let requests = count(sweep.requests as u64);
        let text =
            format!("Prefix lengths were tried on the first {requests} requests; the rest took part in the limits.");
        findings.push(finding(Topic::Trace, text));
    }
    findings
}
