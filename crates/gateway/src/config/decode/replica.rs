//! Replicas, and the roster of ids that copies and adapters refer to.

use std::collections::{BTreeMap, HashMap};

use kvroute_core::abilities::Abilities;

use super::super::model::{Api, Replica};
use super::super::replica_url::ReplicaUrl;
use super::super::report::{Report, quote};
use super::super::secret::{self, Secret};
use super::super::yaml::{Node, Value};
use super::Context;
use super::abilities::abilities;
use super::fields::{Fields, list, number, text, wrong_type};
use super::names::{Names, is_free_text, replica_id};
use super::routing::choice;
use super::suggest::did_you_mean;

/// Largest weight of a replica or a variant: far above any sensible ratio, far below where sums lose precision.
pub(super) const WEIGHT_MAX: f64 = 1e6;
const LABELS_MAX: usize = 64;

/// The replicas of an endpoint seen so far.
pub(super) struct Roster {
    ids: Names,
    variants: BTreeMap<String, String>,
    addresses: HashMap<ReplicaUrl, String>,
    /// A replica had no readable id: an unknown reference may mean that one.
    incomplete: bool,
}

impl Roster {
    pub(super) fn new() -> Self {
        Self { ids: Names::new("replica id"), variants: BTreeMap::new(), addresses: HashMap::new(), incomplete: false }
    }

    /// The variant of a replica.
    pub(super) fn variant_of(&self, id: &str) -> Option<&str> {
        self.variants.get(id).map(String::as_str)
    }

    /// Reads a reference to a replica; reports one that leads nowhere.
    pub(super) fn reference(&self, node: &Node, report: &mut Report<'_>) -> Option<String> {
        let id = text(node, "replica", report)?;
        if !self.variants.contains_key(id) && !self.incomplete {
            let ids = self.variants.keys().map(String::as_str);
            let help = did_you_mean(id, ids, report)
                .unwrap_or_else(|| "it must be the id of a replica of this endpoint".into());
            report.error_with(node.span, format!("unknown replica {}", quote(id)), help);
        }
        Some(id.to_owned())
    }

    fn add(&mut self, replica: &Replica, variant: &str, node: &Node, report: &mut Report<'_>) {
        let help = "; give one of them another `id`";
        self.ids.claim(&replica.id, node.span, help, report);
        self.variants.entry(replica.id.clone()).or_insert_with(|| variant.to_owned());
        if let Some(other) = self.addresses.get(&replica.url) {
            if *other != replica.id {
                let message = format!("replicas {} and {} have the same address", quote(other), quote(&replica.id));
                report.warn(node.span, message, "their load is counted apart although one engine carries it");
            }
        } else {
            self.addresses.insert(replica.url.clone(), replica.id.clone());
        }
    }
}

/// The replicas of one variant.
pub(super) fn replicas(node: &Node, variant: &str, roster: &mut Roster, context: &mut Context<'_, '_>) -> Vec<Replica> {
    let mut replicas = Vec::new();
    for item in list(node, "replicas", "write one url an entry: `- http://host:port`", context.report) {
        match replica(item, context) {
            Some(replica) => {
                roster.add(&replica, variant, item, context.report);
                replicas.push(replica);
            }
            None => roster.incomplete = true,
        }
    }
    replicas
}

fn replica(node: &Node, context: &mut Context<'_, '_>) -> Option<Replica> {
    if let Value::Scalar(_) = &node.value {
        let url = replica_url(node, context.report)?;
        let (id, labels) = (url.authority(), BTreeMap::new());
        let api = Api::default();
        return Some(Replica {
            id,
            url,
            http2: false,
            weight: 1.0,
            api,
            stateful_sessions: false,
            api_key: None,
            labels,
            abilities: Abilities::default(),
        });
    }
    let mut fields = Fields::of_either(node, "replica", "a url or a mapping", context.report)?;
    let id = fields.get("id").and_then(|node| replica_id(node, context.report));
    let url = fields.required("url", "write `url: http://host:port`", context.report);
    let url = url.and_then(|node| replica_url(node, context.report));
    let weight = fields.get("weight").and_then(|node| {
        let expected = "a number above 0, at most 1000000";
        number(node, "weight", expected, |n| n > 0.0 && n <= WEIGHT_MAX, context.report)
    });
    let api = fields.get("api").and_then(|node| {
        let parse = |name: &str| Api::ALL.into_iter().find(|api| api.as_str() == name);
        choice(node, "api", &Api::ALL.map(Api::as_str), parse, context.report)
    });
    let http2 = fields.boolean("http2", false, context.report);
    let stateful_sessions = fields.boolean("stateful_sessions", false, context.report);
    let api_key = fields.get("api_key").and_then(|node| api_key(node, context));
    let labels = fields.get("labels").map(|node| labels(node, context.report)).unwrap_or_default();
    let abilities = abilities(&mut fields, context.report);
    fields.finish(context.report);
    let url = url?;
    Some(Replica {
        id: id.unwrap_or_else(|| url.authority()),
        url,
        http2,
        weight: weight.unwrap_or(1.0),
        api: api.unwrap_or_default(),
        stateful_sessions,
        api_key,
        labels,
        abilities,
    })
}

/// A replica's or a copy's address.
pub(super) fn replica_url(node: &Node, report: &mut Report<'_>) -> Option<ReplicaUrl> {
    match text(node, "url", report)?.parse::<ReplicaUrl>() {
        Ok(url) => Some(url),
        Err(error) => {
            report.error_with(node.span, error.message, error.help);
            None
        }
    }
}

fn api_key(node: &Node, context: &mut Context<'_, '_>) -> Option<Secret> {
    let written = text(node, "api_key", context.report)?;
    match secret::secret(written, context.secrets) {
        Ok(secret) => Some(secret),
        Err(reason) => {
            context.report.error(node.span, format!("api_key: {reason}"));
            None
        }
    }
}

fn labels(node: &Node, report: &mut Report<'_>) -> BTreeMap<String, String> {
    let Value::Map(entries) = &node.value else {
        wrong_type(node, "labels", "a mapping", report);
        return BTreeMap::new();
    };
    if entries.len() > LABELS_MAX {
        report.error(node.span, format!("a replica has at most {LABELS_MAX} labels, found {}", entries.len()));
        return BTreeMap::new();
    }
    let mut labels = BTreeMap::new();
    for entry in entries.iter() {
        let value = text(&entry.value, "label", report).unwrap_or_default();
        if entry.key.is_empty() || !is_free_text(&entry.key) || !is_free_text(value) {
            report.error(entry.key_span, "a label is at most 256 characters without control characters");
        }
        labels.insert(entry.key.to_string(), value.to_owned());
    }
    labels
}
