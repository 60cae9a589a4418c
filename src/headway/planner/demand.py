"""Fleet demand: users, requests and tokens that grow, as chips, megawatts and transceivers; serving beside training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headway.arithmetic.shape import ShapeError
from headway.planner.deployment import Deployment
from headway.planner.fleet import SECONDS_PER_DAY, transceiver_w
from headway.planner.price import Workload
from headway.planner.uncertain import rent_of, uncertain_figures

FORMULAS = (
    "requests/s at the peak = users x requests a day / 86,400 x peak over mean",
    "chips = requests/s x chip-seconds of a request / utilisation, in whole replicas",
    "training chips = serving chips x share / (1 - share)",
    "MW = chips x power x overhead + transceivers x their power",
    "rent = chips x USD a chip-hour x 8,766 hours",
    "year n = year 0 x growth^n",
)
ASSUMPTIONS = (
    "decode steps carry `batch` requests alike",
    "the fleet is sized for the peak; prompts and decode steps share the chips",
    "users grow, what each asks for stays; hardware and model stay the same",
)
HOURS_PER_YEAR = 8766
MAX_YEARS = 30
MAX_CHIPS = 1e15
"""More are a mistake, and no whole number that is certain."""


@dataclass(frozen=True, slots=True)
class Demand:
    users: float
    requests_per_user_day: float
    peak_over_mean: float
    growth: float
    """Factor a year."""
    years: int
    training_share: float
    """Of all chips."""
    utilisation: float
    transceivers_per_chip: float
    transceiver_w: float
    overhead: float

    def __post_init__(self) -> None:
        if not 0 <= self.training_share < 1:
            raise ShapeError(f"training share must be at least 0 and below 1, not {self.training_share}")
        if not 0 < self.utilisation <= 1:
            raise ShapeError(f"utilisation must be above 0 and at most 1, not {self.utilisation}")
        if not 0 <= self.years <= MAX_YEARS:
            raise ShapeError(f"years must be between 0 and {MAX_YEARS}, not {self.years}")


@dataclass(frozen=True, slots=True)
class FleetYear:
    year: int
    users: float
    requests_per_s: float
    output_tokens_per_s: float
    serving_chips: int
    training_chips: int
    transceivers: int
    transceiver_power_w: float
    power_w: float | None
    rent_usd_per_year: float | None


@dataclass(frozen=True, slots=True)
class FleetReport:
    model: str
    system: str
    chips_per_replica: int
    cost_model: str
    chip_s_per_request: float
    prefill_share: float
    requests_per_chip_day: float
    usd_per_chip_hour: float | None
    years: tuple[FleetYear, ...]
    uncertain: tuple[str, ...]
    assumptions: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS


def fleet_report(
    where: Deployment, work: Workload, demand: Demand, usd_per_chip_hour: float | None = None
) -> FleetReport:
    """`usd_per_chip_hour` None: the chip's rent, if it is known. Raises ShapeError if it does not fit or a year's fleet
    has more than MAX_CHIPS.
    """
    hourly = usd_per_chip_hour if usd_per_chip_hour is not None else where.system.chip.rent_usd_per_hour
    where.check_fits(work.prompt + work.output, work.batch)
    prefill = where.prefill_chip_s(work.prompt, work.cached)
    request = prefill + where.decode_chip_s(work.prompt, work.output, work.batch)
    return FleetReport(
        where.name,
        where.system.name,
        where.cut.chips,
        where.cost_model,
        request,
        prefill / request,
        demand.utilisation * SECONDS_PER_DAY / request,
        hourly,
        tuple(_year(where, work, demand, request, hourly, year) for year in range(demand.years + 1)),
        uncertain_figures(where.system, *rent_of(where.system.chip, hourly)),
        (*ASSUMPTIONS, *where.assumed(of_many=True)),
    )


def _year(
    where: Deployment, work: Workload, d: Demand, request_chip_s: float, usd_per_chip_hour: float | None, year: int
) -> FleetYear:
    chip, users = where.system.chip, d.users * d.growth**year
    rate = users * d.requests_per_user_day / SECONDS_PER_DAY * d.peak_over_mean
    needed = rate * request_chip_s / d.utilisation
    if needed / (1 - d.training_share) > MAX_CHIPS:
        raise ShapeError(
            f"{users:.4g} users in year {year} need {needed:.4g} chips to serve them; {MAX_CHIPS:g} with those that "
            "train are the most: fewer users, requests a day or years, or less growth"
        )
    serving = math.ceil(needed / where.cut.chips) * where.cut.chips
    training = math.ceil(serving * d.training_share / (1 - d.training_share))
    chips = serving + training
    light_w = transceiver_w(chips, d.transceivers_per_chip, d.transceiver_w)
    power = None if chip.tdp_w is None else chips * chip.tdp_w * d.overhead + light_w
    rent = None if usd_per_chip_hour is None else chips * usd_per_chip_hour * HOURS_PER_YEAR
    transceivers = math.ceil(chips * d.transceivers_per_chip)
    tokens = rate * work.output
    return FleetYear(year, users, rate, tokens, serving, training, transceivers, light_w, power, rent)
