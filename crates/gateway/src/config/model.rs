//! What a configuration says, complete and checked: every default filled in, every reference resolved.
//!
//! A value of [`Config`] obtained from this module's readers keeps these promises, so that nothing behind it needs to
//! check again: every endpoint has a variant and every variant a replica; at least one variant of an endpoint has a
//! positive weight; names and ids are unique where they must be; a copy, adapter or component names only replicas,
//! components and variants that exist, and the copies of a component are all in one variant; every number is in its
//! documented range.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use http::HeaderName;
use kvroute_core::abilities::Abilities;
use kvroute_core::routing::{
    CONCURRENCY_THRESHOLD_DEFAULT, NativePrefixSource, PREFIX_LENGTH_DEFAULT, PrefixAware, Strategy,
};

use super::replica_url::ReplicaUrl;
use super::secret::Secret;

/// The gateway's whole configuration. `Debug` hides the secrets and the hash seed.
#[derive(Clone, PartialEq)]
pub struct Config {
    /// Where clients connect. An IP address with a port; port 0 takes a free one. Default 0.0.0.0:8780. A change needs
    /// a restart.
    pub listen: SocketAddr,
    /// Where the admin API and the metrics are served, without authentication. Default 127.0.0.1:8781. A change needs
    /// a restart.
    pub admin: SocketAddr,
    /// Seed of the prefix hashes. Gateways in front of one fleet must share it to agree; keep it secret, so that nobody
    /// outside can craft colliding prompts. May be written as `${NAME}` or `${file:/path}`. Default 0.
    pub hash_seed: u64,
    /// How lines begin that are left out of keys where they stand at the beginning of a prompt; at most 16, each 1 to 256
    /// characters. Default empty.
    pub key_skip_lines: Vec<String>,
    /// Sizes.
    pub limits: Limits,
    /// Times of the request path.
    pub timeouts: Timeouts,
    /// TLS towards replicas whose URL begins with `https`.
    pub replica_tls: ReplicaTls,
    /// Active health checks.
    pub health: Health,
    /// Scraping of the engines' metrics.
    pub metrics_scrape: Scrape,
    /// Pages of which origins may use the data port.
    pub cors: Cors,
    /// At least one; names are unique, ignoring case.
    pub endpoints: Vec<Endpoint>,
}

/// How large things may get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest request body, bytes; a larger one is answered with 413. 1024 to 1 GiB, default 32 MiB.
    pub body_bytes_max: usize,
    /// What the bodies of all requests may take together, bytes: they are in memory until they are answered. Who comes
    /// above is answered with 503. `body_bytes_max` to 1 TiB, default 2 GiB.
    pub bodies_bytes_max: usize,
    /// Connections of clients at a time; above, the next waits until one is closed. 1 to 1000000, default 16384.
    pub connections_max: usize,
    /// Largest request head, bytes. 8 KiB (the least that the HTTP server works with) to 1 MiB, default 64 KiB. A change
    /// needs a restart.
    pub header_bytes_max: usize,
    /// Largest request body once decompressed, bytes; a larger one is answered with 413. 1024 to 1 GiB, default 64 MiB.
    pub decompressed_bytes_max: usize,
    /// How much of a prompt's text is hashed to tell which replica holds how much of it, bytes. What the metrics say of
    /// hits is judged by this beginning; keys are made of `prefix_length` whatever this is. 1024 to 64 MiB, default 8
    /// KiB: hashing the whole of long prompts would cost more than all else that is done for a request.
    pub prompt_bytes_max: usize,
}

/// TLS towards replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaTls {
    /// PEM file with certificates that are trusted besides the system's. Default none.
    pub ca_file: Option<String>,
    /// What it holds, DER.
    pub certificates: Vec<Vec<u8>>,
}

