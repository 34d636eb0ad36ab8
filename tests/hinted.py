"""Episodes in which a scripted policy is given a family's feedback before every turn, and may follow it."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from agent_envs import fork
from agent_envs.base.errors import Unsolvable
from agent_envs.base.messages import Message
from agent_envs.base.protocol import Malformed
from agent_envs.core.registry import companion
from agent_envs.rollout.policy import Request
from agent_envs.wrappers.scripted_feedback import QUALITIES


@dataclass(frozen=True)
class Moment:
    """What a follower is shown: the environment, the conversation, the hint, its own chance, and the tools."""

    env: gym.Env[Any, Any]
    messages: list[Message]
    hint: str
    rng: random.Random
    info: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The conversation as chat messages, without feedback."""
        return [message.as_dict() for message in self.messages if message.author != "feedback"]

    @property
    def request(self) -> Request:
        """What an agent is asked that is shown no feedback."""
        return Request("", self.info["turn"] + 1, self.rows, self.info["tools"], context=self.info["context"])

    @property
    def prompt(self) -> str:
        return "\n".join(message.content for message in self.messages if message.role in ("system", "user"))


Follower = Callable[[Moment], str | int]


def play(env: gym.Env[Any, Any], task: int | str, follower: Follower, quality: str, mode: str = "exploit") -> bool:
    """Play a task and return its success. Feedback stays in the conversation."""
    _, info = env.reset(seed=0, options={"task": task})
    return played_on(env, info, follower, quality, mode)


def played_on(env: gym.Env[Any, Any], info: dict[str, Any], follower: Follower, quality: str, mode: str) -> bool:
    """Play from a reset on."""
    feedback = companion(env, "feedback")
    assert feedback is not None
    task, tools, core = info["task_id"], info["tools"], env.unwrapped
    messages = list(core.episode.prompt)
    own = random.Random(f"follower:{task}")
    while True:
        rng = random.Random(f"feedback:{task}:{info['turn']}")
        hint = feedback(messages, mode, quality, rng)
        assert 0 < len(hint) <= 600
        messages.append(Message("user", hint, "feedback"))
        action = follower(Moment(env, messages, hint, own, info | {"tools": tools}))
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return bool(info["success"])
        turn = core.episode.turns[-1]
        if isinstance(action, str) and not ("action_mask" in info and isinstance(turn.parsed, Malformed)):
            messages.append(Message("assistant", action, "policy"))
        messages += turn.observation


def counts(env: gym.Env[Any, Any], tasks: Iterable[int], follower: Follower, mode: str = "exploit") -> dict[str, int]:
    """Return in how many tasks a follower succeeds with each quality of feedback."""
    found = dict.fromkeys(QUALITIES, 0)
    for task in tasks:
        _, info = env.reset(seed=0, options={"task": task})
        for quality in QUALITIES:
            found[quality] += played_on(fork(env), info, follower, quality, mode)
    return found


def along(env: gym.Env[Any, Any], task: int | str, quality: str = "good", mode: str = "exploit") -> list[str]:
    """Return what feedback says while the solver plays."""
    told: list[str] = []

    def follower(moment: Moment) -> str | int:
        told.append(moment.hint)
        return half_able(moment, 1.0)

    play(env, task, follower, quality, mode)
    return told


def half_able(moment: Moment, share: float = 0.5, kind: str = "solver") -> str | int:
    """Do what a built-in agent does with some chance, else anything legal: a follower whom a hint tells nothing."""
    able, sampler = companion(moment.env, kind), companion(moment.env, "sampler")
    assert able is not None and sampler is not None
    if moment.rng.random() < share:
        try:
            return able(moment.env if kind == "solver" else moment.request)
        except Unsolvable:
            pass
    return sampler(moment.env, moment.rng)
