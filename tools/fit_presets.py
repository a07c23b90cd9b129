#!/usr/bin/env python3
"""Fits the engine model's formula to AIConfigurator's profiles and prints the presets' constants.

    pip install aiconfigurator-core==0.12.0 scipy
    python tools/fit_presets.py                  # every preset, as a Markdown table
    python tools/fit_presets.py --rust NAME...   # as fields of crates/engine/src/model/presets.rs

Needs no GPU. Prefill is fitted to new tokens of 256 to 8,192 after 0 to 32,768 cached ones, decode to batches of 1 to 256
at contexts of 512 to 32,768 that fit into KV memory. Least squares of the relative error, no coefficient below zero; the
errors named are those over the same points. What the formula means is said in crates/engine/src/model/preset.rs.
"""

import argparse
import json
import logging
from dataclasses import dataclass
from pathlib import Path

import aiconfigurator_core
import numpy
from aiconfigurator_core.sdk.engine import EngineHandle
from scipy.optimize import nnls

GIB = 2**30
# Memory that a GPU of this kind reports, and AIConfigurator's name for the system.
SYSTEMS = {"h100": ("h100_sxm", 79.1), "h200": ("h200_sxm", 139.8), "a100": ("a100_sxm", 79.1)}
MODELS = {
    "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
    "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B",
    "llama-3.1-405b": "meta-llama/Meta-Llama-3.1-405B",
    "qwen3-32b": "Qwen/Qwen3-32B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
}
# MODEL-GPU[-tpN][-fp8]
NAMES = """
llama-3.1-70b-h100-tp8 llama-3.1-70b-h100-tp4 llama-3.1-70b-h100-tp8-fp8 llama-3.1-70b-h200-tp8 llama-3.1-70b-a100-tp8
llama-3.1-8b-h100 llama-3.1-70b-h100-tp4-fp8 llama-3.1-70b-h200-tp4 llama-3.1-8b-h100-fp8 llama-3.1-8b-h200
llama-3.1-8b-a100 llama-3.1-405b-h100-tp8-fp8 qwen3-32b-h100-tp2 qwen3-32b-h100-tp4 qwen3-32b-h100-tp2-fp8
qwen3-32b-h200-tp2 qwen3-32b-a100-tp4 qwen3-30b-a3b-h100 qwen3-235b-a22b-h100-tp4-fp8 qwen3-235b-a22b-h200-tp8
""".split()

# Constants from an earlier fit over other points of the same profiles: kept, so that figures measured with them stay
# comparable. Only their errors are taken anew; --refit shows what this method would make of them.
KEPT = {
    "llama-3.1-70b-h100-tp8": [6.28, 0.03843, 4.98e-7, 9.87, 0.0303, 1.324e-5],
    "llama-3.1-70b-h100-tp4": [6.83, 0.06049, 9.97e-7, 15.1, 0.0380, 2.63e-5],
    "llama-3.1-70b-h200-tp8": [5.05, 0.0375, 4.98e-7, 8.13, 0.0293, 9.5e-6],
    "llama-3.1-70b-a100-tp8": [14.6, 0.0987, 1.78e-6, 17.2, 0.0849, 2.59e-5],
    "llama-3.1-8b-h100": [2.84, 0.0193, 8.03e-7, 6.41, 0.0117, 4.17e-5],
}

NEW_TOKENS = [256, 512, 1024, 2048, 4096, 8192]
CACHED_TOKENS = [0, 2048, 8192, 32768]
DECODES = [1, 2, 4, 8, 16, 32, 64, 128, 256]
CONTEXTS = [512, 1024, 2048, 4096, 8192, 16384, 32768]


@dataclass
class Fit:
    coefficients: list
    mean_error: float
    max_error: float


def fit(rows, measured, kept=None):
    """Non-negative coefficients with the least squares of relative error, or how far the kept ones are off."""
    rows, measured = numpy.array(rows, float), numpy.array(measured, float)
    relative = rows / measured[:, None]
    scale = relative.max(axis=0)
    solution = numpy.array(kept) if kept else nnls(relative / scale, numpy.ones(len(measured)))[0] / scale
    errors = numpy.abs(rows @ solution / measured - 1)
    return Fit(solution.tolist(), errors.mean(), errors.max())


def split(name):
    """Model, GPU, tensor parallelism and whether weights are fp8, of a preset's name."""
    model = max((model for model in MODELS if name.startswith(model + "-")), key=len)
    gpu, *rest = name[len(model) + 1 :].split("-")
    tp = next((int(part[2:]) for part in rest if part.startswith("tp")), 1)
    return model, gpu, tp, "fp8" in rest


def weights_bytes(config, fp8):
    """Weights as published: fp8 leaves embeddings and the head in bf16."""
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    attention = hidden * head * 2 * (config["num_attention_heads"] + config["num_key_value_heads"])
    experts = config.get("num_experts") or config.get("num_local_experts") or 1
    inner = config.get("moe_intermediate_size") or config["intermediate_size"]
    router = hidden * experts if experts > 1 else 0
    linear = layers * (attention + 3 * hidden * inner * experts)
    return linear * (1 if fp8 else 2) + 2 * (2 * config["vocab_size"] * hidden + layers * router)


