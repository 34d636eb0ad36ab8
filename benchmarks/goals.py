"""The promised speeds are measured in one run: a row a goal, met or missed, peers in alternation.

    python -m benchmarks.goals [--rounds 3] [--out benchmarks/results/goals.json] [--only WORDS]

A goal of speed is a ratio of one run, so that a slower machine loses none: to a peer, to an ideal rate, or a cost in units of
`benchmarks.calibration`, which is played right before and after each such measurement. Where it drifts between the two, the
round is void for the row; a row without a sound round voids the run, which is neither judged nor written (exit code 2). What
was measured stands beside the ratio, the median of the rounds, all in CPU time but for rows that say wall. Peers play where
their virtual environment is (`python -m benchmarks.steps` makes it), 52,082 passages where `AGENT_ENVS_DATA` names the data;
else the row says so, and an earlier run's stays. Exit code 1: a goal that the kept figures (`benchmarks/results/goals.json`)
meet, or those before them met, is missed by more than this run's rounds lie apart. Such a run is written too, its row marked
`lost`, and is lost again until it is met.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import calibration

RESULTS_FILE = Path("benchmarks/results/goals.json")
VENVS = Path(".venv-peers")
Measure = Callable[[], float | str]  # a figure, or why there is none
MICROSECONDS: dict[str, Callable[[float], float]] = {  # of what a figure says that one thing costs
    "steps per CPU-s": lambda rate: 1e6 / rate,
    "us": lambda figure: figure,
    "ms": lambda figure: 1e3 * figure,
    "s": lambda figure: 1e6 * figure,
}


@dataclass(frozen=True)
class Goal:
    """One row: its words, the bound, whether more is better, and one round of its measurement.

    With `unit`, that of the measured figure, the bound is of thousandths of a calibration's unit, which one step, query or
    call may cost.
    """

    name: str
    bound: float
    more: bool
    measure: Measure
    once: bool = False
    unit: str = ""

    def is_met_by(self, value: float) -> bool:
        """Return whether a figure keeps the bound."""
        return value >= self.bound if self.more else value <= self.bound


def last_line(command: list[str]) -> Any:
    """Run a process and return the JSON of the last line that it printed."""
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def steps(engine: str) -> float:
    """Return our Search QA's steps per CPU-second, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.search_steps", engine]
    return float(last_line(command)["steps_per_cpu_second"])


def ratio_to_peer(peer: str, script: str, recorded: bool) -> float | str:
    """Return our steps over a peer's, one after the other, with records kept on both or on neither."""
    python = VENVS / peer / "bin" / "python"
    if not python.exists():
        return "the peer is not here"
    theirs = last_line([str(python), script, *(["--records"] if recorded else [])])["steps_per_cpu_second"]
    return steps("ours, stub, recorded" if recorded else "ours, stub") / float(theirs)


def real_search() -> float | str:
    """Return steps per CPU-second over 52,082 passages."""
    return steps("ours, 52,082 passages") if "AGENT_ENVS_DATA" in os.environ else "AGENT_ENVS_DATA is not set"


@cache
def sample() -> Any:
    """Return the index of the 52,082 passages, its questions, and 10,000 queries made of their words; cached."""
    from agent_envs.tools.retrieval.bm25 import get_index
    from benchmarks.retrieval import sample as passages

    corpus, questions = passages(Path(os.environ["AGENT_ENVS_DATA"]))
    rng, words = random.Random("queries of goals"), [word for question in questions for word in question.split()]
    queries = [" ".join(rng.choices(words, k=rng.randint(1, 12))) for _ in range(10_000 - len(questions))]
    return get_index(corpus), questions, questions + queries


def query_microseconds() -> float | str:
    """Return CPU-microseconds of a query, each question asked once; a text without the passages."""
    if "AGENT_ENVS_DATA" not in os.environ:
        return "AGENT_ENVS_DATA is not set"
    index, questions, _ = sample()
    started = time.process_time()
    for question in questions:
        index.top(question, 3)
    return (time.process_time() - started) / len(questions) * 1e6


