"""`environment` makes an id of ours an environment of tool calls for TRL's GRPOTrainer (`environment_factory`)."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import EnvFault
from agent_envs.core.registry import full_id
from agent_envs.integrations.session import Session
from agent_envs.integrations.tools import method_of, tool_view

OVER = "The episode is over: nothing more can be done."


def environment(env_id: str, **arguments: Any) -> type:
    """Return a class for `environment_factory`: its methods are the tools of `tool_view`, its reward is the episode's sum.

    A call behind the end is answered in words. A fault of an outside service stops the training, because TRL cannot leave a
    rollout out. TRL's last reply, which calls no tool, reaches the environment by `last_reply` alone.
    """
    env = gym.make(full_id(env_id), **arguments)
    methods: dict[str, Any] = {view.name: method_of(view) for view in tool_view(env)}
    methods["_new_session"] = staticmethod(lambda: Session(env_id, **arguments))
    return type(type(env.unwrapped).__name__, (_Environment,), methods)


def last_reply(completions: Sequence[Any], environments: Sequence[Any], **others: Any) -> list[None]:
    """Play each rollout's last assistant message, which called no tool, if its episode goes on; return None for each."""
    for completion, player in zip(completions, environments, strict=True):
        if completion and completion[-1]["role"] == "assistant" and not player._session.end:
            player._act(completion[-1].get("content") or "")
    return [None] * len(completions)


class _Environment:
    _new_session: Callable[[], Session]

    def __init__(self) -> None:
        self._session, self._fault = self._new_session(), ""

    def reset(self, **row: Any) -> str | None:
        """Begin the row's episode; return its first observation, or None where the row has a prompt already."""
        self._fault = ""
        self._session.begin(row)
        return None if row.get("prompt") else self._session.text

    def get_reward(self) -> float:
        """Return the sum of the episode's rewards; EnvFault where the environment failed in it."""
        if self._fault:  # TRL tells what a tool raises to the model, and goes on
            raise EnvFault(self._fault)
        return sum(self._session.rewards)

    def _act(self, action: str) -> str:
        """Take a turn and return its text, or a fixed text once the episode is over; a fault is kept and raised."""
        if self._session.end:
            return OVER
        try:
            self._session.act(action)
            return self._session.text or OVER
        except EnvFault as fault:
            self._fault = str(fault)
            raise
