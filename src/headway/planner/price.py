"""What tokens cost to make, what they earn at given prices, and when a purchase is paid back."""

from __future__ import annotations

from dataclasses import dataclass

from headway.arithmetic.shape import ShapeError
from headway.catalog import Chip, Price
from headway.planner.deployment import Deployment
from headway.planner.economics import usd_per_mtok
from headway.planner.lengths import Lengths
from headway.planner.uncertain import rent_of, uncertain_figures

HOURS_PER_DAY = 24.0
FORMULAS = (
    "chip-seconds of a request = prompt's step x chips + its decode steps / batch x chips",
    "cost of a request = chip-seconds / utilisation x USD a chip-hour / 3600",
    "$/Mtok of output = cost of decode's chip-seconds / output tokens; of input = of the prompt's / new tokens",
    "margin = 1 - cost / revenue",
    "payback = purchase / (revenue - electricity, an hour of a chip); none: never, or not all of it is known",
    "electricity = power x overhead x USD a kWh",
)
ASSUMPTIONS = (
    "prompts and decode steps share the chips; the replica is busy for `utilisation` of the time",
    "every decode step carries `batch` requests like this one",
    "reading a cached prefix costs no chip-time; it is earned at the cached price",
    "the purchase price is all that an owner pays for a chip, its share of the building included; staff is left out",
)


@dataclass(frozen=True, slots=True)
class Workload(Lengths):
    """Of each request, `batch` of which decode together."""

    batch: int


@dataclass(frozen=True, slots=True)
class Rates:
    """USD for a million tokens."""

    new: float
    cached: float
    output: float

    @classmethod
    def listed(cls, price: Price, prompt: int) -> Rates:
        """Of a request with so long a prompt: beyond the step all of its tokens pay the step's prices, cached ones as
        much more as new ones. Raises ShapeError for a prompt that is not taken.
        """
        if price.max_input_tokens is not None and prompt > price.max_input_tokens:
            raise ShapeError(
                f"{price.model} takes prompts of at most {price.max_input_tokens:,} tokens, not {prompt:,}"
            )
        more = (1.0, 1.0)
        if price.step_threshold_tokens is not None and prompt > price.step_threshold_tokens:
            more = (price.step_over_input or 1.0, price.step_over_output or 1.0)
        new, cached = price.input_usd_per_mtok, price.cached_input_usd_per_mtok
        return cls(new * more[0], (new if cached is None else cached) * more[0], price.output_usd_per_mtok * more[1])

    @property
    def said(self) -> str:
        return (
            f"sold at {self.new:g} USD a million new tokens, {self.cached:g} cached, {self.output:g} output; what is "
            "written to a cache is sold as new"
        )

    def revenue_usd(self, w: Workload) -> float:
        return ((w.prompt - w.cached) * self.new + w.cached * self.cached + w.output * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class Owner:
    """Of a chip. None: not asked."""

    usd_per_chip_hour: float
    utilisation: float
    purchase_usd: float | None
    usd_per_kwh: float
    overhead: float


@dataclass(frozen=True, slots=True)
class PriceReport:
    model: str
    system: str
    chips: int
    batch: int
    cost_model: str
    usd_per_chip_hour: float
    utilisation: float
    interactivity_tokens_per_s: float
    prefill_chip_s: float
    """As decode's: busy, of one request."""
    decode_chip_s: float
    usd_per_request: float
    usd_per_mtok_input: float
    """New tokens only."""
    usd_per_mtok_output: float
    output_over_input_cost: float
    revenue_usd_per_request: float | None
    margin: float | None
    requests_per_chip_hour: float
    revenue_usd_per_chip_hour: float | None
    electricity_usd_per_chip_hour: float | None
    purchase_usd: float | None
    payback_days: float | None
    """None: no purchase or power is known, or it never pays back."""
    uncertain: tuple[str, ...]
    assumptions: tuple[str, ...]
    formulas: tuple[str, ...] = FORMULAS


def price_report(where: Deployment, work: Workload, owner: Owner, rates: Rates | None) -> PriceReport:
    """Raises ShapeError if it does not fit or the utilisation is not within 0 .. 1."""
    if not 0 < owner.utilisation <= 1:
        raise ShapeError(f"utilisation must be above 0 and at most 1, not {owner.utilisation}")
    where.check_fits(work.prompt + work.output, work.batch)
    prefill = where.prefill_chip_s(work.prompt, work.cached)
    decode = where.decode_chip_s(work.prompt, work.output, work.batch)
    busy_usd = owner.usd_per_chip_hour / owner.utilisation
    per_request = (prefill + decode) * busy_usd / 3600
    input_usd = usd_per_mtok(busy_usd, 1, work.new / prefill)
    output_usd = usd_per_mtok(busy_usd, 1, work.output / decode) if decode else 0.0
    revenue = None if rates is None else rates.revenue_usd(work)
    requests = 3600 * owner.utilisation / (prefill + decode)
    earned = None if revenue is None else revenue * requests
    power_w = where.system.chip.tdp_w
    electricity = None if power_w is None else power_w / 1e3 * owner.overhead * owner.usd_per_kwh
    steps = where.decode_steps_s(work.prompt, work.output, work.batch)
    return PriceReport(
        model=where.name,
        system=where.system.name,
        chips=where.cut.chips,
        batch=work.batch,
        cost_model=where.cost_model,
        usd_per_chip_hour=owner.usd_per_chip_hour,
        utilisation=owner.utilisation,
        interactivity_tokens_per_s=1 / float(steps.mean()) if len(steps) else 0.0,
        prefill_chip_s=prefill,
        decode_chip_s=decode,
        usd_per_request=per_request,
        usd_per_mtok_input=input_usd,
        usd_per_mtok_output=output_usd,
        output_over_input_cost=output_usd / input_usd,
        revenue_usd_per_request=revenue,
        margin=1 - per_request / revenue if revenue else None,
        requests_per_chip_hour=requests,
        revenue_usd_per_chip_hour=earned,
        electricity_usd_per_chip_hour=electricity,
        purchase_usd=owner.purchase_usd,
        payback_days=payback_days(owner.purchase_usd, earned, electricity),
        uncertain=uncertain_figures(where.system, *_bought(where.system.chip, owner)),
        assumptions=(*ASSUMPTIONS, *(() if rates is None else (rates.said,)), *where.assumed(of_many=True)),
    )


def _bought(chip: Chip, owner: Owner) -> tuple[str, ...]:
    """The catalog's price and rent, if they are what the chip costs."""
    price = ("price_usd",) if owner.purchase_usd is not None and owner.purchase_usd == chip.price_usd else ()
    return (*price, *rent_of(chip, owner.usd_per_chip_hour))


def payback_days(
    purchase_usd: float | None, earned_usd_per_hour: float | None, running_usd_per_hour: float | None
) -> float | None:
    """None where something is not known, or running costs eat all that is earned."""
    if purchase_usd is None or earned_usd_per_hour is None or running_usd_per_hour is None:
        return None
    kept = earned_usd_per_hour - running_usd_per_hour
    return purchase_usd / kept / HOURS_PER_DAY if kept > 0 else None
