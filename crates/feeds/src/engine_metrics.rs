//! Reads an engine's Prometheus page: how many requests run and wait, how full its KV cache is, how large it is.
//!
//! Every engine has its own names, and versions rename them, so the names are data (`engine_metrics.json`): for each
//! figure the names under which engines have published it. A name that is not there is *absent*, never zero: a renamed
//! gauge must not make a busy replica look idle. Values of several series of a name (data-parallel ranks, models) are
//! added up, except ratios and sizes, of which the largest counts.

use std::sync::OnceLock;

use serde::Deserialize;

/// Longest page that is read; real ones have 50 to 75 KB.
pub const PAGE_BYTES_MAX: usize = 4 << 20;

/// What a page told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineMetrics {
    /// Requests being processed.
    pub running: Option<f64>,
    /// Requests waiting for a place.
    pub waiting: Option<f64>,
    /// Share of the KV cache in use by running requests, 0 to 1.
    pub kv_usage_ratio: Option<f64>,
    /// Prompt tokens looked up in the prefix cache since the engine started.
    pub prefix_queries_tokens: Option<f64>,
    /// Prompt tokens found there.
    pub prefix_hits_tokens: Option<f64>,
    /// Tokens the KV cache holds.
    pub kv_tokens: Option<u64>,
    /// Unix time at which the engine started, in seconds: it changes when the engine restarts.
    pub process_start_seconds: Option<f64>,
}

#[derive(Deserialize)]
struct Names {
    running: Vec<String>,
    waiting: Vec<String>,
    kv_usage_ratio: Vec<String>,
    prefix_queries_tokens: Vec<String>,
    prefix_hits_tokens: Vec<String>,
    process_start_seconds: Vec<String>,
    kv_tokens: Vec<String>,
    cache_config: Vec<CacheConfig>,
}

/// An info series whose labels tell the size of the KV cache.
#[derive(Deserialize)]
struct CacheConfig {
    name: String,
    block_tokens_label: String,
    blocks_label: String,
}

fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        serde_json::from_str(include_str!("engine_metrics.json")).expect("the embedded table of names is valid")
    })
}

/// Reads a page in Prometheus' text format. Lines that are not understood are passed over.
pub fn parse(page: &str) -> EngineMetrics {
    let names = names();
    let mut read = EngineMetrics::default();
    for sample in page.lines().filter_map(Sample::parse) {
        let is = |known: &[String]| known.iter().any(|name| name == sample.name);
        if is(&names.running) {
            add(&mut read.running, sample.value);
        } else if is(&names.waiting) {
            add(&mut read.waiting, sample.value);
        } else if is(&names.kv_usage_ratio) {
            raise(&mut read.kv_usage_ratio, sample.value);
        } else if is(&names.prefix_queries_tokens) {
            add(&mut read.prefix_queries_tokens, sample.value);
        } else if is(&names.prefix_hits_tokens) {
            add(&mut read.prefix_hits_tokens, sample.value);
        } else if is(&names.process_start_seconds) {
            raise(&mut read.process_start_seconds, sample.value);
        } else if is(&names.kv_tokens) {
            read.kv_tokens = Some(read.kv_tokens.unwrap_or(0).max(sample.value as u64));
        } else if let Some(config) = names.cache_config.iter().find(|config| config.name == sample.name) {
            let tokens = sample.number(&config.block_tokens_label).zip(sample.number(&config.blocks_label));
            let tokens = tokens.and_then(|(block, blocks)| block.checked_mul(blocks)).filter(|&tokens| tokens > 0);
            read.kv_tokens = read.kv_tokens.max(tokens);
        }
    }
    read
}

fn add(sum: &mut Option<f64>, value: f64) {
    *sum = Some(sum.unwrap_or(0.0) + value);
}

fn raise(largest: &mut Option<f64>, value: f64) {
    *largest = Some(largest.map_or(value, |known| known.max(value)));
}

