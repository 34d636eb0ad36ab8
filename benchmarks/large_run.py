"""The needs of a run of 10,000 episodes at a time, a million a day, are computed from the figures that are kept.

    python -m benchmarks.large_run

Nothing is measured here: each cost is read from a file below `benchmarks/results`, and what no file has is an assumption and
named as one. The tables are those of docs/scale.md (`make docs` writes them there).
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
EPISODES_A_DAY, AT_A_TIME, DAY_SECONDS = 1_000_000, 10_000, 86_400
TURNS = (4, 20, 50)
CORES, MEMORY_GB, DISK_GB, NETWORK_MBIT = 16, 64, 1_000, 1_000
OPEN_FILES, PROCESS_IDS = 1_024, 32_768
SAMPLED_A_TURN = 32  # tokens: the shape that the GRPO step was measured with
ASSUMPTIONS = (
    f"The question: {AT_A_TIME:,} episodes at a time, {EPISODES_A_DAY:,} a day, evenly over the day.",
    "Episodes of one length: "
    + ", ".join(f"{turns} turns" for turns in TURNS)
    + ". A turn was measured on Search QA, whose "
    "episodes have 4; its cost is taken to stay as the conversation grows (the growth over turns above).",
    "In every turn one search over a million passages, and one cell of Python in bubblewrap. Cells cost what they cost by the "
    "clock, as no file has their CPU time, and each session is made again, because 128 wait on the shelf and 10,000 are open; "
    "the cells before are nearly free to run again.",
    f"The machine: {CORES} cores as fast as those that were measured, {MEMORY_GB} GB of memory, {DISK_GB:,} GB of disk, "
    f"{NETWORK_MBIT:,} Mbit/s. One process plays all episodes, so that one interpreter lock bears all turns and searches.",
    "The text of a conversation is kept once in memory, and grows each turn by what a request grew by.",
    f"Every request carries the whole conversation, uncompressed; a turn samples {SAMPLED_A_TURN} tokens.",
)


@dataclass(frozen=True)
class Cost:
    """A measured figure: what it is, its value and unit, and the file that has it."""

    what: str
    value: float
    unit: str
    file: str


@cache
def load(name: str) -> Any:
    """Load a file of results, once."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def costs() -> dict[str, Cost]:
    """Return the measured costs by name."""
    runner = max(
        (row for row in load("runner.json")["cost"] if row["peer"] == "agent-envs"), key=lambda row: row["episodes"]
    )
    passages = load("scaling.json")["results"]["bm25"]["1000000"]
    cells = load("sandbox.json")["latency"]["table"]["milliseconds"]["bwrap, numpy and sympy loaded"]
    opens = "open_episodes.json"
    opened = load(opens)["rows"]
    few, many = opened[0], opened[-1]
    sizes = many["bytes_asked_by_turn"]
    journal, checked, crowd = load("journals.json"), load("verifying.json"), load("tau2_users.json")["crowd"]
    step = load("grpo_step.json")["rows"]["10m, 4 turns"]["sides"]["ours"]
    again = "restore and a cell, from the record"
    return {
        "turn": Cost(
            f"a turn, all in, {many['episodes']:,} at a time, each environment made", many["cpu_ms_a_turn"], "ms of CPU", opens
        ),
        "few": Cost("a turn, all in, 64 at a time, environments kept", runner["cpu_ms_a_turn"], "ms of CPU", "runner.json"),
        # The dearer of two figures: other passages and another hour gave scaling.json's `query_cpu_ms`.
        "search": Cost(
            "a query, a million passages", load("growth.json")["rows"]["passages"]["points"]["1000000"] / 1e3, "ms of CPU",
            "growth.json",
        ),
        "index": Cost("the index of a million passages, open", passages["serve_peak_rss_mb"] / 1e3, "GB", "scaling.json"),
        "cell": Cost("a session made again and a cell, bubblewrap", cells[again]["p50"], "ms by the clock", "sandbox.json"),
        "open": Cost(f"an open episode, {many['episodes']:,} open", many["kb_an_open_episode"], "kB", opens),
        "tau2": Cost(
            f"an open conversation of tau2 telecom, {crowd['episodes']:,} open",
            (crowd["peak_rss_mb"] - crowd["rss_before_mb"]) * 1e3 / crowd["episodes"], "kB", "tau2_users.json",
        ),
        "first": Cost("the first request of an episode", sizes[0] / 1e3, "kB", opens),
        "more": Cost("what a request grows by a turn", (sizes[-1] - sizes[0]) / 1e3 / (len(sizes) - 1), "kB", opens),
        "said": Cost("a reply", many["bytes_said_a_turn"] / 1e3, "kB", opens),
        "row": Cost(
            "a turn in the journal, each task once", few["journal_bytes_an_episode"] / 1e3 / len(sizes), "kB", opens
        ),
        "report": Cost(
            "a report of 10,000 finished episodes, nothing kept",
            journal["after"]["cpu_seconds_unkept"]["report"] * 10_000 / journal["episodes"], "s of CPU", "journals.json",
        ),
        "verify": Cost(
            "verifying a step", checked["verify_1_jobs"]["cpu_seconds"] * 1e3 / checked["steps"], "ms of CPU", "verifying.json"
        ),
        "token": Cost(
            "a sampled token of a GRPO step, its update included, 9.4 million weights",
            1e3 / step["sampled_tokens_per_cpu_second"], "ms of CPU", "grpo_step.json",
        ),
    }  # fmt: skip


