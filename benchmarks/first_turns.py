"""First turns by a real language model: how many are valid by the prompt alone, and how many of these copy an example.

    python -m benchmarks.first_turns --model smollm2-135m --examples 0 1 2 --out benchmarks/results/first_turns.json

A model plays the first two turns of test tasks of every id that acts in text, with the id's own defaults but for `examples`, at
temperature 0. What it wrote is judged where it stands, with tolerant readers and by a fork with `strict=True`; the episode goes
on from the tolerant one. A copy is a valid turn whose whole text is that of a worked turn in the prompt. Episodes are kept in
a journal, a batch at a time: the same command goes on from it. Ids with expanded actions are left out, as no text is an action
of theirs.
"""

import argparse
import json
import platform
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from agent_envs.core.snapshot import fork
from agent_envs.core.trajectory import Turn
from agent_envs.core.worked_turns import worked_turns
from agent_envs.evaluation.runs.evaluate import make_agent
from agent_envs.evaluation.runs.measures import valid_turn
from agent_envs.rollout.episode_runner import EpisodeWalk, record_turn

GAMES = ("BabyAI", "BabaIsAI", "Crafter")
FEW = ("Crafter", "Tau2Retail", "Tau2Airline", "Tau2Telecom")  # whose prompts are long
IDS = ("BabyAI", "Sort", "Countdown", "BabaIsAI", "Crafter", "SearchQA", "Arithmetic", "Count", "ToolReasoning", "LegalSearch",
       "Order", "GSM8KScaled", "CalcBench", *FEW[1:])  # fmt: skip
TURNS, FEWER, GOAL = 2, 6, 0.6
LONGEST = 240  # characters of a reply that is shown
Row = dict[str, Any]


def play(agent: Any, name: str, examples: int, tasks: Sequence[int], trunk: str) -> list[Row]:
    """Play the first turns of a batch of tasks; prompts that begin as that of `trunk` are computed from there on."""
    walks = []
    for task in tasks:
        env = gym.make(full_id(name), examples=examples)
        walks.append(EpisodeWalk(env, task=task, split="test", seed=task, episode_key=f"{name} {examples} {task}"))
        if trunk.startswith(f"{name} "):
            agent.fork(trunk, walks[-1].origin)
    worked = worked_turns(core_of(walks[0].env), examples) if examples else ()
    copies = {_plain(message.content) for message in worked if message.role == "assistant"}
    rows: list[Row] = [{"id": name, "examples": examples, "task": task, "turns": []} for task in tasks]
    for _ in range(TURNS):
        going = [(walk, row) for walk, row in zip(walks, rows, strict=True) if not walk.over]
        replies = agent.act([walk.request() for walk, _ in going]) if going else ()
        for (walk, row), reply in zip(going, replies, strict=True):
            twin = fork(walk.env)
            core_of(twin).strict, core_of(twin).reply_cut = True, reply.outcome == "cut"
            strict = valid_turn(record_turn(twin, twin.step(reply.action)))
            turn: Turn = walk.take(reply)
            row["turns"].append({
                "text": reply.action, "strict": strict, "tolerant": valid_turn(turn), "events": list(turn.events),
                "copy": _plain(str(reply.action)) in copies, "prompt": reply.usage["input"], "tokens": reply.usage["output"],
            })  # fmt: skip
    return rows


def _plain(text: str) -> str:
    return " ".join(text.split())


def shares(rows: Sequence[Row]) -> Row:
    """Return the shares of turns that are valid for strict and for tolerant readers, of copies among them, and of the rest."""
    turns = [turn for row in rows for turn in row["turns"]]
    valid = [turn for turn in turns if turn["tolerant"]]
    own = sum(not turn["copy"] for turn in valid)
    return {
        "tasks": len(rows), "turns": len(turns), "strict": _share(sum(turn["strict"] for turn in turns), turns),
        "tolerant": _share(len(valid), turns),
        "copies": _share(len(valid) - own, valid), "own": _share(own, turns),
        "prompt tokens": round(_share(sum(row["turns"][0]["prompt"] for row in rows), rows)),
    }  # fmt: skip


def _share(count: float, whole: Sequence[Any]) -> float:
    return round(count / max(len(whole), 1), 3)


