//! Inference components with their copies, and LoRA adapters: the parts that refer to other parts.

use std::collections::{BTreeMap, BTreeSet};

use super::super::model::{Adapter, Component, Copy, Variant};
use super::super::report::{Report, quote};
use super::super::yaml::{Node, Value};
use super::fields::{Fields, integer, list, text};
use super::names::{Names, free_name, sagemaker_name};
use super::replica::{Roster, replica_url};
use super::suggest::did_you_mean;
use super::{COPIES_MAX, Context};

/// Largest `count` of an entry of `copies`.
const COUNT_MAX: u64 = 64;

/// Reads one endpoint's components, then its adapters.
pub(super) struct Components<'e> {
    variants: &'e [Variant],
    roster: &'e Roster,
    /// Adapters are invoked by component names too.
    names: Names,
    /// Replicas with a copy, by component.
    holders: BTreeMap<String, BTreeSet<String>>,
}

impl<'e> Components<'e> {
    pub(super) fn new(variants: &'e [Variant], roster: &'e Roster) -> Self {
        Self { variants, roster, names: Names::new("component name"), holders: BTreeMap::new() }
    }

    /// The list `components:`.
    pub(super) fn components(&mut self, node: &Node, context: &mut Context<'_, '_>) -> Vec<Component> {
        let items = list(node, "components", "leave it out if there are none", context.report);
        items.iter().filter_map(|item| self.component(item, context)).collect()
    }

    fn component(&mut self, node: &Node, context: &mut Context<'_, '_>) -> Option<Component> {
        let mut fields = Fields::of(node, "component", context.report)?;
        let name =
            self.component_name(fields.required("name", "clients address it by this name", context.report), context);
        let variant = fields.get("variant").and_then(|node| self.variant(node, context.report));
        let copies_node = fields.required("copies", "write the ids of the replicas that hold one", context.report);
        let bound = variant.as_deref();
        let copies = copies_node.map(|node| self.copies(node, bound, context)).unwrap_or_default();
        fields.finish(context.report);
        let holders = copies.iter().map(|copy| copy.replica.clone()).collect();
        self.holders.insert(name.clone(), holders);
        Some(Component { name, variant, copies })
    }

    fn component_name(&mut self, node: Option<&Node>, context: &mut Context<'_, '_>) -> String {
        let Some(node) = node else { return String::new() };
        let Some(name) = sagemaker_name(node, "component name", context.report) else { return String::new() };
        self.names.claim(&name, node.span, "", context.report);
        name
    }

    fn variant(&self, node: &Node, report: &mut Report<'_>) -> Option<String> {
        let name = text(node, "variant", report)?;
        if !self.variants.iter().any(|variant| variant.name == name) {
            let names = self.variants.iter().map(|variant| variant.name.as_str());
            let help =
                did_you_mean(name, names, report).unwrap_or_else(|| "it must be a variant of this endpoint".into());
            report.error_with(node.span, format!("unknown variant {}", quote(name)), help);
            return None;
        }
        Some(name.to_owned())
    }

