"""Worked turns are a solver's first turns on a task that is in no split, as chat messages for the prompts of other tasks."""

from collections import Counter, OrderedDict
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace
from typing import Any, TypeAlias

from agent_envs.base.caches import SharedCache, shared
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.base.protocol import Answer, Call, LabelProtocol
from agent_envs.core.registry import companion

# The index of the first such task: a generator goes on beyond the size of its split, and no run draws these.
FIRST = 10**7
MOST_TASKS = 12  # played for a number of turns: an episode may end before it, or begin with words alone
FEW_TASKS = 3  # are enough where no turn comes twice
MANY_TASKS = 40  # where worked turns are long: the shortest is taken
MOST_TURNS = 6  # of a game
# What opens a task, turns on it, each a text and its observation, and whether they do not show the form.
Example: TypeAlias = tuple[list[Message], list[list[Message]], bool]
_WORKED: SharedCache[tuple[Message, ...]] = OrderedDict()


def worked_turns(env: Any, count: int) -> tuple[Message, ...]:
    """Return `count` turns by the solver of an environment, each with the messages before it, and the messages behind the last.

    Tasks that are no generated ones, and outside services, are replaced by the family's own (`outside_arguments`).

    Raises:
        UsageError: the class has no solver.
    """
    return shared(_WORKED, (type(env), env.spec_digest, count), lambda: _play(env, count), 64)


def _play(env: Any, count: int) -> tuple[Message, ...]:
    """Return `count` turns (expanded: tasks) that differ, the first of them rare: a copy of it is seldom right elsewhere."""
    twin = _example_env(env)
    agent = companion(twin, env.example_agent)
    if agent is None:
        raise UsageError(f"{env.env_id}: examples={count} are turns of a solver; register_companions(cls, solver=...)")
    examples, often = _examples(twin, agent, count)
    messages, texts = list[Message](), list[str]()
    while (left := count - len(texts)) > 0:
        # Least is best: turns that show the form, and many new ones, the first of them rare, or all of them short.
        ranks = [(odd, -len({turn[0].content for turn in turns[:left]} - {*texts}), often[turns[0][0].content],
                  env.example_is_long and sum(len(message.content) for message in chain(*turns[:left])))
                 for _, turns, odd in examples]  # fmt: skip
        (first, *rest), turns, _ = examples.pop(ranks.index(min(ranks)))
        words = "Another example." if messages else "An example."
        messages += [replace(first, content=f"{words} {first.content}".strip()), *rest, *chain(*turns[:left])]
        texts += [turn[0].content for turn in turns[:left]]
    return tuple(messages)


def _examples(twin: Any, agent: Any, count: int) -> tuple[list[Example], Counter[str]]:
    """Play 3 tasks where no turn comes twice, else 12, and 40 of long turns; return first turns, and how often each text came.

    A game's observation is its whole state, so that an example may begin at any of its first turns. Texts are counted where
    there are several turns to choose from: of one rare turn a small model learnt less of the form (docs/log.md).
    """
    examples, often = list[Example](), Counter[str]()
    most = MOST_TURNS if isinstance(twin.written, LabelProtocol) else count
    for place in range(MANY_TASKS if twin.example_is_long else MOST_TASKS):
        task = _task(twin.source, "train", FIRST + place)
        twin.reset(seed=0, options={"task": task, "split": "train", "episode_key": f"example {place}"})
        opening = opened(twin.episode, "", twin.restate(twin.episode))
        turns, odd = _act(twin, agent, most, opening), not _shows_form(twin)
        often.update(turn[0].content for turn in turns if most > 1 and not twin.tools)
        examples += [([opening[0], *turns[start - 1][1:]] if start else opening, turns[start:], odd)
                     for start in range(max(len(turns) - count, 0) + 1)]  # fmt: skip
        few = often.total() == len(often) and not twin.example_is_long
        if few and sum(not odd for *_, odd in examples) >= FEW_TASKS:
            break
    return examples, often


def _shows_form(twin: Any) -> bool:
    """Return whether an episode shows the form of a turn: no call failed, and where there are tools one is called."""
    turns = twin.episode.turns
    failed = any(result.error for turn in turns for result in turn.results)
    return not failed and (not twin.tools or any(isinstance(turn.parsed, Call | Answer) for turn in turns))


def _act(twin: Any, agent: Any, most: int, opening: list[Message]) -> list[list[Message]]:
    """Take turns until the episode ends or has `most`; return each with its observation; expanded, all text as one turn."""
    turns = list[list[Message]]()
    while not twin.episode.over and (hasattr(twin, "history") or len(turns) < most):
        rows = [message.as_dict() for message in chain(opening, *turns)]
        request = SimpleNamespace(messages=rows, tools=twin.tools, turn=len(turns))  # as heuristics read one
        twin.step(agent(request if twin.example_agent == "heuristic" else twin))
        turn = twin.episode.turns[-1]
        turns.append([Message("assistant", _bare(twin, str(turn.action)), "environment"), *turn.observation])
    return [[Message("assistant", twin.history, "environment")]] if hasattr(twin, "history") else turns


def _bare(twin: Any, text: str) -> str:
    """Return a turn from its first tag on, an answer after a call from its mark on: models repeat words before them."""
    signs = ("<", twin.answer_tags[0].strip())[: len(twin.episode.turns)] if getattr(twin.written, "tools", ()) else ()
    return text[min((place for sign in signs if (place := text.find(sign)) >= 0), default=0) :]


def opened(episode: Any, words: str, restated: str) -> list[Message]:
    """Return the messages that open a task: words, with its goal where the prompt lacks it, and the prompt's own messages."""
    rest = [message for message in episode.prompt if message.role != "system"]
    goal = "" if any(restated in message.content for message in rest) else restated
    return [Message("user", f"{words} {goal}".strip(), "environment"), *rest]


def _example_env(env: Any) -> Any:
    """Make an environment of the same form for examples; without outside arguments where it is live or lacks such tasks."""
    arguments = {**env.arguments, "examples": 0}
    inside = {name: value for name, value in arguments.items() if name not in env.outside_arguments}
    twin = type(env)(**arguments)
    twin.spec = env.spec
    if not twin.live_service:
        with suppress(KeyError, IndexError, TypeError, ValueError):
            _task(twin.source, "train", FIRST)
            return twin
    return type(env)(**inside)


def _task(source: Any, split: str, index: int) -> Any:
    """Return a task by an index beyond the size of its split, also of a source that would not give it to a reset."""
    return getattr(source, "build", source.get)(split, index)
