"""`make suites` writes the suites of the package, which are frozen from the first release on and may change before it.

`core` covers the ids of `CORE`, a written list: a new id moves no agent's score before somebody enters it there. Its version is
1.N for N entries, and each family weighs the same. `demo` is a small part of it. The others follow papers' evaluations, on
generated tasks or on data that AGENT_ENVS_DATA names: their files hold ids and digests of tasks and no text, and stay as they
are where the data is not on the machine. See docs/leaderboard.md.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs.evaluation.suites
from agent_envs.base.errors import DataMissing
from agent_envs.core.env import core_of
from agent_envs.core.registry import NAMESPACE, full_id, row_of
from agent_envs.evaluation.suites.plan import tasks_of
from agent_envs.evaluation.suites.suite import DEMO, Average, Entry, Suite, suite_text

CORE = (
    "SearchQA", "Arithmetic", "Countdown", "Count", "GSM8KScaled", "CalcBench", "Sort", "Order", "LegalSearch", "Tau2Retail",
    "Tau2Airline", "Tau2Telecom", "BabyAI", "BabaIsAI", "Crafter", "ToolReasoning",
)  # fmt: skip
TASKS, TRIALS = 128, 4
DEMO_TASKS = 8
CANARY = "agent-envs suite, never train on it: canary 7c1e5b0e-3d5a-4f4e-9a53-0b8d2f6c91d4"
# Test tasks of the four parts of Calc-Bench (arXiv 2510.07581, Table 3); Table 1's Overall is the plain mean of the parts.
CALC_BENCH = {"Arithmetic": 2_000, "Countdown": 2_000, "Count": 2_000, "GSM8KScaled": 579}
SORTING, SORT_TASKS = (4, 5), 1_000  # "2,000 examples, equally split between Sort-4 and Sort-5"
BABYAI = ("goto", "pickup", "open", "putnext", "pick_up_seq_go_to")
REASONING_TASKS = 1_000  # of math_world: all that its test split has
# Search QA: the published column, our name of the set, and its questions in FlashRAG (51,713 in all), by which VEG weighs.
SEARCH_SETS = {"NQ": ("nq", 3_610), "TriviaQA": ("triviaqa", 11_313), "PopQA": ("popqa", 14_267),
               "HotpotQA": ("hotpotqa", 7_405), "2Wiki": ("2wiki", 12_576), "MuSiQue": ("musique", 2_417),
               "Bamboogle": ("bamboogle", 125)}  # fmt: skip
SEARCH_R1 = {"max_generations": 5, "max_searches": 4, "top_k": 3}  # the release's max_turns=4
VEG_SEARCH = {"max_generations": 2, "max_searches": 1, "top_k": 3}  # "a limit of 2 turns" (section 3.1)
TAU2 = ("Retail", "Airline", "Telecom")
# Nobody judges: with the official reward 40 of retail's 114 tasks would be lost for all.
OFFICIAL: dict[str, Any] = {"tasks": "official", "reward": "without_nl"}
VEG_TURNS = 10  # of the agent: "a maximum of 10 turns per sample" (VEG, section 3.1)
PLAIN, BY_QUESTIONS, BY_TASKS = "Avg., plain mean", "Avg., weighted by questions", "Avg., weighted by tasks"


def _entry(label: str, name: str, split: str = "test", limit: int | None = None, **arguments: Any) -> Entry:
    """Build a suite's entry from an id: its tasks, spec digest and arguments; no prompt of a suite has worked turns."""
    arguments = {"examples": 0, **arguments}
    core = core_of(gym.make(full_id(name), **arguments))
    tasks = tasks_of(core, split, limit)
    return Entry(
        label=label, env_id=full_id(name), spec_digest=core.spec_digest, tasks=tasks, arguments=arguments, split=split
    )


def _with_weight(entry: Entry, weight: float) -> Entry:
    """Return an entry with another weight."""
    return entry.model_copy(update={"weight": weight})


def _suite(name: str, *entries: Entry, trials: int = 1, averages: tuple[Average, ...] = ()) -> Suite:
    """Return a suite of version 1.0 over entries."""
    return Suite(id=name, version="1.0", canary=CANARY, trials=trials, averages=averages, entries=entries)


def _average(name: str, source: str, weights: Mapping[str, float]) -> Average:
    """Return an average of entries by their weights."""
    return Average(name=name, source=source, weights={label: float(weight) for label, weight in weights.items()})


def _core_entries(tasks: int) -> tuple[Entry, ...]:
    """Build the core suite's entries, weighted so that each family counts alike."""
    rows = [row_of(name) for name in CORE]
    members = Counter(row.family for row in rows)
    return tuple(
        _with_weight(_entry(row.id.removeprefix(f"{NAMESPACE}/"), row.name, limit=tasks), 1 / members[row.family])
        for row in rows
    )


