//! What the handlers share.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::adapters::{Adapter, Adapters};
use super::api::responses::ResponseStore;
use super::clock::Clock;
use super::config::EngineConfig;
use super::error::ApiError;
use super::fault::Faults;
use super::handle::Handle;
use super::kv_events::KvEventSources;
use super::ledger::Ledger;
use super::sequence::{CacheOptions, Ending, SequenceSpec, mix};

/// See the module.
pub(super) struct App {
    /// The base model's name.
    pub(super) model: String,
    pub(super) seed: u64,
    pub(super) clock: Clock,
    pub(super) handle: Handle,
    pub(super) adapters: RwLock<Adapters>,
    pub(super) responses: Arc<ResponseStore>,
    pub(super) kv_sources: KvEventSources,
    pub(super) preset_name: &'static str,
    /// What `authorization` must say, if anything.
    pub(super) authorization: Option<String>,
    pub(super) body_bytes_max: usize,
    pub(super) read_ms_max: u64,
    /// Only where faults may be injected.
    pub(super) injection: Option<Injection>,
}

/// What tests of routers have in their hands.
pub(super) struct Injection {
    pub(super) faults: Mutex<Faults>,
    /// Tells when the faults are cleared.
    pub(super) cleared: Notify,
    pub(super) ledger: Ledger,
}

/// What a request is for: the base model, or an adapter of it.
pub(super) struct Target {
    adapter: Option<Arc<Adapter>>,
}

impl App {
    pub(super) fn new(
        config: &EngineConfig,
        clock: Clock,
        handle: Handle,
        adapters: Adapters,
        kv_sources: KvEventSources,
    ) -> Self {
        let injection = || Injection {
            faults: Mutex::new(Faults::new(config.seed)),
            cleared: Notify::new(),
            ledger: Ledger::default(),
        };
        Self {
            model: config.model.clone(),
            seed: config.seed,
            clock,
            handle,
            adapters: RwLock::new(adapters),
            responses: Arc::default(),
            kv_sources,
            preset_name: config.preset.name,
            authorization: config.api_key.as_ref().map(|key| format!("Bearer {key}")),
            body_bytes_max: config.body_bytes_max,
            read_ms_max: config.read_ms_max,
            injection: config.allow_injection.then(injection),
        }
    }

    /// What goes by that name. An absent or empty one is the base model.
    pub(super) fn target(&self, name: Option<&str>) -> Result<Target, ApiError> {
        match name {
            None | Some("") => Ok(Target { adapter: None }),
            Some(name) if name == self.model => Ok(Target { adapter: None }),
            Some(name) => match self.adapters.read().find(name) {
                Some(adapter) => Ok(Target { adapter: Some(Arc::clone(adapter)) }),
                None => Err(ApiError::NoModel(name.to_owned())),
            },
        }
    }

    /// Prompt and answer of one request, in tokens.
    pub(super) fn context_tokens_max(&self) -> u32 {
        self.handle.preset().context_tokens_max
    }

    /// A sequence without an answer.
    pub(super) fn spec(&self, target: &Target, prompt: Vec<u32>, cache: CacheOptions) -> SequenceSpec<'_> {
        SequenceSpec {
            prompt,
            answer_tokens: 0,
            ending: Ending::Stop,
            model: &self.model,
            adapter: target.adapter.clone(),
            cache,
            block_tokens: self.handle.preset().block_tokens,
            seed: self.seed,
        }
    }

    /// An id that no other request has, of this engine or of another that started at another time.
    pub(super) fn new_id(&self, prefix: &str, request: u64) -> String {
        let started = self.clock.started_unix().as_nanos() as u64;
        format!("{prefix}{:016x}", mix(started ^ mix(request)))
    }

    /// Unix time, in whole seconds.
    pub(super) fn unix_seconds(&self) -> u64 {
        self.clock.unix_seconds(self.clock.now()) as u64
    }
}

impl Target {
    /// What a client calls it.
    pub(super) fn name<'a>(&'a self, app: &'a App) -> &'a str {
        self.adapter.as_ref().map_or(&app.model, |adapter| &adapter.name)
    }
}
