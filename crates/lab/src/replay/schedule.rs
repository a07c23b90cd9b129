//! What happens to the fleet during a replay, and how it is written: `600s:add=1`, `20m:restart=r3`, `1h:deploy`.

use std::fmt;
use std::str::FromStr;

use crate::InvalidOption;

/// A change at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetEvent {
    /// Microseconds since the first arrival could be.
    pub at_us: u64,
    /// What changes.
    pub change: Change,
}

/// A change of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// So many replicas join. They serve when their cold start is over, with empty caches.
    Add(u32),
    /// So many replicas, the newest first, end what they have and leave.
    Remove(u32),
    /// The replica of this id dies with all that it has in flight, and comes back after its cold start with an empty
    /// cache.
    Restart(String),
    /// One replica after the other ends what it has and starts anew.
    Deploy,
}

/// Most replicas that join or leave at once.
const REPLICAS_MAX: u32 = 4_096;

impl FromStr for FleetEvent {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let refused = |what: &str| {
            let problem = format!(
                "{text:?}: {what}; write TIME:add=N, TIME:remove=N, TIME:restart=ID or TIME:deploy, such as 600s:add=1"
            );
            InvalidOption::new("event", problem)
        };
        let (time, change) = text.split_once(':').ok_or_else(|| refused("there is no colon"))?;
        let at_us = duration_us(time).ok_or_else(|| refused("it does not begin with a time such as 90s, 10m or 1h"))?;
        let (verb, what) = change.split_once('=').map_or((change, None), |(verb, what)| (verb, Some(what)));
        let count = || {
            let count = what.map_or(Some(1), |n| n.parse().ok()).filter(|n| (1..=REPLICAS_MAX).contains(n));
            count.ok_or_else(|| refused("the number of replicas is not a number above 0"))
        };
        let change = match (verb, what) {
            ("add", _) => Change::Add(count()?),
            ("remove", _) => Change::Remove(count()?),
            ("restart", Some(id)) if !id.is_empty() => Change::Restart(id.to_owned()),
            ("restart", _) => return Err(refused("which replica restarts is not said")),
            ("deploy", None) => Change::Deploy,
            _ => return Err(refused("that is no change of a fleet")),
        };
        Ok(Self { at_us, change })
    }
}

impl fmt::Display for FleetEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = self.at_us as f64 / 1e6;
        match &self.change {
            Change::Add(n) => write!(f, "{s}s:add={n}"),
            Change::Remove(n) => write!(f, "{s}s:remove={n}"),
            Change::Restart(id) => write!(f, "{s}s:restart={id}"),
            Change::Deploy => write!(f, "{s}s:deploy"),
        }
    }
}

/// Microseconds of `90s`, `1.5m`, `2h`, `250ms`, or a plain number of seconds; at most 1,000 days.
pub fn duration_us(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 1e3,
        "s" | "" => 1e6,
        "m" | "min" => 60e6,
        "h" => 3_600e6,
        _ => return None,
    };
    let us = number.parse::<f64>().ok()? * scale;
    (0.0..=86_400e9).contains(&us).then(|| us.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_back_from_what_they_print() {
        for (text, printed) in [
            ("600s:add=2", "600s:add=2"),
            ("10m:add", "600s:add=1"),
            ("1.5h:remove=1", "5400s:remove=1"),
            ("250ms:restart=r3", "0.25s:restart=r3"),
            ("7:deploy", "7s:deploy"),
        ] {
            let event: FleetEvent = text.parse().unwrap();
            assert_eq!(event.to_string(), printed);
            assert_eq!(printed.parse(), Ok(event));
        }
    }

    #[test]
    fn what_is_no_event_is_refused_with_an_example() {
        for text in [
            "",
            "add=1",
            "10q:add=1",
            "-5s:add",
            "10s:add=0",
            "10s:add=x",
            "10s:restart",
            "10s:deploy=2",
            "10s:grow",
            "1e9h:add",
        ] {
            let refused = text.parse::<FleetEvent>().unwrap_err().to_string();
            assert!(refused.contains("600s:add=1"), "{text}: {refused}");
        }
    }
}