/// How long things may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect to a replica. 1 to 600000 ms, default 2000.
    pub connect_ms: u64,
    /// From sending a request to the first byte of the answer. An engine that does not stream answers only when it is
    /// done, so this bounds a whole generation. 1 to 86400000 ms, default 300000.
    pub first_byte_ms: u64,
    /// Longest silence of a replica in the middle of its answer. 1 to 86400000 ms, default 300000.
    pub answer_idle_ms: u64,
    /// Longest silence of a client in the middle of its request's body. 1 to 3600000 ms, default 30000.
    pub body_idle_ms: u64,
    /// How long a client may take nothing of an answer that waits for it. 1 to 86400000 ms, default 300000.
    pub client_stall_ms: u64,
    /// How long a client's connection is kept without a request, and how long a request's head may take. Above the idle
    /// time of load balancers in front (often 60000), which would otherwise send a request as it is closed. 1 to 3600000
    /// ms, default 75000. A change needs a restart.
    pub client_idle_ms: u64,
    /// How long an unused connection to a replica is kept. 0 to 3600000 ms, default 4000: below the 5000 after which
    /// engines close theirs, since a request sent in that moment is lost.
    pub pool_idle_ms: u64,
    /// From the signal to stop until connections are refused, while readiness already says no. 0 to 3600000 ms,
    /// default 0.
    pub drain_delay_ms: u64,
    /// How long running requests may go on after that. 0 to 86400000 ms, default 600000.
    pub drain_ms: u64,
}

/// Active health checks of every replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Between two checks of a replica. 10 to 3600000 ms, default 2000.
    pub interval_ms: u64,
    /// For one check. 1 to 600000 ms, default 5000: engines answer late while a long prefill runs.
    pub timeout_ms: u64,
    /// Failed checks in a row after which a replica is down. 1 to 1000, default 3.
    pub failures: u32,
    /// Good checks in a row after which it is back. 1 to 1000, default 1.
    pub successes: u32,
    /// Path to ask, `/...`. Default by API, see [`Health::path_for`].
    pub path: Option<String>,
}

/// Scraping of the engines' Prometheus metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrape {
    /// Whether it happens. Default true.
    pub enabled: bool,
    /// Between two scrapes of a replica, and between two looks at its model list. 100 to 3600000 ms, default 5000.
    pub interval_ms: u64,
    /// For one scrape. 1 to 600000 ms, default 2000.
    pub timeout_ms: u64,
}

/// What browsers are told of pages of other origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Origins in lower case, or `*` for all. Default empty: browsers are told nothing, and what an engine tells them
    /// passes.
    pub allowed_origins: Vec<String>,
    /// Headers that pages may send; absent: whatever they ask for.
    pub allowed_headers: Option<Vec<HeaderName>>,
    /// How long browsers may remember what they were told before a request. 0 to 86400 s, default 600.
    pub max_age_s: u64,
}

/// A named model service.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// SageMaker's rule for names: 1 to 63 letters, digits and hyphens, no hyphen at either end.
    pub name: String,
    /// Model names that select this endpoint on the OpenAI API; empty: any name. Of several endpoints that list a name,
    /// the first in the file is meant. Each 1 to 256 characters.
    pub models: Vec<String>,
    /// What clients may call a model, with what the replicas call it. The `model` of a request's body is changed. An
    /// alias selects the endpoint as a name in `models` does; no endpoint has it as a model. Default empty.
    pub aliases: BTreeMap<String, String>,
    /// Whether the client's `authorization` header reaches the replicas. A replica's `api_key` goes before it. Default
    /// false.
    pub forward_authorization: bool,
    /// Whether replicas get compressed request bodies decompressed, for engines that read plain bodies only. The plain
    /// bytes are then in memory until the request is answered. Default false.
    pub decompress_requests: bool,
    /// What variants without a `routing` of their own use.
    pub routing: Routing,
    /// At least one; names are unique.
    pub variants: Vec<Variant>,
    /// Inference components; may be empty. Names are unique.
    pub components: Vec<Component>,
    /// LoRA adapters; may be empty. Names are unique.
    pub adapters: Vec<Adapter>,
    /// Whether the replicas' model lists are read, each `metrics_scrape.interval_ms`, to route by the adapters and the
    /// context lengths in them. Default false.
    pub discover_models: bool,
}

