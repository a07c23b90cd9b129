//! The presets: fits to published profiles, as `tools/fit_presets.py` makes them.
//!
//! KV memory is what 0.9 of the GPUs' memory (79.1 GiB on H100 and A100, 139.8 GiB on H200) leaves beside
//! the weights and 3.0 GiB a GPU of everything else, in bf16: for Llama 3.1 70B on eight H100
//! `8 x (79.1 GiB x 0.9 - 141.1 GB / 8 - 3.0 GiB) / 327,680`, 84,800 blocks. With fp8 weights KV stays
//! bf16, and so do embeddings and head. Where there are more GPUs than KV heads, each holds one.
//!
//! Five of the first six have constants from an earlier fit over other points of the same profiles. They
//! are kept so that what was measured with them stays comparable; their errors are those over the points
//! of the others.

use super::preset::{DecodeCost, Fit, PrefillCost};
use super::{Eviction, Preset};

const VLLM_0_24: &str = "AIConfigurator 0.12.0, vLLM 0.24";
const VLLM_0_14: &str = "AIConfigurator 0.12.0, vLLM 0.14";

/// What presets have in common.
const COMMON: Preset = Preset {
    name: "",
    model: "",
    gpu: "",
    gpus: 1,
    weights: "bf16",
    prefill: prefill(0.0, 0.0, 0.0),
    decode: decode(0.0, 0.0, 0.0),
    overhead_ms: 40.0,
    kv_tokens: 0,
    block_tokens: 16,
    eviction: Eviction::Lru,
    step_tokens_max: 8192,
    seqs_max: 256,
    whole_prompt_must_fit: true,
    adapters_max: 4,
    context_tokens_max: 131_072,
    prefill_scale: 1.0,
    source: VLLM_0_24,
    fit: fit(0.0, 0.0, 0.0, 0.0, 0.0),
};

const QWEN3: Preset = Preset { context_tokens_max: 40_960, ..COMMON };

