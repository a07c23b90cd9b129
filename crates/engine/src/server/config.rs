//! What an engine is started with.

use std::net::SocketAddr;

use crate::model::Preset;

/// One simulated engine. `..EngineConfig::default()` fills in what does not matter.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where HTTP is served; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The name that requests call the model by.
    pub model: String,
    /// Speed, memory and limits of the engine.
    pub preset: Preset,
    /// Virtual seconds a real second, above 0. Latencies shrink by it; so do those in the metrics,
    /// which are what a client sees.
    pub speed: f64,
    /// Whether and where KV events are published.
    pub kv_events: Option<KvEventsConfig>,
    /// Adapters that are loaded from the start; more can be loaded by HTTP. How many run at a time is
    /// for [`Preset::adapters_max`] to say.
    pub adapters: Vec<AdapterConfig>,
    /// Whether `/inject` and `/debug/requests` are there. Whoever reaches them can stop the engine.
    pub allow_injection: bool,
    /// If set, all paths that ask for work or change what is there need `authorization: Bearer KEY`.
    pub api_key: Option<String>,
    /// Chooses the answers. Replicas of one model have the same.
    pub seed: u64,
    /// Requests that are answered at a time; more get 503.
    pub requests_max: usize,
    /// Connections at a time; more wait to be accepted.
    pub connections_max: usize,
    /// Size of a request's body; more gets 413.
    pub body_bytes_max: usize,
    /// Time for a request's header, and again for its body, to arrive.
    pub read_ms_max: u64,
    /// Time that requests have to finish when the engine is shut down.
    pub shutdown_ms_max: u64,
}

/// A LoRA adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterConfig {
    /// The name that requests call it by: not the model's, and no other adapter's.
    pub name: String,
    /// Where its weights would be. Not read.
    pub path: String,
}

/// Where KV events go, in the words of vLLM's `--kv-events-config`.
#[derive(Clone, Debug)]
pub struct KvEventsConfig {
    /// Endpoint of the PUB socket, such as `tcp://*:5557`. Always bound, also where vLLM would
    /// connect; port 0 takes a free one.
    pub publish: String,
    /// Endpoint of the ROUTER socket that answers replay requests.
    pub replay: Option<String>,
    /// First frame of every message.
    pub topic: String,
    /// Batches kept for replay.
    pub buffer_steps: usize,
    /// Size of all batches kept for replay: the oldest go first. vLLM has no such limit.
    pub buffer_bytes_max: usize,
}

/// Why an engine could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The HTTP address cannot be bound.
    #[error("cannot listen on {addr}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// A KV event endpoint cannot be bound.
    #[error("cannot bind kv event endpoint {endpoint}")]
    KvEndpoint {
        /// The endpoint.
        endpoint: String,
        /// What ZeroMQ says.
        source: zeromq::ZmqError,
    },
    /// An adapter cannot be loaded; says why.
    #[error("{0}")]
    Adapter(String),
    /// A setting has a value without meaning; says which.
    #[error("{0}")]
    Setting(&'static str),
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8000)),
            model: "simulated".to_owned(),
            preset: Preset::default(),
            speed: 1.0,
            kv_events: None,
            adapters: Vec::new(),
            allow_injection: false,
            api_key: None,
            seed: 0,
            requests_max: 4096,
            connections_max: 4096,
            body_bytes_max: 16 << 20,
            read_ms_max: 30_000,
            shutdown_ms_max: 10_000,
        }
    }
}

impl Default for KvEventsConfig {
    fn default() -> Self {
        Self {
            publish: "tcp://*:5557".to_owned(),
            replay: None,
            topic: String::new(),
            buffer_steps: 10_000,
            buffer_bytes_max: 64 << 20,
        }
    }
}

impl EngineConfig {
    /// Refuses what would make the engine stand still or wait for ever.
    pub(super) fn check(&self) -> Result<(), StartError> {
        // Beyond a million the clock's microseconds no longer tell events apart.
        if !(self.speed > 0.0 && self.speed <= 1e6) {
            return Err(StartError::Setting("speed must be above 0 and at most 1,000,000"));
        }
        if self.requests_max == 0 || self.connections_max == 0 {
            return Err(StartError::Setting("requests_max and connections_max must be above 0"));
        }
        // The most that a semaphore can count, and more than any machine serves.
        if self.requests_max > 1 << 24 || self.connections_max > 1 << 24 {
            return Err(StartError::Setting("requests_max and connections_max must be at most 16,777,216"));
        }
        if self.model.is_empty() {
            return Err(StartError::Setting("model must have a name"));
        }
        Ok(())
    }
}
