//! `kvroute analyze`: will prefix-aware routing pay on this traffic, and with which settings?

use std::io::IsTerminal;
use std::path::PathBuf;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use kvroute_engine::model::Preset;
use kvroute_lab::analyze::{Analysis, Analyzer, Options};
use kvroute_lab::report::analysis_document;
use kvroute_lab::report::document::Style;
use kvroute_lab::report::html::{Provenance, analysis_html};
use kvroute_lab::trace::{Summary, TimeBase};

use crate::engine::preset_names;
use crate::trace::Reading;
use crate::{Failure, print, say};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    kvroute analyze requests.jsonl\n  \
    kvroute analyze trace.jsonl.gz --replicas 4 --engine llama-3.1-8b-h100\n  \
    kvroute analyze requests.jsonl --html report.html\n  \
    zcat access.log.gz | kvroute analyze - --markdown > analysis.md\n\n\
    What is in prompts is not printed, unless --show-text is given.")]
pub(crate) struct Args {
    #[command(flatten)]
    reading: Reading,

    /// Replicas that the advice is for.
    #[arg(long, help_heading = "Fleet", value_name = "COUNT", default_value_t = Options::default().replicas,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    replicas: u32,
    /// Model and hardware of each replica, for memory and speed.
    #[arg(long, help_heading = "Fleet", default_value = Preset::default().name, value_parser = preset_names())]
    engine: String,
    /// KV tokens that a replica holds (vLLM logs them at the start: "GPU KV cache size") [default: the engine's].
    #[arg(long, help_heading = "Fleet", value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    kv_tokens: Option<u64>,
    /// Tokens of the engine's KV block: shorter beginnings are not reused.
    #[arg(long, help_heading = "Fleet", value_name = "TOKENS", default_value_t = Options::default().block_tokens,
          value_parser = clap::value_parser!(u32).range(1..))]
    kv_block: u32,

    /// Print JSON.
    #[arg(long, help_heading = "Output", conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown.
    #[arg(long, help_heading = "Output")]
    markdown: bool,
    /// Write a report as one HTML file, which needs neither network nor scripts.
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    html: Option<PathBuf>,
    /// Show how lines begin that change with every request. They are text of prompts.
    #[arg(long, help_heading = "Output")]
    show_text: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let (analysis, summary) = analyze(args)?;
    if let Some(path) = &args.html {
        let provenance = Provenance {
            command: std::env::args().collect::<Vec<_>>().join(" "),
            source: summary.to_string().lines().next().unwrap_or_default().to_owned(),
            assumptions: summary.assumptions.clone(),
        };
        let html = analysis_html(&analysis, &provenance);
        std::fs::write(path, html).with_context(|| format!("cannot write {}", path.display()))?;
        say!("wrote {}", path.display());
    }
    if args.json {
        print!("{}", serde_json::to_string_pretty(&analysis)?);
        return Ok(());
    }
    let document = analysis_document(&analysis);
    if args.markdown {
        print!("{}", document.markdown().trim_end());
        return Ok(());
    }
    let colour = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    print!("{}", document.for_terminal(Style { width: 100, colour }).trim_end());
    Ok(())
}

fn analyze(args: &Args) -> Result<(Analysis, Summary), Failure> {
    let preset = Preset::by_name(&args.engine).context("there is no such preset")?;
    let mut analyzer = Analyzer::new(Options {
        replicas: args.replicas,
        preset,
        kv_tokens: args.kv_tokens,
        block_tokens: args.kv_block,
        show_text: args.show_text,
        ..Options::default()
    });
    let bar = Bar::new("reading");
    let mut reader = args.reading.open(true)?;
    let (mut records, mut time_base) = (0u64, TimeBase::Trace);
    while let Some(record) = reader.next() {
        let mut record = record?;
        if records == 0 {
            time_base = reader.summary().time_base;
        }
        if time_base == TimeBase::Session {
            // How sessions lie to each other is not known, so nothing is known about load.
            record.at_ms = None;
        }
        analyzer.push(&record);
        records += 1;
        if records.is_multiple_of(1_000) {
            bar.part(reader.progress());
        }
    }
    drop(bar);
    let summary = reader.summary();
    say!("{summary}");
    if summary.records == 0 {
        return Err(anyhow::anyhow!("the trace holds no request that can be used").into());
    }
    let bar = Bar::new("analysing");
    Ok((analyzer.finish(|done| bar.set(done)), summary))
}

/// A bar on standard error. Draws nothing where that is no terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new(label: &'static str) -> Self {
        let bar = ProgressBar::new(1_000);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {percent:>3} %") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(label);
        Self(bar)
    }

    fn set(&self, done: f64) {
        self.0.set_position((done * 1e3) as u64);
    }

    /// Bytes that were read, of those there are, if that is known.
    fn part(&self, (read, all): (u64, Option<u64>)) {
        self.set(all.map_or(0.0, |all| read as f64 / all.max(1) as f64));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use kvroute_lab::trace::{Content, Record, Segment};

    use super::*;

    #[test]
    fn the_advised_configuration_is_one_that_check_accepts() {
        let mut analyzer = Analyzer::new(Options { show_text: true, ..Options::default() });
        for i in 0..600u32 {
            let text = format!("x-trace: {i:x}\n{}", format!("{:03} ", i % 100).repeat(2_000));
            let segments = vec![Segment { role: "user".into(), text }];
            let at_ms = Some(f64::from(i) * 100.0);
            analyzer.push(&Record { content: Content::Text(segments), at_ms, ..Record::default() });
        }
        let analysis = analyzer.finish(|_| {});
        let yaml = analysis.advice.kvroute_yaml.unwrap();
        let (config, warnings) = kvroute_gateway::config::parse(&yaml, "advice")
            .unwrap_or_else(|errors| panic!("{}\n{yaml}", errors.render(kvroute_gateway::config::Style::Plain)));
        assert!(warnings.is_empty(), "{yaml}");
        let settings = analysis.advice.settings.unwrap();
        assert_eq!(config.key_skip_lines, settings.key_skip_lines);
    }
}