/// One fleet of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// SageMaker's rule for names, see [`Endpoint::name`]. Default `main`.
    pub name: String,
    /// Share of the requests that do not name a variant, relative to the other variants. 0 to 1000000, default 1; with
    /// 0 only requests that name it come here.
    pub weight: f64,
    /// The endpoint's routing with this variant's changes.
    pub routing: Routing,
    /// At least one.
    pub replicas: Vec<Replica>,
}

/// One engine server.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// Name that stays the same when the list is reordered: in metrics, headers and the hash order. Unique within the
    /// endpoint. 1 to 128 visible ASCII characters, default `host:port`.
    pub id: String,
    /// Where it listens.
    pub url: ReplicaUrl,
    /// Whether it is asked over HTTP/2: by prior knowledge, or as TLS negotiates. Default false.
    pub http2: bool,
    /// Relative capacity. Above 0, up to 1000000, default 1.
    pub weight: f64,
    /// Which API it speaks. Default `openai`.
    pub api: Api,
    /// Whether its container keeps SageMaker's stateful sessions. Only then does it get the session header, which others
    /// refuse. Default false.
    pub stateful_sessions: bool,
    /// Sent as a bearer token with every request to this replica.
    pub api_key: Option<Secret>,
    /// Free text pairs for people and dashboards. Default empty.
    pub labels: BTreeMap<String, String>,
    /// What it can do, its copies included. `role`: `both` (default), `prefill` or `decode`. `modalities`: what it reads,
    /// of `text`, `image` and `audio`; default anything. `context_tokens_max`: prompt and answer together, 1 to 2^32;
    /// default what its model list says, see [`Endpoint::discover_models`], else unknown.
    pub abilities: Abilities,
}

/// Which HTTP API a replica speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Api {
    /// `/v1/...`, as vLLM, SGLang, TensorRT-LLM and llama.cpp serve.
    #[default]
    OpenAi,
    /// SageMaker's container contract: `/invocations` and `/ping`.
    SageMaker,
}

/// An inference component: one model placed on some replicas, one copy or several on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// SageMaker's rule for names, see [`Endpoint::name`].
    pub name: String,
    /// Variant to which all its copies belong; absent: that of the first copy.
    pub variant: Option<String>,
    /// One entry a copy, at least one, all in one variant; copies may share a replica.
    pub copies: Vec<Copy>,
}

/// One copy of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Id of the replica that holds it.
    pub replica: String,
    /// Where it listens, if it has an address of its own; else the replica's.
    pub url: Option<ReplicaUrl>,
}

/// A LoRA adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Name under which the engines have it loaded. 1 to 256 characters.
    pub name: String,
    /// Inference component name under which SageMaker clients invoke it, see [`Endpoint::name`]. Unique among the
    /// components too.
    pub component: Option<String>,
    /// Component whose copies carry it.
    pub base: Option<String>,
    /// Ids of the replicas that carry it; absent: all (of `base`, if there is one). Not empty.
    pub replicas: Option<Vec<String>>,
}

/// How a variant chooses a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Default `prefix_aware`. SageMaker's spellings are understood.
    pub strategy: Strategy,
    /// How much of the prompt makes the key: characters of message text, or bytes of a native body. 1024 to 65536,
    /// default 4096.
    pub prefix_length: u32,
    /// Requests in flight from this gateway at which a replica is passed over. 1 to 1024, default 32.
    pub concurrency_threshold: u32,
    /// What the key of a native SageMaker request is made of. Default `body_bytes`.
    pub native_prefix_source: NativePrefixSource,
    /// Header with the tenant id that is part of the key; the same for all variants of an endpoint. Default `x-amzn-sagemaker-prefix-aware-id`.
    pub tenant_header: HeaderName,
    /// Header with the session id; the same for all variants of an endpoint. Default `x-session-id`.
    pub session_header: HeaderName,
}

