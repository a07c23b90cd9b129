//! `/metrics` in vLLM's names, labels and buckets.
//!
//! Written by hand rather than with a metrics library: the names have colons, counters keep their
//! `_total` in the `TYPE` line, and whole numbers end in `.0`, so that whatever parses vLLM's page is
//! tested on the same page. Times are real seconds, as a client sees them, not virtual ones.

use std::fmt::{Display, Write};

use crate::model::{Load, Preset};

/// vLLM's buckets for the time to the first token, in seconds.
const FIRST_TOKEN_BUCKETS: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
];

/// vLLM's buckets for the time between tokens, in seconds.
const INTER_TOKEN_BUCKETS: &[f64] =
    &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];

/// vLLM's buckets for whole requests and for queueing, in seconds.
const REQUEST_BUCKETS: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
];

/// What an engine counts.
pub(super) struct Metrics {
    /// As of the last step.
    pub(super) load: Load,
    /// As of the last step.
    pub(super) adapters: AdapterNames,
    /// Requests whose answer ended of itself.
    pub(super) stopped_total: u64,
    /// Requests whose answer ended at its limit.
    pub(super) length_total: u64,
    /// From arrival to the start of the first step.
    pub(super) queue: Histogram,
    /// From arrival to the first token.
    pub(super) first_token: Histogram,
    /// Between a request's tokens.
    pub(super) inter_token: Histogram,
    /// From arrival to the last token.
    pub(super) end_to_end: Histogram,
}

/// Adapters in use, joined by commas.
#[derive(Clone, Debug, Default)]
pub(super) struct AdapterNames {
    /// When that was.
    pub(super) at_unix_seconds: f64,
    pub(super) running: String,
    pub(super) waiting: String,
}

/// Counts by bucket.
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One more than bounds: the last has no end.
    counts: Vec<u64>,
    sum: f64,
}

/// What the page says beside the counts.
pub(super) struct Identity<'a> {
    pub(super) model: &'a str,
    pub(super) preset: &'a Preset,
    pub(super) started_unix_seconds: f64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            load: Load::default(),
            adapters: AdapterNames::default(),
            stopped_total: 0,
            length_total: 0,
            queue: Histogram::new(REQUEST_BUCKETS),
            first_token: Histogram::new(FIRST_TOKEN_BUCKETS),
            inter_token: Histogram::new(INTER_TOKEN_BUCKETS),
            end_to_end: Histogram::new(REQUEST_BUCKETS),
        }
    }
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts a value; a bucket includes its bound.
    pub(super) fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket] += 1;
        self.sum += value;
    }
}

impl Metrics {
    /// The page in Prometheus text format 0.0.4.
    pub(super) fn page(&self, identity: &Identity<'_>) -> String {
        let mut page = Page::new(identity.model);
        page.gauges(&self.load);
        page.counters(&self.load);
        page.family("request_success_total", "counter", "Requests that were answered.");
        for (reason, value) in
            [("stop", self.stopped_total), ("length", self.length_total), ("abort", 0), ("error", 0), ("repetition", 0)]
        {
            page.sample("request_success_total", &[("finished_reason", &reason)], value as f64);
        }
        let histograms = [
            ("time_to_first_token_seconds", "Time to the first token.", &self.first_token),
            ("inter_token_latency_seconds", "Time between tokens.", &self.inter_token),
            ("e2e_request_latency_seconds", "Time of a whole request.", &self.end_to_end),
            ("request_queue_time_seconds", "Time before the first step.", &self.queue),
        ];
        for (name, help, histogram) in histograms {
            page.histogram(name, help, histogram);
        }
        page.cache_config(identity.preset);
        page.adapters(&self.adapters, identity.preset.adapters_max);
        page.process(identity.started_unix_seconds);
        page.text
    }
}

/// The page being written.
struct Page {
    text: String,
    model: String,
}

impl Page {
    fn new(model: &str) -> Self {
        Self { text: String::with_capacity(16 << 10), model: escape(model) }
    }

    fn gauges(&mut self, load: &Load) {
        let (running, waiting) = (f64::from(load.running), f64::from(load.waiting));
        self.single("num_requests_running", "gauge", "Requests in the batch.", running);
        self.single("num_requests_waiting", "gauge", "Requests in the queue.", waiting);
        let name = "num_requests_waiting_by_reason";
        self.family(name, "gauge", "Requests in the queue, by what they wait for.");
        self.sample(name, &[("reason", &"capacity")], waiting);
        self.sample(name, &[("reason", &"deferred")], 0.0);
        let help = "Share of KV memory in use, 0 to 1.";
        self.single("kv_cache_usage_perc", "gauge", help, load.kv_used_ratio);
    }

