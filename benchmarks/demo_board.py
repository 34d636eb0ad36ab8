"""A board of the built-in agents on `demo@1`, by one command: played, packed, verified, and built as pages.

    python -m benchmarks.demo_board --out DIR [--all]

DIR/board is the board, DIR/site its pages. Each step is a command that anybody could type, and is printed before it runs.
What a killed run left behind is used: `eval` goes on with its journal, and a submission that is on the board stays there.
The solver reads the gold, and the heuristics are handed the environment: both stand apart, as `reference`. With `--all` two
baselines play, too, with the scripted reader in place of a model (`benchmarks.reader_agents`), and a model made from nothing
that is first trained on a small SearchQA for a minute: nothing in the suite but questions is like what it learnt on. With
`--real` a language model of 135 million weights plays.
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import sha256_file
from agent_envs.evaluation.runs.evaluate import evaluate, resume
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.suite import load_suite
from agent_envs.evaluation.verification.verify import ACCEPTED, How
from leaderboard.board import add, boards_of
from leaderboard.decisions import accepted_submissions, decisions_of
from leaderboard.pages import write_boards

BLIND = "leaderboard.blind_replay:BlindReplay"  # the best of 8 random plays of each task, played back
DEMO_AGENTS = ("null", "random", "benchmarks.agents:Heuristics", "solver")  # of `make demo`
AGENTS = (*DEMO_AGENTS, BLIND)
READERS = ("benchmarks.reader_agents:SearchesOnce", "benchmarks.reader_agents:SearchesOn")
TRAINED = ("trainers.grpo", "--preset", "tiny-minute", "--log.no-curves")
# A real language model, with few tokens a turn and a context that tau2's prompts alone fill: half an hour of a core.
REAL = "hf:smollm2-135m --agent-arg max_new_tokens=24 --agent-arg max_context=1024 --agent-arg batch=32"
SUITE = "demo@1"
BOARD = f'''title = "Demo"
suite = "{SUITE}"
about = """Marks to measure by: an agent that says nothing, random legal play, plain rules, and the solver, which reads the \
gold. The heuristics, and the blind replay where it stands, read none: they are with the solver because they are handed \
the environment, to choose the rules by, or to record random plays, the best of which is played back without a look. \
Baselines of benchmarks.reader_agents, where they stand, have a scripted reader in place of a model. \
hf:smollm2-135m, where it stands, is a language model of 135 million weights with 24 tokens a turn and a context of 1,024."""
'''


def main(arguments: list[str] | None = None) -> int:
    """Run the command line, and return the exit code of the first step that failed, or of the build."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.demo_board", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder, new or of an earlier call")
    parser.add_argument(
        "--agent", action="append", help=f"of `agent-envs eval`, with its options (default: {', '.join(AGENTS)})"
    )
    parser.add_argument(
        "--all", action="store_true", help="also baselines with a scripted reader, and a model trained first"
    )
    parser.add_argument(
        "--real", action="store_true", help="also smollm2-135m (docs/data.md), in half an hour of a core"
    )
    options = parser.parse_args(arguments)
    agents, trained = (*(options.agent or AGENTS), *[REAL] * options.real), options.out / "trained"
    if options.all:
        agents = (*agents, *READERS, shlex.quote(f"trained:{trained}"))
        if not (trained / "result.json").is_file():
            resumable = (trained / "checkpoints").is_dir()
            if code := _step(*(("trainers.grpo", "--resume", trained) if resumable else (*TRAINED, "--out", trained))):
                return code
    for command in commands(options.out, agents):
        if code := _step(*command):
            return code
    return 0


def commands(out: Path, agents: tuple[str, ...] = DEMO_AGENTS) -> Iterator[tuple[str | Path, ...]]:
    """Yield the commands that are still to run, each once the one before has ended: a module and its words."""
    board = out / "board"
    (board / "boards").mkdir(parents=True, exist_ok=True)
    (board / "boards" / "demo.toml").write_text(BOARD, encoding="utf-8")
    for number, agent in enumerate(agents):
        run, packed = out / "runs" / str(number), out / "packed" / str(number)
        if not (packed / "manifest.json").is_file():
            play = (
                ("--resume", run) if run.is_dir() else ("--suite", SUITE, "--agent", *shlex.split(agent), "--out", run)
            )
            yield "agent_envs", "eval", *play
            yield "agent_envs", "pack", run, packed
        if sha256_file(packed / "manifest.json") not in accepted_submissions(decisions_of(board)):
            yield "leaderboard", "add", packed, "--board", board, "--who", "benchmarks.demo_board"
    yield "leaderboard", "build", "--board", board, "--out", out / "site"


def run_here(verb: str, words: Sequence[str | Path], tell: Callable[[float], None]) -> None:
    """Run a command's work in this process, and report the part of it that is finished.

    Whoever has just played the runs has their worlds at hand, and steps them again in a fraction of the time. Nothing bounds
    what is verified here, so it is for runs of one's own.

    Raises:
        UsageError: a submission is not accepted, or the board does not show it.
    """
    first, *more = [word for word in words if isinstance(word, Path)]
    if verb == "eval":
        progress = _parts(tell)
        if "--resume" in words:
            resume(first, progress)
        else:
            evaluate(load_suite(SUITE), Settings(str(words[3])), folder=first, progress=progress)
    elif verb == "pack":
        pack_run(first, more[0], replay=False)  # to add it is to replay every episode
    elif verb == "add":
        verdict = add(first, more[0], How(jobs=0), str(words[-1]))
        if verdict.verdict != ACCEPTED:
            why = "; ".join(item.text() for item in (*verdict.findings, *verdict.unknown)[:3])
            raise UsageError(f"{first} is {verdict.verdict}, not accepted: {why}")
    else:
        boards = list(boards_of(first, How(jobs=0), lambda line: None))
        write_boards(boards, more[0])
        if left := [line for board in boards for line in board.left]:
            raise UsageError(f"{first} does not show all that was accepted: {left[0]}")


def _parts(tell: Callable[[float], None]) -> Callable[..., None]:
    """Return a callback that tells the share of episodes that are finished."""

    def progress(finished: int, planned: int, *_: Any) -> None:
        """Tell the share of episodes that are finished."""
        tell(finished / planned)

    return progress


def _step(*words: str | Path) -> int:
    """Print a step's command and run it in a new process of Python; return its exit code."""
    command = ["-m", *map(str, words)]
    print("$ python", shlex.join(command), flush=True)
    return subprocess.run([sys.executable, *command], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
