//! What is varied, written `prefix_length=1024,2048,4096`.

use std::fmt;
use std::str::FromStr;

use crate::InvalidOption;
use crate::replay::contender::Contender;
use crate::replay::pacing::{Clock, Pacing};
use crate::replay::sim::Setting;

/// A setting and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// `prefix_length`, `concurrency_threshold`, a setting of a baseline, or `replicas`, `speed`, `rate`, `users`.
    pub name: String,
    /// The values as they were written, in the order in which they are neighbours; at least one.
    pub values: Vec<String>,
}

impl Axis {
    /// Values for a name.
    pub fn new(name: &str, values: impl IntoIterator<Item = impl ToString>) -> Self {
        Self { name: name.to_owned(), values: values.into_iter().map(|value| value.to_string()).collect() }
    }

    /// The prefix lengths among the values.
    pub fn prefix_lengths(&self) -> impl Iterator<Item = u32> {
        let is_length = self.name == "prefix_length";
        self.values.iter().filter(move |_| is_length).filter_map(|value| value.parse().ok())
    }

    /// Sets the value at a place.
    pub(super) fn apply(
        &self,
        at: usize,
        setting: &mut Setting,
        contender: &mut Contender,
    ) -> Result<(), InvalidOption> {
        let value = &self.values[at];
        let refused = |what: &str| InvalidOption::new("axis", format!("{}={value}: {what}", self.name));
        let count =
            || value.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(|| refused("not a whole number above 0"));
        let amount = || {
            let amount = value.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
            amount.ok_or_else(|| refused("not a number above 0"))
        };
        match (self.name.as_str(), &mut setting.pacing) {
            ("replicas", _) => {
                let group = &mut setting.fleet.groups[0];
                group.count = count()?.min(4_096);
                setting.fleet.groups.truncate(1);
            }
            ("users", Pacing::Closed { users, .. }) => *users = count()?,
            ("speed", Pacing::Open(clock) | Pacing::Sessions(clock)) => *clock = Clock::Trace { speed: amount()? },
            ("rate", Pacing::Open(clock) | Pacing::Sessions(clock)) => *clock = Clock::Poisson { rate: amount()? },
            ("users" | "speed" | "rate", _) => return Err(refused("arrivals are of another kind")),
            (name, _) => contender.set(name, value)?,
        }
        Ok(())
    }
}

impl FromStr for Axis {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let refused = || {
            let problem = format!("{text:?} is not a setting with values, such as prefix_length=1024,2048,4096");
            InvalidOption::new("axis", problem)
        };
        let (name, values) = text.split_once('=').ok_or_else(refused)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if name.is_empty() || values.iter().any(String::is_empty) {
            return Err(refused());
        }
        Ok(Self { name: name.to_owned(), values })
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.values.join(","))
    }
}
