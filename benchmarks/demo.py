"""`make demo` evaluates agents over every family in two minutes of one core, and writes a page with tables and charts.

    python -m benchmarks.demo --out DIR

Random, heuristic and solver agents play generated tasks, and real questions where AGENT_ENVS_DATA names the data. Every row is
a run as `agent-envs eval` makes it, with its own pages as `agent-envs view` writes them. The smallest reference trainer goes
on with a model that has imitated a solver that errs (`benchmarks.demo_model`), and it learns. No key is needed. A demo that was
killed goes on where it was: the same command again. `--full` (`make demo-full`) plays more tasks, trains a model from nothing
to the preset's end, and lets a second model learn to sort, in several CPU-minutes.

DIR/log.jsonl says what each step cost (`benchmarks.demo_log`); benchmarks/results/demo.jsonl is such a log of `make demo`.
"""

import argparse
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs import __version__
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest
from agent_envs.core.env import core_of
from agent_envs.core.registry import NAMESPACE, TABLE, companion
from agent_envs.evaluation.html.page import render
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.runs.evaluate import Result, evaluate, result_of_run
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import load_suite
from benchmarks import demo_board, demo_page
from benchmarks.demo_log import BUDGET, TASKS, DemoStep, Log, Tell, by_share, read_log
from benchmarks.demo_model import MODEL
from benchmarks.training_runs import end_trainers_with_us, report_seeds, run_training
from trainers.command_line import SETTINGS_FILE

AGENTS = {"random": "sampler", "heuristic": "heuristic", "solver": "solver"}
GENERATED = "generated"
REAL = {"SearchQA": ("hotpotqa", "popqa", "musique"), "GSM8KScaled": ("gsm8k",), "LegalSearch": ("dc_code",),
        "ToolReasoning": ("gsm8k",)}  # fmt: skip
FULL_TASKS = 300
TRANSCRIPTS_A_RUN = 3
GAMES, GAMES_SHARE = "text_games", 0.4  # of the tasks: a world and random play in it cost as much as ten questions
TRAINED_AGENT = "trainers.trained_agent:TrainedAgent"
MULTI_HOP = "baselines.multi_hop:MultiHop"
TURN_LIMITS = (0, 1, 2, 3, 5)
ABLATIONS = ("bm25", "random", "empty", "oracle")
TRAINED_TASKS, TRIALS = 64, 4
PRESET, SORTING = "tiny-minute", "tiny-sort4-minute"
SHORTER = (  # of the preset: what fits into the budget; imitation lies behind the shipped model
    "--steps", "20", "--log.no-curves", "--warm-start.demonstrations", "0", "--warm-start.steps", "0",
    "--evaluation.every", "0", "--evaluation.test-tasks", "128",
)  # fmt: skip


def sources(name: str) -> tuple[str, ...]:
    """Return the task sources that the demo plays of an environment: its default, and real data where there is any."""
    core = core_of(gym.make(f"{NAMESPACE}/{name}-v0"))
    real = REAL.get(name.removesuffix("ExpA"), ()) if os.environ.get("AGENT_ENVS_DATA") else ()
    return (core.arguments.get("tasks", GENERATED), *real)


def agents(name: str) -> tuple[str, ...]:
    """Return the built-in agents that an environment has."""
    env = gym.make(f"{NAMESPACE}/{name}-v0")
    return tuple(agent for agent, kind in AGENTS.items() if companion(env, kind) is not None)


def runs(tasks: int) -> dict[str, tuple[str, Choice]]:
    """Return the agent and the choice of every run of the success table, by the run's name."""
    table = {}
    for entry in TABLE:
        limit = round(tasks * GAMES_SHARE) if entry.family == GAMES else tasks
        for source in sources(entry.name):
            arguments = {} if source == GENERATED else {"tasks": source}
            choice = Choice(f"{NAMESPACE}/{entry.name}-v0", arguments, limit=limit)
            table |= {f"{entry.name}-{source}-{agent}".lower(): (agent, choice) for agent in agents(entry.name)}
    return table | {"searchqa-world-multihop": (MULTI_HOP, Choice("SearchQA", {"tasks": "world"}, limit=tasks))}


