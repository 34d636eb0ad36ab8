"""A report is written as one HTML file: its tables, or the figures of a sweep over turn limits with their numbers."""

from pathlib import Path

from agent_envs.evaluation.html.page import Page, Table, write_page
from agent_envs.evaluation.report.report import Report, limit_grids
from agent_envs.evaluation.report.turn_limits import limit_curves

INTRO = "Rates are over the planned episodes, means over those that ended. Intervals and bands are 95 %."
LIMITED = (
    "After so many free turns the next is an answer, whatever it says. With none, the agent answers in one generation over "
    "the top-k passages for the question, where the environment has any: naive RAG."
)


def write_report(path: Path, report: Report) -> None:
    """Write a report as a page. With figures, the tables that do not belong to them are left to the command line."""
    grids = limit_grids(report.limits) or report.grids
    tables = tuple(Table(grid.caption, grid.heads, grid.rows) for grid in grids)
    intro = f"{INTRO} {LIMITED}" if report.limits else INTRO
    write_page(path, Page(report.title, intro, tables, limit_curves(report.limits), notes=report.notes))
