//! A variant's routing settings: names, ranges and defaults as SageMaker's `RoutingConfig` has them, and what kvroute
//! adds. Ranges are enforced where settings are read (the gateway's configuration), not here.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Allowed values of `prefix_length`, in characters (OpenAI API) or bytes (native API). Source: SageMaker's API model.
pub const PREFIX_LENGTH_RANGE: RangeInclusive<u32> = 1_024..=65_536;
/// `prefix_length` where nothing is said.
pub const PREFIX_LENGTH_DEFAULT: u32 = 4_096;
/// Allowed values of `concurrency_threshold`, requests in flight. Source: SageMaker's API model.
pub const CONCURRENCY_THRESHOLD_RANGE: RangeInclusive<u32> = 1..=1_024;
/// `concurrency_threshold` where nothing is said: well above two to three times the usual mean in flight, since below
/// that prefix routing degenerates to least-outstanding.
pub const CONCURRENCY_THRESHOLD_DEFAULT: u32 = 32;

/// How a replica is chosen among those that may serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Uniformly at random, by weight.
    Random,
    /// In turn, by weight.
    RoundRobin,
    /// The replica with the fewest requests in flight, by weight.
    LeastOutstanding,
    /// SageMaker's PREFIX_AWARE: equal prompt beginnings go to the same replica until it has too much in flight.
    PrefixAware,
    /// Requests of one session go to the same replica, with the guard of `prefix_aware`.
    Session,
}

impl Strategy {
    /// Every strategy, in the order in which they are documented.
    pub const ALL: [Strategy; 5] =
        [Strategy::Random, Strategy::RoundRobin, Strategy::LeastOutstanding, Strategy::PrefixAware, Strategy::Session];

    /// The names users write, in the order of [`Strategy::ALL`].
    pub const NAMES: [&'static str; 5] = ["random", "round_robin", "least_outstanding", "prefix_aware", "session"];

    /// The name users write.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Strategy {
    type Err = UnknownName;

    /// Accepts kvroute's names and SageMaker's `RoutingStrategy` spellings.
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "RANDOM" => return Ok(Strategy::Random),
            "LEAST_OUTSTANDING_REQUESTS" => return Ok(Strategy::LeastOutstanding),
            "PREFIX_AWARE" => return Ok(Strategy::PrefixAware),
            _ => {}
        }
        Self::ALL.into_iter().find(|s| s.as_str() == name).ok_or(UnknownName)
    }
}

/// What `prefix_aware` hashes for a native (`/endpoints/{name}/invocations`) request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NativePrefixSource {
    /// The first bytes of the body, as SageMaker does: sensitive to JSON formatting and member order.
    #[default]
    BodyBytes,
    /// The text of the messages or prompt, as on the OpenAI path.
    MessageText,
}

impl NativePrefixSource {
    /// The names users write.
    pub const NAMES: [&'static str; 2] = ["body_bytes", "message_text"];

    /// The name users write.
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl FromStr for NativePrefixSource {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "body_bytes" => Ok(Self::BodyBytes),
            "message_text" => Ok(Self::MessageText),
            _ => Err(UnknownName),
        }
    }
}

/// A name that stands for nothing here; the caller knows the valid ones and words the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName;

/// The knobs of `prefix_aware`, which `session` shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixAware {
    /// How much of the prompt makes the key: characters of message text, or bytes of a native body.
    pub prefix_length: u32,
    /// Requests in flight at which a replica (or copy) is passed over for another.
    pub concurrency_threshold: u32,
}

impl Default for PrefixAware {
    fn default() -> Self {
        Self { prefix_length: PREFIX_LENGTH_DEFAULT, concurrency_threshold: CONCURRENCY_THRESHOLD_DEFAULT }
    }
}

/// Routing settings of one variant, as the decision code needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// The acting strategy.
    pub strategy: Strategy,
    /// Knobs of `prefix_aware` and `session`.
    pub prefix_aware: PrefixAware,
    /// What a native request's key is made of.
    pub native_prefix_source: NativePrefixSource,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            strategy: Strategy::PrefixAware,
            prefix_aware: PrefixAware::default(),
            native_prefix_source: NativePrefixSource::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_is_read_back_from_its_own_name() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.as_str().parse(), Ok(strategy));
        }
    }

    #[test]
    fn sagemaker_spellings_name_the_same_strategies() {
        for (theirs, ours) in [
            ("RANDOM", Strategy::Random),
            ("LEAST_OUTSTANDING_REQUESTS", Strategy::LeastOutstanding),
            ("PREFIX_AWARE", Strategy::PrefixAware),
        ] {
            assert_eq!(theirs.parse(), Ok(ours), "{theirs}");
        }
        assert_eq!("KV_AWARE".parse::<Strategy>(), Err(UnknownName));
    }
}
