//! One file a format: rows to records.

mod access_log;
mod azure;
mod bailian;
mod burstgpt;
mod dynamo;
mod fields;
mod litellm;
mod mooncake;
mod openai;
mod openai_batch;
mod otel;
mod sagemaker;
mod sglang_log;
mod sharegpt;
mod vllm_log;
mod weka;

use super::detect::Look;
use super::format::{Format, Given, ReadRow};

/// Whether a row is of this format.
pub(super) fn recognises(format: Format, look: &Look<'_>) -> bool {
    match format {
        Format::Dynamo => dynamo::recognises(look),
        Format::SageMaker => sagemaker::recognises(look),
        Format::Weka => weka::recognises(look),
        Format::Bailian => bailian::recognises(look),
        Format::ShareGpt => sharegpt::recognises(look),
        Format::OpenAiBatch => openai_batch::recognises(look),
        Format::Otel => otel::recognises(look),
        Format::LiteLlm => litellm::recognises(look),
        Format::SglangLog => sglang_log::recognises(look),
        Format::Azure => azure::recognises(look),
        Format::BurstGpt => burstgpt::recognises(look),
        Format::VllmLog => vllm_log::recognises(look),
        Format::Mooncake => mooncake::recognises(look),
        Format::AccessLog => access_log::recognises(look),
        Format::OpenAi => openai::recognises(look),
        // Known only by being told.
        Format::Fields => false,
    }
}

/// The reader of a format. The first rows of the file tell what was not given.
pub(super) fn reader(format: Format, given: &Given, first: &[&[u8]]) -> Box<dyn ReadRow> {
    match format {
        Format::Dynamo => Box::new(dynamo::Dynamo::new(given)),
        Format::SageMaker => Box::new(sagemaker::SageMaker::new(given)),
        Format::Weka => Box::new(weka::Weka::new(given)),
        Format::Bailian => Box::new(bailian::Bailian::new(given, first)),
        Format::ShareGpt => Box::new(sharegpt::ShareGpt::new(given)),
        Format::OpenAiBatch => Box::new(openai_batch::OpenAiBatch::new(given)),
        Format::Otel => Box::new(otel::Otel::new(given)),
        Format::LiteLlm => Box::new(litellm::LiteLlm::new(given, first)),
        Format::SglangLog => Box::new(sglang_log::SglangLog::new(given, first)),
        Format::Azure => Box::new(azure::Azure::new(given)),
        Format::BurstGpt => Box::new(burstgpt::BurstGpt::new(given)),
        Format::VllmLog => Box::new(vllm_log::VllmLog::new(given, first)),
        Format::Mooncake => Box::new(mooncake::Mooncake::new(given, first)),
        Format::AccessLog => Box::new(access_log::AccessLog::new(given)),
        Format::OpenAi => Box::new(openai::OpenAi::new(given)),
        Format::Fields => Box::new(fields::Fields::new(given, first)),
    }
}
