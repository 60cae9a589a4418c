"""Run as a script: Hugging Face `generate`, fp32, greedy. One JSON order a line in, one line of answers out.

Order: {"prompts": [n][tokens], "batch": most prompts at one time, "output_tokens": k}; prompts have equal lengths.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import torch
from transformers import AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList
from transformers.utils import logging


class TokenTimes(StoppingCriteria):
    """Never stops anything; it is called after each token of the batch."""

    def __init__(self) -> None:
        self.at_s: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:  # noqa: ARG002
        self.at_s.append(time.perf_counter())
        return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)


def load(directory: str) -> Any:
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    # No end token: every request gives as many tokens as it asks for.
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def answers(model: Any, order: dict[str, Any]) -> list[dict[str, float]]:
    result = []
    for first in range(0, len(order["prompts"]), order["batch"]):
        result += _batch(model, order["prompts"][first : first + order["batch"]], order["output_tokens"])
    return result


def _batch(model: Any, prompts: list[list[int]], output_tokens: int) -> list[dict[str, float]]:
    sent_s = time.perf_counter()
    ids = torch.tensor(prompts)
    times = TokenTimes()
    with torch.inference_mode():
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=output_tokens,
            do_sample=False,
            stopping_criteria=StoppingCriteriaList([times]),
        )
    answer = {
        "sent_s": sent_s,
        "first_s": times.at_s[0],
        "last_s": times.at_s[-1],
        "prompt_tokens": ids.shape[1],
        "output_tokens": out.shape[1] - ids.shape[1],
    }
    return [answer] * len(prompts)


def main() -> None:
    # Whatever libraries print must not get between the answers.
    wire = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = load(sys.argv[1])
    print("ready", file=wire)
    for line in sys.stdin:
        print(json.dumps(answers(model, json.loads(line))), file=wire)


if __name__ == "__main__":
    main()
