//! What a replica can do.

use std::str::FromStr;

use kvroute_core::abilities::{Abilities, Modalities, Role};

use super::super::report::Report;
use super::super::yaml::Node;
use super::fields::{Fields, integer, list};
use super::routing::choice;

/// Largest context that can be said: far above any engine's.
const CONTEXT_TOKENS_MAX: u64 = 1 << 32;
const MODALITIES: [&str; 3] = ["text", "image", "audio"];

/// The abilities among the settings of a replica.
pub(super) fn abilities(fields: &mut Fields<'_>, report: &mut Report<'_>) -> Abilities {
    let anything = Abilities::default();
    let role = fields
        .get("role")
        .and_then(|node| choice(node, "role", &Role::ALL.map(Role::as_str), |name| Role::from_str(name).ok(), report));
    let modalities = fields.get("modalities").map(|node| modalities(node, report));
    let context = fields.get("context_tokens_max");
    Abilities {
        role: role.unwrap_or(anything.role),
        modalities: modalities.unwrap_or(anything.modalities),
        context_tokens_max: context
            .and_then(|node| integer(node, "context_tokens_max", 1..=CONTEXT_TOKENS_MAX, report)),
    }
}

/// Text goes without saying.
fn modalities(node: &Node, report: &mut Report<'_>) -> Modalities {
    let mut modalities = Modalities::default();
    for item in list(node, "modalities", "leave it out where nothing is known of them", report) {
        let known = |name: &str| MODALITIES.into_iter().find(|known| *known == name);
        match choice(item, "modality", &MODALITIES, known, report) {
            Some("image") => modalities.image = true,
            Some("audio") => modalities.audio = true,
            Some(_) | None => {}
        }
    }
    modalities
}
