//! One request's stay on the fleet, from the moment its place is taken.
//!
//! Whatever ends it (the last byte, a client that left, a replica that broke off, a panic) drops the exchange, and
//! dropping it is what releases the place and records the outcome: once, on every path.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use kvroute_core::breaker::Failure;
use kvroute_core::decision::Reason;
use kvroute_core::facts::{RequestFacts, tokens_of_bytes};
use kvroute_core::live::Live;
use kvroute_core::load::Reservation;
use kvroute_core::prompt::PrefixChain;
use kvroute_core::router::Routed;
use kvroute_core::routing::Strategy;
use kvroute_wire::response::Usage;
use kvroute_wire::sagemaker::header as names;

use super::observer::Seen;
use crate::gateway::Gateway;
use crate::keepers::Kind;
use crate::request::call::Api;
use crate::request::{Refusal, RefusalKind};
use crate::telemetry::Ended;
use crate::upstream::origin::SendError;
use crate::upstream::target::Target;

const REPLICA_HEADER: HeaderName = HeaderName::from_static("x-kvroute-replica");
const DECISION_HEADER: HeaderName = HeaderName::from_static("x-kvroute-decision");

/// Longest time that a replica's `retry-after` keeps requests away from it.
const BUSY_MAX: Duration = Duration::from_secs(30);

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The whole answer was passed on.
    Ok,
    /// The replica answered with an error status, which was passed on.
    ErrorStatus,
    /// The replica reported an error inside its stream.
    ErrorInStream,
    /// The replica broke off in the middle of its answer.
    BrokenOff,
    /// The replica could not be reached, nor another in its place.
    Unreachable,
    /// The connection was lost before the answer's first byte.
    Lost,
    /// No first byte in time.
    FirstByteTimeout,
    /// The client left before the end.
    ClientGone,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ErrorStatus => "error_status",
            Self::ErrorInStream => "error_in_stream",
            Self::BrokenOff => "broken_off",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::ClientGone => "client_gone",
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Exchange {
    gateway: Arc<Gateway>,
    target: Arc<Target>,
    strategy: Strategy,
    reason: Reason,
    attempts: u32,
    reservation: Option<Reservation>,
    arrived: Instant,
    idle_limit: Duration,
    last_content: Option<Instant>,
    prompt: PromptSize,
    usage: Option<Usage>,
    outcome: Outcome,
    code: u16,
}

/// The prompt's size, and how much of it was believed to be held.
#[derive(Clone, Copy, Debug)]
struct PromptSize {
    tokens_estimated: u64,
    text_bytes: u64,
    available_bytes: u64,
    captured_bytes: u64,
}

impl Exchange {
    /// An exchange with its place taken at `target`.
    pub(crate) fn new(
        gateway: Arc<Gateway>,
        target: Arc<Target>,
        routed: Routed,
        facts: &RequestFacts,
        arrived: Instant,
        idle_limit: Duration,
    ) -> Self {
        let Routed { decision, reservation } = routed;
        Self {
            gateway,
            target,
            strategy: decision.strategy,
            reason: decision.reason,
            attempts: 1,
            reservation: Some(reservation),
            arrived,
            idle_limit,
            last_content: None,
            prompt: PromptSize {
                tokens_estimated: facts.prompt_tokens_estimated,
                text_bytes: facts.prompt.text_bytes,
                available_bytes: decision.available_bytes,
                captured_bytes: decision.captured_bytes,
            },
            usage: None,
            outcome: Outcome::ClientGone,
            code: 0,
        }
    }

    /// Where the request is.
    pub(crate) fn target(&self) -> &Arc<Target> {
        &self.target
    }

    /// Whether nobody but this place can answer.
    pub(crate) fn is_pinned(&self) -> bool {
        self.reason == Reason::Pinned
    }

    /// What lives there.
    fn engine(&self) -> Option<&Live> {
        self.reservation.as_ref().map(Reservation::engine)
    }

    /// The place could not be reached, so the prompt of this chain is not there.
    pub(crate) fn unreachable(&mut self, chain: &PrefixChain) {
        if let Some(reservation) = &self.reservation {
            reservation.never_arrived(chain);
        }
        self.blame(Failure::Unreachable);
    }

