//! Endpoints and their variants.

use std::collections::{BTreeMap, HashMap};

use kvroute_core::abilities::Role;

use super::super::model::{ENDPOINT_NAME_DEFAULT, Endpoint, Replica, Routing, VARIANT_NAME_DEFAULT, Variant};
use super::super::report::{Report, Span, quote};
use super::super::yaml::{Node, Value};
use super::Context;
use super::alias::{self, aliases};
use super::component::Components;
use super::fields::{Fields, list, number};
use super::names::{Names, free_name, sagemaker_name};
use super::replica::{Roster, WEIGHT_MAX, replicas};
use super::routing::{refuse_headers, routing, warn_unused};

/// The long form, with what has to be unique across endpoints.
pub(super) struct Endpoints {
    /// Case is ignored, as SageMaker does when an endpoint is made.
    names: Names,
    models: HashMap<String, (String, u32)>,
    /// Where each endpoint's aliases stand.
    aliases: Vec<alias::Places>,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self { names: Names::ignoring_case("endpoint name"), models: HashMap::new(), aliases: Vec::new() }
    }
}

impl Endpoints {
    /// Reads the list `endpoints:`.
    pub(super) fn read(mut self, node: &Node, inherited: &Routing, context: &mut Context<'_, '_>) -> Vec<Endpoint> {
        let items = list(node, "endpoints", "write one an entry: `- name: ...`", context.report);
        let endpoints: Vec<_> = items.iter().filter_map(|item| self.endpoint(item, inherited, context)).collect();
        alias::check(&endpoints, &self.aliases, context.report);
        endpoints
    }

    fn endpoint(&mut self, node: &Node, inherited: &Routing, context: &mut Context<'_, '_>) -> Option<Endpoint> {
        let mut fields = Fields::of(node, "endpoint", context.report)?;
        let name = fields.required("name", "clients address the endpoint by it", context.report).and_then(|node| {
            let name = sagemaker_name(node, "endpoint name", context.report)?;
            self.names.claim(&name, node.span, "", context.report);
            Some(name)
        });
        let name = name.unwrap_or_default();
        let models = fields.get("models").map(|node| self.models(node, &name, context.report)).unwrap_or_default();
        let (aliases, places) = fields.get("aliases").map(|node| aliases(node, context.report)).unwrap_or_default();
        self.aliases.push(places);
        let forward_authorization = fields.boolean("forward_authorization", false, context.report);
        let decompress_requests = fields.boolean("decompress_requests", false, context.report);
        let routing_node = fields.get("routing");
        let routing = routing(routing_node, inherited, context.report);
        let mut roster = Roster::new();
        let variants = variants(&mut fields, node.span, &routing, &mut roster, context);
        let mut components = Components::new(&variants, &roster);
        let listed = fields.get("components").map(|node| components.components(node, context)).unwrap_or_default();
        let adapters = fields.get("adapters").map(|node| components.adapters(node, context)).unwrap_or_default();
        let discover_models = fields.boolean("discover_models", false, context.report);
        fields.finish(context.report);
        warn_unused(routing_node, variants.iter().any(|v| v.routing.uses_prefix()), context.report);
        Some(Endpoint {
            name,
            models,
            aliases,
            forward_authorization,
            decompress_requests,
            routing,
            variants,
            components: listed,
            adapters,
            discover_models,
        })
    }

    /// Served model names, unique in the endpoint. A name of another endpoint is legal, since SageMaker's API names the
    /// endpoint, but on the OpenAI API only the first one is reached by it.
    fn models(&mut self, node: &Node, endpoint: &str, report: &mut Report<'_>) -> Vec<String> {
        let mut names = Names::new("model");
        let mut models = Vec::new();
        for item in list(node, "models", "leave it out to take any model name", report) {
            let Some(model) = free_name(item, "model", report) else { continue };
            names.claim(&model, item.span, "", report);
            match self.models.get(&model) {
                Some((other, line)) if other != endpoint => report.warn(
                    item.span,
                    format!("model {} is also served by endpoint {}", quote(&model), quote(other)),
                    format!("requests that name only the model go to the first, at line {line}"),
                ),
                Some(_) => {}
                None => {
                    self.models.insert(model.clone(), (endpoint.to_owned(), item.span.line));
                }
            }
            models.push(model);
        }
        models
    }
}

/// The short form: top-level `replicas:` are one endpoint with one variant.
pub(super) fn short_form(node: &Node, routing: &Routing, context: &mut Context<'_, '_>) -> Endpoint {
    Endpoint {
        name: ENDPOINT_NAME_DEFAULT.to_owned(),
        models: Vec::new(),
        aliases: BTreeMap::new(),
        forward_authorization: false,
        decompress_requests: false,
        routing: routing.clone(),
        variants: vec![only_variant(node, routing, &mut Roster::new(), context)],
        components: Vec::new(),
        adapters: Vec::new(),
        discover_models: false,
    }
}

