//! The answer to "which replica?", with everything needed to explain it. The same value feeds the response header, the
//! metrics and the retry order.

use smallvec::SmallVec;

use crate::fleet::TargetId;
use crate::routing::Strategy;

/// How many choices a decision orders: the first, and the fallbacks a retry may try.
pub const CHOICES_MAX: usize = 4;

/// Where one request goes.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The strategy that was asked.
    pub strategy: Strategy,
    /// Index of the variant in the endpoint.
    pub variant: usize,
    /// Why the first choice is the first.
    pub reason: Reason,
    /// Best first; never empty; at most [`CHOICES_MAX`].
    pub choices: SmallVec<[Choice; CHOICES_MAX]>,
    /// Where the key belongs, whether or not it went there.
    pub home: Option<Choice>,
    /// Every replica of the variant, in its order.
    pub candidates: Vec<Candidate>,
    /// Text bytes of the prompt that some candidate holds, by our belief.
    pub available_bytes: u64,
    /// Text bytes of the prompt that the first choice holds, by our belief.
    pub captured_bytes: u64,
}

/// A place for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the replica in the variant.
    pub replica: usize,
    /// Index of the copy in the invoked component.
    pub copy: Option<usize>,
    /// Where it is.
    pub target: TargetId,
}

/// What was known of one replica when the decision was taken.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The copy it would use.
    pub copy: Option<usize>,
    /// Where that is.
    pub target: TargetId,
    /// Requests in flight: of the copy where a component is invoked, else of the replica.
    pub in_flight: u32,
    /// Uncached prompt tokens waiting for their first token on the replica.
    pub pending_prefill_tokens: u64,
    /// Blocks of the prompt it holds, by our belief.
    pub matched_blocks: usize,
    /// Its rendezvous score, where the strategy uses one: higher is better.
    pub rendezvous: f64,
    /// Its weight.
    pub weight: f64,
    /// Why it was not considered.
    pub dropped: Option<Drop>,
}

impl Candidate {
    /// Whether it may serve the request.
    pub fn is_eligible(&self) -> bool {
        self.dropped.is_none()
    }

    /// Its load relative to its weight, were it to get this request too.
    pub fn relative_load(&self) -> f64 {
        f64::from(self.in_flight + 1) / self.weight
    }
}

/// Why a replica may not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// Its health checks fail.
    Down,
    /// It takes nothing new.
    Draining,
    /// It has no copy of the invoked component.
    NoCopy,
    /// It does not have the adapter.
    NoAdapter,
}

impl Drop {
    /// The name in metrics and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Drop::Down => "down",
            Drop::Draining => "draining",
            Drop::NoCopy => "no_copy",
            Drop::NoAdapter => "no_adapter",
        }
    }
}

/// Why the first choice is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The key's home, which is believed to hold a beginning of the prompt.
    PrefixHit,
    /// The key's home, which is not believed to hold anything of it yet.
    Cold,
    /// The session's home.
    Session,
    /// The home copy is at its threshold: another copy on the same replica.
    SpillCopy,
    /// The home is at its threshold: the least outstanding replica under its own.
    SpillConcurrency,
    /// All are at their threshold: the least outstanding of all.
    SpillSaturated,
    /// Nothing else may serve the request, so the strategy has no effect.
    OnlyCandidate,
    /// The request has no text to hash (or no session): the least outstanding.
    NoPrefix,
    /// The strategy looks at load or turn alone.
    Load,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 9] = [
        Reason::PrefixHit,
        Reason::Cold,
        Reason::Session,
        Reason::SpillCopy,
        Reason::SpillConcurrency,
        Reason::SpillSaturated,
        Reason::OnlyCandidate,
        Reason::NoPrefix,
        Reason::Load,
    ];

    /// The name in headers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::PrefixHit => "prefix_hit",
            Reason::Cold => "cold",
            Reason::Session => "session",
            Reason::SpillCopy => "spill_copy",
            Reason::SpillConcurrency => "spill_concurrency",
            Reason::SpillSaturated => "spill_saturated",
            Reason::OnlyCandidate => "only_candidate",
            Reason::NoPrefix => "no_prefix",
            Reason::Load => "load",
        }
    }

    /// Whether the request left its home because of load.
    pub fn is_spill(self) -> bool {
        matches!(self, Reason::SpillCopy | Reason::SpillConcurrency | Reason::SpillSaturated)
    }
}
