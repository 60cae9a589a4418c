"""A machine file made by hand, with round numbers, of a model of the catalog."""

from __future__ import annotations

from typing import Any

from headway.catalog import load_catalog
from headway.catalog.machine import MachineFile, Peaks, Served

MODEL = "smollm2-135m"
FIT = {
    "overlap": 0.0,
    "compute_efficiency": 0.5,
    "attention_compute_efficiency": 0.2,
    "bandwidth_efficiency": 0.8,
    "attention_bandwidth_efficiency": 0.4,
    "layer_s": 1e-4,
    "host_s": 3e-4,
    "host_sequence_s": 2e-5,
}


def machine(**changes: Any) -> MachineFile:
    fields: dict[str, Any] = {
        "version": 1,
        "date": "2026-11-29",
        "machine": "Some CPU, 2 threads",
        "versions": {"headway": "0.1.0", "torch": "2.6"},
        "model": "Small",
        "config": load_catalog().config(MODEL),
        "dtype": "float32",
        "number_format": "fp32",
        "device": "cpu",
        "peaks": Peaks(memory_bytes=16e9, memory_bytes_per_s=2e10, flops_per_s=2e11),
        "served": Served(block_size=16, num_blocks=4000, max_running=64, max_step_tokens=512, max_context=8192),
        "fit": FIT,
        "points": 40,
        "steps": 800,
        "median_error": 0.02,
        "held_out_median_error": 0.03,
        "held_out_mean_error": 0.04,
        "disturbance": 1.01,
    }
    return MachineFile(**fields | changes)
