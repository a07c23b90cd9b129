//! `routing:` at the top level, in an endpoint or in a variant. Each level changes only what it names.

use http::HeaderName;
use kvroute_core::routing::{CONCURRENCY_THRESHOLD_RANGE, NativePrefixSource, PREFIX_LENGTH_RANGE, Strategy};

use super::super::model::Routing;
use super::super::report::Report;
use super::super::yaml::{Node, Value};
use super::fields::{Fields, text, wrong_type, wrong_type_with};
use super::suggest::did_you_mean;

/// `inherited` with the changes of `node`.
pub(super) fn routing(node: Option<&Node>, inherited: &Routing, report: &mut Report<'_>) -> Routing {
    let inherited = inherited.clone();
    let Some(mut fields) = node.and_then(|node| Fields::of(node, "routing", report)) else { return inherited };
    let prefix_lengths = u64::from(*PREFIX_LENGTH_RANGE.start())..=u64::from(*PREFIX_LENGTH_RANGE.end());
    let thresholds = u64::from(*CONCURRENCY_THRESHOLD_RANGE.start())..=u64::from(*CONCURRENCY_THRESHOLD_RANGE.end());
    let routing = Routing {
        strategy: fields
            .get("strategy")
            .and_then(|node| choice(node, "strategy", &Strategy::NAMES, |name| name.parse().ok(), report))
            .unwrap_or(inherited.strategy),
        prefix_length: fields.integer("prefix_length", inherited.prefix_length, prefix_lengths, report),
        concurrency_threshold: fields.integer(
            "concurrency_threshold",
            inherited.concurrency_threshold,
            thresholds,
            report,
        ),
        native_prefix_source: fields
            .get("native_prefix_source")
            .and_then(|node| {
                let parse = |name: &str| name.parse().ok();
                choice(node, "native_prefix_source", &NativePrefixSource::NAMES, parse, report)
            })
            .unwrap_or(inherited.native_prefix_source),
        tenant_header: header(&mut fields, "tenant_header", inherited.tenant_header, report),
        session_header: header(&mut fields, "session_header", inherited.session_header, report),
    };
    fields.finish(report);
    routing
}

/// Warns of prefix settings in `node` when nothing that they apply to looks at the prompt.
pub(super) fn warn_unused(node: Option<&Node>, in_use: bool, report: &mut Report<'_>) {
    let Some(Node { value: Value::Map(entries), .. }) = node else { return };
    for entry in entries.iter().filter(|_| !in_use) {
        if matches!(&*entry.key, "prefix_length" | "concurrency_threshold" | "native_prefix_source") {
            let message = format!("{} has no effect: no strategy here looks at the prompt", entry.key);
            report.warn(entry.key_span, message, "it belongs to prefix_aware and session");
        }
    }
}

/// Refuses in a variant's `routing` what is read before a variant is chosen, and so belongs to its endpoint.
pub(super) fn refuse_headers(node: Option<&Node>, report: &mut Report<'_>) {
    let Some(Node { value: Value::Map(entries), .. }) = node else { return };
    for entry in entries.iter() {
        if matches!(&*entry.key, "tenant_header" | "session_header") {
            let message = format!("{} cannot differ between the variants of an endpoint", entry.key);
            report.error_with(entry.key_span, message, "put it into the endpoint's routing");
        }
    }
}

/// One of `names` (or another spelling that `parse` takes).
pub(super) fn choice<T>(
    node: &Node,
    what: &str,
    names: &[&'static str],
    parse: impl Fn(&str) -> Option<T>,
    report: &mut Report<'_>,
) -> Option<T> {
    let written = text(node, what, report)?;
    let chosen = parse(written);
    if chosen.is_none() {
        let help = did_you_mean(written, names.iter().copied(), report).unwrap_or_default();
        wrong_type_with(node, what, format!("one of {}", names.join(", ")), help, report);
    }
    chosen
}

fn header(fields: &mut Fields<'_>, key: &'static str, default: HeaderName, report: &mut Report<'_>) -> HeaderName {
    let Some(node) = fields.get(key) else { return default };
    let Some(written) = text(node, key, report) else { return default };
    HeaderName::try_from(written).unwrap_or_else(|_| {
        wrong_type(node, key, "a header name", report);
        default
    })
}
