"""Deployments that tests ask about."""

from __future__ import annotations

from headway.arithmetic.formats import precision
from headway.arithmetic.parallelism import Parallelism
from headway.planner.deployment import Deployment
from headway.roofline import calibration
from tests.arithmetic.models import catalog, model


def deployed(
    name: str = "llama-3.1-70b",
    system: str = "hgx-h100",
    weights: str = "fp8",
    mfu: float | None = None,
    fitted: bool = False,
    **cut: int,
) -> Deployment:
    """Eight chips by tensor, unless a cut is named."""
    chosen = catalog().system(system)
    fit = calibration(catalog().calibration(chosen.chip.name, "vllm")) if fitted else None
    parallelism = Parallelism(**(cut or {"tensor": 8}))
    return Deployment(name, model(name), chosen, precision(weights), parallelism, fit, mfu)
