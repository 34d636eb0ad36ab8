"""`python -m leaderboard verify | check | register`: exit codes 0 accepted, 1 rejected, 2 usage, 3 cannot be told here."""

import argparse
import os
import sys
from pathlib import Path

from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.progress import progress_bar
from agent_envs.base.terminal import print_result, print_table, show
from agent_envs.evaluation.submission.provenance import unanswered
from agent_envs.evaluation.submission.replay_pool import SECONDS
from agent_envs.evaluation.suites.suite import load_suite
from leaderboard.badges import BADGES
from leaderboard.registering import register
from leaderboard.verify import MOST_TOLD, How, Verdict, verify

CODES = (
    "Exit codes: 0 accepted, 1 rejected, 2 wrong usage, 3 cannot be told here (an extra, data or a suite is missing)."
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m leaderboard", description=__doc__.partition(":")[0], epilog=CODES)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, text in (
        ("verify", "Step every action of a submission again, and say what it proves."),
        ("check", "Tell a submitter what a reviewer will see, and what they have not answered yet."),
    ):
        one = verbs.add_parser(verb, help=text, description=text, epilog=CODES)
        one.add_argument("folder", type=Path, help="the directory that agent-envs pack wrote")
        one.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
        one.add_argument("--seconds", type=float, default=SECONDS, help="the most that one episode may take")
        one.add_argument("--suite", default="", help="a suite's file: only submissions of it are accepted")
        one.add_argument("--registry", type=Path, help="the board's folder of registrations")
        one.add_argument(
            "--beside", type=Path, action="append", default=[], help="another submission: equal actions are told"
        )
        one.add_argument("--json", action="store_true", help="print JSON")
    text = "Issue a nonce to an agent, and write the suite that it draws: new tasks of the same entries."
    one = verbs.add_parser("register", help=text, description=text)
    one.add_argument("suite", help="a suite by name, core@1.17 say, or by file")
    one.add_argument("--agent", required=True, help="the agent's name, as its submission will say it")
    one.add_argument("--registry", type=Path, required=True, help="the board's folder of registrations")
    one.add_argument("--json", action="store_true", help="print JSON")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    given = _parser().parse_args(arguments)
    try:
        sys.exit(_register(given) if given.verb == "register" else _verify(given))
    except AgentEnvsError as error:
        show(f"leaderboard: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        show("stopped; the same command goes on", file=sys.stderr)
        sys.exit(130)


def _verify(given: argparse.Namespace) -> int:
    suite = load_suite(given.suite) if given.suite else None
    with progress_bar(f"verify {given.folder.name}", quiet=given.json) as progress:
        bounds = max(given.jobs, 1), given.seconds
        how = How(suite, given.registry, *bounds, beside=tuple(given.beside), progress=progress)
        verdict = verify(given.folder, how)
    row = verdict.to_json()
    open_questions: list[str] = []
    if given.verb == "check" and verdict.agent:
        open_questions = row["unanswered"] = unanswered(given.folder)
    print_result(row, given.json, lambda: _tell(verdict, open_questions))
    return verdict.code


def _tell(verdict: Verdict, open_questions: list[str]) -> None:
    show(
        f"{verdict.verdict}: submission {verdict.submission[:16] or '?'}, {verdict.agent or '?'} on {verdict.suite or '?'}"
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
        show(f"score {verdict.score.text()}")
    for name, rate in verdict.averages.items():
        show(f"{name}: {rate.text()}")
    for name in verdict.badges:
        show(f"badge {name}: {BADGES[name].proves} {BADGES[name].not_proved}")
    for flag in verdict.flags:
        show(f"flag: {flag}")
    if open_questions:
        show(f"not told yet: {', '.join(open_questions)}; agent-envs pack RUN DIR --about FILE adds them")


def _register(given: argparse.Namespace) -> int:
    row, path, left = register(load_suite(given.suite), given.agent, given.registry)

    def text() -> None:
        show(f"{row.suite}+{row.nonce} is registered for {row.agent}: {path}")
        show(f"it is played with: agent-envs eval --suite {path} --agent ... --out RUN --pack DIR")
        for label in left:
            show(f"left out, as its tasks are fixed: {label}")

    print_result({**row.model_dump(mode="json"), "file": str(path), "left_out": list(left)}, given.json, text)
    return 0
