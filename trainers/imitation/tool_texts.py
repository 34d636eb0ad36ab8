"""`tool_episodes` reads answers with tool calls that others published to train on, as episodes to imitate.

Two layouts are known, both with tags in one text: `<think>`, `<search>` or `<python>`, the `<result>` of it, and `<answer>`.
ARPO's file (ARPO-SFT-54K, with STILL's answers in it) has rows of `conversations` and `system`, a JSON object a line;
Tool-Star's (Tool-Star-SFT-54K) has rows of `instruction`, `input` and `output`, in one JSON list. What a tool said is no word
of the policy: it becomes an observation, in the frame of our environments.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Header, Trajectory, Turn

MOST_CHARACTERS = 2_000_000  # of a row
_RESULT = re.compile(r"<result>(.*?)</result>", re.DOTALL)
_CALL = re.compile(r"</(?:search|python)>\Z")


def tool_episodes(path: Path, env: gym.Env[Any, Any], split: str) -> Iterator[Trajectory]:
    """Yield the rows of a file as episodes that begin with the environment's prompt, with the row's question in it.

    A row without an action before each result, or behind the last one, is left out; how many were is told at the end.

    Args:
        path: of the file.
        env: whose prompt stands in place of the file's; it holds the question of a task once.
        split: of its tasks.

    Raises:
        UsageError: the prompt has no place for a question, or a row is of neither layout.
    """
    env.reset(seed=0, options={"task": 0, "split": split})
    episode = core_of(env).episode
    asked, question = episode.prompt, episode.task.question
    if sum(message.content.count(question) for message in asked) != 1 or not question:
        raise UsageError(f"{core_of(env).env_id}: its prompt has no one place for a question of {path.name}")
    left_out = 0
    for number, row in enumerate(tool_rows(path), start=1):
        posed, text = _question_and_answer(row, f"{path.name}, row {number}")
        turns = _turns(text, f"{path.name}/{number}/")
        if not turns:
            left_out += 1
            continue
        prompt = tuple(Message(one.role, one.content.replace(question, posed), one.author) for one in asked)
        yield Trajectory(
            Header("", "", str(number), split, "", 0, f"{path.name}/{number}"), prompt, turns, success=True
        )
    if left_out:
        print(f"{path.name}: {left_out} rows left out, whose results follow no call or are their end", file=sys.stderr)


def tool_rows(path: Path) -> Iterator[Any]:
    """Yield the rows of a JSON list, where a file's name ends in .json, or of a file with an object a line.

    Raises:
        UsageError: it is not that.
    """
    try:
        with path.open(encoding="utf-8") as file:
            rows = json.load(file) if path.suffix == ".json" else map(json.loads, filter(str.strip, file))
            if path.suffix == ".json" and not isinstance(rows, list):
                raise UsageError(f"{path.name}: a .json file of answers is one list of rows")
            yield from rows
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name}: {error}") from None


def holds_tool_texts(path: Path) -> bool:
    """Return whether a file is of one of the two layouts, as its first row says."""
    try:
        first = next(tool_rows(path), None)
    except UsageError:
        return path.suffix == ".json"  # a damaged journal is its own reader's to tell of
    return isinstance(first, dict) and ("conversations" in first or {"instruction", "input", "output"} <= first.keys())


def _question_and_answer(row: Any, place: str) -> tuple[str, str]:
    talk = row.get("conversations") if isinstance(row, dict) else None
    if isinstance(talk, list) and len(talk) == 2 and all(isinstance(one, dict) for one in talk):
        found = [one.get("value") for one in talk]
    else:
        found = [row.get(name) for name in ("input", "output")] if isinstance(row, dict) else []
    if len(texts := [one for one in found if isinstance(one, str) and len(one) <= MOST_CHARACTERS]) != 2:
        raise UsageError(f"{place}: neither a conversation of two nor instruction, input and output, as text")
    return texts[0].strip(), texts[1]


def _turns(text: str, origin: str) -> tuple[Turn, ...]:
    """Return the turns of an answer; none where a result follows no call, or nothing follows a result."""
    actions, results = (list(map(str.strip, _RESULT.split(text)[start::2])) for start in (0, 1))
    if not all(actions) or not all(_CALL.search(action) for action in actions[:-1]):
        return ()
    shown = [(Message("user", f"\n<result>\n{result}\n</result>\n", "tool"),) for result in results]
    pairs = zip(actions, [*shown, ()], strict=True)
    turns = [
        Turn(number, origin, action, None, observation) for number, (action, observation) in enumerate(pairs, start=1)
    ]
    return (*turns[:-1], Turn(len(turns), origin, actions[-1], None, (), terminated=True))