def unequal_queries() -> float | str:
    """Count the queries of 10,000 whose best rows or scores differ from a ranking of all passages, ties included."""
    import numpy as np

    if "AGENT_ENVS_DATA" not in os.environ:
        return "AGENT_ENVS_DATA is not set"
    index, _, queries = sample()
    unequal = 0
    for query in queries:
        scores = np.zeros(index.documents)
        for term, count in index.terms(query).items():
            if (column := index._column_of.get(term)) is not None:
                part = slice(index._starts[column], index._starts[column + 1])
                scores[index._rows[part].astype(np.intp)] += index._scores[part].astype(np.float64) * count
        ranks = np.rint(scores * 1e6)
        order = np.argsort(-ranks, kind="stable")[:3]
        order = order[ranks[order] > 0]
        unequal += index.top(query, 3) != (order.tolist(), (ranks[order] / 1e6).tolist())
    return float(unequal)


def play_rate(env_id: str, tasks: int, most: int, act: str) -> float:
    """Return steps per CPU-second of recorded play, resets included; a task's data stays in the cache, as in training."""
    import gymnasium as gym

    from agent_envs.core.registry import companion
    from benchmarks.search_steps import rate

    env = gym.make(env_id)
    player = companion(env, act)
    assert player is not None
    plans = []
    for task in range(tasks):
        env.reset(options={"task": task})
        rng, actions, over = random.Random(task), [], False
        while len(actions) < most and not over:
            actions.append(player(env) if act == "solver" else player(env, rng))
            _, _, ended, cut, _ = env.step(actions[-1])
            over = ended or cut
        plans.append((task, actions))

    def window() -> int:
        """Step the planned episodes once and return the number of turns."""
        for task, actions in plans:
            env.reset(options={"task": task})
            for action in actions:
                env.step(action)
        return sum(len(actions) for _, actions in plans)

    window()
    return rate(window)


def share(concurrency: int) -> float:
    """Return the share of the ideal rate of a model that takes 50 ms, by the clock."""
    from benchmarks import runner
    from benchmarks.agents import Instant, Slow

    runner.EPISODES = 4 * concurrency
    runner.pace(Instant(), 1, 1)
    return float(runner.pace(Slow(), concurrency, concurrency)["share_of_ideal"])


def forked_cell() -> float | str:
    """Return the time, by the clock, of a fork of a bubblewrap session and a cell in it over a plain interpreter's: medians."""
    from agent_envs.base.errors import UsageError
    from agent_envs.sandbox import SandboxSpec, open_sandbox

    try:
        session = open_sandbox(SandboxSpec(backend="bwrap"))
        session.run("x = 1")
    except UsageError as error:
        return str(error)[:60]
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(20):
        started = time.perf_counter()
        twin = session.fork()
        twin.run("x + 1")
        times[0].append(time.perf_counter() - started)
        twin.close()
        started = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "1 + 1"], check=True)
        times[1].append(time.perf_counter() - started)
    session.close()
    return statistics.median(times[0]) / statistics.median(times[1])


def moment(name: str) -> float:
    """Return CPU-microseconds of a snapshot, fork or restore."""
    from benchmarks.steps import snapshots

    return snapshots()[name]


def turn_milliseconds() -> float:
    """Return CPU-milliseconds of a turn of a run of 1,000 episodes, everything included."""
    row = last_line([sys.executable, "-m", "benchmarks.runner", "--cell", "1000"])
    return float(1e3 * row["cpu_seconds"] / row["turns"])


def import_seconds() -> float:
    """Return CPU-seconds of importing the package."""
    from benchmarks.steps import import_seconds as seconds

    return seconds()


def dependencies() -> float:
    """Count the packages that the core install names."""
    return float(len(tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]["dependencies"]))


