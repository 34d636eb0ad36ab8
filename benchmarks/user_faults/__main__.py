"""The report counts the failed conversations in recordings that may be the user's fault.

    python -m benchmarks.user_faults RUN_OR_FILE... [--json]

Reads folders of runs (`agent-envs eval --out`), whose episodes are stepped again, and result files of tau2-bench: one JSON
file with `info`, `tasks` and `simulations`, or a folder with `results.json` and one file a simulation in `simulations/`. Of
each recorded conversation it looks for what the user did that its scenario does not cover (`rules`), and sets the failed
conversations with such a fault apart. A fault says that the user may be why a conversation failed; nothing is scored anew.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import print_result, print_table, show
from benchmarks.user_faults import result_files, runs
from benchmarks.user_faults.findings import Findings


def findings(path: Path) -> Iterator[Findings]:
    """Yield what a path holds: one of each entry of a run, or one of a result file.

    Raises:
        UsageError: it is neither; the message names the place.
    """
    if runs.is_run(path):
        yield from runs.findings(path)
    else:
        yield result_files.findings(path)


def _print(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        show(f"{row['file']}: {row['domain']}, agent {row['agent'] or '?'}, user {row['user'] or '?'}")
        share = (
            "" if row["share"] is None else f" = {_percent(row['share'])} [{', '.join(map(_percent, row['interval']))}]"
        )
        show(
            f"{row['simulations']} simulations, {row['failures']} failures, {row['failures_with_user_fault']} of them with a "
            f"fault of the user{share}; {row['simulations_with_user_fault']} with one in all, {row['unscored']} unscored, "
            f"{row['unread']} unread{': ' + row['first_unread'] if row['unread'] else ''}"
        )
        kinds = [[kind, str(every), str(failed)] for kind, (every, failed) in row["kinds"].items() if every]
        if kinds:
            print_table("Simulations with a fault, by kind", ["kind", "all", "failed"], kinds)
        for one in row["examples"]:
            verdict = {True: "passed", False: "failed", None: "unscored"}[one["passed"]]
            place = f"task {one['task']}, trial {one['trial']}, message {one['message']}, {verdict}"
            show(f"  {one['kind']} ({place}): {one['what']}")
            show(f"      said: {' '.join(one['said'].split())[:300]}")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; return 0, 2 where a path holds no result file, or 3 where some simulations could not be read."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.user_faults", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="RUN_OR_FILE")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    try:
        found = [one for path in given.paths for one in findings(path)]
    except UsageError as error:
        show(f"error: {error}", sys.stderr)
        return 2
    rows = [one.as_json() for one in found]
    print_result(rows, given.json, lambda: _print(rows))
    return 3 if any(one.unread for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())
