"""An agent under a limit on what it may spend."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from agent_envs.services.chat.spending import Purse
from agent_envs.base.errors import EnvFault
from agent_envs.rollout.policy import Policy, Reply, Request


class Limited:
    """A policy that stops asking when the purse is empty."""

    def __init__(self, policy: Policy, purse: Purse) -> None:
        """Limit `policy`."""
        self.name, self.batch = policy.name, policy.batch
        self.privileged = getattr(policy, "privileged", False)
        self.can_prefill = getattr(policy, "can_prefill", True)
        self.text_only = getattr(policy, "text_only", False)
        self.needs_env = getattr(policy, "needs_env", False)
        self._policy, self._purse = policy, purse

    def begin(self, env: gym.Env[Any, Any]) -> "Limited":
        """Return this agent for one episode of `env`."""
        return Limited(self._policy.begin(env), self._purse)  # type: ignore[attr-defined]

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Ask the policy, and pay for its replies."""
        self._purse.check()
        try:
            replies = self._policy.act(requests)
        except EnvFault as fault:
            self._purse.pay(fault.usage)
            raise
        for reply in replies:
            self._purse.pay_reply(self.name, reply.usage)
        return replies
