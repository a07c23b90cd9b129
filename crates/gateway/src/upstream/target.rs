//! Where a replica (or a copy with an address of its own) is reached, and what it told about itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderValue, Method, Response, header};
use kvroute_core::fleet::EngineId;
use kvroute_feeds::engine_metrics::EngineMetrics;
use parking_lot::Mutex;
use smallvec::smallvec;

use super::Answer;
use super::body::Pieces;
use super::origin::{Origin, Origins, SendError};
use super::outgoing::{Headers, Outgoing};

use crate::config::{Api, Replica, ReplicaUrl};
use crate::telemetry::{ReplicaLabels, Series};

/// An address with everything that each request to it needs, made once.
#[derive(Debug)]
pub(crate) struct Target {
    /// As configured.
    pub(crate) url: ReplicaUrl,
    /// Which API it speaks.
    pub(crate) api: Api,
    /// Whether it keeps SageMaker's stateful sessions.
    pub(crate) keeps_sessions: bool,
    /// Its place in the fleet, as metrics name it.
    pub(crate) labels: ReplicaLabels,
    /// Where what becomes of its requests is counted.
    pub(crate) series: Series,
    /// The replica's id, for the response header.
    pub(crate) replica: HeaderValue,
    /// Its own key, if it wants one.
    pub(crate) authorization: Option<HeaderValue>,
    /// The engine there, as what it keeps is remembered by.
    pub(crate) engine_id: EngineId,
    /// What the engine there last told. Shared between snapshots.
    pub(crate) engine: Arc<EngineReport>,
    /// The connections there.
    origin: Arc<Origin>,
}

/// What an engine last told about itself, and when.
#[derive(Debug, Default)]
pub(crate) struct EngineReport(Mutex<Option<(Instant, EngineMetrics)>>);

impl EngineReport {
    /// The last report, if there was one and scraping has not failed since.
    pub(crate) fn get(&self) -> Option<(Instant, EngineMetrics)> {
        *self.0.lock()
    }

    /// Replaces the report; gives the one before.
    pub(crate) fn set(&self, report: Option<(Instant, EngineMetrics)>) -> Option<(Instant, EngineMetrics)> {
        std::mem::replace(&mut *self.0.lock(), report)
    }
}

impl Target {
    /// The target of a replica at `url`, which is its own or that of one of its copies.
    pub(crate) fn of_replica(
        labels: ReplicaLabels,
        series: Series,
        replica: &Replica,
        url: &ReplicaUrl,
        engine_id: EngineId,
        engine: Arc<EngineReport>,
        origins: &Origins,
    ) -> Self {
        let authorization = replica.api_key.as_ref().map(|key| {
            let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose()));
            let mut bearer = bearer.expect("the configuration admits only keys that fit a header");
            bearer.set_sensitive(true);
            bearer
        });
        Self {
            labels,
            series,
            url: url.clone(),
            api: replica.api,
            keeps_sessions: replica.stateful_sessions,
            replica: HeaderValue::try_from(replica.id.as_str()).expect("ids are visible ASCII"),
            authorization,
            engine_id,
            engine,
            origin: origins.at(url, replica.http2),
        }
    }

    /// Whether requests to the two are alike in everything.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.origin, &other.origin)
            && (&self.url, self.api, self.keeps_sessions, &self.replica, &self.authorization)
                == (&other.url, other.api, other.keeps_sessions, &other.replica, &other.authorization)
    }

    /// Asks for `path` on behalf of the gateway itself.
    pub(crate) async fn get(&self, path: &str, timeout: Duration) -> Result<Response<Answer>, SendError> {
        let user_agent = HeaderValue::from_static("kvroute");
        let mut headers: Headers<'_> = smallvec![(&header::USER_AGENT, &user_agent)];
        headers.extend(self.authorization.as_ref().map(|key| (&header::AUTHORIZATION, key)));
        self.send(&Method::GET, path, headers, Pieces::default(), timeout).await
    }

    /// Sends a request to `path`, below the base path; gives the answer's head within `first_byte`.
    pub(crate) async fn send<'a>(
        &'a self,
        method: &'a Method,
        path: &'a str,
        headers: Headers<'a>,
        body: Pieces,
        first_byte: Duration,
    ) -> Result<Response<Answer>, SendError> {
        let request = Outgoing { method, base: &self.url.base, path, headers, body };
        self.origin.send(request, first_byte).await
    }
}
