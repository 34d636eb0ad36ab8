"""`Purse` and `LimitedChat` limit what the calls of chat models may cost together, in US dollars."""

import threading
from collections.abc import Mapping
from typing import Any

from agent_envs.base.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.services.chat.model import ChatModel, ChatReply, ChatRequest
from agent_envs.services.chat.prices import Price, cost_of


class Purse:
    """What a run may still spend. Shared by threads."""

    def __init__(self, price: Price, most_usd: float) -> None:
        """Start with `most_usd`, at a price that holds where no other is said."""
        self.price, self.most_usd, self.spent_usd = price, most_usd, 0.0
        self._lock = threading.Lock()

    def pay(self, usage: Mapping[str, int], price: Price | None = None) -> None:
        """Count tokens."""
        with self._lock:
            self.spent_usd += cost_of(price or self.price, usage)

    def pay_reply(self, name: str, usage: Mapping[str, int], price: Price | None = None) -> None:
        """Count the tokens of a reply; a UsageError where it counts none, because then no limit can hold."""
        asked = usage.get("calls") != 0  # an agent's turn may need no model
        if asked and not (usage.get("input") or usage.get("output")):
            raise UsageError(f"agent {name}: a reply counts no tokens, so --max-cost cannot hold: leave it out")
        self.pay(usage, price)

    def check(self) -> None:
        """Raise BudgetSpent when nothing is left; calls that are under way may still go over by their own cost."""
        if self.spent_usd >= self.most_usd:
            raise BudgetSpent(f"{self.spent_usd:.4f} of {self.most_usd:.4f} USD are spent")


class LimitedChat:
    """A chat model that is asked nothing more when the purse is empty."""

    def __init__(self, model: ChatModel, price: Price, purse: Purse) -> None:
        self.name = model.name
        self._model, self._price, self._purse = model, price, purse

    def __getattr__(self, name: str) -> Any:
        """Return what a model may have beside: settings, `require_key`, `close`."""
        return getattr(self._model, name)

    def complete(self, request: ChatRequest, seconds: float = 60.0) -> ChatReply:
        """Ask the model, and pay for its reply."""
        self._purse.check()
        try:
            reply = self._model.complete(request, seconds)
        except EnvFault as fault:
            self._purse.pay(fault.usage, self._price)
            raise
        self._purse.pay_reply(self.name, reply.usage, self._price)
        return reply
