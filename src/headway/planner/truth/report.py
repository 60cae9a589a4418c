"""What `headway plan validate` and `headway plan fit` answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headway.planner.truth.evidence import Evidence
from headway.planner.truth.held_out import COVERAGE, HELD_MODELS, HELD_SYSTEM, HeldOut, Predictions
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
    f"{' and '.join(DRAFTS)} have a factor that is expected at what two in five of them drafting three tokens make",
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
    """None: that was not asked."""

    data: tuple[DataSummary, ...] = ()
    measurements: int = 0
    declared_held_out: tuple[str, ...] = (*HELD_MODELS, HELD_SYSTEM)
    in_sample: Errors | None = None
    model_held_out: Errors | None = None
    chip_held_out: Errors | None = None
    declared: Errors | None = None
    unseen_data: tuple[DataSummary, ...] = ()
    unseen: Errors | None = None
    assumptions: tuple[str, ...] = ASSUMPTIONS


def summary(file: DataFile) -> DataSummary:
    share = file.answered / file.asked if file.asked else 0.0
    return DataSummary(file.name, file.sha256, file.rows, file.asked, file.answered, share, len(file.measurements))


def validation_report(files: Sequence[DataFile], e: Evidence, held: HeldOut) -> ValidationReport:
    return ValidationReport(
        data=tuple(map(summary, files)),
        measurements=len(e),
        in_sample=errors("in_sample", e, held.in_sample),
        model_held_out=errors("by_model", e, held.by_model),
        chip_held_out=errors("by_chip", e, held.by_chip),
        declared=errors("declared", e, held.declared),
    )


def with_unseen(report: ValidationReport, files: Sequence[DataFile], e: Evidence, p: Predictions) -> ValidationReport:
    return replace(report, unseen_data=tuple(map(summary, files)), unseen=errors("unseen", e, p))


def errors(kind: str, e: Evidence, p: Predictions) -> Errors:
    return Errors(kind, error_tables(e, p), regret(e, p))