    /// `variant` is the component's; without one the first copy decides.
    fn copies<'s>(&'s self, node: &Node, mut variant: Option<&'s str>, context: &mut Context<'_, '_>) -> Vec<Copy> {
        let mut copies = Vec::new();
        for item in list(node, "copies", "write the ids of the replicas that hold one", context.report) {
            let Some((copy, count)) = self.copy(item, &mut variant, context.report) else { continue };
            if count > context.copies_left {
                let message = format!("more than {COPIES_MAX} copies in the file");
                context.report.error(item.span, message);
                break;
            }
            context.copies_left -= count;
            copies.extend(std::iter::repeat_n(copy, count));
        }
        copies
    }

    /// One entry of `copies` and how many copies it stands for.
    fn copy<'s>(
        &'s self,
        node: &Node,
        variant: &mut Option<&'s str>,
        report: &mut Report<'_>,
    ) -> Option<(Copy, usize)> {
        if let Value::Scalar(_) = &node.value {
            let replica = self.holder(node, variant, report)?;
            return Some((Copy { replica, url: None }, 1));
        }
        let mut fields = Fields::of_either(node, "copy", "a replica id or a mapping", report)?;
        let replica = fields.required("replica", "write the id of the replica that holds it", report);
        let replica = replica.and_then(|node| self.holder(node, variant, report));
        let url = fields.get("url").and_then(|node| replica_url(node, report));
        let count = fields.get("count").and_then(|node| integer(node, "count", 1..=COUNT_MAX, report));
        if let Some(span) = fields.key_span("count").filter(|_| url.is_some() && count != Some(1)) {
            report.error_with(span, "count and url exclude each other", "write one entry a copy, each with its url");
        }
        fields.finish(report);
        let count = count.and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
        Some((Copy { replica: replica?, url }, count))
    }

    /// A reference to a replica of the variant that the component is bound to, or that it binds the component to.
    fn holder<'s>(&'s self, node: &Node, variant: &mut Option<&'s str>, report: &mut Report<'_>) -> Option<String> {
        let id = self.roster.reference(node, report)?;
        if let Some(actual) = self.roster.variant_of(&id) {
            let bound = *variant.get_or_insert(actual);
            if bound != actual {
                let (id, actual, bound) = (quote(&id), quote(actual), quote(bound));
                let message = format!("replica {id} is of variant {actual}, the component of {bound}");
                report.error_with(node.span, message, "a component belongs to one variant; make one for each");
            }
        }
        Some(id)
    }

    /// The list `adapters:`.
    pub(super) fn adapters(&mut self, node: &Node, context: &mut Context<'_, '_>) -> Vec<Adapter> {
        let mut names = Names::new("adapter name");
        let items = list(node, "adapters", "leave it out if there are none", context.report);
        items.iter().filter_map(|item| self.adapter(item, &mut names, context)).collect()
    }

    fn adapter(&mut self, node: &Node, names: &mut Names, context: &mut Context<'_, '_>) -> Option<Adapter> {
        let mut fields = Fields::of(node, "adapter", context.report)?;
        let name = fields.required("name", "the engines have it loaded under this name", context.report);
        let name = name.and_then(|node| {
            let name = free_name(node, "adapter name", context.report)?;
            names.claim(&name, node.span, "", context.report);
            Some(name)
        });
        let component = fields.get("component").map(|node| self.component_name(Some(node), context));
        let base = fields.get("base").and_then(|node| self.base(node, context.report));
        let replicas = fields.get("replicas").map(|node| self.carriers(node, base.as_deref(), context.report));
        fields.finish(context.report);
        Some(Adapter { name: name.unwrap_or_default(), component, base, replicas })
    }

    fn base(&self, node: &Node, report: &mut Report<'_>) -> Option<String> {
        let name = text(node, "base", report)?;
        if !self.holders.contains_key(name) {
            let names = self.holders.keys().map(String::as_str);
            let help =
                did_you_mean(name, names, report).unwrap_or_else(|| "it must be a component of this endpoint".into());
            report.error_with(node.span, format!("unknown component {}", quote(name)), help);
            return None;
        }
        Some(name.to_owned())
    }

    fn carriers(&self, node: &Node, base: Option<&str>, report: &mut Report<'_>) -> Vec<String> {
        let holders = base.and_then(|base| self.holders.get(base));
        let mut listed = Names::new("replica");
        let mut ids = Vec::new();
        for item in list(node, "replicas", "leave it out if every replica carries the adapter", report) {
            let Some(id) = self.roster.reference(item, report) else { continue };
            listed.claim(&id, item.span, "", report);
            let known = self.roster.variant_of(&id).is_some();
            if let (Some(base), Some(holders)) = (base, holders)
                && known
                && !holders.is_empty()
                && !holders.contains(&id)
            {
                let message = format!("replica {} holds no copy of component {}", quote(&id), quote(base));
                report.error_with(item.span, message, "list only replicas that do");
            }
            ids.push(id);
        }
        ids
    }
}
