//! `kvroute engine`: a simulated engine behind vLLM's HTTP surface.

use std::net::SocketAddr;

use anyhow::Context;
use kvroute_engine::model::Preset;
use kvroute_engine::server::{self, AdapterConfig, EngineConfig, KvEventsConfig};
use tokio::signal::unix::{SignalKind, signal};

use crate::{Failure, runtime};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kvroute engine --listen 127.0.0.1:8000 --model demo\n  \
                        kvroute engine --listen 127.0.0.1:8001 --model demo --kv-events 'tcp://*:5557' --kv-replay 'tcp://*:5558'\n  \
                        kvroute engine --lora support --lora sales=/adapters/sales --max-loras 2\n\n\
                        All its latencies are simulated.")]
pub(crate) struct Args {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// The model's name.
    #[arg(long, default_value = "simulated")]
    model: String,
    /// Model and hardware that are simulated.
    #[arg(long, default_value = Preset::default().name, value_parser = preset_names())]
    preset: String,
    /// Virtual seconds a real second.
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// Publish KV events at this ZeroMQ endpoint.
    #[arg(long, value_name = "ENDPOINT")]
    kv_events: Option<String>,
    /// Answer replays of KV events at this ZeroMQ endpoint.
    #[arg(long, value_name = "ENDPOINT", requires = "kv_events")]
    kv_replay: Option<String>,
    /// Topic of the KV events.
    #[arg(long, default_value = "", requires = "kv_events")]
    kv_topic: String,
    /// Load this LoRA adapter; may be given several times. More can be loaded while the engine runs.
    #[arg(long = "lora", value_name = "NAME[=PATH]", value_parser = adapter)]
    loras: Vec<AdapterConfig>,
    /// LoRA adapters that run at a time; requests for others wait.
    #[arg(long, value_name = "COUNT", default_value_t = Preset::default().adapters_max)]
    max_loras: u32,
    /// Let tests make the engine fail, by POST /inject, and read what became of every request, by
    /// GET /debug/requests. Not where strangers reach it.
    #[arg(long)]
    allow_injection: bool,
    /// Ask clients for this bearer token.
    #[arg(long, env = "KVROUTE_ENGINE_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Chooses the answers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// A name, and where its weights would be.
fn adapter(text: &str) -> Result<AdapterConfig, &'static str> {
    let (name, path) = match text.split_once('=') {
        Some((name, path)) => (name, path.to_owned()),
        None => (text, format!("simulated/{text}")),
    };
    if name.is_empty() || path.is_empty() {
        return Err("an adapter needs a name, and a path after =");
    }
    Ok(AdapterConfig { name: name.to_owned(), path })
}

pub(crate) fn preset_names() -> Vec<&'static str> {
    Preset::ALL.iter().map(|preset| preset.name).collect()
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let preset = Preset::by_name(&args.preset).context("no such preset")?;
    let kv_events = args.kv_events.map(|publish| KvEventsConfig {
        publish,
        replay: args.kv_replay,
        topic: args.kv_topic,
        ..KvEventsConfig::default()
    });
    let config = EngineConfig {
        listen: args.listen,
        model: args.model,
        preset: Preset { adapters_max: args.max_loras, ..preset },
        adapters: args.loras,
        allow_injection: args.allow_injection,
        speed: args.speed,
        kv_events,
        api_key: args.api_key,
        seed: args.seed,
        ..EngineConfig::default()
    };
    runtime().context("cannot start")?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let engine = server::start(config).await?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        engine.shutdown().await;
        Ok(())
    })
}
