"""`python -m leaderboard VERB` runs a board: its verbs register agents, add submissions, compare, export and build pages.

Exit codes: 0 accepted, 1 rejected, 2 usage, 3 cannot be told here.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from agent_envs.base.caches import write_atomically
from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.terminal import print_result, print_table, progress_bar, show, stop_on_sigterm
from agent_envs.cli.verify import print_verdict
from agent_envs.evaluation.report.charts import points
from agent_envs.evaluation.statistics.paired import p_text
from agent_envs.evaluation.submission.replay_pool import SECONDS
from agent_envs.evaluation.suites.suite import load_suite
from agent_envs.evaluation.verification.verify import How
from leaderboard.board import SUBMISSIONS, add, boards_of, decide_about, entrant_of, find_submission
from leaderboard.decisions import Verb
from leaderboard.exports import hub_results, write_parquet
from leaderboard.inspect_logs import write_inspect
from leaderboard.pages import write_boards
from leaderboard.pair_page import pair_json
from leaderboard.registering import DAYS, open_round, register
from leaderboard.result_cache import trim
from leaderboard.standings import Outcomes

DECIDING: dict[str, Verb] = {"withdraw": "withdrawn", "dispute": "disputed", "reproduce": "reproduced"}
CODES = (
    "Exit codes: 0 accepted, 1 rejected, 2 wrong usage, 3 cannot be told here (an extra, data or a suite is missing)."
)


def _parser() -> argparse.ArgumentParser:
    """Build the parser with all verbs and their options."""
    parser = argparse.ArgumentParser(prog="python -m leaderboard", description=__doc__.partition(":")[0], epilog=CODES)
    verbs = parser.add_subparsers(dest="verb", required=True)
    text = "Verify a submission and copy it into a board, with the decision."
    one = verbs.add_parser("add", help=text, description=text, epilog=CODES)
    one.add_argument("folder", type=Path, help="the directory that agent-envs pack wrote")
    _add_verify_options(one)
    one.add_argument(
        "--beside", type=Path, action="append", default=[], help="another submission: equal actions are told"
    )
    _add_decision_options(one)
    for verb, text in (
        ("withdraw", "Take a submission off its board; the decision and its reason stay."),
        ("dispute", "Say on the board that a submission is in dispute; it stays there."),
        (
            "reproduce",
            "Say that the board itself played the suite again with the named open weights: the row is ranked.",
        ),
    ):
        one = verbs.add_parser(verb, help=text, description=text)
        one.add_argument("submission", help="its id, or the beginning of it")
        one.add_argument("--why", required=True, help="the reason, which is published")
        _add_decision_options(one)
    text = "Compare two submissions of one suite task by task, once both are verified."
    one = verbs.add_parser("compare", help=text, description=text)
    for name in ("first", "second"):
        one.add_argument(name, help="a submission's directory; with --board its id, or the beginning of it")
    one.add_argument("--board", type=Path, help="the board's folder")
    _add_verify_options(one)
    text = "Verify a submission, and write it as the hub's evaluation results (YAML), as Parquet or as a log of inspect_ai."
    one = verbs.add_parser("export", help=text, description=text, epilog=CODES)
    one.add_argument("folder", type=Path, help="the directory that agent-envs pack wrote")
    one.add_argument("--to", choices=("hub", "parquet", "inspect"), required=True, help="the form")
    one.add_argument("--out", type=Path, required=True, help="the file to write")
    one.add_argument("--dataset", default="", help="of --to hub: the benchmark's data set on the hub, OWNER/NAME")
    one.add_argument("--source", default="", help="of --to hub: an address where the submission can be read")
    _add_verify_options(one)
    text = "Verify all that a board shows, and write its pages: one a file in boards/, an index, and boards.json."
    one = verbs.add_parser("build", help=text, description=text, epilog="Exit code 1: an accepted row is not shown.")
    one.add_argument("--board", type=Path, required=True, help="the board's folder")
    one.add_argument("--out", type=Path, required=True, help="folder of the pages, new or of an earlier build")
    _add_verify_options(one)
    text = "Remove what verification and builds keep in the cache folder; nothing is lost but time."
    one = verbs.add_parser("clear", help=text, description=text)
    one.add_argument(
        "--most", type=float, default=0.0, help="megabytes that may stay: what was used last (default: none)"
    )
    for verb, text in (
        ("register", "Issue a nonce to an agent, and write the suite that it draws: new tasks of the same entries."),
        ("round", "Publish a salt, from which every agent that is registered for a suite draws new tasks of its own."),
    ):
        one = verbs.add_parser(verb, help=text, description=text)
        one.add_argument("suite", help="a suite by name, core@1.17 say, or by file")
        if verb == "register":
            one.add_argument("--agent", required=True, help="the agent's name, as its submission will say it")
        one.add_argument("--registry", type=Path, required=True, help="the board's folder of registrations")
        one.add_argument("--days", type=int, default=DAYS, help=f"that a submission may take (default: {DAYS})")
        one.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_verify_options(one: argparse.ArgumentParser) -> None:
    """Add the options of verbs that verify: `--jobs`, `--seconds`, `--suite`, `--registry` and `--json`."""
    one.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one a core)")
    one.add_argument("--seconds", type=float, default=SECONDS, help="the most that one episode may take")
    one.add_argument("--suite", default="", help="a suite's file: only submissions of it are accepted")
    one.add_argument("--registry", type=Path, help="the board's folder of registrations")
    one.add_argument("--json", action="store_true", help="print JSON")


def _add_decision_options(one: argparse.ArgumentParser) -> None:
    """Add the options that a decision about a submission needs."""
    one.add_argument("--board", type=Path, required=True, help="the board's folder")
    one.add_argument("--who", required=True, help="who decides; it is published")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the verb's code: 2 for an error on stderr, 1 for a closed pipe, 130 for Ctrl-C."""
    stop_on_sigterm()
    try:
        try:
            args = _parser().parse_args(arguments)
            sys.exit(VERBS[args.verb](args))
        finally:
            sys.stdout.flush()
    except AgentEnvsError as error:
        show(f"leaderboard: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # a reader such as `head` has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        show("stopped; the same command goes on", file=sys.stderr)
        sys.exit(130)


def _how(args: argparse.Namespace) -> How:
    """Build the settings of a verification from the options: suite, registry, processes and seconds."""
    suite = load_suite(args.suite) if args.suite else None
    return How(suite, args.registry, max(args.jobs, 1), args.seconds)


def _add(args: argparse.Namespace) -> int:
    """Verify a submission, add it to the board where it is accepted, print the verdict, return its exit code."""
    with progress_bar(f"verify {args.folder.name}", quiet=args.json) as progress:
        how = replace(_how(args), beside=tuple(args.beside), progress=progress)
        verdict = add(args.folder, args.board, how, args.who)
    print_result(verdict.to_json(), args.json, lambda: print_verdict(verdict, []))
    return verdict.code


def _register(args: argparse.Namespace) -> int:
    """Register an agent for a suite, print how it is played, and return 0."""
    row, path, left = register(load_suite(args.suite), args.agent, args.registry, args.days)

    def text() -> None:
        """Print the registration, its command and the entries left out."""
        show(f"{row.suite}+{row.nonce} is registered for {row.agent} until {row.due}: {path}")
        show(f"it is played with: agent-envs eval --suite {path} --agent ... --out RUN --pack DIR")
        for label in left:
            show(f"left out, as its tasks are fixed: {label}")

    print_result({**row.model_dump(mode="json"), "file": str(path), "left_out": list(left)}, args.json, text)
    return 0


def _round(args: argparse.Namespace) -> int:
    """Open a round of a suite, print its salt, how it is played and by whom, and return 0."""
    rows = open_round(load_suite(args.suite), args.registry, args.days)
    agents = [row.agent for row in rows]

    def text() -> None:
        """Print the round, its command and the agents that take part."""
        show(f"a round of {rows[0].suite} until {rows[0].due}, for {', '.join(agents)}")
        show(
            f"it is played with: agent-envs eval --suite {args.suite} --round {rows[0].salt} --agent ... --out RUN --pack DIR"
        )

    print_result(
        {**rows[0].model_dump(mode="json", include={"suite", "salt", "due"}), "agents": agents}, args.json, text
    )
    return 0


def _decide(args: argparse.Namespace) -> int:
    """Record a decision about a submission, print it, and return 0."""
    row = decide_about(args.board, args.submission, DECIDING[args.verb], args.why, args.who)
    show(f"{row.submission[:16]}: {row.text()}")
    return 0


def _compare(args: argparse.Namespace) -> int:
    """Verify two submissions, print their difference, return 0; UsageError if one is not accepted or their suites differ."""
    sides = []
    for name in (args.first, args.second):
        folder = Path(name) if args.board is None else args.board / SUBMISSIONS / find_submission(args.board, name)
        sides.append(entrant_of(folder, _how(args)))
    (suite, first), (other, second) = sides
    if suite.digest() != other.digest():
        raise UsageError(f"compare: {suite.name} and {other.name} are not the same suite with the same entries")
    outcomes = Outcomes(suite)
    pair = outcomes.compare(first.verdict, second.verdict)
    entries = outcomes.entries(first.verdict, second.verdict)

    def text() -> None:
        """Print both scores, their difference, and the entries."""
        for place, side in (("first", first), ("second", second)):
            assert side.verdict.score is not None
            show(
                f"{place:7} {side.submission.agent.name} ({side.verdict.submission[:16]}): {side.verdict.score.text()}"
            )
        show(f"second minus first {points(pair)} points, p {p_text(pair.p_value)} over clusters of tasks")
        cells = [
            [label, points(item), p_text(item.p_value), f"{100 * item.detectable:.1f}"]
            for label, item in entries.items()
        ]
        print_table("Entry by entry, p not corrected", ["entry", "points", "p", "detectable (80 % power)"], cells)

    print_result(pair_json(pair, entries), args.json, text)
    return 0


def _export(args: argparse.Namespace) -> int:
    """Verify a submission, write it in the form of `--to`, print the count, return 0; UsageError if it is not accepted."""
    suite, entrant = entrant_of(args.folder, _how(args))
    if args.to == "hub":
        text = hub_results(entrant, suite.name, args.dataset, args.source)
        write_atomically(args.out, lambda file: file.write(text.encode()))
        count = 1
    elif args.to == "inspect":
        count = write_inspect(entrant, suite, args.out)
    else:
        count = write_parquet([entrant], Outcomes(suite), args.out)
    row = {"file": str(args.out), "rows": count}
    print_result(row, args.json, lambda: show(f"{args.out}: {count} {'result' if args.to == 'hub' else 'episodes'}"))
    return 0


def _build(args: argparse.Namespace) -> int:
    """Verify the boards, write their pages, print the rows, trim the cache; return 1 if an accepted row is not shown, or 0."""
    boards = list(boards_of(args.board, _how(args), lambda line: None if args.json else show(line, file=sys.stderr)))
    index = write_boards(boards, args.out)
    trim()
    row_counts = {board.name: len(board.standings.rows) for board in boards}

    def text() -> None:
        """Print the rows of each board, those that are not shown, and the index."""
        for board in boards:
            show(f"{board.name}: {len(board.standings.rows)} rows")
            for line in board.left:
                show(f"not shown: {line}")
        show(f"index: {index}")

    left = [line for board in boards for line in board.left]
    print_result({"index": str(index), "rows": row_counts, "not_shown": left}, args.json, text)
    return 1 if left else 0


def _clear(args: argparse.Namespace) -> int:
    """Remove cached files, those used longest ago first, until at most `--most` megabytes stay; UsageError below 0."""
    if not 0 <= args.most < 1e9:
        raise UsageError(f"clear: --most {args.most}; give megabytes, 0 or more")
    count, left = trim(int(1e6 * args.most), young=0.0)
    show(f"{count} files removed, {left / 1e6:,.1f} MB stay")
    return 0


VERBS = {
    "add": _add, "register": _register, "round": _round,
    "withdraw": _decide, "dispute": _decide, "reproduce": _decide, "compare": _compare, "export": _export, "build": _build,
    "clear": _clear,
}  # fmt: skip