def sweeps(tasks: int) -> dict[str, tuple[str, Choice]]:
    """Return the agent and the choice of each run over several entries, by the run's name."""
    limits = Choice("SearchQA", limit=tasks, turn_limits=TURN_LIMITS)
    retrievers = Choice(
        "SearchQA", {"top_k": 4}, limit=tasks, turn_limits=(2,), sweep=("retriever", ABLATIONS)
    )  # four passages are all that a question needs, and two turns are few enough for them to matter
    return {
        "retrievers": (MULTI_HOP, retrievers),
        "limits-heuristic": ("heuristic", limits),
        "limits-multihop": (MULTI_HOP, limits),
    }


def plan_steps(tasks: int, full: bool) -> list[DemoStep]:
    """Return the steps of a demo in their order."""
    steps = [DemoStep(name, "evaluation", choice.limit or 0) for name, (_, choice) in runs(tasks).items()]
    for name, (_, choice) in sweeps(tasks).items():
        values = choice.sweep[1] if choice.sweep else (None,)
        steps += [DemoStep(name, "evaluation", tasks * len(values) * len(choice.turn_limits))]
    suite = load_suite(demo_board.SUITE)
    episodes = suite.trials * sum(len(entry.tasks) for entry in suite.entries)
    for number in range(len(demo_board.DEMO_AGENTS)):
        steps += [DemoStep(f"board-eval-{number}", "evaluation", episodes)]
        steps += [DemoStep(f"board-{verb}-{number}", "board") for verb in ("pack", "add")]
    steps += [
        DemoStep("board-build", "board"),
        DemoStep("training", "training"),
        DemoStep("trained", "evaluation", TRAINED_TASKS * TRIALS),
    ]
    steps += [DemoStep("sorting", "training")] * full
    return [*steps, DemoStep("transcripts", "page"), DemoStep("page", "page")]


class Demo:
    """One demo: its folder, its log, and the results of its runs."""

    def __init__(self, out: Path, log: Log) -> None:
        """Play into `out`."""
        self.out, self.log = out, log
        self.results: dict[str, Result] = {}

    def play(self, name: str, settings: Settings, choice: Choice) -> None:
        """Play a run; one that was begun goes on, and one that is of another version is played again."""
        folder = self.out / "runs" / name

        def work(tell: Tell) -> None:
            """Evaluate an agent, or go on with its run; a run of other settings is deleted first."""
            playing = partial(
                evaluate, adhoc_suite(choice), settings, folder=folder,
                progress=lambda finished, most, *_: tell(finished / most),
            )  # fmt: skip
            try:
                self.results[name] = playing()
            except UsageError:
                shutil.rmtree(folder, ignore_errors=True)
                self.results[name] = playing()

        self.log.run(name, work)
        if name not in self.results:  # it was played before a kill
            self.results[name] = result_of_run(open_run(folder))[0]

    def board(self) -> None:
        """Make the board of the built-in agents, by the commands of `benchmarks.demo_board`.

        They run in this process, which has the worlds at hand that they need; what it verifies are its own runs.
        """
        for _, verb, *words in demo_board.commands(self.out):
            place = next((word.name for word in words if isinstance(word, Path)), "")
            name = "board-build" if verb == "build" else f"board-{verb}-{place}"
            self.log.run(name, partial(demo_board.run_here, verb, words))

    def train(self, step: str, program: str, preset: str, *options: str) -> Path:
        """Train a preset on one torch thread, on the first seed that follows from its name, and return the run's folder."""
        folder = self.out / "runs" / step
        job = partial(run_training, program, ("--preset", preset, *options), report_seeds(preset)[0], folder)

        def work(tell: Tell) -> None:
            """Run the training in a thread, and report progress by its expected time."""
            with ThreadPoolExecutor(1) as pool:
                result, start = pool.submit(job), time.monotonic()
                while not wait([result], timeout=1.0).done:
                    tell(min((time.monotonic() - start) / BUDGET["training"], 0.99))
                result.result()

        self.log.run(step, work)
        return folder

    def transcripts(self, tell: Tell) -> None:
        """Write the pages of every run."""
        for number, name in enumerate(self.results):
            write_view(self.out / "runs" / name, self.out / name, most=TRANSCRIPTS_A_RUN)
            tell(number / len(self.results))


