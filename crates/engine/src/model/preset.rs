//! How fast an engine is and how much it holds.
//!
//! The figures are fits to AIConfigurator's profiles of vLLM; every preset names its source and how far
//! the fit is off ([`Fit`]). They are a model: what is measured with them is *simulated*.
//!
//! The time of a step, with *n* new tokens after *p* earlier ones for every prefill chunk, *B*
//! requests that decode and *K* tokens of context in them:
//!
//! ```text
//! prefill  c0 + sum(c1 n + c2 n (p + n/2))
//! decode   d0 + e(B) + d1 B + d2 K
//! mixed    max(c0, d0 + e(B)) + sum(c1 n + c2 n (p + n/2)) + d1 B + d2 K
//! ```
//!
//! `e(B)` is there for mixtures of experts: a step reads those experts that some token uses, all of them
//! in prefill. Where each token uses one of *r* experts, B tokens use about `B / (B + r - 1)` of all:
//! exact for one, and never more than all. Without it a line through the profiles is up to 59 % off.
//!
//! The prefill fit has no points below 256 tokens, where it would undercut a decode step. Both read
//! every weight once, so no step is shorter than one that decodes a token for each of its requests;
//! that is what a prompt costs of which nearly all is cached.

use super::step::StepWork;
use super::{Eviction, presets};

/// An engine's speed, memory and limits. Fields may be changed before the engine is made; see
/// [`Engine::new`](super::Engine::new) for how values without sense are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Model, GPU, tensor parallelism and weights, in one word.
    pub name: &'static str,
    /// The model.
    pub model: &'static str,
    /// What it runs on.
    pub gpu: &'static str,
    /// How many of them: the size of tensor parallelism.
    pub gpus: u32,
    /// Data type of the weights, `bf16` or `fp8`.
    pub weights: &'static str,
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
    /// Whose profiles prefill and decode are fitted to.
    pub source: &'static str,
    /// How well.
    pub fit: Fit,
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
    /// Reading all experts of a mixture; 0 where there are none.
    pub experts_ms: f64,
    /// Experts for each one that a token uses: 16 where it uses 8 of 128.
    pub experts_per_used: f64,
}

impl DecodeCost {
    /// What a step costs however much context there is, in milliseconds.
    fn weights_ms(&self, seqs: u64) -> f64 {
        if seqs == 0 || self.experts_ms == 0.0 {
            return self.base_ms;
        }
        let seqs = seqs as f64;
        self.base_ms + self.experts_ms * seqs / (seqs + self.experts_per_used - 1.0)
    }
}

/// How well the formula meets the profiles that it was fitted to, over 256 to 8,192 new tokens after 0 to
/// 32,768 cached ones, and over 1 to 256 requests that decode at contexts of 512 to 32,768.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The profile's own time for a prompt of 8,192 tokens, without overhead.
    pub cold_8k_ms: f64,
    /// Mean of the error of prefill.
    pub prefill_error_mean_percent: f64,
    /// Its largest.
    pub prefill_error_max_percent: f64,
    /// Mean of the error of decode.
    pub decode_error_mean_percent: f64,
    /// Its largest.
    pub decode_error_max_percent: f64,
}

impl Preset {
    /// Every preset, the default first.
    pub const ALL: [Self; presets::ALL.len()] = presets::ALL;

    /// The preset of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// How long a lone prompt of which nothing is cached takes to compute, in milliseconds, in chunks as the
    /// engine makes them. Without [`overhead_ms`](Self::overhead_ms) and
    /// [`prefill_scale`](Self::prefill_scale).
    #[must_use]
    pub fn cold_prefill_ms(&self, prompt_tokens: u32) -> f64 {
        let unscaled = Self { prefill_scale: 1.0, ..*self };
        let chunk = self.step_tokens_max.max(1) as usize;
        let chunks = (0..u64::from(prompt_tokens)).step_by(chunk).map(|context| {
            let new = (u64::from(prompt_tokens) - context).min(chunk as u64);
            // What computes one token, its last, is a decode to the engine.
            if new == 1 {
                return StepWork { decodes: 1, decode_context_tokens: context, ..StepWork::default() };
            }
            StepWork {
                chunks: 1,
                chunk_tokens: new,
                chunk_context_tokens: context,
                chunk_token_pairs_doubled: new * (2 * context + new),
                ..StepWork::default()
            }
        });
        chunks.map(|work| unscaled.step_ms(&work)).sum()
    }

    /// How long a step with this work takes, in milliseconds.
    pub(super) fn step_ms(&self, work: &StepWork) -> f64 {
        let (c, d) = (&self.prefill, &self.decode);
        let decode_ms = |seqs: u64, context: u64| d.per_seq_ms * seqs as f64 + d.per_context_token_ms * context as f64;
        let decoding_ms = decode_ms(work.decodes, work.decode_context_tokens);
        if work.chunks == 0 {
            return d.weights_ms(work.decodes) + decoding_ms;
        }
        let base_ms = self.prefill_scale * c.base_ms;
        let base_ms = if work.decodes == 0 { base_ms } else { base_ms.max(d.weights_ms(work.decodes)) };
        let prefill_ms = self.prefill_scale
            * (c.per_token_ms * work.chunk_tokens as f64
                + c.per_token_context_ms * (work.chunk_token_pairs_doubled as f64 / 2.0));
        let seqs = work.decodes + work.chunks;
        let floor_ms = d.weights_ms(seqs) + decode_ms(seqs, work.decode_context_tokens + work.chunk_context_tokens);
        (base_ms + prefill_ms + decoding_ms).max(floor_ms)
    }
}

impl Default for Preset {
    /// Llama 3.1 70B in bf16 on eight H100.
    fn default() -> Self {
        presets::ALL[0]
    }
}
