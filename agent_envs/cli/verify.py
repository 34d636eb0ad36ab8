"""The verb `verify` says of a submission what its reviewer would say; a board prints its verdicts with the same words."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_envs.base.terminal import print_result, print_table, progress_bar, show
from agent_envs.cli.options import Json

if TYPE_CHECKING:
    from agent_envs.evaluation.verification.verify import Verification


def verify_submission(
    folder: Annotated[Path, typer.Argument(help="The directory that `pack` wrote.")],
    suite: Annotated[
        str, typer.Option(help="A suite by name or file: only submissions of it are accepted (default: its own suite).")
    ] = "",
    registry: Annotated[
        Path | None, typer.Option(help="A board's folder of registrations, which hold the suites that it drew.")
    ] = None,
    beside: Annotated[
        list[Path] | None, typer.Option(help="Another submission: equal actions are flagged. Repeatable.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes (default: one a core).")] = os.cpu_count() or 1,
    seconds: Annotated[float, typer.Option(min=0.0, help="Limit of an episode, in seconds.")] = 120.0,
    as_json: Json = False,
) -> None:
    """Step every action of a submission again; print its score, what that proves, and open questions.

    Exit codes: 0 accepted, 1 rejected, 2 wrong usage, 3 cannot be told here (an extra, data or a suite is missing).
    """
    from agent_envs.evaluation.submission.provenance import unanswered
    from agent_envs.evaluation.suites.suite import load_suite
    from agent_envs.evaluation.verification.verify import How, verify

    with progress_bar(f"verify {folder.name}", quiet=as_json) as progress:
        own = load_suite(suite) if suite else None
        how = How(own, registry, jobs, seconds, beside=tuple(beside or ()), progress=progress)
        verdict = verify(folder, how)
    questions = unanswered(folder) if verdict.agent else []
    row = {**verdict.to_json(), "unanswered": questions}
    print_result(row, as_json, lambda: print_verdict(verdict, questions))
    raise typer.Exit(verdict.code)


def print_verdict(verdict: "Verification", questions: list[str]) -> None:
    """Print a verdict: the first findings and unknowns, entries, score, averages, badges, flags, and open questions."""
    from agent_envs.evaluation.verification.badges import BADGES, ranked
    from agent_envs.evaluation.verification.verify import MOST_TOLD

    show(
        f"{verdict.verdict}: submission {verdict.submission[:16] or '?'}, {verdict.agent or '?'} on {verdict.suite or '?'}"
        + (f", {verdict.part}: no score" if verdict.part else "")
    )
    for title, rows in (("rejected", verdict.findings), ("cannot tell", verdict.unknown)):
        for item in rows[:MOST_TOLD]:
            show(f"{title}: {item.text()}")
        if len(rows) > MOST_TOLD:
            show(f"{title}: and {len(rows) - MOST_TOLD} more")
    if verdict.entries:
        cells = [
            [row["entry"], f"{100 * row['success']:.1f} %", f"[{100 * row['interval'][0]:.1f}, {100 * row['interval'][1]:.1f}]",
             f"{row['played']} of {row['episodes']}", f"{row['mean_return']:.3f}"]
            for row in verdict.entries
        ]  # fmt: skip
        print_table("As replayed here", ["entry", "success", "95 % interval", "played", "mean return"], cells)
    if verdict.score is not None:
        show(f"score {verdict.score.text()}{', the weighted mean of the entries' if len(verdict.entries) > 1 else ''}")
    for name, rate in verdict.averages.items():
        show(f"{name}: {rate.text()}")
    lines = [f"badge {name}: {BADGES[name].proves} {BADGES[name].not_proved}" for name in verdict.badges]
    if lines and not ranked(verdict.badges, verdict.suite):
        lines.append("not ranked: it takes tasks drawn after the agent was registered, or a run that a board repeated")
    for line in (*lines, *(f"flag: {flag}" for flag in verdict.flags)):
        show(line)
    if questions:
        show(f"not stated yet: {', '.join(questions)}; agent-envs pack RUN DIR --about FILE adds them")
