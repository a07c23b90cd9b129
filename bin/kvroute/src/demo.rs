//! `kvroute demo`: the difference that placement makes, on this machine, in about a minute.
//!
//! Seven simulated engines and a real gateway on free loopback ports, real HTTP between all of them, the same requests
//! once for each strategy, each time from empty caches. The engines' latencies are simulated (no GPU is needed);
//! everything else is the product as it is.

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use kvroute_core::routing::Strategy;
use kvroute_engine::model::Preset;
use kvroute_engine::server::{self, EngineConfig};
use kvroute_gateway::config;
use kvroute_gateway::server::Running;
use kvroute_lab::load::{self, Bar, LoadOptions, Outcome, Pacing, Target};
use kvroute_lab::report::{StrategyResult, compare};
use kvroute_lab::workload::{BodyOptions, SharedPrefix, SharedPrefixOptions};

use crate::{Failure, print, runtime, say};

const MODEL: &str = "llama-3.1-70b";
const REPLICAS: usize = 7;
const STRATEGIES: [Strategy; 3] = [Strategy::Random, Strategy::LeastOutstanding, Strategy::PrefixAware];
/// Four users a replica: busy, not saturated.
const USERS: usize = 28;
const PREFIX_TOKENS: u32 = 8_000;
const QUESTION_TOKENS: u32 = 128;
const ANSWER_TOKENS: u32 = 128;
const USES_PER_PREFIX: f64 = 5.0;
/// Requests a second that this fleet serves with the worst of the strategies.
const REQUESTS_PER_SECOND: f64 = 11.0;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kvroute demo\n  kvroute demo --seconds 30 --keep")]
pub(crate) struct Args {
    /// How long the measurements may take, in all. Under 30 there would be too few requests to compare.
    #[arg(long, value_name = "N", default_value_t = 75, value_parser = clap::value_parser!(u64).range(30..=3_600))]
    seconds: u64,
    /// Leave the fleet serving afterwards, and print how to talk to it.
    #[arg(long)]
    keep: bool,
    /// Seed of the prompts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    runtime().context("cannot start")?.block_on(demo(args))
}

async fn demo(args: &Args) -> Result<(), Failure> {
    let preset = Preset::default();
    let share = Duration::from_secs(args.seconds) / STRATEGIES.len() as u32;
    let prefixes = ((share.as_secs_f64() * REQUESTS_PER_SECOND / USES_PER_PREFIX) as u32).max(4);
    let requests = (f64::from(prefixes) * USES_PER_PREFIX) as usize;
    say!(
        "{REPLICAS} simulated replicas ({}), {USERS} users, {requests} requests a strategy: {PREFIX_TOKENS} tokens of \
         shared prefix,\neach used about {USES_PER_PREFIX} times, and a question of {QUESTION_TOKENS}. \
         Latencies are simulated, HTTP is real.",
        preset.name
    );
    let mut results = Vec::new();
    for strategy in STRATEGIES {
        let fleet = Fleet::start(preset, strategy).await?;
        let outcome = measure(&fleet, strategy, prefixes, share, args.seed).await?;
        results.push(StrategyResult::of(strategy.as_str(), &outcome, Some(REPLICAS)));
        let is_last = strategy == STRATEGIES[STRATEGIES.len() - 1];
        if !is_last || !args.keep {
            fleet.stop().await;
            continue;
        }
        tell(&results, args)?;
        print!("{}", fleet.introduction());
        // Whatever ends the wait ends the demo.
        let _ = tokio::signal::ctrl_c().await;
        fleet.stop().await;
        return Ok(());
    }
    tell(&results, args)
}

