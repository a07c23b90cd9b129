//! A gateway in this process, on ports of its own.

use std::net::SocketAddr;

use http::Method;
use kvroute_gateway::config::{self, Config};
use kvroute_gateway::server::Running;
use serde_json::Value;

use super::client::Streaming;
use super::{Answer, Call, Page, Upstream, get, post, request, streamed_chat, until};

/// A gateway that serves.
pub(crate) struct Gateway(Running);

impl Gateway {
    /// A gateway with these settings. Where they say nothing of it, replicas are checked once and not again, and engines'
    /// metrics are not read, so that upstreams see only what a test sends.
    pub(crate) async fn start(settings: &str) -> Self {
        Self(Running::start(config(settings)).await.unwrap())
    }

    /// A gateway before these upstreams: replicas `r0`, `r1` and so on.
    pub(crate) async fn before(upstreams: &[&Upstream]) -> Self {
        Self::start(&replicas(upstreams)).await
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address()
    }

    pub(crate) fn admin_address(&self) -> SocketAddr {
        self.0.admin_address()
    }

    /// Puts these settings in force.
    pub(crate) fn apply(&self, settings: &str) {
        self.0.gateway().apply(config(settings));
    }

    /// Stops; see [`Running::drain`].
    pub(crate) async fn drain(self) -> bool {
        self.0.drain().await
    }

    /// The answer to a chat request.
    pub(crate) async fn chat(&self, text: &str) -> Answer {
        post(self.address(), "/v1/chat/completions", super::chat(text)).await
    }

    /// A chat request on its way, its answer not read yet.
    pub(crate) async fn ask(&self, text: &str) -> Call {
        let json = [("content-type", "application/json")];
        Call::start(self.address(), request(Method::POST, "/v1/chat/completions", &json, super::chat(text))).await
    }

    /// A streamed answer to a chat request, of which the head has come.
    pub(crate) async fn stream(&self, text: &str) -> Streaming {
        let json = [("content-type", "application/json")];
        let sent = request(Method::POST, "/v1/chat/completions", &json, streamed_chat(text));
        Call::start(self.address(), sent).await.streaming().await
    }

    /// Sends `POST /api/v1/replicas/` and the rest of the path to the admin port.
    pub(crate) async fn admin(&self, rest: &str) -> Answer {
        post(self.admin_address(), &format!("/api/v1/replicas/{rest}"), "").await
    }

    /// The metrics page, from the admin port.
    pub(crate) async fn metrics(&self) -> Page {
        Page(get(self.admin_address(), "/metrics").await.text().to_owned())
    }

    /// A member of a replica's status.
    pub(crate) async fn status(&self, id: &str, member: &str) -> Value {
        let replicas = get(self.admin_address(), "/api/v1/replicas").await.json();
        let replica = replicas.as_array().unwrap().iter().find(|replica| replica["id"] == id);
        replica.unwrap_or_else(|| panic!("no {id}: {replicas}"))[member].clone()
    }

    /// Waits until a replica is in this state.
    pub(crate) async fn becomes(&self, id: &str, state: &str) {
        until(&format!("{id} is {state}"), async || self.status(id, "state").await == state).await;
    }

    /// What is in flight on a replica, as the API and the metrics agree to tell.
    pub(crate) async fn in_flight(&self, id: &str) -> u64 {
        let told = self.status(id, "in_flight").await.as_u64().unwrap();
        let label = format!("replica=\"{id}\"");
        let measured = self.metrics().await.sum("kvroute_replica_in_flight_requests", &[&label]);
        // Two looks at a moving number: where they differ, a third decides.
        if measured == told as f64 { told } else { self.status(id, "in_flight").await.as_u64().unwrap() }
    }

    /// Waits until nothing is in flight and no prefill is pending anywhere, in the API and in the metrics.
    pub(crate) async fn is_at_rest(&self) {
        until("all counters are 0", async || {
            let replicas = get(self.admin_address(), "/api/v1/replicas").await.json();
            let busy = |replica: &Value| replica["in_flight"] != 0 || replica["pending_prefill_tokens"] != 0;
            let page = self.metrics().await;
            !replicas.as_array().unwrap().iter().any(busy)
                && page.sum("kvroute_replica_in_flight_requests", &[]) == 0.0
                && page.sum("kvroute_replica_pending_prefill_tokens", &[]) == 0.0
        })
        .await;
    }

    /// Waits until that many requests have ended with `outcome`.
    pub(crate) async fn has_ended(&self, outcome: &str, count: usize) {
        let label = format!("outcome=\"{outcome}\"");
        until(&label, async || self.metrics().await.sum("kvroute_requests_total", &[&label]) == count as f64).await;
    }
}

/// The setting `replicas:` for these upstreams.
pub(crate) fn replicas(upstreams: &[&Upstream]) -> String {
    let entry = |(i, upstream): (usize, &&Upstream)| format!("{{id: r{i}, url: {}}}", upstream.url());
    format!("replicas: [{}]\n", upstreams.iter().enumerate().map(entry).collect::<Vec<_>>().join(", "))
}

fn config(settings: &str) -> Config {
    let mut text = "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n".to_owned();
    let quiet =
        [("health:", "health: {interval_ms: 3600000}\n"), ("metrics_scrape:", "metrics_scrape: {enabled: false}\n")];
    quiet.iter().filter(|(key, _)| !settings.contains(key)).for_each(|(_, setting)| text.push_str(setting));
    text.push_str(settings);
    config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}\n{text}")).0
}
