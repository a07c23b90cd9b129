"""One llama.cpp server on a loopback port, in the foreground until SIGTERM.

Usage: python server.py MODEL.gguf PORT SLOTS CONTEXT_TOKENS_PER_SLOT
"""

import os
import signal
import sys

import xllamacpp


def parameters(model: str, port: int, slots: int, context_tokens: int) -> xllamacpp.CommonParams:
    """One thread, and no cache but the slots' own, so that what is reused is what routing made reusable."""
    chosen = xllamacpp.CommonParams()
    chosen.model.path = model
    chosen.model_alias = {"tiny"}
    chosen.hostnames = ["127.0.0.1"]
    chosen.port = port
    chosen.n_parallel = slots
    chosen.n_ctx = slots * context_tokens
    chosen.cpuparams.n_threads = 1
    chosen.cpuparams_batch.n_threads = 1
    chosen.n_gpu_layers = 0
    chosen.warmup = False
    chosen.use_jinja = True
    # By default a server keeps evicted slots in memory (8 GiB), which is as good as an endless cache.
    chosen.cache_ram_mib = 0
    return chosen


def main() -> None:
    """Serves; the readiness probe is GET /health."""
    model, port, slots, context_tokens = sys.argv[1], *map(int, sys.argv[2:5])
    # Before the server starts threads, so that the signal is taken here and nowhere else.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    server = xllamacpp.Server(parameters(model, port, slots, context_tokens))
    print("listening on", server.listening_address, flush=True)
    signal.sigwait({signal.SIGTERM})
    # Without the library's own clean-up: there is nothing to save, and its joins may wait for open connections.
    os._exit(0)


if __name__ == "__main__":
    main()