@dataclass(frozen=True)
class Need:
    """One row: what is needed at so many turns an episode, and what the machine has of it (inf: it is no limit)."""

    what: str
    unit: str
    at: Callable[[int], float]
    has: float = math.inf
    ray: str = ""


def needs() -> list[Need]:
    """Return the run's needs as functions of an episode's turns."""
    cost = {name: row.value for name, row in costs().items()}
    rate = EPISODES_A_DAY / DAY_SECONDS  # episodes a second

    def cores(milliseconds: float) -> Callable[[int], float]:
        """Return the cores that the calls need, as a function of turns, for this time a call."""
        return lambda turns: rate * turns * milliseconds / 1e3

    lock = cores(cost["turn"] + cost["search"])
    cells, verified = cores(cost["cell"]), cores(cost["verify"])
    report = cost["report"] * EPISODES_A_DAY / 10_000 / DAY_SECONDS

    def text(turns: int) -> float:  # kB of the last request
        """Return the kilobytes of an episode's last request."""
        return cost["first"] + cost["more"] * (turns - 1)

    def traffic(turns: int) -> float:
        """Return the kilobytes a second of all requests and replies."""
        return rate * turns * ((cost["first"] + text(turns)) / 2 + cost["said"])

    def memory(turns: int) -> float:
        """Return the memory in GB: the index, and what the open episodes hold beyond four turns."""
        return cost["index"] + AT_A_TIME * (cost["open"] + max(0, text(turns) - text(4))) / 1e6

    return [
        Need("turns", "a second", lambda turns: rate * turns),
        Need("between two turns of an episode", "s", lambda turns: AT_A_TIME / rate / turns),
        Need("the run itself: environments, journal, threads", "cores", cores(cost["turn"])),
        Need("the same, if a turn cost what it does with 64 at a time", "cores", cores(cost["few"])),
        Need("searches", "cores", cores(cost["search"])),
        Need("the run and its searches, under one interpreter lock", "cores", lock, 1, "yes: a lock a worker"),
        Need("Python cells", "cores", cells, ray="yes: they run where their environment does"),
        Need("one report of the day, and verifying it all", "cores", lambda turns: report + verified(turns),
             ray="needless: verifying has processes of its own (`--jobs`)"),
        Need("all of that, on one machine", "cores", lambda turns: lock(turns) + cells(turns) + report + verified(turns), CORES,
             "yes: the sum is the same, over more machines"),
        Need("memory: open episodes of Search QA and one index", "GB", memory, MEMORY_GB, "yes; each machine has an index"),
        Need("memory: open conversations of tau2 telecom", "GB", lambda _: AT_A_TIME * cost["tau2"] / 1e6, MEMORY_GB, "yes"),
        Need("disk for the journal, a day", "GB", lambda turns: EPISODES_A_DAY * turns * cost["row"] / 1e6, DISK_GB,
             "no: one process writes it"),
        Need("network, to the model and back", "Mbit/s", lambda turns: traffic(turns) * 8 / 1e3, NETWORK_MBIT,
             "no: it adds a second way of the same size, to the workers"),
        Need("a policy of 9.4 million weights, sampled and trained on CPUs", "cores",
             lambda turns: rate * turns * SAMPLED_A_TURN * cost["token"] / 1e3, CORES, "the trainer's affair, with GPUs"),
    ]  # fmt: skip


