//! Which variant of an endpoint a request goes to.

use super::NoRoute;
use crate::facts::RequestFacts;
use crate::filter::{self, Needs};
use crate::fleet::{Endpoint, Variant};
use crate::moment::Entropy;

/// The variant that a request goes to: the one it names, its component's, its keeper's, or one drawn.
pub(super) fn variant_of(
    endpoint: &Endpoint,
    facts: &RequestFacts,
    needs: Needs<'_>,
    now_us: u64,
    entropy: &mut Entropy,
) -> Result<usize, NoRoute> {
    let named = match &facts.variant {
        None => None,
        Some(name) => {
            let position = endpoint.variants.iter().position(|variant| *variant.name == **name);
            Some(position.ok_or_else(|| NoRoute::UnknownVariant(name.clone()))?)
        }
    };
    let pinned = facts.pinned.filter(|_| named.is_none());
    let keeper = pinned.and_then(|engine| {
        endpoint.variants.iter().position(|variant| variant.replicas.iter().any(|replica| replica.engine() == engine))
    });
    match (needs.component, named, keeper) {
        (Some(component), Some(index), _) if component.variant != index => Err(NoRoute::ComponentElsewhere {
            component: component.name.clone(),
            variant: endpoint.variants[index].name.to_string(),
        }),
        (Some(component), ..) => Ok(component.variant),
        (None, Some(index), _) | (None, None, Some(index)) => Ok(index),
        (None, None, None) => Ok(variant_by_weight(&endpoint.variants, needs, now_us, entropy)),
    }
}

/// Draws among the variants that can serve the request now; if none can, among those that could at another time, so that
/// the client hears of that; else among all of them.
fn variant_by_weight(variants: &[Variant], needs: Needs<'_>, now_us: u64, entropy: &mut Entropy) -> usize {
    if variants.len() == 1 {
        return 0;
    }
    let weight_if = |can: &dyn Fn(&Variant) -> bool| -> Vec<f64> {
        variants.iter().map(|variant| if can(variant) { variant.weight } else { 0.0 }).collect()
    };
    let is_nothing = |weights: &[f64]| weights.iter().all(|weight| *weight == 0.0);
    let mut weights = weight_if(&|variant| filter::has_candidate(variant, needs, now_us));
    if is_nothing(&weights) {
        weights = weight_if(&|variant| filter::has_fit(variant, needs));
    }
    if is_nothing(&weights) {
        weights = weight_if(&|_| true);
    }
    let mut point = entropy.unit() * weights.iter().sum::<f64>();
    let mut picked = 0;
    for (index, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0.0) {
        picked = index;
        point -= weight;
        if point < 0.0 {
            break;
        }
    }
    picked
}
