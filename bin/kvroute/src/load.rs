//! `kvroute load`: sends a workload to any OpenAI- or SageMaker-shaped server and reports what clients see.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use kvroute_lab::load::{self, Bar, LoadOptions, Pacing, Target};
use kvroute_lab::report::{Goodput, Report, ReportOptions};
use kvroute_lab::workload::{
    BodyKind, BodyOptions, MultiTurn, MultiTurnOptions, Route, SharedPrefix, SharedPrefixOptions, Workload,
};

use crate::{Failure, print, runtime};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kvroute load --base-url http://127.0.0.1:8780 --max-concurrency 28 --num-prompts 500\n  \
    kvroute load --workload multi-turn --request-rate 4 --duration-s 60\n  \
    kvroute load --endpoint llama --save-result load.json")]
pub(crate) struct Args {
    /// The server.
    #[arg(long, default_value = "http://127.0.0.1:8780", value_parser = base_url)]
    base_url: String,
    /// Value of `model` in every body.
    #[arg(long, default_value = "")]
    model: String,
    /// Send to this SageMaker endpoint's response stream instead of the OpenAI API.
    #[arg(long, value_name = "NAME")]
    endpoint: Option<String>,
    /// Use /v1/completions instead of /v1/chat/completions.
    #[arg(long)]
    completions: bool,
    /// Header of every request, `name: value`. May be given several times.
    #[arg(long, value_name = "HEADER", value_parser = header)]
    header: Vec<(String, String)>,
    /// Bearer token.
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// What is sent.
    #[arg(long, value_enum, default_value = "shared-prefix")]
    workload: WorkloadName,
    /// Seed of the texts and the schedule.
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Requests a second on a schedule; without it, as fast as --max-concurrency allows.
    #[arg(long, help_heading = "Pace", default_value_t = f64::INFINITY)]
    request_rate: f64,
    /// Shape of the gaps: 1 is Poisson, less is burstier.
    #[arg(long, help_heading = "Pace", default_value_t = 1.0)]
    burstiness: f64,
    /// Most requests in flight. Without --request-rate: users that each wait for their answer.
    #[arg(long, help_heading = "Pace")]
    max_concurrency: Option<usize>,
    /// Requests to send at most.
    #[arg(long, help_heading = "Pace", default_value_t = 1_000)]
    num_prompts: usize,
    /// Stop sending after this many seconds.
    #[arg(long, help_heading = "Pace", value_name = "SECONDS", value_parser = seconds)]
    duration_s: Option<Duration>,
    /// Requests sent before measuring.
    #[arg(long, help_heading = "Pace", default_value_t = 0)]
    num_warmups: usize,

    /// Different prefixes (shared-prefix), or sessions (multi-turn).
    #[arg(long, help_heading = "Workload")]
    prefixes: Option<u32>,
    /// Tokens of a prefix (shared-prefix), or of the shared system text (multi-turn).
    #[arg(long, help_heading = "Workload")]
    prefix_tokens: Option<u32>,
    /// Tokens of a question.
    #[arg(long, help_heading = "Workload")]
    suffix_tokens: Option<u32>,
    /// Tokens of an answer.
    #[arg(long, help_heading = "Workload")]
    output_tokens: Option<u32>,
    /// Mean uses of a prefix (shared-prefix).
    #[arg(long, help_heading = "Workload")]
    uses_per_prefix: Option<f64>,
    /// Uneven use of prefixes: popularity falls with rank to this power (shared-prefix).
    #[arg(long, help_heading = "Workload")]
    zipf_alpha: Option<f64>,
    /// Prefixes, or sessions, in use at a time.
    #[arg(long, help_heading = "Workload")]
    live: Option<u32>,
    /// Requests of a session (multi-turn).
    #[arg(long, help_heading = "Workload")]
    turns: Option<u32>,
    /// Milliseconds between an answer and the next message (multi-turn).
    #[arg(long, help_heading = "Workload")]
    think_ms: Option<u64>,

    /// Percentiles to print.
    #[arg(long, help_heading = "Report", value_delimiter = ',', default_value = "50,90,99")]
    metric_percentiles: Vec<f64>,
    /// Count requests a second that keep limits, such as "ttft:500 tpot:50" (ms).
    #[arg(long, help_heading = "Report")]
    goodput: Option<Goodput>,
    /// Write the results as JSON, in vLLM's names.
    #[arg(long, help_heading = "Report", value_name = "FILE")]
    save_result: Option<PathBuf>,
    /// With arrays of one entry a request.
    #[arg(long, help_heading = "Report")]
    save_detailed: bool,
    /// Field of the JSON, KEY=VALUE. May be given several times.
    #[arg(long, help_heading = "Report", value_parser = pair)]
    metadata: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WorkloadName {
    /// Prompts of which several begin alike, as with long system prompts or documents.
    SharedPrefix,
    /// Conversations that grow turn by turn.
    MultiTurn,
}

pub(crate) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is written `name: value`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        _ => Err("a duration is a number of seconds above 0".to_owned()),
    }
}