    /// The place refused for load, and with it the prompt of this chain, and perhaps said when to come back.
    pub(crate) fn refused(&mut self, chain: &PrefixChain, wait: Option<Duration>) {
        let Some(reservation) = &self.reservation else { return };
        reservation.never_arrived(chain);
        reservation.engine().answered();
        if let Some(wait) = wait {
            let now_us = self.gateway.clock().moment().now_us;
            reservation.engine().busy_until(now_us + wait.min(BUSY_MAX).as_micros() as u64);
        }
    }

    /// The request goes elsewhere, and its old place is free.
    pub(crate) fn retry(&mut self, target: Arc<Target>, routed: Routed) {
        self.target.series.replica.retries.inc();
        let Routed { decision, reservation } = routed;
        self.target = target;
        self.reason = decision.reason;
        self.reservation = Some(reservation);
        self.prompt.captured_bytes = decision.captured_bytes;
        // The new place may hold what nobody that was eligible at first does.
        self.prompt.available_bytes = self.prompt.available_bytes.max(decision.available_bytes);
        self.attempts += 1;
    }

    /// What happened speaks against the replica.
    fn blame(&mut self, failure: Failure) {
        let now_us = self.gateway.clock().moment().now_us;
        if self.reservation.as_mut().is_some_and(|reservation| reservation.failed(failure, now_us)) {
            let replica = &*self.target.labels.replica;
            tracing::warn!(replica, url = %self.target.url, "replica ejected: its requests fail");
        }
    }

    /// Says what became of the request; when a replica dies, not of each one.
    fn log_failure(&self, what: &'static str, error: &dyn fmt::Display) {
        let (replica, url, attempts) = (self.target.labels.replica.clone(), self.target.url.clone(), self.attempts);
        let say = || tracing::warn!(replica = &*replica, %url, attempts, %error, "{what}");
        let target = self.target.clone();
        let say_more = move |more| {
            let replica = &*target.labels.replica;
            tracing::warn!(replica, url = %target.url, more, "more requests failed there");
        };
        self.target.series.replica.failures.happened(say, say_more);
    }

    /// There will be no answer. Ends the exchange; gives what the client of `api` is told.
    pub(crate) fn failed(mut self, error: &SendError, api: Api) -> Refusal {
        let replica = &self.target.labels.replica;
        let (outcome, kind, message) = match error {
            SendError::Connect(_) => {
                (Outcome::Unreachable, RefusalKind::Unavailable, format!("replica {replica} cannot be reached"))
            }
            SendError::Lost { .. } | SendError::Upgrade => (
                Outcome::Lost,
                RefusalKind::Lost,
                format!("the connection to replica {replica} was lost before it answered"),
            ),
            SendError::FirstByteTimeout => {
                (Outcome::FirstByteTimeout, RefusalKind::Timeout, format!("replica {replica} did not answer in time"))
            }
        };
        self.log_failure("request failed", error);
        // Where no connection could be made, that has been said already, and the first word counts.
        self.blame(Failure::Request);
        self.outcome = outcome;
        let refusal = Refusal::after_asking(kind, message);
        self.code = refusal.code(api);
        refusal
    }

