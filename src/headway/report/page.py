"""One self-contained page: tables, pictures, definitions, and what is needed to repeat it all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from headway.bench.metrics import METRICS, NOTES
from headway.report.cases import Case
from headway.report.charts import Chart, charts
from headway.report.rendering import svg
from headway.report.tables import error_tables, latency_tables, outcome_table, rate_table, unlike

_IDS = re.compile(r'(\bid="|url\(#|href="#)([A-Za-z_])')
"""Several pictures on one page must not share ids."""


@dataclass(frozen=True, slots=True)
class Picture:
    chart: Chart
    svg: Markup


def page(cases: Sequence[Case], title: str) -> str:
    """HTML. Everything that comes from a server or a file is escaped; the page runs no script and loads nothing."""
    template = _environment().get_template("page.html")
    shown = {key for case in cases for key in (*case.spreads, *case.rates)}
    return template.render(
        title=title,
        cases=cases,
        pictures=[Picture(chart, _picture(chart)) for chart in charts(cases)],
        tables=[rate_table(cases), *latency_tables(cases)],
        outcomes=outcome_table(cases),
        errors=error_tables(cases),
        unlike=unlike(cases),
        metrics=[metric for metric in METRICS.values() if metric.key in shown],
        notes=NOTES,
    )


def _picture(chart: Chart) -> Markup:
    # The renderer escapes all text of a spec, and its output holds no script.
    return Markup(_IDS.sub(rf"\g<1>{chart.name}-\g<2>", svg(chart.spec)))  # noqa: S704


def _environment() -> Environment:
    loader = PackageLoader("headway.report", "templates")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