fn only_variant(node: &Node, routing: &Routing, roster: &mut Roster, context: &mut Context<'_, '_>) -> Variant {
    let replicas = replicas(node, VARIANT_NAME_DEFAULT, roster, context);
    let variant = Variant { name: VARIANT_NAME_DEFAULT.to_owned(), weight: 1.0, routing: routing.clone(), replicas };
    warn_single(&variant, node, context.report);
    warn_roles(&variant, node, context.report);
    variant
}

fn variants(
    fields: &mut Fields<'_>,
    endpoint: Span,
    inherited: &Routing,
    roster: &mut Roster,
    context: &mut Context<'_, '_>,
) -> Vec<Variant> {
    let node = match (fields.get("variants"), fields.get("replicas")) {
        (Some(node), None) => node,
        (None, Some(node)) => return vec![only_variant(node, inherited, roster, context)],
        (Some(node), Some(_)) => {
            context.report.error_with(
                fields.key_span("replicas").unwrap_or(endpoint),
                "`replicas` and `variants` exclude each other in an endpoint",
                "move the replicas into a variant",
            );
            node
        }
        (None, None) => {
            let span = fields.key_span("replicas").or(fields.key_span("variants")).unwrap_or(endpoint);
            let help = "write `replicas: [http://host:port, ...]`, or `variants:` for more than one fleet";
            context.report.error_with(span, "the endpoint has no replicas", help);
            return Vec::new();
        }
    };
    let mut names = Names::new("variant name");
    let items = list(node, "variants", "write one an entry: `- name: ...`", context.report);
    let variants: Vec<Variant> =
        items.iter().filter_map(|item| variant(item, inherited, &mut names, roster, context)).collect();
    if !variants.is_empty() && variants.iter().all(|variant| variant.weight == 0.0) {
        let message = "every variant has weight 0, so no request could be placed";
        context.report.error_with(node.span, message, "give at least one a weight above 0");
    }
    variants
}

fn variant(
    node: &Node,
    inherited: &Routing,
    names: &mut Names,
    roster: &mut Roster,
    context: &mut Context<'_, '_>,
) -> Option<Variant> {
    let mut fields = Fields::of(node, "variant", context.report)?;
    let name_node = fields.get("name");
    let name = name_node.and_then(|node| sagemaker_name(node, "variant name", context.report));
    let name = name.unwrap_or_else(|| VARIANT_NAME_DEFAULT.to_owned());
    names.claim(&name, name_node.unwrap_or(node).span, "", context.report);
    let weight_node = fields.get("weight");
    let weight = weight_node.and_then(|node| {
        let expected = "a number from 0 to 1000000";
        number(node, "weight", expected, |n| (0.0..=WEIGHT_MAX).contains(&n), context.report)
    });
    let routing_node = fields.get("routing");
    let routing = routing(routing_node, inherited, context.report);
    refuse_headers(routing_node, context.report);
    warn_unused(routing_node, routing.uses_prefix(), context.report);
    let replicas_node = fields.required("replicas", "write `replicas: [http://host:port, ...]`", context.report);
    let replicas = replicas_node.map(|node| replicas(node, &name, roster, context)).unwrap_or_default();
    fields.finish(context.report);
    let variant = Variant { name, weight: weight.unwrap_or(1.0), routing, replicas };
    if let Some(node) = weight_node.filter(|_| variant.weight == 0.0) {
        let message = format!("variant {} has weight 0", quote(&variant.name));
        context.report.warn(node.span, message, "only requests that name the variant go there");
    }
    if let Some(node) = replicas_node {
        warn_single(&variant, node, context.report);
        warn_roles(&variant, node, context.report);
    }
    Some(variant)
}

/// A request is not divided among replicas, so one that does a part of the work gets none.
fn warn_roles(variant: &Variant, replicas: &Node, report: &mut Report<'_>) {
    let does_all = |replica: &Replica| replica.abilities.role == Role::Both;
    if !variant.replicas.is_empty() && !variant.replicas.iter().any(does_all) {
        let message = format!("no replica of variant {} does all of the work", quote(&variant.name));
        report.warn(replicas.span, message, "only replicas with `role: both` get requests");
    }
}

/// Prefix routing chooses among replicas; with one there is nothing to choose.
fn warn_single(variant: &Variant, replicas: &Node, report: &mut Report<'_>) {
    // What is written counts: of two replicas one may have an error.
    let written = if let Value::List(items) = &replicas.value { items.len() } else { 0 };
    if written == 1 && variant.routing.uses_prefix() {
        let strategy = variant.routing.strategy;
        let message = format!("{strategy} has no effect: variant {} has one replica", quote(&variant.name));
        report.warn(replicas.span, message, "it needs at least two");
    }
}
