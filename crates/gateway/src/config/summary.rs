//! A configuration in a few lines, for people: what `kvroute check` prints when all is well.

use kvroute_core::abilities::{Abilities, Modalities, Role};
use kvroute_core::routing::Strategy;

use super::changes::modality_words;
use super::diagnostic::counted;
use super::model::{Adapter, Component, Config, Endpoint, Replica, Routing, Variant};

impl Config {
    /// One line a thing, indented by what belongs to what: addresses, endpoints, aliases, variants, replicas, components,
    /// adapters. Contains no secret.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = vec![format!("listen {}, admin {}", self.listen, self.admin)];
        for endpoint in &self.endpoints {
            endpoint_lines(endpoint, &mut lines);
        }
        lines
    }
}

fn endpoint_lines(endpoint: &Endpoint, lines: &mut Vec<String>) {
    let models = if endpoint.models.is_empty() { "any model".to_owned() } else { endpoint.models.join(", ") };
    let discovers = if endpoint.discover_models { ", and the adapters that replicas list" } else { "" };
    lines.push(format!("endpoint {}: {models}{discovers}", endpoint.name));
    lines.extend(endpoint.aliases.iter().map(|(alias, model)| format!("  alias {alias}: {model}")));
    for variant in &endpoint.variants {
        lines.push(format!("  {}", variant_line(variant)));
        lines.extend(variant.replicas.iter().map(|replica| format!("    {}", replica_line(replica))));
    }
    lines.extend(endpoint.components.iter().map(|component| format!("  {}", component_line(component))));
    lines.extend(endpoint.adapters.iter().map(|adapter| format!("  {}", adapter_line(adapter))));
}

fn variant_line(variant: &Variant) -> String {
    let Variant { name, weight, routing, replicas } = variant;
    let replicas = counted(replicas.len(), "replica");
    format!("variant {name}: weight {weight}, {replicas}, {}", routing_words(routing))
}

fn routing_words(routing: &Routing) -> String {
    let Routing { strategy, prefix_length, concurrency_threshold, .. } = routing;
    match strategy {
        Strategy::PrefixAware => {
            format!("{strategy} (prefix_length {prefix_length}, concurrency_threshold {concurrency_threshold})")
        }
        Strategy::Session => format!("{strategy} (concurrency_threshold {concurrency_threshold})"),
        Strategy::Random | Strategy::RoundRobin | Strategy::LeastOutstanding => strategy.to_string(),
    }
}

fn replica_line(replica: &Replica) -> String {
    let Replica { id, url, http2, weight, api, stateful_sessions, api_key, labels, abilities } = replica;
    let mut line = format!("replica {id}: {url}, {}", api.as_str());
    if *http2 {
        line.push_str(", http/2");
    }
    if *weight != 1.0 {
        line.push_str(&format!(", weight {weight}"));
    }
    if *stateful_sessions {
        line.push_str(", stateful sessions");
    }
    if api_key.is_some() {
        line.push_str(", with api key");
    }
    let Abilities { role, modalities, context_tokens_max } = abilities;
    if *role != Role::Both {
        line.push_str(&format!(", {} only", role.as_str()));
    }
    if *modalities != Modalities::ALL {
        line.push_str(&format!(", reads {}", modality_words(*modalities).join(" and ")));
    }
    if let Some(tokens) = context_tokens_max {
        line.push_str(&format!(", {tokens} tokens of context"));
    }
    for (key, value) in labels {
        line.push_str(&format!(", {key}={value}"));
    }
    line
}

fn component_line(component: &Component) -> String {
    let Component { name, variant, copies } = component;
    let variant = variant.as_ref().map(|variant| format!(" of variant {variant}")).unwrap_or_default();
    let copy_word = if copies.len() == 1 { "copy" } else { "copies" };
    let holders: Vec<&str> = copies.iter().map(|copy| copy.replica.as_str()).collect();
    format!("component {name}{variant}: {} {copy_word} on {}", copies.len(), holders.join(", "))
}

fn adapter_line(adapter: &Adapter) -> String {
    let Adapter { name, component, base, replicas } = adapter;
    let mut line = format!("adapter {name}");
    if let Some(component) = component {
        line.push_str(&format!(", invoked as {component}"));
    }
    match (replicas, base) {
        (Some(replicas), _) => line.push_str(&format!(", on {}", replicas.join(", "))),
        (None, Some(base)) => line.push_str(&format!(", on the copies of {base}")),
        (None, None) => line.push_str(", on every replica"),
    }
    line
}
