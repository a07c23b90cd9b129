//! The model behind vLLM's surface, in real time.
//!
//! Every test and demo that needs a fleet runs one of these for each replica, so no GPU is needed and
//! a run can be repeated. Seven of them share one process and two cores with a gateway and a load
//! generator: one task drives an engine, sleeps until the model's next event and hands events out; a
//! request costs its tokenizing and one small write a token. What is measured here is *simulated*.
//!
//! ```text
//! http -> inject -> routes -> api (wish) -> generate -> driver (model, clock) -> progress -> stream | whole
//!                                                          |-> metrics
//!                                                          '-> kv_events -> zeromq PUB, ROUTER
//! ```
//!
//! Each module of `api` knows the bodies of one API and how it tells an answer; what they share is one
//! path. `inject` stands before all of it, where the configuration allows that: tests of routers make
//! the engine fail there, and read what became of every request.
//!
//! # As vLLM 0.32
//!
//! - Paths, JSON shapes, error bodies, metric names, KV events in map form with replay.
//! - Headers are sent at once, the first bytes of a stream with the first token; a stream of
//!   `/v1/responses` opens at once.
//! - Adapters are loaded and unloaded at run time, by vLLM's paths and by SageMaker's, and each has
//!   blocks of its own.
//! - `usage` always has `prompt_tokens_details.cached_tokens`, as with
//!   `--enable-prompt-tokens-details`; a stream has `usage` when `stream_options.include_usage` asks.
//! - Aborted requests count nowhere, and what they had computed stays cached.
//!
//! # Where it differs
//!
//! - The answer is words drawn from the prompt's hash and the engine's seed: the same prompt gets the
//!   same answer from every engine with that seed. It ends where `max_tokens` says (`length`); a chat
//!   that sets no limit is answered with [`CHAT_TOKENS_DEFAULT`] tokens (`stop`), a completion with
//!   [`COMPLETION_TOKENS_DEFAULT`] (`length`). Sampling parameters, `stop` and `ignore_eos` have no
//!   effect; `n` must be 1.
//! - Block hashes are a chain of xxh3 over tokens, model, adapter and salt; routers must not care.
//! - `/kv_event_sources` is `{}` without KV events. `/reset_prefix_cache` and the paths that load
//!   adapters are always there.
//! - One model does everything: it chats, completes and embeds. A vector is as meaningless as the words.
//! - `/v1/responses` keeps what it answered, within limits. `/v1/messages` leaves cached tokens out of
//!   `input_tokens` and says how many they were, as the API's owner documents it; vLLM does neither.

mod adapters;
mod api;
mod app;
mod clock;
mod config;
mod driver;
mod error;
mod fault;
mod generate;
mod handle;
mod http;
mod inject;
mod kv_events;
mod ledger;
mod line;
mod metrics;
mod reply;
mod routes;
mod sequence;
mod stream;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::model::Engine;
use crate::vocab::Vocab;

pub use api::embeddings::EMBEDDING_DIMENSIONS_DEFAULT;
pub use api::openai::{CHAT_TOKENS_DEFAULT, COMPLETION_TOKENS_DEFAULT};
pub use config::{AdapterConfig, EngineConfig, KvEventsConfig, StartError};

use adapters::Adapters;
use app::App;
use clock::Clock;
use driver::Driver;
use kv_events::{KvEventSource, KvEvents};

/// An engine that serves. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Running {
    addr: SocketAddr,
    kv_endpoint: Option<String>,
    kv_replay_endpoint: Option<String>,
    stop: watch::Sender<bool>,
    listener: JoinHandle<()>,
    driver: JoinHandle<()>,
}

/// Binds and serves until [`Running::shutdown`]. Needs a Tokio runtime.
///
/// # Errors
/// When the configuration makes no sense or an address cannot be bound.
pub async fn start(config: EngineConfig) -> Result<Running, StartError> {
    config.check()?;
    let adapters = Adapters::configured(&config)?;
    // Read before the first request, which would wait for it.
    let _ = Vocab::shared();
    let bind_error = |source| StartError::Listen { addr: config.listen, source };
    let listener = TcpListener::bind(config.listen).await.map_err(bind_error)?;
    let addr = listener.local_addr().map_err(bind_error)?;
    let clock = Clock::start(config.speed);
    let engine = Engine::new(config.preset);
    let kv_events = match &config.kv_events {
        Some(kv_config) => Some(KvEvents::start(kv_config, engine.preset().block_tokens).await?),
        None => None,
    };
    let kv_endpoint = kv_events.as_ref().map(|kv| kv.endpoint().to_owned());
    let kv_replay_endpoint = kv_events.as_ref().and_then(|kv| kv.replay_endpoint()).map(str::to_owned);
    let (stop, stopping) = watch::channel(false);
    let kv_sources = config
        .kv_events
        .as_ref()
        .zip(kv_endpoint.as_deref())
        .map(|(kv, endpoint)| (0, KvEventSource::new(kv, endpoint, kv_replay_endpoint.as_deref())));
    let (handle, driver) = Driver::start(engine, clock, kv_events, config.requests_max);
    let app = Arc::new(App::new(&config, clock, handle, adapters, kv_sources.into_iter().collect()));
    let listener = tokio::spawn(http::serve(listener, app, http::Limits::of(&config), stopping));
    tracing::info!(%addr, preset = config.preset.name, speed = config.speed, "simulated engine listens");
    Ok(Running { addr, kv_endpoint, kv_replay_endpoint, stop, listener, driver })
}

impl Running {
    /// The address that HTTP is served on, with the port that port 0 became.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The endpoint that KV events are published on, with its real port.
    #[must_use]
    pub fn kv_endpoint(&self) -> Option<&str> {
        self.kv_endpoint.as_deref()
    }

    /// The endpoint that KV events are replayed on, with its real port.
    #[must_use]
    pub fn kv_replay_endpoint(&self) -> Option<&str> {
        self.kv_replay_endpoint.as_deref()
    }

    /// Takes no more connections, lets requests finish for at most
    /// [`shutdown_ms_max`](EngineConfig::shutdown_ms_max), then ends everything.
    pub async fn shutdown(self) {
        self.stop.send_replace(true);
        // A task that panicked has said so; there is nothing left of it to stop.
        let _ = self.listener.await;
        let _ = self.driver.await;
    }
}
