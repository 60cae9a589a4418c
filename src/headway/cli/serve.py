"""`headway serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headway.cli.out_files import OutFile
from headway.cli.quantities import ByteSize, NamedPath, Seconds
from headway.cli.tier_options import KVTierSize

COUNT = click.IntRange(min=1)
DTYPE_HELP = "Numbers of weights and KV. auto: float32 on a CPU, bfloat16 on a GPU."


@click.command(context_settings={"show_default": True})
@click.argument("model", required=False)
@click.option("--host", default="127.0.0.1", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, help="0 takes any free one.")
@click.option("--served-model-name", metavar="NAME", help="What the API calls the model.  [default: its own name]")
@click.option(
    "--api-key",
    "api_keys",
    multiple=True,
    metavar="KEY",
    help="A key that is accepted; repeatable. Also HEADWAY_API_KEYS, with commas between.",
)
@click.option("--allowed-host", "allowed_hosts", multiple=True, metavar="NAME", help="One more name in Host headers.")
@click.option("--access-log", is_flag=True, help="One line on stderr for each request.")
@click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16"]), default="auto", help=DTYPE_HELP)
@click.option("--device", default="auto", help="auto, cpu, cuda or cuda:N.")
@click.option("--block-size", type=COUNT, default=16, help="Tokens in a KV block: a power of two.")
@click.option("--kv-bytes", type=ByteSize(), help="Memory for KV, as 2GiB.  [default: from what is free]")
@click.option(
    "--kv-tier",
    "kv_tiers",
    type=KVTierSize(),
    multiple=True,
    metavar="NAME=SIZE",
    help="Keep KV that the device gives up in dram or ssd, as dram=2GiB; repeatable, nearest first.",
)
@click.option(
    "--kv-tier-dir",
    type=NamedPath(file_okay=False, exists=True, path_type=Path),
    help="Where the ssd tier's file lies.  [default: the system's temporary directory]",
)
@click.option(
    "--kv-ttl", type=Seconds(), help="Give up KV that nobody used for so long.  [default: when room is needed]"
)
@click.option("--max-context", type=COUNT, help="Tokens of prompt and output together.  [default: the model's]")
@click.option("--max-running", type=COUNT, default=256, help="Requests in one step.")
@click.option("--max-step-tokens", type=COUNT, help="Tokens in one step.  [default: 512 on a CPU, else 2048]")
@click.option("--prefix-cache/--no-prefix-cache", default=True, help="Reuse KV of prompts that begin alike.")
@click.option("--speculation", type=click.Choice(["off", "ngram"]), default="off", help="Draft by prompt lookup.")
@click.option("--draft-depth", type=click.IntRange(1, 64), default=4, help="Most drafts a row and step.")
@click.option(
    "--batching",
    type=click.Choice(["continuous", "static"]),
    default="continuous",
    help="static: a baseline, in which nobody boards a batch that has begun.",
)
@click.option(
    "--reservation",
    type=click.Choice(["demand", "worst-case"]),
    default="demand",
    help="KV blocks as they are needed, or all at the start: a baseline.",
)
@click.option("--max-queued-requests", type=click.IntRange(min=0), default=4096, help="Beyond it: 503.")
@click.option("--max-queued-tokens", type=COUNT, default=4_000_000, help="Beyond it: 503.")
@click.option("--drain-s", type=Seconds(), default=30.0, help="What open requests get when the server is stopped.")
@click.option("--stall-s", type=Seconds(), default=60.0, help="An engine silent for so long is restarted.")
@click.option(
    "--step-log",
    metavar="FILE",
    type=OutFile(is_new=True),
    help="Log every decision in a new FILE.",
)
def serve(**options: Any) -> None:
    """Serve MODEL over the OpenAI API.

    MODEL is a directory in Hugging Face form, a .gguf file, or an id on the Hugging Face hub; without it a small
    default model is fetched and kept. Clients send a key of HEADWAY_API_KEYS; `headway bench` reads its own from
    HEADWAY_API_KEY.
    """
    # Servers need much that other commands do not.
    from headway.cli.serving import serve_model

    serve_model(**options)
