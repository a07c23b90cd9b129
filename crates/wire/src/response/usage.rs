//! Token counts, out of every API's words into one.

/// Token counts that an engine reported. `None` is "not said", which is not zero.
///
/// | here | chat, completions | responses | messages |
/// |---|---|---|---|
/// | `prompt_tokens` | `prompt_tokens` | `input_tokens` | `input_tokens` + `cache_read_input_tokens` + `cache_creation_input_tokens` |
/// | `completion_tokens` | `completion_tokens` | `output_tokens` | `output_tokens` |
/// | `cached_tokens` | `prompt_tokens_details.cached_tokens` | `input_tokens_details.cached_tokens` | `cache_read_input_tokens` |
///
/// In Anthropic's API the prompt's tokens that were cached are not among `input_tokens`; here `prompt_tokens` is always
/// the whole prompt, and `cached_tokens` a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the whole prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated.
    pub completion_tokens: Option<u64>,
    /// Prompt tokens whose KV the engine reused.
    pub cached_tokens: Option<u64>,
}

/// The counts as they were written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    /// Part of the input.
    pub(super) cached: Option<u64>,
    /// Beside the input.
    pub(super) cache_read: Option<u64>,
    /// Beside the input.
    pub(super) cache_creation: Option<u64>,
}

impl Counts {
    /// These counts, and where they say nothing those of an earlier event of the same stream: engines may repeat the
    /// usage with growing counts, and Anthropic's API gives the prompt's at the beginning and the answer's at the end.
    pub(super) fn or(self, earlier: Self) -> Self {
        Self {
            input: self.input.or(earlier.input),
            output: self.output.or(earlier.output),
            cached: self.cached.or(earlier.cached),
            cache_read: self.cache_read.or(earlier.cache_read),
            cache_creation: self.cache_creation.or(earlier.cache_creation),
        }
    }

    pub(super) fn usage(self) -> Usage {
        let beside = self.cache_read.unwrap_or(0).saturating_add(self.cache_creation.unwrap_or(0));
        Usage {
            prompt_tokens: self.input.map(|input| input.saturating_add(beside)),
            completion_tokens: self.output,
            cached_tokens: self.cached.or(self.cache_read),
        }
    }
}