/// Every preset, the default first.
#[allow(clippy::approx_constant, reason = "6.28 ms, not a circle")]
pub(super) const ALL: [Preset; 20] = [
    Preset {
        name: "llama-3.1-70b-h100-tp8",
        model: "Llama 3.1 70B",
        gpu: "H100",
        gpus: 8,
        weights: "bf16",
        prefill: prefill(6.28, 0.038_43, 4.98e-7),
        decode: decode(9.87, 0.030_3, 1.324e-5),
        kv_tokens: 1_356_800,
        fit: fit(344.0, 1.5, 5.8, 3.2, 10.8),
        ..COMMON
    },
    Preset {
        name: "llama-3.1-70b-h100-tp4",
        model: "Llama 3.1 70B",
        gpu: "H100",
        gpus: 4,
        weights: "bf16",
        prefill: prefill(6.83, 0.060_49, 9.97e-7),
        decode: decode(15.1, 0.038, 2.63e-5),
        // Measured by llm-d; the formula gives 463,152.
        kv_tokens: 461_376,
        fit: fit(577.0, 3.2, 7.3, 2.0, 4.7),
        ..COMMON
    },
    Preset {
        name: "llama-3.1-70b-h100-tp8-fp8",
        model: "Llama 3.1 70B",
        gpu: "H100",
        gpus: 8,
        weights: "fp8",
        prefill: prefill(7.597, 0.033_33, 4.711e-7),
        decode: decode(7.954, 0.030_29, 1.379e-5),
        kv_tokens: 1_565_824,
        fit: fit(278.0, 2.9, 6.8, 2.3, 5.5),
        ..COMMON
    },
    Preset {
        name: "llama-3.1-70b-h200-tp8",
        model: "Llama 3.1 70B",
        gpu: "H200",
        gpus: 8,
        weights: "bf16",
        prefill: prefill(5.05, 0.037_5, 4.98e-7),
        decode: decode(8.13, 0.029_3, 9.5e-6),
        kv_tokens: 2_789_040,
        fit: fit(334.0, 2.0, 6.3, 2.4, 9.9),
        ..COMMON
    },
    Preset {
        name: "llama-3.1-70b-a100-tp8",
        model: "Llama 3.1 70B",
        gpu: "A100",
        gpus: 8,
        weights: "bf16",
        prefill: prefill(14.6, 0.098_7, 1.78e-6),
        decode: decode(17.2, 0.084_9, 2.59e-5),
        kv_tokens: 1_356_800,
        fit: fit(832.0, 6.4, 15.4, 3.5, 10.9),
        source: VLLM_0_14,
        ..COMMON
    },
    Preset {
        name: "llama-3.1-8b-h100",
        model: "Llama 3.1 8B",
        gpu: "H100",
        gpus: 1,
        weights: "bf16",
        prefill: prefill(2.84, 0.019_3, 8.03e-7),
        decode: decode(6.41, 0.011_7, 4.17e-5),
        kv_tokens: 436_080,
        fit: fit(200.0, 3.9, 10.6, 2.8, 7.8),
        ..COMMON
    },
    Preset {
        name: "llama-3.1-70b-h100-tp4-fp8",
        model: "Llama 3.1 70B",
        gpu: "H100",
        gpus: 4,
        weights: "fp8",
        prefill: prefill(7.656, 0.046_98, 9.496e-7),
        decode: decode(10.68, 0.035_24, 2.693e-5),
        kv_tokens: 672_048,
        fit: fit(399.0, 3.1, 6.4, 2.0, 5.2),
        ..COMMON
    },
    Preset {
        name: "llama-3.1-70b-h200-tp4",
        model: "Llama 3.1 70B",
        gpu: "H200",
        gpus: 4,
        weights: "bf16",
        prefill: prefill(5.259, 0.060_07, 9.752e-7),
        decode: decode(12.26, 0.031_66, 1.838e-5),
        kv_tokens: 1_179_200,
        fit: fit(543.0, 2.4, 6.1, 2.0, 5.9),
        ..COMMON
    },
    Preset {
        name: "llama-3.1-8b-h100-fp8",
        model: "Llama 3.1 8B",
        gpu: "H100",
        gpus: 1,
        weights: "fp8",
        prefill: prefill(2.724, 0.014_11, 7.819e-7),
        decode: decode(4.432, 0.008285, 4.405e-5),
        kv_tokens: 489_328,
        fit: fit(145.0, 3.0, 8.2, 2.8, 5.8),
        ..COMMON
    },
    Preset {
        name: "llama-3.1-8b-h200",
        model: "Llama 3.1 8B",
        gpu: "H200",
        gpus: 1,
        weights: "bf16",
        prefill: prefill(1.827, 0.019_65, 7.987e-7),
        decode: decode(4.957, 0.010_29, 3.031e-5),
        kv_tokens: 883_600,
        fit: fit(199.0, 3.3, 7.6, 2.0, 5.7),
        ..COMMON
    },
    Preset {
        name: "llama-3.1-8b-a100",
        model: "Llama 3.1 8B",
        gpu: "A100",
        gpus: 1,
        weights: "bf16",
        prefill: prefill(8.092, 0.054_43, 2.944e-6),
        decode: decode(11.69, 0.031_13, 7.974e-5),
        kv_tokens: 436_080,
        fit: fit(557.0, 0.9, 2.4, 2.4, 11.1),
        source: VLLM_0_14,
        ..COMMON
    },
    Preset {
        name: "llama-3.1-405b-h100-tp8-fp8",
        model: "Llama 3.1 405B",
        gpu: "H100",
        gpus: 8,
        weights: "fp8",
        prefill: prefill(16.29, 0.131_4, 1.453e-6),
        decode: decode(26.5, 0.085_93, 2.417e-5),
        kv_tokens: 340_432,
        fit: fit(1065.0, 3.3, 7.1, 2.5, 8.0),
        ..COMMON
    },
    Preset {
        name: "qwen3-32b-h100-tp2",
        model: "Qwen3 32B",
        gpu: "H100",
        gpus: 2,
        weights: "bf16",
        prefill: prefill(7.572, 0.047_78, 1.602e-6),
        decode: decode(13.54, 0.025_5, 4.418e-5),
        // llm-d measured 307,328.
        kv_tokens: 308_656,
        fit: fit(476.0, 3.9, 8.7, 1.9, 5.8),
        ..QWEN3
    },
    Preset {
        name: "qwen3-32b-h100-tp4",
        model: "Qwen3 32B",
        gpu: "H100",
        gpus: 4,
        weights: "bf16",
        prefill: prefill(7.337, 0.028_44, 7.797e-7),
        decode: decode(8.285, 0.019_19, 2.216e-5),
        kv_tokens: 867_264,
        fit: fit(274.0, 2.3, 6.3, 2.0, 5.8),
        ..QWEN3
    },
    Preset {
        name: "qwen3-32b-h100-tp2-fp8",
        model: "Qwen3 32B",
        gpu: "H100",
        gpus: 2,
        weights: "fp8",
        prefill: prefill(7.235, 0.037_7, 1.564e-6),
        decode: decode(9.627, 0.020_68, 4.266e-5),
        kv_tokens: 427_696,
        fit: fit(353.0, 1.6, 4.4, 1.3, 4.2),
        ..QWEN3
    },
    Preset {
        name: "qwen3-32b-h200-tp2",
        model: "Qwen3 32B",
        gpu: "H200",
        gpus: 2,
        weights: "bf16",
        prefill: prefill(5.75, 0.047_53, 1.632e-6),
        decode: decode(10.81, 0.023_89, 2.956e-5),
        kv_tokens: 756_176,
        fit: fit(474.0, 3.2, 6.3, 1.8, 5.4),
        ..QWEN3
    },
    Preset {
        name: "qwen3-32b-a100-tp4",
        model: "Qwen3 32B",
        gpu: "A100",
        gpus: 4,
        weights: "bf16",
        prefill: prefill(9.39, 0.076_6, 2.893e-6),
        decode: decode(14.68, 0.044_87, 4.29e-5),
        kv_tokens: 867_264,
        fit: fit(711.0, 3.0, 8.5, 2.4, 6.7),
        source: VLLM_0_14,
        ..QWEN3
    },
    Preset {
        name: "qwen3-30b-a3b-h100",
        model: "Qwen3 30B-A3B",
        gpu: "H100",
        gpus: 1,
        weights: "bf16",
        prefill: prefill(22.98, 0.010_69, 1.194e-6),
        decode: decode(3.512, 0.046_21, 3.653e-5).with_experts(17.99, 16.0),
        kv_tokens: 123_632,
        fit: fit(153.0, 1.4, 3.5, 3.9, 11.9),
        ..QWEN3
    },
    Preset {
        name: "qwen3-235b-a22b-h100-tp4-fp8",
        model: "Qwen3 235B-A22B",
        gpu: "H100",
        gpus: 4,
        weights: "fp8",
        prefill: prefill(46.75, 0.029_87, 1.13e-6),
        decode: decode(17.25, 0.067_61, 1.561e-5).with_experts(24.48, 16.0),
        kv_tokens: 293_408,
        fit: fit(337.0, 1.8, 4.7, 6.3, 16.1),
        ..QWEN3
    },
    Preset {
        name: "qwen3-235b-a22b-h200-tp8",
        model: "Qwen3 235B-A22B",
        gpu: "H200",
        gpus: 8,
        weights: "bf16",
        prefill: prefill(26.08, 0.023_11, 5.704e-7),
        decode: decode(6.959, 0.037_15, 1.186e-5).with_experts(14.53, 16.0),
        kv_tokens: 1_518_944,
        fit: fit(233.0, 1.6, 5.4, 4.0, 9.7),
        ..QWEN3
    },
];

const fn prefill(base_ms: f64, per_token_ms: f64, per_token_context_ms: f64) -> PrefillCost {
    PrefillCost { base_ms, per_token_ms, per_token_context_ms }
}

const fn decode(base_ms: f64, per_seq_ms: f64, per_context_token_ms: f64) -> DecodeCost {
    DecodeCost { base_ms, per_seq_ms, per_context_token_ms, experts_ms: 0.0, experts_per_used: 1.0 }
}

impl DecodeCost {
    const fn with_experts(self, experts_ms: f64, experts_per_used: f64) -> Self {
        Self { experts_ms, experts_per_used, ..self }
    }
}

const fn fit(cold_8k_ms: f64, prefill_mean: f64, prefill_max: f64, decode_mean: f64, decode_max: f64) -> Fit {
    Fit {
        cold_8k_ms,
        prefill_error_mean_percent: prefill_mean,
        prefill_error_max_percent: prefill_max,
        decode_error_mean_percent: decode_mean,
        decode_error_max_percent: decode_max,
    }
}
