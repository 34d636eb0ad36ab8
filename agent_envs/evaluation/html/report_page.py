"""`agent-envs report --page` and `compare --page`: a report's tables and figures, and a forest plot of paired differences."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent_envs.evaluation.html.page import Page, Table, write_page
from agent_envs.evaluation.report.charts import Forest, points
from agent_envs.evaluation.report.compare import Contrast
from agent_envs.evaluation.report.report import RunReport, limit_tables
from agent_envs.evaluation.report.turn_limits import limit_curves
from agent_envs.evaluation.statistics.paired import p_text

INTRO = "Rates are over the planned episodes, means over those that ended. Intervals and bands are 95 %."
LIMITED = (
    "After so many free turns the next is an answer, whatever it says. With none, the agent answers in one generation over "
    "the top-k passages for the question, where the environment has any: naive RAG."
)
PAIRED = "Task by task, second minus first, so that what makes tasks hard for both cancels. Intervals are 95 %."
DETECTABLE = "Detectable: a smaller true difference in points would probably go unseen (80 % power)."


def write_report(path: Path, report: RunReport) -> None:
    """Write a report as a page. With figures over turn limits, tables that do not belong to them are left out."""
    tables = tuple(limit_tables(report.limits)) or report.tables
    intro = f"{INTRO} {LIMITED}" if report.limits else INTRO
    write_page(
        path, Page(report.title, intro, tables, limit_curves(report.limits) or report.curves, notes=report.notes)
    )


def write_comparison(path: Path, contrasts: Sequence[Contrast], notes: Sequence[str]) -> None:
    """Write a comparison as a page."""
    forest = Forest.over([item.paired for item in contrasts])
    rows: tuple[tuple[Any, ...], ...] = tuple(
        (item.entry, item.first, item.rates[0].share, item.second, item.rates[1].share, points(item.paired),
         forest.bar(item.paired), p_text(item.paired.p_value), p_text(item.adjusted),
         f"{100 * item.paired.detectable:.1f}",
         item.verdict("first", "second"))
        for item in contrasts
    )  # fmt: skip
    heads: tuple[Any, ...] = ("entry", "first", "success", "second", "success", "points", forest.head, "p", "after Holm",
                              "detectable", "")  # fmt: skip
    tests = [f"{item.paired.method}; n={item.rates[0].basis} of each" for item in contrasts]
    if len(set(tests)) > 1:  # other tasks, and so other tests, by entry
        heads, rows = (*heads, "test"), tuple((*row, test) for row, test in zip(rows, tests, strict=True))
    method = DETECTABLE if len(set(tests)) > 1 else f"{tests[0]}. {DETECTABLE}"
    metrics = tuple((item.entry, name, metric.text()) for item in contrasts for name, metric in item.metrics.items())
    tables = (Table("Paired differences", heads, rows, method), Table("Metrics", ("entry", "metric", ""), metrics))
    first, second = contrasts[0].first, contrasts[0].second
    title = f"{second} minus {first}" if second == contrasts[-1].second else f"{len(contrasts)} settings beside {first}"
    write_page(path, Page(title, PAIRED, tuple(table for table in tables if table.rows), notes=tuple(notes)))
