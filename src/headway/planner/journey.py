"""The journey of one request: from the user to a chip and back, as one timeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headway.arithmetic.shape import ShapeError
from headway.planner.deployment import Deployment
from headway.planner.price import Workload
from headway.planner.uncertain import uncertain_figures

FIBRE_M_PER_S = 299_792_458 / 1.468
"""Light in glass."""
DETOUR = 1.67
"""Cable over straight line: makes 8,400 km from Seoul to Oregon the 137 ms there and back that are measured."""
FORMULAS = (
    "there and back = 2 x distance x detour / (c / 1.468)",
    "queue = utilisation / (2 (1 - utilisation)) x prompt's step: one server, equal jobs, random arrivals (M/D/1)",
    "boarding = half a decode step of the others in the batch: the one that is running must end",
    "first token = way there + front + queue + boarding + prompt's step + way back",
)
ASSUMPTIONS = (
    f"light in fibre at {FIBRE_M_PER_S / 1e6:.0f} Mm/s along cables {DETOUR} times the straight line",
    "a warm connection, unless handshakes are asked for: TCP and TLS 1.3 are a round trip each",
    "load balancer 1 ms, model and region routing 2 ms, node scheduling 1 ms: assumptions of this project, unverified",
    "nothing else runs while the prompt is computed; tokens stream back as they are made",
)
_FRONT = (("load balancer", 1e-3), ("model and region routing", 2e-3), ("node scheduling", 1e-3))
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    place: str
    start_s: float
    duration_s: float
    share: float


@dataclass(frozen=True, slots=True)
class JourneyReport:
    model: str
    system: str
    chips: int
    cost_model: str
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    batch: int
    round_trip_s: float
    ttft_s: float
    tpot_s: float
    total_s: float
    network_share: float
    stages: tuple[Stage, ...]
    uncertain: tuple[str, ...]
    assumptions: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS


def round_trip_s(distance_m: float) -> float:
    return 2 * distance_m * DETOUR / FIBRE_M_PER_S


def journey_report(
    where: Deployment, work: Workload, round_trip: float, utilisation: float, handshakes: int = 0
) -> JourneyReport:
    """Raises ShapeError if it does not fit or the utilisation is not in 0 .. 1."""
    if not 0 <= utilisation < 1:
        raise ShapeError(f"utilisation must be at least 0 and below 1, not {utilisation}")
    where.check_fits(work.prompt + work.output, work.batch)
    steps = [float(s) for s in where.decode_steps_s(work.prompt, work.output, work.batch)]
    prompt_s = where.prefill_s(work.new, work.cached)
    others = work.batch - 1
    boarding_s = float(where.decode_s(others, work.prompt)) / 2 if others else 0.0
    legs: list[tuple[str, str, float]] = []
    if handshakes:
        legs.append((_counted(handshakes, "handshake"), "network", handshakes * round_trip))
    legs.append(("way there", "network", round_trip / 2))
    legs += [(name, "front", seconds) for name, seconds in _FRONT]
    legs.append(("queue", "node", utilisation / (2 * (1 - utilisation)) * prompt_s))
    legs.append(("boarding", "node", boarding_s))
    legs.append((f"prompt: {_counted(work.new, 'token')}", "chip", prompt_s))
    before_s = sum(seconds for _, _, seconds in legs)
    legs += _decode_legs(steps)
    legs.append(("way back of the last token", "network", round_trip / 2))
    total = sum(seconds for _, _, seconds in legs)
    network = sum(seconds for _, place, seconds in legs if place == "network")
    return JourneyReport(
        where.name,
        where.system.name,
        where.cut.chips,
        where.cost_model,
        work.prompt,
        work.cached,
        work.output,
        work.batch,
        round_trip,
        before_s + round_trip / 2,
        sum(steps) / len(steps) if steps else 0.0,
        total,
        network / total,
        tuple(_timeline(legs, total)),
        uncertain_figures(where.system),
        (*ASSUMPTIONS, *where.assumed()),
    )


def _counted(count: int, one: str) -> str:
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"


def _decode_legs(steps: list[float]) -> Iterator[tuple[str, str, float]]:
    """The first few by themselves."""
    for i, seconds in enumerate(steps[:_SHOWN]):
        yield f"decode step {i + 1}", "chip", seconds
    if rest := steps[_SHOWN:]:
        several = f"steps {_SHOWN + 1} to {len(steps)}" if len(rest) > 1 else f"step {len(steps)}"
        yield f"decode {several}", "chip", sum(rest)


def _timeline(legs: list[tuple[str, str, float]], total: float) -> Iterator[Stage]:
    clock = 0.0
    for name, place, seconds in legs:
        yield Stage(name, place, clock, seconds, seconds / total)
        clock += seconds