def kv_tokens(config, gpu_gib, tp, fp8):
    """What 0.9 of the memory leaves beside weights and 3 GiB of everything else; KV is bf16."""
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    # With more GPUs than KV heads every GPU holds one, so some are held twice.
    heads = max(config["num_key_value_heads"] // tp, 1)
    token_bytes = 2 * config["num_hidden_layers"] * heads * head * 2
    free = (gpu_gib * 0.9 - 3.0) * GIB - weights_bytes(config, fp8) / tp
    return int(free / token_bytes) // 16 * 16


def profile(name):
    """The fits of one preset, its KV tokens and the profile's own time for a cold prompt of 8,192 tokens."""
    model, gpu, tp, fp8 = split(name)
    system, gpu_gib = SYSTEMS[gpu]
    configs = Path(aiconfigurator_core.__file__).parent / "model_configs"
    config = json.loads((configs / f"{MODELS[model].replace('/', '--')}_config.json").read_text())
    modes = {"gemm_quant_mode": "fp8", "moe_quant_mode": "fp8_block"} if fp8 else {}
    is_moe = "num_experts_per_tok" in config
    if is_moe and fp8:
        modes["gemm_quant_mode"] = "fp8_block"
    if not is_moe:
        modes.pop("moe_quant_mode", None)
    engine = EngineHandle.compile(MODELS[model], system, "vllm", tp_size=tp, moe_tp_size=tp if is_moe else None, **modes)
    tokens = kv_tokens(config, gpu_gib, tp, fp8)
    kept = KEPT.get(name)
    prompts = [(n, p) for n in NEW_TOKENS for p in CACHED_TOKENS if n + p <= tokens]
    prefill = fit(
        [[1, n, n * (p + n / 2)] for n, p in prompts],
        [engine.predict_prefill_latency(1, n + p, p) for n, p in prompts],
        kept and kept[:3],
    )
    batches = [(b, c) for b in DECODES for c in CONTEXTS if b * c <= tokens]
    ratio = config["num_experts"] / config["num_experts_per_tok"] if is_moe else 1
    decode = fit(
        # Of a mixture of experts, the share that B requests read: the last coefficient is the time for all of them.
        [[1, b, b * c] + ([b / (b + ratio - 1)] if is_moe else []) for b, c in batches],
        [engine.predict_decode_latency(b, c) for b, c in batches],
        kept and kept[3:],
    )
    return prefill, decode, tokens, engine.predict_prefill_latency(1, 8192)


def rust(name, prefill, decode, tokens, cold_ms):
    number = lambda value: f"{value:.4g}" if value >= 0.001 or value == 0 else f"{value:.3e}"
    call = lambda function, values: f"{function}({', '.join(map(number, values))})"
    model, gpu, tp, fp8 = split(name)
    costs = call("decode", decode.coefficients[:3])
    if len(decode.coefficients) > 3:
        costs += f".with_experts({number(decode.coefficients[3])}, RATIO)"
    errors = [prefill.mean_error, prefill.max_error, decode.mean_error, decode.max_error]
    print(
        f"""    Preset {{
        name: "{name}",
        model: "{model}",
        gpu: "{gpu.upper()}",
        gpus: {tp},
        weights: "{'fp8' if fp8 else 'bf16'}",
        prefill: {call("prefill", prefill.coefficients)},
        decode: {costs},
        kv_tokens: {tokens:_},
        fit: fit({cold_ms:.0f}.0, {', '.join(f'{error * 100:.1f}' for error in errors)}),
        ..LLAMA_70B
    }},"""
    )


def markdown(name, prefill, decode, tokens, cold_ms):
    c, d = prefill.coefficients, decode.coefficients
    print(
        f"| {name} | {c[0]:.2f} + {c[1]:.5f} n + {c[2]:.3g} n(p+n/2) | {prefill.mean_error:.1%} {prefill.max_error:.1%} "
        f"| {d[0]:.2f} + {d[1]:.4f} B + {d[2]:.3g} K{f' + {d[3]:.2f} experts' if len(d) > 3 else ''} | {decode.mean_error:.1%} {decode.max_error:.1%} "
        f"| {tokens:,} | {cold_ms:.0f} |"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="MODEL-GPU[-tpN][-fp8], default: all presets")
    parser.add_argument("--rust", action="store_true", help="print fields of presets.rs")
    parser.add_argument("--refit", action="store_true", help="fit the presets too whose constants are kept")
    args = parser.parse_args()
    if args.refit:
        KEPT.clear()
    logging.disable(logging.WARNING)
    if not args.rust:
        print("| preset | prefill, ms | error | decode, ms | error | KV tokens | 8k prefill, ms |\n|---|---|---|---|---|---|---|")
    for name in args.names or NAMES:
        (rust if args.rust else markdown)(name, *profile(name))


if __name__ == "__main__":
    main()
