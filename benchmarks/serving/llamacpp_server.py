"""Run as a script in llama.cpp's environment: its own server, from the wheel `xllamacpp`."""

from __future__ import annotations

import argparse
import signal

import xllamacpp as llama

_SLOT_TOKENS = 1280
"""The longest request of the jobs, prompt and output, rounded up."""
_DEFAULT_SLOTS = 4
"""llama-server's own default, with one cache for all slots; the wheel's is 1."""


def parameters(arguments: argparse.Namespace) -> llama.CommonParams:
    params = llama.CommonParams()
    params.model.path = arguments.model
    params.hostnames, params.port = ["127.0.0.1"], arguments.port
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = arguments.threads
    params.n_parallel, params.kv_unified = _DEFAULT_SLOTS, True
    if arguments.slots:
        params.n_parallel, params.kv_unified = arguments.slots, False
        params.n_ctx = arguments.slots * _SLOT_TOKENS
    if arguments.flash_q8:
        params.flash_attn_type = llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
        params.cache_type_k = params.cache_type_v = llama.ggml_type.GGML_TYPE_Q8_0
    return params


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, help="a .gguf file")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--slots", type=int, help="requests in one batch")
    parser.add_argument("--flash-q8", action="store_true", help="flash attention, and KV in q8_0")
    server = llama.Server(parameters(parser.parse_args()))
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    del server


if __name__ == "__main__":
    main()
