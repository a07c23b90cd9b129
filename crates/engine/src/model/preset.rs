//! How fast an engine is and how much it holds.
//!
//! The figures are fits to AIConfigurator 0.12.0's profiles of vLLM 0.24: mean error 1 to 3 % for
//! prefill of 256 tokens and more, 3 % for decode. They are a model: what is measured with them is
//! *simulated*.
//!
//! The time of a step, with *n* new tokens after *p* earlier ones for every prefill chunk, *B*
//! requests that decode and *K* tokens of context in them:
//!
//! ```text
//! prefill  c0 + sum(c1 n + c2 n (p + n/2))
//! decode   d0 + d1 B + d2 K
//! mixed    max(c0, d0) + sum(c1 n + c2 n (p + n/2)) + d1 B + d2 K
//! ```
//!
//! The prefill fit has no points below 256 tokens, where it would undercut a decode step. Both read
//! every weight once, so no step is shorter than one that decodes a token for each of its requests;
//! that is what a prompt costs of which nearly all is cached.

use super::Eviction;
use super::step::StepWork;

/// An engine's speed, memory and limits. Fields may be changed before the engine is made; see
/// [`Engine::new`](super::Engine::new) for how values without sense are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Model, GPU and tensor parallelism.
    pub name: &'static str,
    /// Cost of computing prompts.
    pub prefill: PrefillCost,
    /// Cost of generating.
    pub decode: DecodeCost,
    /// From the request's arrival until the scheduler sees it: HTTP and tokenizing. Runs beside the
    /// steps. Published fleets suggest 40 to 100.
    pub overhead_ms: f64,
    /// Tokens that KV memory holds; only whole blocks count.
    pub kv_tokens: u32,
    /// Tokens a KV block.
    pub block_tokens: u32,
    /// Which cached blocks lose their room first.
    pub eviction: Eviction,
    /// Tokens computed in one step, prefill and decode together (`max_num_batched_tokens`).
    pub step_tokens_max: u32,
    /// Requests that run at a time (`max_num_seqs`).
    pub seqs_max: u32,
    /// Whether a request starts only when all of it finds room, and not only its first chunk
    /// (`scheduler_reserve_full_isl`, on by default in vLLM since 2026). Without it, prompts longer than
    /// a step's budget preempt each other while memory is short.
    pub whole_prompt_must_fit: bool,
    /// LoRA adapters that run at a time (`max_loras`). Who needs one more waits, and is overtaken by
    /// those who don't.
    pub adapters_max: u32,
    /// Prompt and output of one request (`max_model_len`).
    pub context_tokens_max: u32,
    /// Multiplies the cost of prefill. 1 is the fit; 0.73 meets the absolute times that SageMaker
    /// published for a fleet of unknown data type.
    pub prefill_scale: f64,
}

/// Cost of the prompt tokens in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefillCost {
    /// A step.
    pub base_ms: f64,
    /// A new token.
    pub per_token_ms: f64,
    /// A new token and a token before it.
    pub per_token_context_ms: f64,
}

/// Cost of the generated tokens in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeCost {
    /// A step.
    pub base_ms: f64,
    /// A request that decodes.
    pub per_seq_ms: f64,
    /// A token of context in a request that decodes.
    pub per_context_token_ms: f64,
}

impl Preset {
    /// Every preset, the default first.
    pub const ALL: [Self; 6] = [
        H100_TP8,
        Self {
            name: "llama-3.1-70b-h100-tp4",
            prefill: prefill(6.83, 0.060_49, 9.97e-7),
            decode: decode(15.1, 0.0380, 2.63e-5),
            // Measured; the formula below gives 463,000.
            kv_tokens: 461_376,
            ..H100_TP8
        },
        Self {
            name: "llama-3.1-70b-h100-tp8-fp8",
            prefill: prefill(7.33, 0.0320, 5.15e-7),
            decode: decode(7.55, 0.0336, 7.8e-6),
            // Half the weights; KV stays bf16.
            kv_tokens: 1_570_000,
            ..H100_TP8
        },
        Self {
            name: "llama-3.1-70b-h200-tp8",
            prefill: prefill(5.05, 0.0375, 4.98e-7),
            decode: decode(8.13, 0.0293, 9.5e-6),
            // The formula below with 139.8 GiB a GPU.
            kv_tokens: 2_789_040,
            ..H100_TP8
        },
        Self {
            name: "llama-3.1-70b-a100-tp8",
            prefill: prefill(14.6, 0.0987, 1.78e-6),
            decode: decode(17.2, 0.0849, 2.59e-5),
            ..H100_TP8
        },
        Self {
            name: "llama-3.1-8b-h100",
            prefill: prefill(2.84, 0.0193, 8.03e-7),
            decode: decode(6.41, 0.0117, 4.17e-5),
            // The formula below with 16.06 GB of weights and 131,072 bytes a token.
            kv_tokens: 436_080,
            ..H100_TP8
        },
    ];

    /// The preset of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// How long a step with this work takes, in milliseconds.
    pub(super) fn step_ms(&self, work: &StepWork) -> f64 {
        let (c, d) = (&self.prefill, &self.decode);
        let decode_ms = |seqs: u64, context: u64| d.per_seq_ms * seqs as f64 + d.per_context_token_ms * context as f64;
        let decoding_ms = decode_ms(work.decodes, work.decode_context_tokens);
        if work.chunks == 0 {
            return d.base_ms + decoding_ms;
        }
        let base_ms = self.prefill_scale * c.base_ms;
        let base_ms = if work.decodes == 0 { base_ms } else { base_ms.max(d.base_ms) };
        let prefill_ms = self.prefill_scale
            * (c.per_token_ms * work.chunk_tokens as f64
                + c.per_token_context_ms * (work.chunk_token_pairs_doubled as f64 / 2.0));
        let floor_ms =
            d.base_ms + decode_ms(work.decodes + work.chunks, work.decode_context_tokens + work.chunk_context_tokens);
        (base_ms + prefill_ms + decoding_ms).max(floor_ms)
    }
}

impl Default for Preset {
    /// Llama 3.1 70B in bf16 on eight H100.
    fn default() -> Self {
        H100_TP8
    }
}

/// KV memory is what 0.9 of the GPUs' memory leaves beside the weights (141.1 GB) and 3.0 GiB a GPU
/// of everything else, at 327,680 bytes a token (80 layers, 8 heads of 128, keys and values, bf16):
/// `8 x (79.1 GiB x 0.9 - 141.1 GB / 8 - 3.0 GiB) / 327,680`, 84,800 blocks.
#[allow(clippy::approx_constant, reason = "6.28 ms, not a circle")]
const H100_TP8: Preset = Preset {
    name: "llama-3.1-70b-h100-tp8",
    prefill: prefill(6.28, 0.038_43, 4.98e-7),
    decode: decode(9.87, 0.0303, 1.324e-5),
    overhead_ms: 40.0,
    kv_tokens: 1_356_800,
    block_tokens: 16,
    eviction: Eviction::Lru,
    step_tokens_max: 8192,
    seqs_max: 256,
    whole_prompt_must_fit: true,
    adapters_max: 4,
    context_tokens_max: 131_072,
    prefill_scale: 1.0,
};

const fn prefill(base_ms: f64, per_token_ms: f64, per_token_context_ms: f64) -> PrefillCost {
    PrefillCost { base_ms, per_token_ms, per_token_context_ms }
}

const fn decode(base_ms: f64, per_seq_ms: f64, per_context_token_ms: f64) -> DecodeCost {
    DecodeCost { base_ms, per_seq_ms, per_context_token_ms }
}
