"""What `headway plan validate` and `headway plan fit` answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.planner.truth.evidence import Evidence
from headway.planner.truth.held_out import COVERAGE, HELD_MODELS, HELD_SYSTEM, HeldOut
from headway.planner.truth.models import DRAFTS
from headway.planner.truth.readers import DataFile
from headway.planner.truth.served import UNSTATED_CHIPS, UNSTATED_REPLICAS
from headway.planner.truth.tables import ErrorTable, Regret, error_tables, regret

ASSUMPTIONS = (
    "answered: TPOT and TTFT of a stated or assumed chip, a known model and numeric lengths; throughputs, percentiles "
    "and power are not asked, nor are machines whose power was capped on purpose",
    "every run is taken for a steady number of requests in flight; what several rows say of one value is counted once, "
    "as the row that says the most describes it",
    "a layout that cannot hold the model's weights is taken for a slip and widened to the next power of two that can",
    "GLM-5's node is not stated by its source and taken for eight H200",
    "few sources state whether tokens were drafted (multi-token prediction): for each release, runs of "
    f"{' and '.join(DRAFTS)} have a factor that is expected at what a third of them drafting three tokens makes",
    "of runs with prompts computed apart whose replicas are not stated, one computes prompts and "
    f"{UNSTATED_REPLICAS} decode, or one of more than {UNSTATED_CHIPS} chips",
    f"an interval is the prediction divided and multiplied by a factor that covered {COVERAGE:.0%} of the errors on "
    "other models (or chips), each model counting alike",
)


@dataclass(frozen=True, slots=True)
class DataSummary:
    name: str
    sha256: str
    rows: int
    asked_rows: int
    answered_rows: int
    answered_share: float
    measurements: int


@dataclass(frozen=True, slots=True)
class Errors:
    kind: str
    tables: tuple[ErrorTable, ...]
    regret: Regret | None


@dataclass(frozen=True, slots=True)
class ValidationReport:
    data: tuple[DataSummary, ...]
    measurements: int
    declared_held_out: tuple[str, ...]
    in_sample: Errors
    model_held_out: Errors
    chip_held_out: Errors
    declared: Errors
    assumptions: tuple[str, ...] = ASSUMPTIONS


def summary(file: DataFile) -> DataSummary:
    share = file.answered / file.asked if file.asked else 0.0
    return DataSummary(file.name, file.sha256, file.rows, file.asked, file.answered, share, len(file.measurements))


def validation_report(files: Sequence[DataFile], e: Evidence, held: HeldOut) -> ValidationReport:
    def errors(kind: str) -> Errors:
        predictions = getattr(held, kind)
        return Errors(kind, error_tables(e, predictions), regret(e, predictions))

    return ValidationReport(
        tuple(summary(file) for file in files),
        len(e),
        (*HELD_MODELS, HELD_SYSTEM),
        errors("in_sample"),
        errors("by_model"),
        errors("by_chip"),
        errors("declared"),
    )