fn tell(results: &[StrategyResult], args: &Args) -> Result<(), Failure> {
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print!("{}", compare(results, colour));
    print!("Latencies are simulated. Try it on your own traffic: kvroute load --base-url http://GATEWAY");
    if let Some(path) = &args.json {
        let rows: Vec<serde_json::Value> = results.iter().map(json).collect();
        std::fs::write(path, serde_json::to_vec_pretty(&rows)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failed: u64 = results.iter().map(|result| result.failed).sum();
    if failed > 0 {
        return Err(anyhow::anyhow!("{failed} requests failed").into());
    }
    Ok(())
}

fn json(result: &StrategyResult) -> serde_json::Value {
    serde_json::json!({
        "strategy": result.name,
        "ttft_p50_ms": result.ttft_p50_ms,
        "ttft_p90_ms": result.ttft_p90_ms,
        "ttft_p99_ms": result.ttft_p99_ms,
        "cached_ratio": result.cached_ratio,
        "output_tok_s": result.output_tok_s,
        "share_min": result.shares.map(|(min, _)| min),
        "share_max": result.shares.map(|(_, max)| max),
        "spill_ratio": result.spill_ratio,
        "failed": result.failed,
    })
}

async fn measure(
    fleet: &Fleet,
    strategy: Strategy,
    prefixes: u32,
    limit: Duration,
    seed: u64,
) -> Result<Outcome, Failure> {
    let body = BodyOptions { model: MODEL.to_owned(), ..BodyOptions::default() };
    let options = SharedPrefixOptions {
        prefixes,
        prefix_tokens: PREFIX_TOKENS,
        suffix_tokens: QUESTION_TOKENS,
        output_tokens: ANSWER_TOKENS,
        uses_per_prefix: USES_PER_PREFIX,
        zipf_alpha: None,
        live_prefixes: USERS as u32,
    };
    let mut workload = SharedPrefix::new(options, body, seed)?;
    let options = LoadOptions {
        target: Target { base_url: format!("http://{}", fleet.gateway.address()), ..Target::default() },
        pacing: Pacing { max_concurrency: Some(USERS), ..Pacing::default() },
        requests_max: (f64::from(prefixes) * USES_PER_PREFIX) as usize,
        duration_max: Some(limit),
        ..LoadOptions::default()
    };
    let mut bar = Bar::new(&format!("{:<18}", strategy.as_str()));
    Ok(load::run(&options, &mut workload, &mut bar, std::future::pending()).await?)
}

/// Engines and a gateway before them.
struct Fleet {
    engines: Vec<server::Running>,
    gateway: Running,
}

impl Fleet {
    async fn start(preset: Preset, strategy: Strategy) -> Result<Self, Failure> {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut engines = Vec::with_capacity(REPLICAS);
        for _ in 0..REPLICAS {
            let config = EngineConfig { listen: free, model: MODEL.to_owned(), preset, ..EngineConfig::default() };
            engines.push(server::start(config).await.context("cannot start a simulated engine")?);
        }
        let mut yaml = format!(
            "listen: {free}\nadmin: {free}\nendpoints:\n- name: demo\n  models: [{MODEL}]\n  \
             routing: {{ strategy: {strategy} }}\n  replicas:\n"
        );
        for (i, engine) in engines.iter().enumerate() {
            writeln!(yaml, "  - {{ id: r{}, url: 'http://{}' }}", i + 1, engine.addr()).expect("a string takes text");
        }
        let (config, _) = config::parse(&yaml, "the demo's configuration")?;
        let gateway = Running::start(config).await.context("cannot start the gateway")?;
        Ok(Self { engines, gateway })
    }

    async fn stop(self) {
        self.gateway.drain().await;
        for engine in self.engines {
            engine.shutdown().await;
        }
    }

    /// How to talk to it.
    fn introduction(&self) -> String {
        let (gateway, admin) = (self.gateway.address(), self.gateway.admin_address());
        format!(
            r#"
The fleet goes on serving; Ctrl-C ends it. Metrics: http://{admin}/metrics

# curl
curl -si http://{gateway}/v1/chat/completions -H 'content-type: application/json' \
  -d '{{"model": "{MODEL}", "messages": [{{"role": "user", "content": "hello"}}]}}'

# boto3
python3 - <<'EOF'
import boto3, json
runtime = boto3.client("sagemaker-runtime", endpoint_url="http://{gateway}", region_name="us-east-1",
                       aws_access_key_id="any", aws_secret_access_key="any")
body = json.dumps({{"messages": [{{"role": "user", "content": "hello"}}]}})
print(runtime.invoke_endpoint(EndpointName="demo", Body=body)["Body"].read().decode())
EOF

# openai
python3 - <<'EOF'
from openai import OpenAI
client = OpenAI(base_url="http://{gateway}/v1", api_key="any")
answer = client.chat.completions.create(model="{MODEL}", messages=[{{"role": "user", "content": "hello"}}])
print(answer.choices[0].message.content)
EOF
"#
        )
    }
}