def core_suite() -> Suite:
    """Return `core`: these ids with their default arguments, 128 test tasks, 4 trials."""
    entries = _core_entries(TASKS)
    return Suite(id="core", version=f"1.{len(entries)}", canary=CANARY, trials=TRIALS, entries=entries)


def generated_suites() -> tuple[Suite, ...]:
    """Return the suites of generated tasks: core, demo, calc-bench, sorting, babyai, legal and tool-reasoning."""
    calc = tuple(_entry(name, name, limit=tasks) for name, tasks in CALC_BENCH.items())
    overall = _average("Overall", "EARL, Table 1: plain mean of the four parts", dict.fromkeys(CALC_BENCH, 1))
    return (
        core_suite(),
        _suite(DEMO, *_core_entries(DEMO_TASKS)),
        _suite("calc-bench", *calc, averages=(overall,)),
        _suite("sorting", *(_entry(f"Sort-{size}", "Sort", limit=SORT_TASKS, size=size) for size in SORTING)),
        _suite("babyai", *(_entry(kind, "BabyAI", limit=TASKS, kind=kind) for kind in BABYAI)),
        _suite("legal", _entry("Accuracy", "LegalSearch")),
        _suite("tool-reasoning", _entry("math_world", "ToolReasoning", limit=REASONING_TASKS)),
    )


def search_suite(suite: str, limits: Mapping[str, int], weighted: bool) -> Suite:
    """Return the seven sets of Search QA within limits, each alike or, `weighted`, by questions; DataMissing without data.

    Raises:
        DataMissing: a set or its corpus is not on this machine.
    """
    counts = {label: count for label, (_, count) in SEARCH_SETS.items()}
    entries = [_entry(label, "SearchQA", "dev", tasks=name, **limits) for label, (name, _) in SEARCH_SETS.items()]
    averages = (
        _average(PLAIN, "Search-R1's rows in VEG, Table 1", dict.fromkeys(counts, 1)),
        _average(BY_QUESTIONS, "VEG, Table 1: its own rows; questions of the published sets", counts),
    )
    if weighted:
        entries = [_with_weight(entry, counts[entry.label]) for entry in entries]
    return _suite(suite, *entries, averages=averages)


def tau2_suite() -> Suite:
    """Return tau2-bench's base tasks, four trials, whose score is the mean over domains.

    Raises:
        DataMissing: the official tasks are not on this machine.
    """
    entries = [_entry(name, f"Tau2{name}", "base", **OFFICIAL) for name in TAU2]
    mean = _average(PLAIN, "tau2-bench: mean over domains", dict.fromkeys(TAU2, 1))
    return _suite("tau2", *entries, trials=TRIALS, averages=(mean,))


def tau2_veg_suite() -> Suite:
    """Return a fifth of tau2's base tasks within VEG's turns, whose score weighs domains by their tasks.

    Raises:
        DataMissing: the official tasks are not on this machine.
    """
    entries = [_entry(name, f"Tau2{name}", "pooled_test20", max_agent_turns=VEG_TURNS, **OFFICIAL) for name in TAU2]
    counts = {entry.label: len(entry.tasks) for entry in entries}
    averages = (
        _average(PLAIN, "VEG, Table 2: the plain mean, which most of its rows are not", dict.fromkeys(counts, 1)),
        _average(BY_TASKS, "VEG, Table 2: most of its rows; tasks of this suite", counts),
    )
    return _suite("tau2-veg", *(_with_weight(entry, counts[entry.label]) for entry in entries), averages=averages)


DATA_SUITES = {
    "search-qa-7": lambda: search_suite("search-qa-7", SEARCH_R1, weighted=False),
    "search-qa-7-veg": lambda: search_suite("search-qa-7-veg", VEG_SEARCH, weighted=True),
    "tau2": tau2_suite,
    "tau2-veg": tau2_veg_suite,
}


def shipped_suites() -> Iterator[Suite]:
    """Yield all shipped suites; one whose data is not here is left out, and named on the console."""
    yield from generated_suites()
    for name, make in DATA_SUITES.items():
        try:
            yield make()
        except DataMissing as error:
            print(f"{name} is left as it is: {error}")


def main() -> None:
    """Write the suites that can be made here into the package, and print their paths."""
    for suite in shipped_suites():
        path = Path(agent_envs.evaluation.suites.__file__).parent / f"{suite.id}.json"
        path.write_bytes(suite_text(suite).encode())
        print(path)


if __name__ == "__main__":
    main()