def play(out: Path, log: Log, tasks: int, full: bool) -> Path:
    """Play, train and write a demo, or what is missing of it, and return the path of its page."""
    demo = Demo(out, log)
    for name, (agent, choice) in (runs(tasks) | sweeps(tasks)).items():
        demo.play(name, Settings(agent, smoke=True), choice)
    demo.board()
    training = demo.train("training", "grpo", PRESET, *(() if full else (*SHORTER, "--model.name", str(MODEL))))
    demo.play(
        "trained",
        Settings(TRAINED_AGENT, {"folder": str(training)}, concurrency=128, smoke=True),
        learnt_tasks(training),
    )
    pictures = (demo_page.learnt_algorithm(demo.train("sorting", "earl", SORTING)),) if full else ()
    log.run("transcripts", demo.transcripts)
    page = out / "index.html"

    def write(_: Tell) -> None:
        """Write the demo's page."""
        page.write_bytes(render(demo_page.page_of(demo.results, log, out, pictures)))

    log.run("page", write)
    return page


def learnt_tasks(training: Path) -> Choice:
    """Return a trained policy's evaluation: tasks of the test split in the environment of its training, four trials each."""
    settings = json.loads((training / SETTINGS_FILE).read_text(encoding="utf-8"))["env"]
    return Choice(settings["id"], json.loads(settings["arguments"]), split="test", limit=TRAINED_TASKS, trials=TRIALS)


def open_log(out: Path, head: dict[str, Any], steps: list[DemoStep]) -> Log:
    """Return the log of a demo: an unfinished one of the same plan goes on, anything else is removed."""
    path = out / "log.jsonl"
    try:
        before, rows = read_log(path)
    except UsageError:  # damaged: played again
        before, rows = {}, []
    if before != head or steps[-1].name in {row["step"] for row in rows}:
        for folder in ("runs", "board", "site", "packed"):
            shutil.rmtree(out / folder, ignore_errors=True)
        path.unlink(missing_ok=True)
    return Log(path, head, steps)


def main(arguments: list[str] | None = None) -> None:
    """Run the demo and print where its page is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, help=f"tasks a run (default {TASKS}; {FULL_TASKS} with --full)")
    parser.add_argument("--full", action="store_true", help="more tasks, and a second model that learns to sort")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the pages (default demo/)")
    options = parser.parse_args(arguments)
    tasks, full = options.tasks or (FULL_TASKS if options.full else TASKS), options.full
    data = os.environ.get("AGENT_ENVS_DATA", "")
    steps = plan_steps(tasks, full)
    head = {
        "demo": __version__, "tasks": tasks, "full": full, "data": data and str(Path(data).absolute()),
        "steps": digest([*((step.name, step.episodes) for step in steps), SHORTER]),
    }  # fmt: skip
    log = open_log(options.out, head, steps)
    goes_on = f" (going on after {len(log.rows)} steps)" if log.rows else ""
    print(f"about {log.length():.0f} CPU-seconds for {len(log.missing)} steps{goes_on}", flush=True)
    page = play(options.out, log, tasks, full)
    log.close()
    for share, cpu in by_share(log.rows.values()).items():
        print(f"{share:12}{cpu:6.1f} CPU-seconds" + ("" if full else f" of {BUDGET[share]}"))
    if not data:
        print(demo_page.LEFT_OUT)
    print(page.resolve())


if __name__ == "__main__":
    end_trainers_with_us()
    main()
