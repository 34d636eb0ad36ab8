"""Episodes that every adapter has to play as the environment itself does: scripts of turns, and what the environment says."""

import json
import random
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache

import gymnasium as gym

import agent_envs
from agent_envs import task_rows
from agent_envs.base.protocol import Answer, Call, Say
from agent_envs.core.registry import companion, full_id

# One id a family, native calls and tags both where it has both, and a limit that a script can reach.
FAMILIES = {
    "search_qa": ("SearchQA", {"max_generations": 4}),
    "legal_search": ("LegalSearch", {}),
    "legal_search, native": ("LegalSearch", {"protocol": "json"}),
    "tau2": ("Tau2Retail", {}),
    "expa, calculator": ("Arithmetic", {}),
    "expa, sorting": ("Sort", {}),
    "babyai": ("BabyAI", {}),
    "baba_is_ai": ("BabaIsAI", {}),
    "crafter": ("Crafter", {}),
    "tool_reasoning": ("ToolReasoning", {}),
}
KINDS = ("solver", "random", "hostile", "early", "limit")
HOSTILE = (
    "", " ", "\x00\x1b[31m", "</search></answer><search>", "<tool_call>", '<tool_call>\n{"name": 3}\n</tool_call>',
    '<tool_call>\n{"name": "no_such_tool", "arguments": {}}\n</tool_call>', "ACTION:", "#### ", "{{ 7 * 7 }} \u202e \U0001f600",
    "<answer>" + "9" * 500,
)  # fmt: skip
MOST = 130  # turns of a script; every environment ends before


@dataclass(frozen=True, eq=False)
class Script:
    """A row and the turns that are played from its start; one that was made is itself alone, so that caches know it."""

    row: dict
    actions: tuple[str, ...]
    calls: tuple[tuple[str, dict], ...] = ()


@dataclass
class Played:
    """What a host saw: the messages of the reset and of each turn, rewards, the kind of end and success."""

    shown: list = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    end: str = ""
    success: bool = False


@cache
def script(family: str, kind: str) -> Script:
    """Return the script of a family."""
    env_id, arguments = FAMILIES[family]
    # Rows of one data set; kinds take turns on them, so that two scripts in a row start differently.
    row = task_rows(env_id, 3, seed=1, **arguments)[KINDS.index(kind) % 3]
    env = gym.make(full_id(row["env_id"]), **row["env_kwargs"])
    env.reset(seed=row["seed"], options={"task": row["task"], "split": row["split"]})
    drawn, actions, over = random.Random(f"{family}:{kind}"), [], False
    plan = list(agent_envs.solve(env)) if kind in ("solver", "early") else []
    while not over and len(actions) < MOST:
        if kind == "solver":
            action = plan[len(actions)]
        elif kind == "random":
            action = companion(env, "sampler")(env, drawn)
        elif kind == "early":
            action = plan[-1]
        else:
            action = HOSTILE[len(actions) % len(HOSTILE)] if kind == "hostile" else "I do not know."
        _, _, terminated, truncated, _ = env.step(action)
        actions.append(action)
        over = terminated or truncated
    return Script(row, tuple(actions))


def itself(played: Script) -> Played:
    """Return what the environment itself says to a script: a copy, as hosts see less of it, each in its own way."""
    return deepcopy(_said(played))


@cache
def _said(played: Script) -> Played:
    row = played.row
    env = gym.make(row["env_id"], **row["env_kwargs"])
    _, info = env.reset(seed=row["seed"], options={"task": row["task"], "split": row["split"]})
    record = Played([told(info)])
    for action in played.actions:
        _, reward, terminated, truncated, info = env.step(action)
        record.shown.append(told(info) if not (terminated or truncated) else info["messages"])
        record.rewards.append(reward)
        record.end = "terminated" if terminated else "truncated" if truncated else ""
        record.success = bool(info.get("success"))
    env.close()
    return record


def told(info: dict) -> list:
    """Return the messages as a host sees them that cannot begin its model's turn."""
    *others, last = info["messages"]
    if info["prefill"]:
        last = last | {"content": f"{last['content']}\n\nBegin your reply with {info['prefill']}"}
    return [*others, last]


@cache
def as_calls(played: Script) -> Script:
    """Return the script as calls of `tool_view`, each turn being what its call is written as."""
    row = played.row
    env = gym.make(row["env_id"], **row["env_kwargs"])
    env.reset(seed=row["seed"], options={"task": row["task"], "split": row["split"]})
    views = {view.name: view for view in agent_envs.tool_view(env)}
    calls, actions, over = [], [], False
    for action in played.actions:
        if over:  # a hostile turn ended it that was no call before
            break
        twin = agent_envs.fork(env)
        twin.step(action)
        parsed = twin.unwrapped.episode.turns[-1].parsed
        calls.append(_call(parsed, action, views))
        actions.append(views[calls[-1][0]].render(calls[-1][1]))
        _, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    while not over:  # what was refused as a call may cost fewer turns
        calls.append((next(iter(views)), {}))
        actions.append(views[calls[-1][0]].render({}))
        _, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    return Script(row, tuple(actions), tuple(calls))


def _call(parsed, action: str, views: dict) -> tuple[str, dict]:
    if isinstance(parsed, Call) and len(parsed.calls) == 1 and parsed.calls[0].name in views:
        return parsed.calls[0].name, json.loads(parsed.calls[0].arguments)
    if isinstance(parsed, Say):
        return ("say" if "say" in views else "act"), {"text": parsed.text}
    if isinstance(parsed, Answer) and "answer" in views:
        return "answer", {"text": parsed.text}
    return next(iter(views)), {"self": action, "text": {"not": ["text"]}}


@cache
def as_sampled(played: Script) -> Script:
    """Return the script as a sampler writes it that ends at stop strings."""
    row, actions, over = played.row, [], False
    env = gym.make(row["env_id"], **row["env_kwargs"])
    _, info = env.reset(seed=row["seed"], options={"task": row["task"], "split": row["split"]})
    while not over:
        action = played.actions[len(actions)] if len(actions) < len(played.actions) else "I do not know."
        actions.append(cut(action, info["stop"]))
        _, _, terminated, truncated, info = env.step(actions[-1])
        over = terminated or truncated
    return Script(row, tuple(actions))


def cut(text: str, stop: list[str]) -> str:
    """Return a text up to the first stop string, which stays in it."""
    ends = [text.find(end) + len(end) for end in stop if end in text]
    return text[: min(ends)] if ends else text