def report(rows: Sequence[Row]) -> tuple[list[Row], Row]:
    """Return the table, and of ids below their goal three replies that are none of the model's own valid turns."""
    table, replies = [], {}
    for name in [name for name in IDS if any(row["id"] == name for row in rows)]:
        of_id = {number: [row for row in rows if (row["id"], row["examples"]) == (name, number)] for number in range(3)}
        lines = {number: shares(of_examples) for number, of_examples in of_id.items() if of_examples}
        table += [{"id": name, "examples": number, **line} for number, line in lines.items()]
        best = max(lines, key=lambda number: (lines[number]["own"], number))
        if best == 0 or (name in GAMES and lines[best]["own"] < GOAL):
            last = of_id[best or max(lines)]
            odd = [turn["text"] for row in last for turn in row["turns"] if turn["copy"] or not turn["tolerant"]]
            replies[name] = [json.dumps(text, ensure_ascii=True)[:LONGEST] for text in odd[:3]]
    return table, replies


def missing(
    journal: Path, settings: Row, planned: Sequence[tuple[str, int, int]]
) -> tuple[list[Row], list[tuple[str, int, int]]]:
    """Return the episodes in a journal and what of the planned ones it lacks; UsageError where it is of other settings."""
    head, *rows = [*read_journal(journal)] if journal.is_file() else [settings]
    if head != settings:
        raise UsageError(f"{journal} is of {head}, not of {settings}: name another file")
    there = {(row["id"], row["examples"], row["task"]) for row in rows}
    return rows, [place for place in planned if place not in there]


def main() -> None:
    """Play what the journal lacks, print the table, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", help="of the agent hf:MODEL")
    parser.add_argument("--examples", type=int, nargs="+", default=[0, 1, 2], choices=range(3))
    parser.add_argument("--ids", nargs="+", default=list(IDS), choices=IDS)
    parser.add_argument("--tasks", type=int, default=20, help=f"of an id; {FEWER} at most of {', '.join(FEW)}")
    parser.add_argument("--first", type=int, default=0, help="index of the first task of each id")
    parser.add_argument("--tokens", type=int, default=48, help="of a turn")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--journal", type=Path, default=Path("runs/first_turns.jsonl"))
    parser.add_argument("--out", type=Path, help="also write the figures as JSON")
    options = parser.parse_args()
    settings = {"model": options.model, "tokens": options.tokens, "batch": options.batch, "turns": TURNS}
    count = {name: min(options.tasks, FEWER if name in FEW else options.tasks) for name in options.ids}
    planned = [
        (name, each, options.first + task) for name in count for each in options.examples for task in range(count[name])
    ]
    rows, left = missing(options.journal, settings, planned)
    if left:
        limits = {"max_new_tokens": options.tokens, "max_context": 8192, "batch": options.batch}
        agent: Any = make_agent(f"hf:{options.model}", **limits)
        with Journal(options.journal) as journal:
            if not rows and options.journal.stat().st_size == 0:
                journal.append(settings)
            trunk = ""
            for name, each in dict.fromkeys(place[:2] for place in left):
                if not trunk.startswith(f"{name} "):
                    agent.forget()
                tasks = [task for *place, task in left if tuple(place) == (name, each)]
                # The first alone: the others find most of their prompts in its, which is cached.
                for start, end in pairwise((0, *range(1, len(tasks), options.batch), len(tasks))):
                    batch = play(agent, name, each, tasks[start:end], trunk)
                    trunk = trunk if start else f"{name} {each} {tasks[0]}"
                    rows += batch
                    for row in batch:
                        journal.append(row)
                    print(f"{name} examples={each}: {end} of {len(tasks)} tasks, {shares(batch)}", file=sys.stderr)
    table, replies = report(rows)
    for line in table:
        print("".join(f"{value:>15}" if not isinstance(value, float) else f"{value:>15.1%}" for value in line.values()))
    for name, texts in replies.items():
        print(name, *texts, sep="\n  ")
    if options.out:
        words = [word for word in sys.argv[1:] if "/" not in word or word == str(options.out)]
        about = {
            "command": f"python -m benchmarks.first_turns {shlex.join(words)}", "python": platform.python_version(),
            "versions": {name: version(name) for name in ("torch", "transformers")}, "settings": settings,
            "machine": f"{platform.system()} {platform.machine()}, shared cores, one torch thread, float32",
        }  # fmt: skip
        result = {"about": about, "rows": table, "replies": replies}
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except AgentEnvsError as error:
        sys.exit(f"first_turns: {error}")
