//! Sends a request to the place that was decided on, and elsewhere where that fails early enough.
//!
//! A request is sent again only while no byte of an answer has come and nothing can be generating for it:
//! - no connection could be made: nothing was sent;
//! - the replica said 429 or 503: it refused;
//! - a kept connection was lost before the answer's first byte: the replica closed it while unused (engines do after
//!   5 s), so the request never reached it. Once, since a replica that dies looks the same.
//!
//! Each time the decision is taken anew without the places tried, so nobody is asked twice (but for the last case). All
//! retries of the gateway share a budget, so that a fleet that fails is not also asked several times as much.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use kvroute_core::decision::Choice;
use kvroute_core::facts::RequestFacts;
use kvroute_core::filter::HasPath;
use kvroute_core::fleet::{Endpoint, TargetId};
use kvroute_core::router::{self, Attempts, NoRoute, Routed};

use super::call::{self, Api, Inference};
use super::headers;
use super::read::Received;
use super::refusal::Refusal;
use crate::config;
use crate::gateway::Gateway;
use crate::response::body::ResponseBody;
use crate::response::exchange::Exchange;
use crate::response::relay;
use crate::snapshot::Snapshot;
use crate::upstream::Answer;
use crate::upstream::origin::SendError;
use crate::upstream::target::Target;

/// How soon a connection is lost that had been closed before the request reached it.
const CLOSED_AT_ONCE: Duration = Duration::from_secs(1);

/// A request with everything that sending it needs.
pub(super) struct Errand<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) snapshot: &'a Arc<Snapshot>,
    /// Index of the endpoint.
    pub(super) index: usize,
    pub(super) call: &'a Inference,
    pub(super) head: &'a http::request::Parts,
    pub(super) facts: &'a RequestFacts,
    pub(super) received: &'a Received,
    /// Whether only a replica that keeps sessions can answer.
    pub(super) opens_session: bool,
    pub(super) arrived: Instant,
}

/// What came of one attempt.
enum Attempt {
    /// An answer to be passed on.
    Answer(Response<Answer>),
    /// A refusal for load, to be passed on only where nobody else takes the request.
    Refused(Response<Answer>, Option<Duration>),
    /// No answer.
    Failed(SendError),
}