    fn counters(&mut self, load: &Load) {
        for (name, help, value) in [
            ("prefix_cache_queries_total", "Prompt tokens looked up.", load.queried_tokens_total),
            ("prefix_cache_hits_total", "Prompt tokens found cached.", load.cached_tokens_total),
            ("prompt_tokens_total", "Prompt tokens processed.", load.prompt_tokens_total),
            ("prompt_tokens_cached_total", "Prompt tokens reused.", load.cached_tokens_total),
            ("generation_tokens_total", "Tokens generated.", load.generated_tokens_total),
            ("num_preemptions_total", "Times a request lost its blocks.", load.preemptions_total),
        ] {
            self.single(name, "counter", help, value as f64);
        }
    }

    fn cache_config(&mut self, preset: &Preset) {
        let name = "cache_config_info";
        let blocks = preset.kv_tokens / preset.block_tokens;
        self.family(name, "gauge", "How the KV cache is set up.");
        self.sample(
            name,
            &[
                ("block_size", &preset.block_tokens),
                ("enable_prefix_caching", &"True"),
                ("kv_cache_size_tokens", &(blocks * preset.block_tokens)),
                ("num_gpu_blocks", &blocks),
                ("prefix_caching_hash_algo", &"xxhash"),
            ],
            1.0,
        );
    }

    /// Without the labels of the others, and with a time for a value: the names are the labels.
    fn adapters(&mut self, adapters: &AdapterNames, adapters_max: u32) {
        let name = "lora_requests_info";
        self.family(name, "gauge", "Adapters in use.");
        let (running, waiting) = (escape(&adapters.running), escape(&adapters.waiting));
        self.line(format_args!(
            "vllm:{name}{{max_lora=\"{adapters_max}\",running_lora_adapters=\"{running}\",\
             waiting_lora_adapters=\"{waiting}\"}} {:?}",
            adapters.at_unix_seconds
        ));
    }

    /// The one family without prefix and labels: by it a scraper tells a restart.
    fn process(&mut self, started_unix_seconds: f64) {
        let name = "process_start_time_seconds";
        self.line(format_args!("# HELP {name} Unix time of the engine's start."));
        self.line(format_args!("# TYPE {name} gauge"));
        self.line(format_args!("{name} {started_unix_seconds:?}"));
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut total = 0;
        for (index, count) in histogram.counts.iter().enumerate() {
            total += count;
            match histogram.bounds.get(index) {
                Some(bound) => self.sample(&bucket, &[("le", &format_args!("{bound:?}"))], total as f64),
                None => self.sample(&bucket, &[("le", &"+Inf")], total as f64),
            }
        }
        self.sample(&format!("{name}_count"), &[], total as f64);
        self.sample(&format!("{name}_sum"), &[], histogram.sum);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP vllm:{name} {help}"));
        self.line(format_args!("# TYPE vllm:{name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: f64) {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "vllm:{name}{{engine=\"0\",model_name=\"{}\"", self.model);
        for (label, text) in labels {
            let _ = write!(self.text, ",{label}=\"{text}\"");
        }
        let _ = writeln!(self.text, "}} {value:?}");
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{line}");
    }
}

/// The value of a label as it is written.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_the_bucket_that_ends_with_it_and_in_all_after() {
        let mut metrics = Metrics::default();
        for value in [0.01, 0.0100001, 3000.0] {
            metrics.first_token.observe(value);
        }
        metrics.adapters = AdapterNames { at_unix_seconds: 5.5, running: "a,\"b".to_owned(), waiting: String::new() };
        let preset = Preset::default();
        let identity = Identity { model: "a\"b\\c", preset: &preset, started_unix_seconds: 1.796e9 };
        let page = metrics.page(&identity);
        let labels = r#"engine="0",model_name="a\"b\\c""#;
        for line in [
            format!("vllm:time_to_first_token_seconds_bucket{{{labels},le=\"0.005\"}} 0.0"),
            format!("vllm:time_to_first_token_seconds_bucket{{{labels},le=\"0.01\"}} 1.0"),
            format!("vllm:time_to_first_token_seconds_bucket{{{labels},le=\"0.02\"}} 2.0"),
            format!("vllm:time_to_first_token_seconds_bucket{{{labels},le=\"2560.0\"}} 2.0"),
            format!("vllm:time_to_first_token_seconds_bucket{{{labels},le=\"+Inf\"}} 3.0"),
            format!("vllm:time_to_first_token_seconds_count{{{labels}}} 3.0"),
            "vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"a,\\\"b\",waiting_lora_adapters=\"\"} 5.5"
                .to_owned(),
            "process_start_time_seconds 1796000000.0".to_owned(),
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
