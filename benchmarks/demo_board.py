"""A board of the built-in agents on `demo@1`, by one command: played, packed, verified, and built as pages.

    python -m benchmarks.demo_board --out DIR

DIR/board is the board, DIR/site its pages. Each step is a command that anybody could type, and is printed before it runs.
What a killed run left behind is used: `eval` goes on with its journal, and a submission that is on the board stays there.
The solver reads the gold and stands apart, as `reference`; a heuristic that plays all of demo there is not.
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from agent_envs.base.serialization import sha256_file
from leaderboard.decisions import decisions_of, shown

AGENTS = ("null", "random", "solver")
SUITE = "demo@1"
BOARD = f"""title = "Demo"
suite = "{SUITE}"
about = "Marks to measure by: an agent that says nothing, random legal play, and the built-in solver, which reads the gold."
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, and return the exit code of the first step that failed, or of the build."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo_board", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder, new or of an earlier call")
    parser.add_argument(
        "--agent", action="append", help=f"an agent of `agent-envs eval` (default: {', '.join(AGENTS)})"
    )
    given = parser.parse_args(arguments)
    board = given.out / "board"
    (board / "boards").mkdir(parents=True, exist_ok=True)
    (board / "boards" / "demo.toml").write_text(BOARD, encoding="utf-8")
    for number, agent in enumerate(given.agent or AGENTS):
        run, packed = given.out / "runs" / str(number), given.out / "packed" / str(number)
        if not (packed / "manifest.json").is_file():
            play = ("--resume", run) if run.is_dir() else ("--suite", SUITE, "--agent", agent, "--out", run)
            if code := _step("agent_envs", "eval", *play) or _step("agent_envs", "pack", run, packed):
                return code
        if sha256_file(packed / "manifest.json") in shown(decisions_of(board)):
            continue
        if code := _step("leaderboard", "add", packed, "--board", board, "--who", "benchmarks.demo_board"):
            return code
    return _step("leaderboard", "build", "--board", board, "--out", given.out / "site")


def _step(module: str, *words: str | Path) -> int:
    command = ["-m", module, *map(str, words)]
    print("$ python", shlex.join(command), flush=True)
    return subprocess.run([sys.executable, *command], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
