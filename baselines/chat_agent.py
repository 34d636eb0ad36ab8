"""`ChatAgent` is the base of agents over a chat model: a subclass writes one turn, from what the episode has shown."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

from agent_envs.base.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.rollout.chat_policy import turn_of
from agent_envs.rollout.policy import Reply, Request
from agent_envs.services.chat import ChatModel, ChatReply, ChatRequest, ask, chat_port, make_chat_model
from agent_envs.services.chat.port import ChatPort
from agent_envs.services.chat.spending import Budget
from agent_envs.services.recording import CallSite, Recording
from baselines.view import EpisodeView

MOST_CALLS = 1000  # of one turn: the ordinals of recorded calls stay apart


@dataclass
class TurnModel:
    """The chat model as one turn calls it. `draw` tells samples of equal prompts apart; `temperature` None is its own."""

    port: ChatPort
    request: Request
    max_tokens: int = 1024
    temperature: float | None = None
    draw: int = 0
    usage: Counter[str] = field(default_factory=lambda: Counter(calls=0))
    call_count: int = 0
    answer: ChatReply = field(default_factory=lambda: ChatReply(""))  # to the newest call

    def ask(self, messages: Sequence[dict[str, Any]], stop: Sequence[str] = ()) -> str:
        """Return the text that the model writes."""
        return self.reply(messages, stop).text

    def reply(
        self, messages: Sequence[dict[str, Any]], stop: Sequence[str] = (), tools: Sequence[dict[str, Any]] = ()
    ) -> ChatReply:
        """Ask the model and return its whole reply; calls and tokens add to `usage`; EnvFault where it fails for good.

        Raises:
            EnvFault: the service failed for good.
        """
        chat_request = ChatRequest(
            messages,
            tools=tools,
            stop=stop,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=self.request.seed + self.draw,
        )
        site = CallSite(self.request.episode_key, self.request.branch, self.request.turn * MOST_CALLS + self.call_count)
        self.call_count += 1
        self.answer = ask(self.port, chat_request, site)
        self.usage += Counter({"calls": 1, **self.answer.usage})
        return self.answer


class ChatAgent:
    """An agent that asks a chat model, without state: all of an episode is in its messages.

    Subclasses set `short` and write `turn`. Their arguments stand by name before `**options`, which are the chat model's
    (`temperature`, `max_tokens`, `top_p`, `reasoning_effort`, `extra`, `api_key_env`).
    """

    batch = 1
    can_prefill = False
    text_only = True
    short = ""

    def __init__(
        self,
        model: str | ChatModel = "",
        *,
        recording: Recording | None = None,
        max_tokens: int = 1024,
        wait: Callable[[float], None] = time.sleep,
        **options: Any,
    ) -> None:
        """Take the model by name or as an object.

        Raises:
            UsageError: no model is named, an option is unknown, or a key is missing.
        """
        if not model:
            raise UsageError(f"baseline {self.short}: name a chat model with --agent-arg model=openai:MODEL@URL")
        if not isinstance(model, str) and options:
            raise UsageError(f"baseline {self.short}: unknown option {', '.join(sorted(options))}")
        chat: ChatModel = make_chat_model(model, **options) if isinstance(model, str) else model
        self.model = chat  # `evaluate` sees to it that it answers, before it plays
        self.name = f"{self.short}:{chat.name}"
        self._max_tokens = max_tokens
        self._port = chat_port(chat, recording=recording, wait=wait)

    def charged(self, budget: Budget) -> Self:
        """Return this agent with every attempt at a call paid from a budget."""
        agent = copy(self)
        agent._port = self._port.charged(budget)
        return agent

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return one action a request, with the tokens of all calls that it took.

        Raises:
            EnvFault: the service failed for good.
        """
        return [self._reply(request) for request in requests]

    def turn(self, view: EpisodeView, model: TurnModel) -> str:
        """Return the action of one turn; each agent overrides it."""
        raise NotImplementedError

    def _reply(self, request: Request) -> Reply:
        """Return the turn's action and usage; an EnvFault or BudgetSpent leaves with the usage of the turn's earlier calls."""
        model = TurnModel(self._port, request, self._max_tokens)
        try:
            action = self.turn(EpisodeView.of(request), model)
        except (EnvFault, BudgetSpent) as end:
            end.usage = dict(model.usage + Counter(end.usage))  # with the calls of this turn that were answered
            raise
        return turn_of(model.answer, action, dict(model.usage))