/// Name of the endpoint that the short form makes.
pub(super) const ENDPOINT_NAME_DEFAULT: &str = "default";
/// Name of the only variant.
pub(super) const VARIANT_NAME_DEFAULT: &str = "main";

impl Config {
    pub(super) const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8780);
    pub(super) const ADMIN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8781);
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            listen,
            admin,
            hash_seed: _,
            key_skip_lines,
            limits,
            timeouts,
            replica_tls,
            health,
            metrics_scrape,
            cors,
            endpoints,
        } = self;
        f.debug_struct("Config")
            .field("listen", listen)
            .field("admin", admin)
            .field("hash_seed", &format_args!("***"))
            .field("key_skip_lines", key_skip_lines)
            .field("limits", limits)
            .field("timeouts", timeouts)
            .field("replica_tls", replica_tls)
            .field("health", health)
            .field("metrics_scrape", metrics_scrape)
            .field("cors", cors)
            .field("endpoints", endpoints)
            .finish()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 32 << 20,
            bodies_bytes_max: 2 << 30,
            connections_max: 16_384,
            header_bytes_max: 64 << 10,
            decompressed_bytes_max: 64 << 20,
            prompt_bytes_max: 8 << 10,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect_ms: 2_000,
            first_byte_ms: 300_000,
            answer_idle_ms: 300_000,
            body_idle_ms: 30_000,
            client_stall_ms: 300_000,
            client_idle_ms: 75_000,
            pool_idle_ms: 4_000,
            drain_delay_ms: 0,
            drain_ms: 600_000,
        }
    }
}

impl Health {
    /// The path to ask a replica that speaks `api`: the configured one, else `/health` or SageMaker's `/ping`.
    pub fn path_for(&self, api: Api) -> &str {
        match (&self.path, api) {
            (Some(path), _) => path,
            (None, Api::OpenAi) => "/health",
            (None, Api::SageMaker) => "/ping",
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self { interval_ms: 2_000, timeout_ms: 5_000, failures: 3, successes: 1, path: None }
    }
}

impl Default for Scrape {
    fn default() -> Self {
        Self { enabled: true, interval_ms: 5_000, timeout_ms: 2_000 }
    }
}

impl Default for Cors {
    fn default() -> Self {
        Self { allowed_origins: Vec::new(), allowed_headers: None, max_age_s: 600 }
    }
}

impl Cors {
    /// Whether every origin is allowed.
    pub(crate) fn allows_any(&self) -> bool {
        self.allowed_origins.iter().any(|origin| origin == "*")
    }
}

impl Api {
    /// Every API, in the order in which they are documented.
    pub const ALL: [Api; 2] = [Api::OpenAi, Api::SageMaker];

    /// The name users write.
    pub fn as_str(self) -> &'static str {
        match self {
            Api::OpenAi => "openai",
            Api::SageMaker => "sagemaker",
        }
    }
}

impl Routing {
    /// The part of it that the decision code needs.
    pub fn decision(&self) -> kvroute_core::routing::Routing {
        kvroute_core::routing::Routing {
            strategy: self.strategy,
            prefix_aware: PrefixAware {
                prefix_length: self.prefix_length,
                concurrency_threshold: self.concurrency_threshold,
            },
            native_prefix_source: self.native_prefix_source,
        }
    }

    /// Whether the strategy looks at the prompt, so that the prefix settings have an effect.
    pub(super) fn uses_prefix(&self) -> bool {
        match self.strategy {
            Strategy::PrefixAware | Strategy::Session => true,
            Strategy::Random | Strategy::RoundRobin | Strategy::LeastOutstanding => false,
        }
    }
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            strategy: Strategy::PrefixAware,
            prefix_length: PREFIX_LENGTH_DEFAULT,
            concurrency_threshold: CONCURRENCY_THRESHOLD_DEFAULT,
            native_prefix_source: NativePrefixSource::default(),
            tenant_header: HeaderName::from_static("x-amzn-sagemaker-prefix-aware-id"),
            session_header: HeaderName::from_static("x-session-id"),
        }
    }
}
