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
DETECTABLE = "Smallest difference to be seen: a smaller true difference would probably go unseen (80 % power)."


def write_report(path: Path, report: RunReport) -> None:
    """Write a report as a page. With figures over turn limits, tables that do not belong to them are left out."""
    tables = tuple(limit_tables(report.limits)) or report.tables
    intro = f"{INTRO} {LIMITED}" if report.limits else INTRO
    write_page(
        path, Page(report.title, intro, tables, limit_curves(report.limits) or report.curves, notes=report.notes)
    )


def write_comparison(path: Path, contrasts: Sequence[Contrast], notes: Sequence[str]) -> None:
    """Write a comparison as a page: a table of paired differences and one of metrics."""
    forest = Forest.over([contrast.paired for contrast in contrasts])
    rows: tuple[tuple[Any, ...], ...] = tuple(
        (contrast.entry, contrast.first, contrast.rates[0].share, contrast.second, contrast.rates[1].share,
         points(contrast.paired), forest.bar(contrast.paired), p_text(contrast.paired.p_value),
         p_text(contrast.adjusted), f"{100 * contrast.paired.detectable:.1f}", contrast.verdict("first", "second"))
        for contrast in contrasts
    )  # fmt: skip
    heads: tuple[Any, ...] = ("entry", "first", "success", "second", "success", "points", forest.head, "p", "after Holm",
                              "smallest difference to be seen, points", "")  # fmt: skip
    tests = [f"{contrast.paired.method}; n={contrast.rates[0].basis} of each" for contrast in contrasts]
    if len(set(tests)) > 1:  # other tasks, and so other tests, by entry
        heads, rows = (*heads, "test"), tuple((*row, test) for row, test in zip(rows, tests, strict=True))
    method = DETECTABLE if len(set(tests)) > 1 else f"{tests[0]}. {DETECTABLE}"
    metrics = tuple((contrast.entry, *pair) for contrast in contrasts for pair in contrast.metric_texts())
    tables = (Table("Paired differences", heads, rows, method), Table("Metrics", ("entry", "metric", ""), metrics))
    first, second = contrasts[0].first, contrasts[0].second
    title = f"{second} minus {first}" if second == contrasts[-1].second else f"{len(contrasts)} settings beside {first}"
    write_page(path, Page(title, PAIRED, tuple(table for table in tables if table.rows), notes=tuple(notes)))
