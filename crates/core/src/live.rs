//! What is true of a replica (or of a copy with an address of its own) whatever snapshot is in force.
//!
//! Three authorities judge a replica, and each has a word of its own that no other can overwrite: the operator
//! ([`Duty`]), the health checks ([`Health`]), and the requests themselves ([`Breaker`], and a refusal that asks to wait).

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::breaker::Breaker;
use crate::cache::CacheView;
use crate::load::Load;

/// What the operator wants of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Duty {
    /// Takes requests.
    Ready = 0,
    /// Finishes what it has, takes nothing new.
    Drain = 1,
    /// As `drain`, and it is left in peace: nobody asks how it is.
    Maint = 2,
}

impl Duty {
    /// All of them.
    pub const ALL: [Duty; 3] = [Duty::Ready, Duty::Drain, Duty::Maint];

    /// The name in the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Duty::Ready => "ready",
            Duty::Drain => "drain",
            Duty::Maint => "maint",
        }
    }
}

/// What health checks found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Health {
    /// Not checked yet. Gets requests only where no replica is known to be well: an engine that is still loading
    /// accepts connections long before it can answer.
    Warming = 0,
    /// Answers.
    Up = 1,
    /// Did not answer in time, several times. Busy engines do that, so it still gets requests where nobody else can.
    Unresponsive = 2,
    /// Refuses, or says itself that it is not well.
    Down = 3,
}

impl Health {
    /// All of them.
    pub const ALL: [Health; 4] = [Health::Warming, Health::Up, Health::Unresponsive, Health::Down];

    /// The name in the admin API and in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Health::Warming => "warming",
            Health::Up => "up",
            Health::Unresponsive => "unresponsive",
            Health::Down => "down",
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Live {
    /// Counters.
    pub load: Load,
    /// What it is believed to hold.
    pub cache: CacheView,
    /// Whether its requests fail.
    pub breaker: Breaker,
    duty: AtomicU8,
    health: AtomicU8,
    /// It asked not to be sent requests before this time.
    busy_until_us: AtomicU64,
    /// Answers that have begun: signs of life for the health checks.
    answers: AtomicU32,
    /// What it says of its context; 0 where it says nothing.
    context_tokens_max: AtomicU64,
}

impl Live {
    /// A replica of which nothing is known yet but the size of its cache.
    pub fn new(kv_tokens: u64) -> Self {
        Self::with_cache(CacheView::new(kv_tokens))
    }

    /// A replica of which nothing is known yet but its cache view.
    pub fn with_cache(cache: CacheView) -> Self {
        Self {
            load: Load::default(),
            cache,
            breaker: Breaker::default(),
            duty: AtomicU8::new(Duty::Ready as u8),
            health: AtomicU8::new(Health::Warming as u8),
            busy_until_us: AtomicU64::new(0),
            answers: AtomicU32::new(0),
            context_tokens_max: AtomicU64::new(0),
        }
    }

    /// What the operator wants.
    pub fn duty(&self) -> Duty {
        Duty::ALL[usize::from(self.duty.load(Ordering::Relaxed))]
    }

    /// The operator wants something else; gives what was wanted before.
    pub fn set_duty(&self, duty: Duty) -> Duty {
        Duty::ALL[usize::from(self.duty.swap(duty as u8, Ordering::Relaxed))]
    }

    /// What health checks found.
    pub fn health(&self) -> Health {
        Health::ALL[usize::from(self.health.load(Ordering::Relaxed))]
    }

    /// Health checks found something; gives what they had found before.
    pub fn set_health(&self, health: Health) -> Health {
        Health::ALL[usize::from(self.health.swap(health as u8, Ordering::Relaxed))]
    }

    /// It said that it is too busy, and when to come back.
    pub fn busy_until(&self, until_us: u64) {
        self.busy_until_us.fetch_max(until_us, Ordering::Relaxed);
    }

    /// Whether it asked to be left alone at this time.
    pub fn is_busy(&self, now_us: u64) -> bool {
        now_us < self.busy_until_us.load(Ordering::Relaxed)
    }

    /// Tokens of prompt and answer together at the most, where it has said so.
    pub fn context_tokens_max(&self) -> Option<u64> {
        Some(self.context_tokens_max.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0)
    }

    /// It has said how many tokens prompt and answer may have together, or says nothing of it.
    pub fn set_context_tokens_max(&self, tokens: Option<u64>) {
        self.context_tokens_max.store(tokens.unwrap_or(0), Ordering::Relaxed);
    }

    /// An answer of it has begun.
    pub fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Answers that have ever begun; only differences mean something.
    pub fn answers(&self) -> u32 {
        self.answers.load(Ordering::Relaxed)
    }
}
