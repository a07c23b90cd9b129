//! What is compared: a strategy of the gateway, or a rule of another router, with its settings.
//!
//! Written as its name, then settings: `prefix_aware:prefix_length=2048:concurrency_threshold=64`.

use std::fmt;
use std::str::FromStr;

use kvroute_core::routing::{CONCURRENCY_THRESHOLD_DEFAULT, PrefixAware, Routing, Strategy};

use crate::InvalidOption;
use crate::baselines::{self, Baseline};

/// One column of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Contender {
    /// What is compared.
    pub rule: Rule,
    /// `prefix_length` of keys, in the trace's unit; `None` takes the default of the unit.
    pub prefix_length: Option<u32>,
    /// `concurrency_threshold` of the gateway's strategies.
    pub concurrency_threshold: Option<u32>,
    /// Settings as they were written, for the name.
    settings: Vec<(String, String)>,
}

/// Who picks.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// The gateway.
    Core(Strategy),
    /// Somebody else's rule, with its settings.
    Baseline(Baseline),
}

impl Contender {
    /// A strategy of the gateway with the default settings.
    pub fn core(strategy: Strategy) -> Self {
        Self { rule: Rule::Core(strategy), prefix_length: None, concurrency_threshold: None, settings: Vec::new() }
    }

    /// The gateway's strategies with their defaults, in the order in which they are documented.
    pub fn all_core() -> impl Iterator<Item = Self> {
        Strategy::ALL.into_iter().map(Self::core)
    }

    /// The baselines with their published defaults.
    pub fn all_baselines() -> impl Iterator<Item = Self> {
        Baseline::all().into_iter().map(|baseline| Self {
            rule: Rule::Baseline(baseline),
            prefix_length: None,
            concurrency_threshold: None,
            settings: Vec::new(),
        })
    }

    /// A list, separated by commas, in which `core` and `baselines` stand for all of each and `all` for both.
    ///
    /// # Errors
    /// As reading one of them, or if one is there twice.
    pub fn list(text: &str) -> Result<Vec<Self>, InvalidOption> {
        let mut list: Vec<Self> = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "core" => list.extend(Self::all_core()),
                "baselines" => list.extend(Self::all_baselines()),
                "all" => list.extend(Self::all_core().chain(Self::all_baselines())),
                _ => list.push(name.parse()?),
            }
        }
        for (index, contender) in list.iter().enumerate() {
            if list[..index].contains(contender) {
                return Err(InvalidOption::new("strategies", format!("{contender} is there twice")));
            }
        }
        if list.is_empty() {
            return Err(InvalidOption::new("strategies", "names none"));
        }
        Ok(list)
    }

    /// The routing that the endpoint of the simulation has. A baseline's is `random`, which it never asks.
    pub(super) fn routing(&self, prefix_length: u32) -> Routing {
        let strategy = match self.rule {
            Rule::Core(strategy) => strategy,
            Rule::Baseline(_) => Strategy::Random,
        };
        let concurrency_threshold = self.concurrency_threshold.unwrap_or(CONCURRENCY_THRESHOLD_DEFAULT);
        Routing { strategy, prefix_aware: PrefixAware { prefix_length, concurrency_threshold }, ..Routing::default() }
    }

    /// The name without settings.
    pub fn name(&self) -> &'static str {
        match &self.rule {
            Rule::Core(strategy) => strategy.as_str(),
            Rule::Baseline(baseline) => baseline.name(),
        }
    }

    /// Whether it is somebody else's rule.
    pub fn is_baseline(&self) -> bool {
        matches!(self.rule, Rule::Baseline(_))
    }

    /// Sets one setting, as it is written.
    ///
    /// # Errors
    /// If there is no such setting, or it cannot have this value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), InvalidOption> {
        let name = self.name();
        let refused = |what: String| InvalidOption::new("strategy", format!("{name}:{key}={value}: {what}"));
        let number = || value.parse::<u32>().ok().filter(|n| *n > 0);
        let not_a_number = || refused("not a whole number above 0".to_owned());
        match (key, &mut self.rule) {
            ("prefix_length", _) => self.prefix_length = Some(number().ok_or_else(not_a_number)?),
            ("concurrency_threshold", Rule::Core(_)) => {
                self.concurrency_threshold = Some(number().ok_or_else(not_a_number)?);
            }
            (_, Rule::Core(_)) => {
                return Err(refused("its settings are prefix_length and concurrency_threshold".to_owned()));
            }
            (_, Rule::Baseline(baseline)) => {
                baseline.set(key, value).map_err(refused)?;
            }
        }
        self.settings.retain(|(known, _)| known != key);
        self.settings.push((key.to_owned(), value.to_owned()));
        Ok(())
    }
}

impl FromStr for Contender {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let rule = match (name.parse::<Strategy>(), Baseline::by_name(name)) {
            (Ok(strategy), _) => Rule::Core(strategy),
            (_, Some(baseline)) => Rule::Baseline(baseline),
            _ => {
                let known: Vec<&str> = Strategy::NAMES.into_iter().chain(baselines::names()).collect();
                return Err(InvalidOption::new("strategy", format!("{name:?} is none of {}", known.join(", "))));
            }
        };
        let mut contender = Self { rule, prefix_length: None, concurrency_threshold: None, settings: Vec::new() };
        for part in parts {
            let (key, value) = part.split_once('=').ok_or_else(|| {
                InvalidOption::new(
                    "strategy",
                    format!("{text:?}: {part:?} is not a setting, which is written key=value"),
                )
            })?;
            contender.set(key, value)?;
        }
        Ok(contender)
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        self.settings.iter().try_for_each(|(key, value)| write!(f, ":{key}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_is_read_back_from_what_it_prints() {
        for text in [
            "random",
            "prefix_aware",
            "prefix_aware:prefix_length=2048:concurrency_threshold=64",
            "session:concurrency_threshold=8",
        ] {
            let contender: Contender = text.parse().unwrap();
            assert_eq!(contender.to_string(), text);
        }
        let names: Vec<&str> = Contender::all_core().map(|contender| contender.name()).collect();
        assert_eq!(names, Strategy::NAMES);
        for contender in Contender::all_baselines() {
            assert_eq!(contender.name().parse(), Ok(contender));
        }
    }

    #[test]
    fn a_list_may_name_whole_families_but_nobody_twice() {
        let names = |text: &str| Contender::list(text).map(|list| list.len());
        assert_eq!(names("random, prefix_aware"), Ok(2));
        assert_eq!(names("all"), Ok(Strategy::ALL.len() + Baseline::all().len()));
        assert_eq!(names("prefix_aware:prefix_length=1024,core"), Ok(Strategy::ALL.len() + 1));
        for text in ["", ",", "core,random", "all,core"] {
            assert!(names(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_written_wrong_is_refused_with_what_there_is() {
        for (text, says) in [
            ("rondom", "round_robin"),
            ("prefix_aware:prefix_length", "key=value"),
            ("prefix_aware:prefix_length=0", "above 0"),
            ("prefix_aware:load_factor=2", "concurrency_threshold"),
            ("chwbl:colour=red", "load_factor"),
            ("chwbl:load_factor=x", "number"),
        ] {
            let refused = text.parse::<Contender>().unwrap_err().to_string();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }
}
