//! The answer to "which replica?", with everything needed to explain it. The same value feeds the response header and
//! the metrics.

use crate::fleet::TargetId;
use crate::routing::Strategy;

/// Where one request goes.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The strategy that was asked.
    pub strategy: Strategy,
    /// Index of the variant in the endpoint.
    pub variant: usize,
    /// Why it goes there.
    pub reason: Reason,
    /// Where it goes.
    pub choice: Choice,
    /// Where its key belongs, whether or not it went there.
    pub home: Option<Choice>,
    /// Text bytes of the prompt that some place holds, by our belief; in a large variant that is asked of those only that
    /// most likely do.
    pub available_bytes: u64,
    /// Text bytes of the prompt that the chosen one holds, by our belief.
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

/// What was known of one place when the decision was taken.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Index of the replica in the variant.
    pub replica: usize,
    /// Index of the copy in the invoked component.
    pub copy: Option<usize>,
    /// Where it is.
    pub target: TargetId,
    /// Requests in flight: of the copy where a component is invoked, else of the replica.
    pub in_flight: u32,
    /// Recent failures there, each of which weighs like a request in flight.
    pub penalty: u32,
    /// The replica's rendezvous score, where the strategy uses one: higher is better.
    pub rendezvous: f64,
    /// The copy's among the copies of its replica.
    pub copy_rendezvous: f64,
    /// The replica's weight.
    pub weight: f64,
    /// Why it was not considered.
    pub dropped: Option<Drop>,
}

impl Candidate {
    /// Whether it may serve the request.
    pub fn is_eligible(&self) -> bool {
        self.dropped.is_none()
    }

    /// The place.
    pub fn choice(&self) -> Choice {
        Choice { replica: self.replica, copy: self.copy, target: self.target }
    }

    /// Its load relative to its weight, were it to get this request too.
    pub fn relative_load(&self) -> f64 {
        relative_load(self.in_flight + self.penalty, self.weight)
    }

    /// Its rendezvous score: the replica's first, then the copy's.
    pub fn score(&self) -> (f64, f64) {
        (self.rendezvous, self.copy_rendezvous)
    }
}

/// What `count` requests in flight are to a replica of this weight, were it to get one more.
pub(crate) fn relative_load(count: u32, weight: f64) -> f64 {
    f64::from(count + 1) / weight
}

/// Why a place may not serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// The operator took it out.
    Draining,
    /// Its health checks fail.
    Down,
    /// It could not be reached several times in a row; it comes back after a while.
    Ejected,
    /// Its requests failed; it comes back after a while, and another is better off meanwhile.
    Failing,
    /// It has failed before, comes back, and has its one request, and another is better off.
    OnTrial,
    /// It has not been checked yet, and another has.
    Warming,
    /// It answers no health checks, and another does.
    Unresponsive,
    /// It asked to be left alone for a while, and another did not.
    Busy,
    /// It has no copy of the invoked component.
    NoCopy,
    /// It does not have the adapter.
    NoAdapter,
    /// It does not speak an API that has a path for this request, or keeps no sessions where one is to be opened.
    NoPath,
    /// It does only a part of the work.
    OtherRole,
    /// It cannot read what the request holds besides text.
    NoModality,
    /// The prompt is longer than its context, however few tokens it has.
    ContextTooShort,
    /// Prompt and answer are likely longer than its context, and another's is longer or not known.
    ContextTight,
    /// This request was tried there.
    Tried,
}

impl Drop {
    /// The name in metrics and explanations.
    pub fn as_str(self) -> &'static str {
        match self {
            Drop::Draining => "draining",
            Drop::Down => "down",
            Drop::Ejected => "ejected",
            Drop::Failing => "failing",
            Drop::OnTrial => "on trial",
            Drop::Warming => "warming",
            Drop::Unresponsive => "unresponsive",
            Drop::Busy => "busy",
            Drop::NoCopy => "without a copy",
            Drop::NoAdapter => "without the adapter",
            Drop::NoPath => "without a path for it",
            Drop::OtherRole => "with another role",
            Drop::NoModality => "without the modality",
            Drop::ContextTooShort => "with too short a context",
            Drop::ContextTight => "with a context that is likely too short",
            Drop::Tried => "tried",
        }
    }

    /// Whether it is dropped only because others are better off; where there are none, it is considered after all.
    pub fn is_last_resort(self) -> bool {
        matches!(
            self,
            Drop::Failing | Drop::OnTrial | Drop::Warming | Drop::Unresponsive | Drop::Busy | Drop::ContextTight
        )
    }

    /// Whether it is for what the request is and the place can do, so that waiting would not help.
    pub fn is_for_good(self) -> bool {
        matches!(
            self,
            Drop::NoCopy | Drop::NoAdapter | Drop::NoPath | Drop::OtherRole | Drop::NoModality | Drop::ContextTooShort
        )
    }
}

/// Why a request goes where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The key's home, which is believed to hold a beginning of the prompt.
    PrefixHit,
    /// The key's home, which is not believed to hold anything of it yet.
    Cold,
    /// The session's home.
    Session,
    /// The engine that keeps what the request goes on with.
    Pinned,
    /// The home copy is at its threshold: another copy on the same replica.
    SpillCopy,
    /// The home is at its threshold: the least outstanding place under its own.
    SpillConcurrency,
    /// All are at their threshold: the least outstanding of all.
    SpillSaturated,
    /// No other replica may serve the request, so the strategy has no effect.
    OnlyCandidate,
    /// The request has no text to hash (or no session): the least outstanding.
    NoPrefix,
    /// The strategy looks at load or turn alone.
    Load,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 10] = [
        Reason::PrefixHit,
        Reason::Cold,
        Reason::Session,
        Reason::Pinned,
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
            Reason::Pinned => "pinned",
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
