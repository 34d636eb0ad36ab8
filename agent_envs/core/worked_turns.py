"""Worked turns are a solver's first turns on a task that is in no split, as chat messages for the prompts of other tasks."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from agent_envs.base.caches import SharedCache, shared
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.base.protocol import Answer, Call
from agent_envs.core.registry import companion

FIRST = (
    10**7
)  # the index of the first such task: a generator goes on beyond the size of its split, and no run draws these
MOST_TASKS = 12  # played for a number of turns: an episode may end before it, or begin with words alone
_WORKED: SharedCache[tuple[Message, ...]] = OrderedDict()


def worked_turns(env: Any, count: int) -> tuple[Message, ...]:
    """Return `count` turns by the solver of an environment, each with the messages before it, and the messages behind the last.

    Tasks that are no generated ones, and outside services, are replaced by the family's own (`outside_arguments`).

    Raises:
        UsageError: the class has no solver.
    """
    return shared(_WORKED, (type(env), env.spec_digest, count), lambda: _play(env, count), 64)


@dataclass(frozen=True)
class _Sight:
    """The policy's view of the example, as heuristics read a request."""

    messages: list[dict[str, Any]]
    tools: tuple[Any, ...]
    turn: int


def _play(env: Any, count: int) -> tuple[Message, ...]:
    """Play up to 12 tasks for `count` turns (expanded: tasks), skipping ones that show no form; UsageError without a solver."""
    twin = _example_env(env)
    agent = companion(twin, env.example_agent)
    if agent is None:
        raise UsageError(f"{env.env_id}: examples={count} are turns of a solver; register_companions(cls, solver=...)")
    messages: list[Message] = []
    turns = 0
    for place in range(MOST_TASKS):
        task = _task(twin.source, "train", FIRST + place)
        twin.reset(seed=0, options={"task": task, "split": "train", "episode_key": f"example {place}"})
        words = "Another example." if messages else "An example."
        task_messages = opened(twin.episode, words, twin.restate(twin.episode))
        if hasattr(twin, "history"):
            task_messages += _text_of_episode(twin, agent)
            added = 1
        else:
            added = _act(twin, agent, count - turns, task_messages)
        if place + 1 < MOST_TASKS and not _shows_form(twin):
            continue
        messages += task_messages
        turns += added
        if turns >= count:
            break
    return tuple(messages)


def _shows_form(twin: Any) -> bool:
    """Return whether an episode shows the form of a turn: no call failed, and where there are tools one is called."""
    turns = twin.episode.turns
    failed = any(result.error for turn in turns for result in turn.results)
    return not failed and (not twin.tools or any(isinstance(turn.parsed, Call | Answer) for turn in turns))


def _text_of_episode(twin: Any, agent: Any) -> list[Message]:
    """Play an episode with expanded actions to its end, and return its text as one message."""
    while not twin.episode.over:
        twin.step(agent(twin))
    return [Message("assistant", twin.history, "environment")]


def _act(twin: Any, agent: Any, most: int, messages: list[Message]) -> int:
    """Take turns until the episode ends or has `most`; add them and their observations to the messages, return the count."""
    while not twin.episode.over and len(twin.episode.turns) < most:
        rows = [message.as_dict() for message in messages]
        sight = _Sight(rows, twin.tools, len(twin.episode.turns))
        twin.step(agent(sight if twin.example_agent == "heuristic" else twin))
        turn = twin.episode.turns[-1]
        messages += [Message("assistant", str(turn.action), "environment"), *turn.observation]
    return len(twin.episode.turns)


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
        try:
            _task(twin.source, "train", FIRST)
            return twin
        except (KeyError, IndexError, TypeError, ValueError):
            pass
    return type(env)(**inside)


def _task(source: Any, split: str, index: int) -> Any:
    """Return a task by an index beyond the size of its split, also of a source that would not give it to a reset."""
    build = getattr(source, "build", None)
    return build(split, index) if build is not None else source.get(split, index)