/// The address without the `/v1` that OpenAI clients have at its end: requests bring their own path.
pub(crate) fn base_url(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    Ok(text.strip_suffix("/v1").unwrap_or(text).to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a field is written KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let options = options(args);
    let mut workload = workload(args)?;
    let mut bar = Bar::new("load");
    let outcome = runtime().context("cannot start")?.block_on(async {
        let stop = async {
            // Without a signal handler the run simply goes on to its end.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        load::run(&options, workload.as_mut(), &mut bar, stop).await
    })?;
    drop(bar);
    let report = Report::new(
        &outcome,
        &ReportOptions {
            percentiles: args.metric_percentiles.clone(),
            goodput: args.goodput,
            command: Some(std::env::args().collect::<Vec<_>>().join(" ")),
            metadata: args.metadata.clone(),
            detailed: args.save_detailed,
        },
    );
    print!("{report}");
    if let Some(path) = &args.save_result {
        let json = serde_json::to_vec_pretty(&report.json())?;
        std::fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if report.completed == 0 {
        return Err(anyhow::anyhow!("no request succeeded").into());
    }
    Ok(())
}

fn kind(args: &Args) -> BodyKind {
    if args.completions { BodyKind::Completions } else { BodyKind::Chat }
}

fn options(args: &Args) -> LoadOptions {
    let route = match &args.endpoint {
        Some(endpoint) => Route::SageMaker { endpoint: endpoint.clone() },
        None => Route::OpenAi,
    };
    let mut headers = args.header.clone();
    headers.extend(args.api_key.as_ref().map(|key| ("authorization".to_owned(), format!("Bearer {key}"))));
    LoadOptions {
        target: Target {
            base_url: args.base_url.clone(),
            path: route.path(kind(args)),
            headers,
            session_header: Some("x-session-id".to_owned()),
        },
        pacing: Pacing {
            request_rate: args.request_rate,
            burstiness: args.burstiness,
            max_concurrency: args.max_concurrency,
            think: Duration::ZERO,
        },
        requests_max: args.num_prompts,
        duration_max: args.duration_s,
        warmups: args.num_warmups,
        seed: args.seed,
        keep_gaps: args.save_detailed,
        ..LoadOptions::default()
    }
}

fn workload(args: &Args) -> Result<Box<dyn Workload>, Failure> {
    let body = BodyOptions { model: args.model.clone(), kind: kind(args), ..BodyOptions::default() };
    Ok(match args.workload {
        WorkloadName::SharedPrefix => {
            let default = SharedPrefixOptions::default();
            let uses_per_prefix = args.uses_per_prefix.unwrap_or(default.uses_per_prefix);
            // Enough of them that no request is missing.
            let enough = (args.num_prompts as f64 / uses_per_prefix).ceil() as u32;
            let options = SharedPrefixOptions {
                prefixes: args.prefixes.unwrap_or(enough.max(1)),
                prefix_tokens: args.prefix_tokens.unwrap_or(default.prefix_tokens),
                suffix_tokens: args.suffix_tokens.unwrap_or(default.suffix_tokens),
                output_tokens: args.output_tokens.unwrap_or(default.output_tokens),
                uses_per_prefix,
                zipf_alpha: args.zipf_alpha,
                live_prefixes: args.live.unwrap_or(default.live_prefixes),
            };
            Box::new(SharedPrefix::new(options, body, args.seed)?)
        }
        WorkloadName::MultiTurn => {
            let default = MultiTurnOptions::default();
            let options = MultiTurnOptions {
                sessions: args.prefixes.unwrap_or(default.sessions),
                live_sessions: args.live.unwrap_or(default.live_sessions),
                turns: args.turns.unwrap_or(default.turns),
                system_tokens: args.prefix_tokens.unwrap_or(default.system_tokens),
                turn_tokens: args.suffix_tokens.unwrap_or(default.turn_tokens),
                output_tokens: args.output_tokens.unwrap_or(default.output_tokens),
                think_ms: args.think_ms.unwrap_or(default.think_ms),
                ..default
            };
            Box::new(MultiTurn::new(options, body, args.seed)?)
        }
    })
}
