//! The formats, and what they have in common.

use super::Record;
use super::field::Field;
use super::path::Path;
use super::time::TimeUnit;

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Dynamo's request traces.
    Dynamo,
    /// SageMaker's data capture.
    SageMaker,
    /// Weka's agent sessions.
    Weka,
    /// Qwen's Bailian traces.
    Bailian,
    /// ShareGPT's conversations.
    ShareGpt,
    /// Files of the OpenAI batch API.
    OpenAiBatch,
    /// OpenTelemetry spans with GenAI attributes.
    Otel,
    /// LiteLLM's spend logs.
    LiteLlm,
    /// SGLang's request log in JSON.
    SglangLog,
    /// Azure's traces of LLM services, in CSV.
    Azure,
    /// BurstGPT, in CSV.
    BurstGpt,
    /// vLLM's server log.
    VllmLog,
    /// Mooncake's rows, with what AIPerf, Dynamo and our own recorder add to them.
    Mooncake,
    /// Access logs in JSON with bodies, as nginx or Envoy write them.
    AccessLog,
    /// Bodies of the OpenAI or Anthropic API, a line each.
    OpenAi,
    /// Any JSON, where `--field` says what is where.
    Fields,
}

impl Format {
    /// All of them, in the order in which a file is asked: whatever is told by little comes last.
    pub const ALL: [Self; 16] = [
        Self::Dynamo,
        Self::SageMaker,
        Self::Weka,
        Self::Bailian,
        Self::ShareGpt,
        Self::OpenAiBatch,
        Self::Otel,
        Self::LiteLlm,
        Self::SglangLog,
        Self::Azure,
        Self::BurstGpt,
        Self::VllmLog,
        Self::Mooncake,
        Self::AccessLog,
        Self::OpenAi,
        Self::Fields,
    ];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dynamo => "dynamo",
            Self::SageMaker => "sagemaker",
            Self::Weka => "weka",
            Self::Bailian => "bailian",
            Self::ShareGpt => "sharegpt",
            Self::OpenAiBatch => "openai-batch",
            Self::Otel => "otel",
            Self::LiteLlm => "litellm",
            Self::SglangLog => "sglang-log",
            Self::Azure => "azure",
            Self::BurstGpt => "burstgpt",
            Self::VllmLog => "vllm-log",
            Self::Mooncake => "mooncake",
            Self::AccessLog => "access-log",
            Self::OpenAi => "openai",
            Self::Fields => "fields",
        }
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What the times of a trace are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeBase {
    /// One moment for all records.
    #[default]
    Trace,
    /// The beginning of each session: how sessions lie to each other is not known.
    Session,
}

/// What was said about a trace beforehand; what was not, a format assumes.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    pub(super) time_unit: Option<TimeUnit>,
    pub(super) block_tokens: Option<u32>,
    /// Records are to hold bodies.
    pub(super) keeps_body: bool,
    pub(super) fields: Vec<(Field, Path)>,
}

/// Reads the rows of one format.
pub(super) trait ReadRow: Send {
    /// Reads a row into the records that it holds, none if it is not about a request.
    ///
    /// # Errors
    /// Why it cannot be read, in words, without what it holds.
    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String>;

    /// Another file begins.
    fn begin_file(&mut self) {}

    /// No more rows come: what waited for others is told.
    fn finish(&mut self, _out: &mut Vec<Record>) {}

    /// What was assumed, a sentence each.
    fn assumptions(&self) -> Vec<String>;

    /// What makes answers doubtful, a sentence each.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// What times are counted from.
    fn time_base(&self) -> TimeBase {
        TimeBase::Trace
    }
}
