//! Where a replica (or a copy with an address of its own) is reached, and what it told about itself.

use std::sync::Arc;
use std::time::Instant;

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use kvroute_feeds::engine_metrics::EngineMetrics;
use parking_lot::Mutex;

use crate::config::{Api, Replica, ReplicaUrl};
use crate::telemetry::ReplicaLabels;

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
    /// The replica's id, for the response header.
    pub(crate) replica: HeaderValue,
    /// Its own key, if it wants one.
    pub(crate) authorization: Option<HeaderValue>,
    /// What the engine there last told. Shared between snapshots.
    pub(crate) engine: Arc<EngineReport>,
    authority: Authority,
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
        replica: &Replica,
        url: &ReplicaUrl,
        engine: Arc<EngineReport>,
    ) -> Self {
        let authorization = replica.api_key.as_ref().map(|key| {
            let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose()));
            let mut bearer = bearer.expect("the configuration admits only keys that fit a header");
            bearer.set_sensitive(true);
            bearer
        });
        Self {
            labels,
            url: url.clone(),
            api: replica.api,
            keeps_sessions: replica.stateful_sessions,
            replica: HeaderValue::try_from(replica.id.as_str()).expect("ids are visible ASCII"),
            authorization,
            engine,
            authority: Authority::try_from(url.authority()).expect("a checked host and port make an authority"),
        }
    }

    /// Whether requests to the two are alike in everything.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.url, self.api, self.keeps_sessions, &self.replica, &self.authorization)
            == (&other.url, other.api, other.keeps_sessions, &other.replica, &other.authorization)
    }

    /// The address of `path` there, or `None` if the two do not make a URI.
    pub(crate) fn uri(&self, path: &PathAndQuery) -> Option<Uri> {
        let path = match self.url.base.as_str() {
            "" => path.clone(),
            base => PathAndQuery::try_from(format!("{base}{path}")).ok()?,
        };
        Uri::builder().scheme(Scheme::HTTP).authority(self.authority.clone()).path_and_query(path).build().ok()
    }
}