GEM, SKYRL = "benchmarks/peers/gem_search.py", "benchmarks/peers/skyrl_search.py"
# Bounds of costs were seconds of one machine, on which a unit took about 2,900 us: 100 us of it, say, are 34 thousandths.
GOALS = (
    Goal("Search QA steps, stub, ours / GEM, recorded", 1, True, lambda: ratio_to_peer("gem", GEM, True)),
    Goal("Search QA steps, stub, ours / GEM, no records", 1, True, lambda: ratio_to_peer("gem", GEM, False)),
    Goal("Search QA steps, stub, ours / SkyRL, recorded", 1, True, lambda: ratio_to_peer("skyrl-gym", SKYRL, True)),
    Goal("Search QA steps, stub, ours / SkyRL, no more records", 1, True, lambda: ratio_to_peer("skyrl-gym", SKYRL, False)),
    Goal("Search QA step, 300 passages", 34, False, lambda: steps("ours"), unit="steps per CPU-s"),
    Goal("Search QA step, 52,082 passages", 34, False, real_search, unit="steps per CPU-s"),
    Goal("BM25 query on 52,082 passages", 34, False, query_microseconds, unit="us"),
    Goal("BM25: queries of 10,000 that rank otherwise", 0, False, unequal_queries, once=True),
    Goal("tau2 telecom step, solver", 115, False, lambda: play_rate("agent_envs/Tau2Telecom-v0", 12, 100, "solver"),
         unit="steps per CPU-s"),
    Goal("Crafter step, worlds kept", 345, False, lambda: play_rate("agent_envs/Crafter-v0", 6, 64, "sampler"),
         unit="steps per CPU-s"),
    Goal("bwrap: fork and first cell / a plain interpreter, wall", 0.85, False, forked_cell),
    Goal("share of the ideal rate, 64 at a time, wall", 0.97, True, lambda: share(64)),
    Goal("share of the ideal rate, 256 at a time, wall", 0.95, True, lambda: share(256)),
    Goal("snapshot", 17, False, lambda: moment("snapshot"), unit="us"),
    Goal("fork", 17, False, lambda: moment("fork"), unit="us"),
    Goal("restore", 17, False, lambda: moment("restore"), unit="us"),
    Goal("a turn of 1,000 episodes, all in", 345, False, turn_milliseconds, unit="ms"),
    Goal("import", 172_000, False, import_seconds, unit="s"),
    Goal("direct dependencies of a core install", 9, False, dependencies, once=True),
)  # fmt: skip