/// One line: `name{label="value",...} value [timestamp]`.
struct Sample<'a> {
    name: &'a str,
    labels: &'a str,
    value: f64,
}

impl<'a> Sample<'a> {
    /// `None` for comments, other lines, and values that are not finite.
    fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let end_of_name = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end_of_name);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => rest.split_at(end_of_labels(rest)?),
            None => ("", rest),
        };
        let value = rest.trim_start_matches('}').split_ascii_whitespace().next()?.parse::<f64>().ok()?;
        value.is_finite().then_some(Self { name, labels, value })
    }

    /// The whole number that a label holds.
    fn number(&self, label: &str) -> Option<u64> {
        let mut rest = self.labels;
        while let Some((name, after)) = rest.split_once("=\"") {
            let end = end_of_value(after)?;
            if name.trim_start_matches([',', ' ']) == label {
                return after[..end].parse().ok();
            }
            rest = &after[end + 1..];
        }
        None
    }
}

/// Where the closing brace stands, not counting those inside quoted values.
fn end_of_labels(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(i),
            _ => {}
        }
    }
    None
}

/// Where the closing quote of a value stands.
fn end_of_value(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(i),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engines_names_are_known() {
        let table = [
            (
                "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n\
                 vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 2.0\n\
                 vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25\n\
                 vllm:cache_config_info{block_size=\"16\",engine=\"0\",note=\"a,b=\\\"}\",num_gpu_blocks=\"84800\"} 1.0\n",
                EngineMetrics {
                    running: Some(3.0),
                    waiting: Some(2.0),
                    kv_usage_ratio: Some(0.25),
                    kv_tokens: Some(1_356_800),
                    ..EngineMetrics::default()
                },
            ),
            (
                "sglang:num_running_reqs{tp_rank=\"0\"} 4\nsglang:num_queue_reqs{tp_rank=\"0\"} 1\nsglang:token_usage 0.5\n",
                EngineMetrics {
                    running: Some(4.0),
                    waiting: Some(1.0),
                    kv_usage_ratio: Some(0.5),
                    ..EngineMetrics::default()
                },
            ),
            (
                "llamacpp:requests_processing 1\nllamacpp:requests_deferred 7\n",
                EngineMetrics { running: Some(1.0), waiting: Some(7.0), ..EngineMetrics::default() },
            ),
        ];
        for (page, expected) in table {
            assert_eq!(parse(page), expected, "{page}");
        }
    }

    #[test]
    fn what_is_absent_or_not_a_number_stays_unknown() {
        assert_eq!(
            parse("vllm:num_requests_running NaN\nsomething_else 5\n# vllm:num_requests_waiting 3\n{} {\n"),
            EngineMetrics::default()
        );
    }

    #[test]
    fn ranks_are_added_up_and_ratios_are_not() {
        let page = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n\
                    vllm:kv_cache_usage_perc{engine=\"0\"} 0.3\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.6\n";
        let read = parse(page);
        assert_eq!((read.running, read.kv_usage_ratio), (Some(7.0), Some(0.6)));
    }

    #[test]
    fn recorded_pages_of_real_engines_tell_their_load_and_size() {
        let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/reference/engine-samples");
        for (file, kv_tokens) in
            [("http/vllm_metrics_a.txt", true), ("sglang-http/metrics.txt", true), ("llama/metrics.txt", false)]
        {
            let Ok(page) = std::fs::read_to_string(format!("{samples}/{file}")) else {
                println!("skipped: the recorded page {file} is not here");
                continue;
            };
            let read = parse(&page);
            assert!(read.running.is_some() && read.waiting.is_some(), "{file}: {read:?}");
            assert_eq!(read.kv_tokens.is_some(), kv_tokens, "{file}: {read:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_page_makes_it_panic(page in "(vllm:|sglang:)?[a-z_{}=\",\\\\ .0-9\n]{0,200}") {
            parse(&page);
        }
    }
}