    /// The answer's head has come.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.code = status.as_u16();
        if let Some(engine) = self.engine() {
            engine.answered();
        }
    }

    /// Remembers which engine keeps the session that its answer opens, and forgets one that it closes.
    pub(crate) fn keep_session(&self, answer: &HeaderMap) {
        let id = |name: &str| answer.get(name)?.to_str().ok()?.split(';').next().map(str::trim);
        let (keepers, labels) = (self.gateway.keepers(), &self.target.labels);
        if let Some(id) = id(names::NEW_SESSION_ID) {
            keepers.keeps(&labels.endpoint, Kind::Session, id, self.target.engine_id);
        }
        if let Some(id) = id(names::CLOSED_SESSION_ID) {
            keepers.forget(&labels.endpoint, Kind::Session, id);
        }
    }

    /// Remembers which engine keeps an answer that later requests may go on with.
    pub(crate) fn keep_response(&self, id: &str) {
        let labels = &self.target.labels;
        self.gateway.keepers().keeps(&labels.endpoint, Kind::Response, id, self.target.engine_id);
    }

    /// The client gets another status than the replica gave.
    pub(crate) fn translated(&mut self, status: StatusCode) {
        self.outcome = Outcome::ErrorStatus;
        self.code = status.as_u16();
    }

    /// A piece of the answer passed.
    pub(crate) fn passed(&mut self, seen: Seen) {
        if seen.error {
            self.outcome = Outcome::ErrorInStream;
            self.blame(Failure::Request);
        }
        if seen.content_events == 0 {
            return;
        }
        let now = Instant::now();
        let mut gaps = seen.content_events;
        match self.last_content {
            None => {
                gaps -= 1;
                if let Some(reservation) = &mut self.reservation {
                    reservation.first_content();
                }
                let ttft = self.target.series.variant.ttft.of(self.strategy.as_str());
                ttft.observe((now - self.arrived).as_secs_f64());
                self.observe_gaps(gaps, 0.0);
            }
            Some(last) => {
                // Events that came in one read came without a gap.
                self.observe_gaps(1, (now - last).as_secs_f64());
                self.observe_gaps(gaps - 1, 0.0);
            }
        }
        self.last_content = Some(now);
    }

    fn observe_gaps(&self, count: u32, seconds: f64) {
        (0..count).for_each(|_| self.target.series.variant.inter_token.observe(seconds));
    }

    /// The answer is complete.
    pub(crate) fn complete(&mut self, usage: Option<Usage>) {
        self.usage = usage;
        if self.outcome == Outcome::ClientGone {
            self.outcome = if self.code >= 400 { Outcome::ErrorStatus } else { Outcome::Ok };
        }
        // Refusals for load, and of what it was never made for, speak neither for nor against it.
        match self.code {
            429 | 501 | 503 | 505 => {}
            500.. => self.blame(Failure::Request),
            _ => {
                let now_us = self.gateway.clock().moment().now_us;
                if let Some(reservation) = &mut self.reservation {
                    reservation.succeeded(now_us);
                }
            }
        }
        self.reservation = None;
    }

    /// The replica broke off.
    pub(crate) fn broke_off(&mut self, usage: Option<Usage>, error: &dyn fmt::Display) {
        self.blame(Failure::Request);
        self.log_failure("replica broke off in the middle of its answer", error);
        self.usage = usage;
        self.outcome = Outcome::BrokenOff;
        self.reservation = None;
    }

    /// How long the replica may be silent in the middle of its answer.
    pub(crate) fn idle_limit(&self) -> Duration {
        self.idle_limit
    }

    /// Tells the client where its request went and why.
    pub(crate) fn name_in(&self, headers: &mut HeaderMap) {
        headers.insert(REPLICA_HEADER, self.target.replica.clone());
        let reason = self.reason.as_str();
        let decision = match self.attempts {
            1 => HeaderValue::from_static(reason),
            attempts => HeaderValue::try_from(format!("{reason};attempt={attempts}")).expect("names and a number"),
        };
        headers.insert(DECISION_HEADER, decision);
    }

    fn record_tokens(&self) {
        let series = &self.target.series.variant;
        let prompt = &self.prompt;
        let reported = self.usage.and_then(|usage| usage.prompt_tokens);
        let usage = if reported.is_some() { "reported" } else { "estimated" };
        let tokens = reported.unwrap_or(prompt.tokens_estimated);
        let tokens_of = |bytes: u64| match (reported, prompt.text_bytes) {
            (Some(tokens), 1..) => (u128::from(tokens) * u128::from(bytes) / u128::from(prompt.text_bytes)) as u64,
            _ => tokens_of_bytes(bytes),
        };
        series.prompt_tokens.of(usage).inc_by(tokens);
        let delivered = self.usage.and_then(|usage| usage.cached_tokens);
        let stages = [
            ("available", Some(tokens_of(prompt.available_bytes))),
            ("captured", Some(tokens_of(prompt.captured_bytes))),
            ("delivered", delivered),
        ];
        for (stage, tokens) in stages.into_iter().filter_map(|(stage, tokens)| Some((stage, tokens?))) {
            series.prefix_tokens.of((usage, stage)).inc_by(tokens);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.reservation = None;
        let series = &self.target.series.variant;
        let ended = Ended {
            strategy: self.strategy.as_str(),
            reason: self.reason.as_str(),
            outcome: self.outcome.as_str(),
            code: self.code,
        };
        series.requests.of(ended).inc();
        series.duration.observe(self.arrived.elapsed().as_secs_f64());
        if matches!(self.outcome, Outcome::Ok | Outcome::ErrorInStream | Outcome::BrokenOff) {
            self.record_tokens();
        }
    }
}
