//! `cors:`: pages of which origins may use the gateway.

use http::{HeaderName, Uri};

use super::super::model::Cors;
use super::super::report::Report;
use super::super::yaml::Node;
use super::fields::{Fields, list, text, wrong_type, wrong_type_with};

const DAY_S: u64 = 86_400;

pub(super) fn cors(node: Option<&Node>, report: &mut Report<'_>) -> Cors {
    let default = Cors::default();
    let Some(mut fields) = node.and_then(|node| Fields::of(node, "cors", report)) else { return default };
    let cors = Cors {
        allowed_origins: fields.get("allowed_origins").map(|node| origins(node, report)).unwrap_or_default(),
        allowed_headers: fields.get("allowed_headers").map(|node| headers(node, report)),
        max_age_s: fields.integer("max_age_s", default.max_age_s, 0..=DAY_S, report),
    };
    if cors.allowed_origins.is_empty()
        && let Some(span) = fields.key_span("allowed_headers")
    {
        let help = "write `allowed_origins: [https://app.example.com]`, or `[\"*\"]` for all";
        report.warn(span, "cors has no effect: no origin is allowed", help);
    }
    fields.finish(report);
    cors
}

fn origins(node: &Node, report: &mut Report<'_>) -> Vec<String> {
    let items = list(node, "allowed_origins", "leave it out to allow none", report);
    items.iter().filter_map(|item| origin(item, report)).collect()
}

/// As browsers write it: scheme, host and port, the port only where it is not the scheme's own.
fn origin(node: &Node, report: &mut Report<'_>) -> Option<String> {
    let written = text(node, "origin", report)?;
    let origin = written.to_ascii_lowercase();
    let bare = origin.trim_end_matches('/');
    let host = bare.split_once("://").filter(|(scheme, _)| !scheme.is_empty()).map(|(_, host)| host);
    let is_origin = origin == "*"
        || host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '@', '*', '?', '#']))
            && bare.parse::<Uri>().is_ok();
    if !is_origin || bare != origin {
        let help = if is_origin { format!("write {bare}") } else { "all of a domain cannot be meant".to_owned() };
        wrong_type_with(node, "origin", "an origin such as https://app.example.com, or \"*\" for all", help, report);
    }
    Some(origin)
}

fn headers(node: &Node, report: &mut Report<'_>) -> Vec<HeaderName> {
    let items = list(node, "allowed_headers", "leave it out to allow whatever is asked for", report);
    let header = |item: &Node| {
        let written = text(item, "allowed header", report)?;
        let name = HeaderName::try_from(written).ok();
        if name.is_none() {
            wrong_type(item, "allowed header", "a header name", report);
        }
        name
    };
    items.iter().filter_map(header).collect()
}
