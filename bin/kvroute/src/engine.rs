//! `kvroute engine`: a simulated engine behind vLLM's HTTP surface.

use std::net::SocketAddr;

use anyhow::Context;
use kvroute_engine::model::{Eviction, Preset};
use kvroute_engine::server::{self, AdapterConfig, EngineConfig, KvEventsConfig};
use tokio::signal::unix::{SignalKind, signal};

use crate::{Failure, print, runtime};

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
    #[arg(long, default_value = Preset::default().name, value_parser = preset)]
    preset: Preset,
    /// Print the presets, with their sources and how far they are off, and exit.
    #[arg(long)]
    list_presets: bool,
    /// Which cached blocks lose their room first: lru, as engines do it, or continuation, by an estimate of whether
    /// the prompt goes on.
    #[arg(long, value_name = "RULE", default_value = Eviction::default().as_str(), value_parser = eviction)]
    eviction: Eviction,
    /// Milliseconds from a request's arrival until the scheduler sees it [default: the preset's, 40].
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    overhead_ms: Option<f64>,
    /// Multiplies the time of prefill [default: 1].
    #[arg(long, value_name = "FACTOR", value_parser = milliseconds)]
    prefill_scale: Option<f64>,
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

/// The preset of this name, or which there are.
pub(crate) fn preset(name: &str) -> Result<Preset, String> {
    Preset::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name).collect();
        format!("the presets are {}; kvroute engine --list-presets says more", known.join(", "))
    })
}

fn eviction(name: &str) -> Result<Eviction, String> {
    match name.parse()? {
        Eviction::Belady => Err("belady has to know the requests to come, and this engine does not".to_owned()),
        known => Ok(known),
    }
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| "write a number, 0 or more".to_owned())
}

/// The presets as a table.
fn list_presets() {
    print!(
        "{:<29} {:<16} {:>6} {:>4} {:>10} {:>7}  {:>13} {:>13}  fitted to",
        "preset", "model", "GPUs", "", "KV tokens", "8k, ms", "prefill off", "decode off"
    );
    for preset in Preset::ALL {
        let Preset { name, model, gpu, gpus, weights, kv_tokens, source, fit, .. } = preset;
        let off = |mean: f64, max: f64| format!("{mean:.1} < {max:.1} %");
        print!(
            "{name:<29} {model:<16} {:>6} {weights:>4} {kv_tokens:>10} {:>7.0}  {:>13} {:>13}  {source}",
            format!("{gpus} {gpu}"),
            fit.cold_8k_ms,
            off(fit.prefill_error_mean_percent, fit.prefill_error_max_percent),
            off(fit.decode_error_mean_percent, fit.decode_error_max_percent),
        );
    }
    print!("");
    print!("8k: the source's own time for the prefill of 8,192 tokens. off: mean < largest error of the fit.");
    print!("All of it is modelled: what is measured with a preset is simulated.");
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if args.list_presets {
        list_presets();
        return Ok(());
    }
    let preset = Preset {
        adapters_max: args.max_loras,
        eviction: args.eviction,
        overhead_ms: args.overhead_ms.unwrap_or(args.preset.overhead_ms),
        prefill_scale: args.prefill_scale.unwrap_or(args.preset.prefill_scale),
        ..args.preset
    };
    let kv_events = args.kv_events.map(|publish| KvEventsConfig {
        publish,
        replay: args.kv_replay,
        topic: args.kv_topic,
        ..KvEventsConfig::default()
    });
    let config = EngineConfig {
        listen: args.listen,
        model: args.model,
        preset,
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