def figure(value: float) -> str:
    """Return a number in three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows])


def growth_table() -> str:
    """Return the growth of cost: a row for each of the charts."""
    rows = [
        [
            name,
            row["unit"],
            f"{row['exponent']:g}",
            " · ".join(f"{int(size):,}: {value:g}" for size, value in row["points"].items()),
        ]
        for name, row in load("growth.json")["rows"].items()
    ]
    return table(["over", "unit", "exponent", "measured"], rows)


def cost_table() -> str:
    """Return the table of measured costs and their files."""
    rows = [
        [cost.what, f"{figure(cost.value)} {cost.unit}", f"[{cost.file}](../benchmarks/results/{cost.file})"]
        for cost in costs().values()
    ]
    return table(["measured", "value", "file"], rows)


def assumption_list() -> str:
    """Return the list of assumptions."""
    return "\n".join(f"- {line}" for line in ASSUMPTIONS)


def need_table() -> str:
    """Return the table of the run's needs."""
    rows = [[need.what, need.unit, *(figure(need.at(turns)) for turns in TURNS)] for need in needs()]
    return table(["", "", *(f"{turns} turns" for turns in TURNS)], rows)


def limits() -> list[Need]:
    """Return the rows that the machine limits, the nearest first, by what episodes of the middle length take of it."""
    return sorted((need for need in needs() if need.has < math.inf), key=lambda need: -need.at(TURNS[1]) / need.has)


def limit_table() -> str:
    """Return the share of each limit of the machine that the run takes, nearest first."""
    rows = [
        [need.what, f"{need.has:,g} {need.unit}", *(f"{need.at(turns) / need.has:.2g}" for turns in TURNS), need.ray]
        for need in limits()
    ]
    return table(["", "there is", *(f"{turns} turns" for turns in TURNS), "does Ray move it?"], rows)


def first_to_break() -> str:
    """Return in words what breaks first, what next, and the settings that stand before."""
    first, second = limits()[:2]
    turns = TURNS[1]
    share, rest = first.at(turns) / first.has, second.at(turns) / second.has
    wave = AT_A_TIME * (costs()["turn"].value + costs()["search"].value) / 1e3
    sentences = (
        f"At {turns} turns the nearest limit is *{first.what}*: {figure(share)} of what there is, so it "
        f"{'breaks' if share > 1 else 'holds'}.",
        f"Next is *{second.what}*, at {figure(rest)}: {figure(1 / rest)} times the run would fill it.",
        f"Were all {AT_A_TIME:,} replies to come at one moment, the last of them would have its turn and its search after "
        f"{figure(wave)} s, where {figure(AT_A_TIME * DAY_SECONDS / EPISODES_A_DAY / turns)} s lie between two turns.",
        f"Two settings of Linux stand before all of it: {AT_A_TIME:,} requests under way need as many open files (`ulimit -n`, "
        f"commonly {OPEN_FILES:,}), and as many threads (of {PROCESS_IDS:,} process ids, `kernel.pid_max`).",
    )
    return " ".join(sentences)


def parts() -> dict[str, str]:
    """Return the generated parts of docs/scale.md."""
    return {
        "growth": growth_table(), "costs": cost_table(), "assumptions": assumption_list(), "needs": need_table(),
        "limits": limit_table(), "first to break": first_to_break(),
    }  # fmt: skip


def main() -> None:
    """Print what the page has."""
    for name, text in parts().items():
        print(f"{name}\n\n{text}\n")


if __name__ == "__main__":
    main()
