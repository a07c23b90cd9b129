//! `kvroute calibrate`: fits a preset of the engine model to an engine that runs.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use kvroute_engine::model::Preset;
use kvroute_lab::calibrate::{self, Calibration, PROMPT_TOKENS_MAX, PROMPT_TOKENS_MIN, PROMPTS, Sample};
use kvroute_lab::load::{Bar, Target};
use kvroute_lab::workload::{BodyKind, BodyOptions, Route};

use crate::engine::preset;
use crate::load::{base_url, header};
use crate::{Failure, print, runtime};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kvroute calibrate http://127.0.0.1:8000 --preset llama-3.1-8b-h100\n  \
    kvroute calibrate http://10.0.0.7:8000 --model my-model --prompt-tokens-max 32768\n\n\
    Address one idle engine, not the gateway. kvroute engine --list-presets tells the presets.")]
pub(crate) struct Args {
    /// The engine.
    #[arg(value_name = "URL", value_parser = base_url)]
    url: String,
    /// Model and hardware that are nearest to it.
    #[arg(long, default_value = Preset::default().name, value_parser = preset)]
    preset: Preset,
    /// Value of `model` in every body.
    #[arg(long, default_value = "")]
    model: String,
    /// Use /v1/completions instead of /v1/chat/completions.
    #[arg(long)]
    completions: bool,
    /// Tokens of the longest prompt, at four bytes each; the shortest has a 32nd of it.
    #[arg(long, value_name = "TOKENS", default_value_t = 8_192, value_parser = clap::value_parser!(u32)
        .range(i64::from(PROMPT_TOKENS_MIN)..=i64::from(PROMPT_TOKENS_MAX)))]
    prompt_tokens_max: u32,
    /// Header of every request, `name: value`. May be given several times.
    #[arg(long, value_name = "HEADER", value_parser = header)]
    header: Vec<(String, String)>,
    /// Bearer token.
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Seed of the prompts, one that the engine has not seen [default: from the time].
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let kind = if args.completions { BodyKind::Completions } else { BodyKind::Chat };
    let mut headers = args.header.clone();
    headers.extend(args.api_key.as_ref().map(|key| ("authorization".to_owned(), format!("Bearer {key}"))));
    let target = Target { base_url: args.url.clone(), path: Route::OpenAi.path(kind), headers, ..Target::default() };
    let body = BodyOptions { model: args.model.clone(), kind, ..BodyOptions::default() };
    // Prompts that an earlier run sent may be cached.
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let seed = args.seed.unwrap_or_else(now);
    let mut bar = Bar::new("calibrate");
    let measured = runtime().context("cannot start")?.block_on(calibrate::measure(
        target,
        body,
        args.prompt_tokens_max,
        seed,
        &mut bar,
    ))?;
    drop(bar);
    let samples = measured?;
    let calibration = calibrate::fit(&args.preset, &samples)?;
    show(&args.preset, &samples, &calibration);
    Ok(())
}

fn show(preset: &Preset, samples: &[Sample], calibration: &Calibration) {
    let Calibration { overhead_ms, prefill_scale, error_mean_ratio, error_max_ratio, fitted_ms } = calibration;
    print!("{:>13} {:>12} {:>10} {:>7}", "prompt tokens", "measured ms", "fitted ms", "off");
    let mut rows: Vec<(&Sample, f64)> = samples.iter().zip(fitted_ms.iter().copied()).collect();
    rows.sort_by_key(|(sample, _)| sample.prompt_tokens);
    for (sample, fitted) in rows {
        let off = 100.0 * (fitted / sample.ttft_ms - 1.0);
        print!("{:>13} {:>12.1} {fitted:>10.1} {off:>+6.1}%", sample.prompt_tokens, sample.ttft_ms);
    }
    print!("");
    print!("overhead_ms    {overhead_ms:.1}");
    print!("prefill_scale  {prefill_scale:.3}  (1 is {}, fitted to {})", preset.name, preset.source);
    let (mean, max) = (100.0 * error_mean_ratio, 100.0 * error_max_ratio);
    print!("error          {mean:.1} % in the mean, {max:.1} % at most, over {PROMPTS} requests");
    print!("");
    print!(
        "for kvroute engine: --preset {} --overhead-ms {overhead_ms:.1} --prefill-scale {prefill_scale:.3}",
        preset.name
    );
    print!(
        "for kvroute replay: --engine {} --overhead-ms {overhead_ms:.1} --prefill-scale {prefill_scale:.3}",
        preset.name
    );
}