@dataclass(frozen=True)
class Round:
    """One round of a goal: what was measured, and with a unit the calibration's plays before and after it."""

    figure: float | str
    plays: tuple[calibration.Play, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether the calibration stayed what it was."""
        return calibration.drift_of(self.plays) <= calibration.MOST_DRIFT

    def ratio(self, goal: Goal) -> float:
        """Return the value that the goal's bound is on: the figure, or its cost in thousandths of a calibration unit."""
        assert not isinstance(self.figure, str), self.figure
        if not goal.unit:
            return self.figure
        return 1e3 * MICROSECONDS[goal.unit](self.figure) / calibration.unit_of(self.plays)


def one_round(goal: Goal, play: Callable[[], calibration.Play]) -> Round:
    """Measure a goal once, between two plays where it has a unit."""
    if not goal.unit:
        return Round(goal.measure())
    before, figure = play(), goal.measure()
    return Round(figure, (before, play()))


def measure_goals(
    goals: list[Goal], rounds: int, play: Callable[[], calibration.Play] | None = None
) -> dict[str, dict[str, Any]]:
    """Return a row a goal; each round measures all goals, so that a busy minute does not hit one alone."""
    played_rounds: dict[str, list[Round]] = {goal.name: [] for goal in goals}
    for number in range(rounds):
        for goal in goals:
            if not (goal.once and number):
                new = one_round(goal, play or calibration.play)
                played_rounds[goal.name].append(new)
                drift = f", drift {calibration.drift_of(new.plays):.2f}" if new.plays else ""
                print(f"round {number + 1}: {goal.name}: {new.figure} {goal.unit}{drift}", file=sys.stderr, flush=True)
    return {goal.name: row_of(goal, played_rounds[goal.name]) for goal in goals}


def row_of(goal: Goal, rounds: list[Round]) -> dict[str, Any]:
    """Return the row of a goal from its rounds; `void` where no round of it was sound."""
    row: dict[str, Any] = {"goal": goal.bound, "more is better": goal.more}
    if all(isinstance(each.figure, str) for each in rounds):
        return row | {"not measured": rounds[0].figure}
    sound = [each for each in rounds if not isinstance(each.figure, str) and each.sound]
    if not sound:
        return row | {"void": round(min(calibration.drift_of(each.plays) for each in rounds), 3)}
    ratios = [each.ratio(goal) for each in sound]
    middle = statistics.median(ratios)
    row |= {"value": _short(middle), "rounds": [*map(_short, ratios)]}
    if goal.unit:
        units = [calibration.unit_of(each.plays) for each in sound]
        row |= {
            "unit": goal.unit, "measured": [_short(each.figure) for each in sound], "calibration us": [*map(_short, units)],
            "void rounds": len(rounds) - len(sound),
        }  # fmt: skip
    return row | {"met": goal.is_met_by(middle)}


def _short(value: float | str) -> float:
    """Return a number in four significant digits."""
    return float(f"{value:.4g}")


def lost_goals(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return the goals that were met and are missed by more than the rounds of this run lie apart."""
    names = []
    for name, row in now.items():
        if row.get("met", True) or not once_met(before.get(name, {})):
            continue
        noise = max(row["rounds"]) - min(row["rounds"])
        missed = row["goal"] - row["value"] if row["more is better"] else row["value"] - row["goal"]
        if missed > noise:
            names.append(name)
    return names


def once_met(row: dict[str, Any]) -> bool:
    """Return whether a goal was met in the run that was kept, or in one before it."""
    return bool(row.get("once met", row.get("met")))


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Return the rows as text."""
    lines = [f"{'what':<54}{'here':>12}{'goal':>12}"]
    for name, row in rows.items():
        goal = f"{'>=' if row['more is better'] else '<='} {row['goal']:g}"
        if "value" not in row:
            lines.append(f"{name:<54}{'-':>12}{goal:>12}  {row.get('not measured', 'VOID')}")
            continue
        note = ""
        if "measured" in row:
            middle, unit = (statistics.median(row[each]) for each in ("measured", "calibration us"))
            note = f"  ({middle:g} {row['unit']}, where a unit is {unit:g} us)"
        lines.append(f"{name:<54}{row['value']:>12g}{goal:>12}  {'met' if row['met'] else 'MISSED'}{note}")
    grpo = "GRPO, four turns, beside TRL: python -m benchmarks.grpo_step (its own run, tens of CPU-minutes)"
    return "\n".join([*lines, grpo])


def main() -> int:
    """Measure, print, keep, and compare with what was kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="rows whose name holds these words")
    options = parser.parse_args()
    before = json.loads(RESULTS_FILE.read_text("utf-8"))["rows"] if RESULTS_FILE.exists() else {}
    rows = measure_goals([goal for goal in GOALS if options.only in goal.name], options.rounds)
    print(table(rows))
    if void := [name for name, row in rows.items() if "void" in row]:
        print(
            f"VOID: the machine's speed moved while these were measured; run again: {'; '.join(void)}", file=sys.stderr
        )
        return 2
    losses = lost_goals(before, rows)
    for name in losses:
        rows[name]["lost"] = True
        print(f"LOST: {name}", file=sys.stderr)
    for name, row in rows.items():  # a miss within the noise does not end a promise
        row["once met"] = once_met(row) or once_met(before.get(name, {}))
    names = {goal.name for goal in GOALS}
    earlier = {name: row | {"of an earlier run": True} for name, row in before.items() if name in names}
    rows = {**earlier, **{name: row for name, row in rows.items() if "value" in row or name not in earlier}}
    if options.out:
        record = {"command": f"python -m benchmarks.goals --out {options.out}", "load": os.getloadavg(), "rows": rows}
        options.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
