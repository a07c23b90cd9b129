//! Which request meets which fault.
//!
//! Tests of routers need engines that fail in a certain way at a certain moment. A [`Rule`] names a
//! fault, the paths it concerns, how likely it is and how often it strikes. This is the decision alone:
//! no socket, no clock, and chance from a seed, so that a run can be repeated. What a fault does is
//! for [`inject`](super::inject) and [`reply`](super::reply).
//!
//! Rules are asked in the order in which they were added, and the first that strikes is the only one:
//! faults of one request do not add up. A rule that has struck `count` times stays in the list, so that
//! a test can read how often it struck, until its place is needed.

mod rule;
#[cfg(test)]
mod tests;

use serde::Serialize;

use super::sequence::mix;

pub(super) use rule::{BrokenEnd, Effect, Rule};

/// Paths that ask for work, which faults concern unless a rule says otherwise.
pub(super) const INFERENCE_PATHS: [&str; 6] =
    ["/invocations", "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/responses"];

/// Rules at a time.
const RULES_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Faults {
    rules: Vec<Armed>,
    last_id: u64,
    /// Where chance has got to.
    chance: u64,
}

/// A rule at work.
#[derive(Debug, Serialize)]
pub(super) struct Armed {
    id: u64,
    #[serde(flatten)]
    rule: Rule,
    /// How often it struck.
    hits: u64,
}

impl Faults {
    /// No rules. The seed decides what chance brings.
    pub(super) fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), last_id: 0, chance: mix(seed) }
    }

    /// Adds a rule at the end of the list, in its full form; says what is wrong with it otherwise.
    pub(super) fn add(&mut self, rule: Rule) -> Result<&Armed, String> {
        let rule = rule.complete()?;
        if self.rules.len() >= RULES_MAX {
            self.rules.retain(|armed| !armed.is_spent());
        }
        if self.rules.len() >= RULES_MAX {
            return Err(format!("there are {RULES_MAX} rules already"));
        }
        self.last_id += 1;
        let place = self.rules.len();
        self.rules.push(Armed { id: self.last_id, rule, hits: 0 });
        Ok(&self.rules[place])
    }

    /// The rules, in the order in which they are asked.
    pub(super) fn list(&self) -> &[Armed] {
        &self.rules
    }

    /// Forgets all rules.
    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// What happens to a request of this path.
    pub(super) fn decide(&mut self, path: &str) -> Option<Effect> {
        let chance = &mut self.chance;
        let struck = self.rules.iter_mut().find(|armed| armed.strikes(path, chance))?;
        struck.hits += 1;
        Some(struck.rule.effect())
    }
}

impl Armed {
    fn is_spent(&self) -> bool {
        self.rule.count().is_some_and(|count| self.hits >= count)
    }

    fn strikes(&self, path: &str, chance: &mut u64) -> bool {
        if self.is_spent() || !self.rule.concerns(path) {
            return false;
        }
        let probability = self.rule.probability();
        if probability >= 1.0 {
            return true;
        }
        *chance = chance.wrapping_add(1);
        // 53 bits: all that the fraction of a float can hold.
        let fraction = (mix(*chance) >> 11) as f64 / (1u64 << 53) as f64;
        fraction < probability
    }
}
