//! Every metric's name, kind, labels and meaning, in one place. `docs/operate/metrics.md` is generated from this table,
//! and a test holds that a live page has these metrics and no others.

/// A metric family.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name on the page, with its unit and, for counters, `_total`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it says, in one sentence.
    pub help: &'static str,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

impl Kind {
    /// The name in Prometheus' text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric =
                Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help };
        )*
        /// All of them, in the order of the documentation.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    REQUESTS: Counter "kvroute_requests_total" ["endpoint", "variant", "strategy", "reason", "outcome", "code"]
        "Requests that were given a place on a replica, by why it was that one, how they ended and the status the client got (0 if it left before).";
    CLIENT_CONNECTIONS: Gauge "kvroute_client_connections" []
        "Connections of clients that are open.";
    BODIES: Gauge "kvroute_request_bodies_bytes" []
        "What the bodies of all requests that are not answered yet take in memory.";
    REFUSED: Counter "kvroute_refused_requests_total" ["code", "kind"]
        "Requests that were answered without a replica having been asked, by why.";
    RETRIES: Counter "kvroute_retries_total" ["endpoint", "variant", "replica"]
        "Attempts at a replica that could not be reached or refused, after which another was asked.";
    TTFT: Histogram "kvroute_time_to_first_token_seconds" ["endpoint", "variant", "strategy"]
        "From the request's arrival to the first content of its streamed answer.";
    INTER_TOKEN: Histogram "kvroute_inter_token_latency_seconds" ["endpoint", "variant"]
        "Between two pieces of content of a streamed answer.";
    DURATION: Histogram "kvroute_request_duration_seconds" ["endpoint", "variant"]
        "From the request's arrival to the end of its answer.";
    DECISION: Histogram "kvroute_decision_duration_seconds" ["strategy"]
        "To choose a replica for a request that has been read.";
    PROMPT_TOKENS: Counter "kvroute_prompt_tokens_total" ["endpoint", "variant", "usage"]
        "Prompt tokens of answered requests: as the engine reported them, or estimated from the text.";
    PREFIX_TOKENS: Counter "kvroute_prefix_tokens_total" ["endpoint", "variant", "usage", "stage"]
        "Of those, tokens that some replica held by our belief (available), that the chosen one held by our belief (captured), and that the engine says it reused (delivered).";
    SPILLS: Counter "kvroute_spills_total" ["endpoint", "variant", "replica", "reason"]
        "Requests that left their home replica (the label) because of load.";
    UNSCANNED: Counter "kvroute_unscanned_bodies_total" ["reason"]
        "Request bodies whose prompt could not be read, and which were not placed by their text.";
    IN_FLIGHT: Gauge "kvroute_replica_in_flight_requests" ["endpoint", "variant", "replica"]
        "Requests on the replica now.";
    PENDING_PREFILL: Gauge "kvroute_replica_pending_prefill_tokens" ["endpoint", "variant", "replica"]
        "Estimated uncached prompt tokens on the replica that have not led to a first token.";
    ROUTED: Counter "kvroute_replica_routed_requests_total" ["endpoint", "variant", "replica"]
        "Requests placed on the replica, retries included.";
    SHARE: Gauge "kvroute_replica_share_ratio" ["endpoint", "variant", "replica"]
        "The replica's share of the variant's requests so far.";
    IDEAL_SHARE: Gauge "kvroute_replica_ideal_share_ratio" ["endpoint", "variant", "replica"]
        "The share its weight would give it.";
    READY: Gauge "kvroute_replica_ready" ["endpoint", "variant", "replica"]
        "Whether the replica takes requests (1) or not (0).";
    CACHE_BLOCKS: Gauge "kvroute_replica_predicted_blocks" ["endpoint", "variant", "replica"]
        "Prompt blocks of 512 bytes that the replica is believed to hold.";
    ENGINE_UP: Gauge "kvroute_engine_metrics_up" ["endpoint", "variant", "replica"]
        "Whether the engine's own metrics could be read last time.";
    ENGINE_RUNNING: Gauge "kvroute_engine_running_requests" ["endpoint", "variant", "replica"]
        "Requests the engine says it is processing.";
    ENGINE_WAITING: Gauge "kvroute_engine_waiting_requests" ["endpoint", "variant", "replica"]
        "Requests the engine says are waiting.";
    ENGINE_KV_USAGE: Gauge "kvroute_engine_kv_cache_usage_ratio" ["endpoint", "variant", "replica"]
        "Share of the engine's KV cache in use by running requests.";
    ENGINE_KV_TOKENS: Gauge "kvroute_engine_kv_cache_tokens" ["endpoint", "variant", "replica"]
        "Tokens the engine's KV cache holds.";
    RELOAD_OK: Gauge "kvroute_config_last_reload_successful" []
        "Whether the last attempt to load the configuration succeeded.";
    RELOAD_TIME: Gauge "kvroute_config_last_reload_success_timestamp_seconds" []
        "When the configuration in force was loaded, in Unix time.";
    BUILD: Gauge "kvroute_build_info" ["version"]
        "Always 1; the version is in the label.";
}
