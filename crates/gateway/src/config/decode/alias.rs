//! Model aliases: names that clients use for models which the replicas know by another.

use std::collections::{BTreeMap, HashMap};

use super::super::model::Endpoint;
use super::super::report::{Report, Span, quote};
use super::super::yaml::{Node, Value};
use super::fields::wrong_type;
use super::names::{free_name, is_free_name};

/// Where the aliases of an endpoint stand in the file.
pub(super) type Places = HashMap<String, Span>;

/// `aliases: {alias: model}`.
pub(super) fn aliases(node: &Node, report: &mut Report<'_>) -> (BTreeMap<String, String>, Places) {
    let (mut aliases, mut places) = (BTreeMap::new(), Places::new());
    let Value::Map(entries) = &node.value else {
        wrong_type(node, "aliases", "a mapping from alias to model", report);
        return (aliases, places);
    };
    for entry in entries.iter() {
        if !is_free_name(&entry.key) {
            report.error(entry.key_span, format!("{} cannot be the name of a model", quote(&entry.key)));
        }
        if let Some(model) = free_name(&entry.value, "model", report) {
            places.insert(entry.key.to_string(), entry.key_span);
            aliases.insert(entry.key.to_string(), model);
        }
    }
    (aliases, places)
}

/// Checks that each alias means one thing. `places` belong to `endpoints` by their index.
pub(super) fn check(endpoints: &[Endpoint], places: &[Places], report: &mut Report<'_>) {
    for (index, (endpoint, places)) in endpoints.iter().zip(places).enumerate() {
        for (alias, model) in &endpoint.aliases {
            let Some(&span) = places.get(alias) else { continue };
            check_target(endpoint, model, span, report);
            if let Some(other) = endpoints.iter().find(|other| serves(other, alias)) {
                let message = format!("alias {} is a model of endpoint {}", quote(alias), quote(&other.name));
                report.error_with(span, message, "requests could mean either, take another name for the alias");
            }
            if let Some(other) = endpoints[..index].iter().find(|other| other.aliases.contains_key(alias)) {
                let message = format!("alias {} is also one of endpoint {}", quote(alias), quote(&other.name));
                report.warn(span, message, "requests that name only the model go to the first");
            }
        }
    }
}

fn check_target(endpoint: &Endpoint, model: &str, span: Span, report: &mut Report<'_>) {
    if endpoint.aliases.contains_key(model) {
        let message = format!("the alias stands for {}, which is an alias itself", quote(model));
        report.error_with(span, message, "aliases are not followed, name the model itself");
    } else if !endpoint.models.is_empty() && !serves(endpoint, model) {
        let message = format!("the alias stands for {}, which is not among the endpoint's models", quote(model));
        report.warn(span, message, "replicas get requests for that name, so they must know it");
    }
}

fn serves(endpoint: &Endpoint, model: &str) -> bool {
    endpoint.models.iter().chain(endpoint.adapters.iter().map(|adapter| &adapter.name)).any(|name| name == model)
}
