"""Pictures of the questions: each a Vega-Lite spec made from a report."""

from headway.planner.charts.memory import kv_chart, memory_chart
from headway.planner.charts.pareto import pareto_chart
from headway.planner.charts.roofline import roofline_chart
from headway.planner.charts.timeline import timeline_chart

__all__ = ["kv_chart", "memory_chart", "pareto_chart", "roofline_chart", "timeline_chart"]
