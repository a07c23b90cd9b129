//! Conditions under which a replay counts as failed: `p90_ttft_ms > 500`, `prefix_aware.delivered_ratio < 0.5`.

use std::fmt;
use std::str::FromStr;

use super::{Report, metrics};
use crate::InvalidOption;

/// A condition. Without a strategy it is asked of every one.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    strategy: Option<String>,
    metric: String,
    operator: Operator,
    limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    const ALL: [(&'static str, Self); 4] =
        [("<=", Self::LessOrEqual), (">=", Self::GreaterOrEqual), ("<", Self::Less), (">", Self::Greater)];

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::LessOrEqual => value <= limit,
            Self::Greater => value > limit,
            Self::GreaterOrEqual => value >= limit,
        }
    }

    fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, operator)| *operator == self).map_or("", |(text, _)| text)
    }
}

/// A condition that came true.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// The strategy.
    pub strategy: String,
    /// The condition.
    pub condition: Condition,
    /// The value; `None` if there was none, which counts as true: what cannot be shown is not passed.
    pub value: Option<f64>,
}

impl FromStr for Condition {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let refused = || {
            let problem = format!(
                "{text:?} is not [STRATEGY.]METRIC, one of < <= > >=, and a number, such as 'p90_ttft_ms > 500'"
            );
            InvalidOption::new("fail-if", problem)
        };
        let found = Operator::ALL.into_iter().find_map(|(sign, operator)| Some((text.split_once(sign)?, operator)));
        let ((left, right), operator) = found.ok_or_else(refused)?;
        let limit = right.trim().parse::<f64>().ok().filter(|limit| limit.is_finite()).ok_or_else(refused)?;
        let left = left.trim();
        // Settings of a strategy may have a point in them, metrics have it in percentiles (p99.9).
        let (strategy, metric) = match left.split_once('.') {
            Some((strategy, metric)) if !is_percentile(strategy) => (Some(strategy.to_owned()), metric),
            _ => (None, left),
        };
        if metric.is_empty() || metric.contains(char::is_whitespace) {
            return Err(refused());
        }
        Ok(Self { strategy, metric: metric.to_owned(), operator, limit })
    }
}

fn is_percentile(text: &str) -> bool {
    text.strip_prefix('p').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Condition {
    /// Where it is true.
    ///
    /// # Errors
    /// If no strategy or metric has this name.
    pub fn violations(&self, report: &Report) -> Result<Vec<Violation>, InvalidOption> {
        let named = |name: &str| self.strategy.as_deref().is_none_or(|strategy| strategy == name);
        let chosen: Vec<_> = report
            .columns
            .iter()
            .filter(|column| named(column.contender.name()) || named(&column.contender.to_string()))
            .collect();
        if chosen.is_empty() {
            let strategy = self.strategy.as_deref().unwrap_or_default();
            return Err(InvalidOption::new("fail-if", format!("{self}: no strategy {strategy:?} was compared")));
        }
        let mut violations = Vec::new();
        for column in chosen {
            let metrics = metrics::of(report, column);
            let Some((_, value)) = metrics.iter().find(|(name, _)| *name == self.metric) else {
                let names: Vec<&str> = metrics.iter().map(|(name, _)| name.as_str()).collect();
                let problem = format!("{self}: there is no metric {:?}; there are {}", self.metric, names.join(", "));
                return Err(InvalidOption::new("fail-if", problem));
            };
            if value.is_none_or(|value| self.operator.holds(value, self.limit)) {
                let strategy = column.contender.to_string();
                violations.push(Violation { strategy, condition: self.clone(), value: *value });
            }
        }
        Ok(violations)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(strategy) = &self.strategy {
            write!(f, "{strategy}.")?;
        }
        write!(f, "{} {} {}", self.metric, self.operator.as_str(), self.limit)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{}: {} is true: {value:.2}", self.strategy, self.condition),
            None => write!(f, "{}: {} cannot be told: there is no value", self.strategy, self.condition),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_back_from_what_they_print() {
        for (text, printed) in [
            ("p90_ttft_ms > 500", "p90_ttft_ms > 500"),
            ("p99.9_itl_ms>=20", "p99.9_itl_ms >= 20"),
            ("prefix_aware.delivered_ratio<0.5", "prefix_aware.delivered_ratio < 0.5"),
            ("random.p99.9_ttft_ms <= 1e3", "random.p99.9_ttft_ms <= 1000"),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.to_string(), printed);
            assert_eq!(printed.parse(), Ok(condition));
        }
        for text in ["", "p90_ttft_ms", "p90_ttft_ms > ", "> 5", "p90_ttft_ms > fast", "p90_ttft_ms == 5", "a b > 1"] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }
}