impl Errand<'_> {
    /// Gets the answer.
    pub(super) async fn run(&self) -> Result<Response<ResponseBody>, Refusal> {
        self.gateway.retries().deposit();
        let first = self.place(Attempts::default()).map_err(|why| self.no_route(&why))?;
        let variant = Some(first.decision.variant);
        let mut tried: Vec<Choice> = vec![first.decision.choice];
        let mut exchange = self.exchange(first);
        let mut retry_after: Option<Duration> = None;
        let mut was_repeated = false;
        loop {
            let sent = Instant::now();
            let attempt = self.attempt(&exchange).await?;
            if let Attempt::Refused(_, wait) = &attempt {
                exchange.refused(&self.facts.prompt.chain, *wait);
                retry_after = retry_after.into_iter().chain(*wait).min();
            }
            if let Attempt::Failed(SendError::Lost { was_kept: true, .. }) = &attempt
                && sent.elapsed() < CLOSED_AT_ONCE
                && !std::mem::replace(&mut was_repeated, true)
            {
                continue;
            }
            let next = match &attempt {
                Attempt::Answer(_) => None,
                Attempt::Failed(error) if !error.nothing_was_sent() => None,
                // Nobody else could answer: the client hears what the keeper said, and when to come back.
                Attempt::Refused(..) if exchange.is_pinned() => None,
                Attempt::Failed(_) | Attempt::Refused(..) => {
                    if matches!(attempt, Attempt::Failed(_)) {
                        exchange.unreachable(&self.facts.prompt.chain);
                    }
                    let attempts = Attempts { variant, tried: &tried };
                    self.again(attempts)
                }
            };
            match (next, attempt) {
                (Some(routed), _) => {
                    tried.push(routed.decision.choice);
                    exchange.retry(self.snapshot.target(routed.decision.choice.target).clone(), routed);
                }
                (None, Attempt::Answer(response)) => return Ok(relay::answer(self.call, response, exchange).await),
                (None, Attempt::Refused(mut response, _)) => {
                    // Of all that refused, the one that is free first is what the client should wait for.
                    if let Some(wait) = retry_after {
                        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs()));
                    }
                    return Ok(relay::answer(self.call, response, exchange).await);
                }
                (None, Attempt::Failed(error)) => return Err(exchange.failed(&error, self.call.api)),
            }
        }
    }

    fn endpoint(&self) -> &Endpoint {
        &self.snapshot.fleet.endpoints[self.index]
    }

    /// Decides, and takes the place.
    fn place(&self, attempts: Attempts<'_>) -> Result<Routed, NoRoute> {
        let before = Instant::now();
        // On the OpenAI API the path is the client's own, wherever the request goes.
        let has_client_path = self.call.api == Api::OpenAi;
        let has_path = |target: TargetId| {
            let target = self.snapshot.target(target);
            (has_client_path || self.path(target).is_ok()) && (target.keeps_sessions || !self.opens_session)
        };
        let is_choosy = !has_client_path || self.opens_session;
        let has_path: HasPath<'_> = is_choosy.then_some(&has_path);
        let moment = self.gateway.clock().moment();
        if tracing::enabled!(tracing::Level::TRACE) {
            let candidates = router::explain(self.endpoint(), self.facts, has_path, attempts, moment);
            tracing::trace!(endpoint = &*self.endpoint().name, ?candidates, "deciding");
        }
        let routed = router::route(self.endpoint(), self.facts, has_path, attempts, moment)?;
        let decision = &routed.decision;
        self.gateway.telemetry().decided(decision, before.elapsed());
        if let Some(home) = decision.home.filter(|_| decision.reason.is_spill()) {
            self.snapshot.target(home.target).series.replica.spilled(decision.reason);
        }
        Ok(routed)
    }

    fn exchange(&self, routed: Routed) -> Exchange {
        if let Some(reason) = self.received.unscanned().filter(|_| self.call.has_prompt) {
            self.gateway.telemetry().unscanned(reason);
        }
        let target = self.snapshot.target(routed.decision.choice.target).clone();
        let idle_limit = Duration::from_millis(self.snapshot.config.timeouts.answer_idle_ms);
        Exchange::new(self.gateway.clone(), target, routed, self.facts, self.arrived, idle_limit)
    }

    /// What the client is told where no place can be had. Where no replica at all has a path for the body, that is what
    /// is wrong, and not the fleet.
    fn no_route(&self, why: &NoRoute) -> Refusal {
        let (NoRoute::NoReplica(_) | NoRoute::Unfit(_)) = why else { return Refusal::no_route(why) };
        let replicas = self.endpoint().variants.iter().flat_map(|variant| &variant.replicas);
        let mut targets = replicas.map(|replica| self.snapshot.target(replica.target)).peekable();
        if self.opens_session && targets.clone().all(|target| !target.keeps_sessions) {
            return Refusal::no_sessions();
        }
        match targets.peek().map(|target| self.path(target)) {
            Some(Err(refusal)) if targets.all(|target| self.path(target).is_err()) => refusal,
            _ => Refusal::no_route(why),
        }
    }

    /// Another place, if there is one and the budget pays for it.
    fn again(&self, attempts: Attempts<'_>) -> Option<Routed> {
        let retries = self.gateway.retries();
        if !retries.withdraw() {
            return None;
        }
        let routed = self.place(attempts).ok();
        if routed.is_none() {
            retries.give_back();
        }
        routed
    }

    async fn attempt(&self, exchange: &Exchange) -> Result<Attempt, Refusal> {
        let target = exchange.target();
        let path = self.path(target)?;
        let endpoint = self.snapshot.endpoint_config(self.index);
        let adapter = self.facts.component.as_deref().and_then(|component| headers::adapter_of(endpoint, component));
        let mut headers = match self.call.api {
            Api::OpenAi => headers::forwarded(&self.head.headers, endpoint.forward_authorization),
            Api::SageMaker => headers::forwarded_native(&self.head.headers, self.call.streams, target.keeps_sessions),
        };
        if self.call.api == Api::SageMaker && target.api == config::Api::OpenAi {
            // The body's shape chose the path, so JSON it is.
            headers::call_json(&mut headers);
        }
        if self.received.is_changed {
            headers::drop_what_described_the_bytes(&mut headers);
        }
        if let Some(key) = &target.authorization {
            headers::authorize(&mut headers, key);
        }
        if let Some(adapter) = &adapter {
            headers::name_adapter(&mut headers, adapter);
        }
        let first_byte = Duration::from_millis(self.snapshot.config.timeouts.first_byte_ms);
        let body = self.received.pieces.clone();
        Ok(match target.send(&self.head.method, &path, headers, body, first_byte).await {
            Ok(response) => match response.status() {
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                    let wait = retry_after(response.headers());
                    Attempt::Refused(response, wait)
                }
                _ => Attempt::Answer(response),
            },
            Err(error) => Attempt::Failed(error),
        })
    }

    /// Path and query at `target`, as its API has them for this request.
    fn path(&self, target: &Target) -> Result<Cow<'_, str>, Refusal> {
        let path = match &self.call.api {
            Api::OpenAi => self.call.path.as_str(),
            Api::SageMaker => call::native_path(target.api, self.received.shape(), self.received.unscanned())?,
        };
        Ok(match self.head.uri.query().filter(|_| self.call.api == Api::OpenAi) {
            None => path.into(),
            Some(query) => format!("{path}?{query}").into(),
        })
    }
}

/// How long a replica asks to be left alone, in seconds or until a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let written = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    let wait = match written.trim().parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            httpdate::parse_http_date(written).ok()?.duration_since(std::time::SystemTime::now()).unwrap_or_default()
        }
    };
    Some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_says_in_seconds_or_with_a_date_when_to_come_back() {
        let said = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, HeaderValue::try_from(value).unwrap());
            retry_after(&headers)
        };
        assert_eq!(said("3"), Some(Duration::from_secs(3)));
        assert_eq!(said("86400"), Some(Duration::from_secs(86_400)));
        assert_eq!(said("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert!(said("Fri, 31 Dec 9999 23:59:59 GMT") > Some(Duration::from_secs(1 << 32)));
        assert_eq!(said("soon"), None);
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
