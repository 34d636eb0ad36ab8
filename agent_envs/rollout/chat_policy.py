"""A chat model plays as a policy: it is sent the whole context of each turn, and its reply is the action."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from agent_envs.base.dialects import masked_thoughts, outside_thoughts
from agent_envs.base.terminal import escaped
from agent_envs.rollout.policy import MOST_REASON, Reply, Request
from agent_envs.services.chat import ChatModel, ChatReply, ChatRequest, ask, chat_port
from agent_envs.services.chat.model import MAX_TOKENS
from agent_envs.services.chat.spending import Budget
from agent_envs.services.recording import CallSite, Recording

MOST_CONTINUED = 8  # times that a reply which met a stop string inside a thought is gone on with


class ChatPolicy:
    """An agent that sends each turn's whole context to a chat model and does what it says, native tool calls included.

    It is called from every worker thread with one request at a time. Without `prefill=native` it takes no prefill, as newer
    models refuse one: the runner asks for it in words.
    """

    batch = 1
    text_only = True

    def __init__(
        self,
        model: ChatModel,
        *,
        name: str = "",
        recording: Recording | None = None,
        temperature: float | None = None,
        max_tokens: int = MAX_TOKENS,
        deadline_seconds: float = 600.0,
        attempt_seconds: float = 180.0,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the model that answers, and how it is asked: sampling, recording, deadlines.

        Args:
            model: who answers.
            name: the agent's name, if it is not the model's.
            recording: where replies are recorded, or replayed from.
            temperature: None leaves it to the service.
            max_tokens: of a turn.
            deadline_seconds: over all attempts at one turn.
            attempt_seconds: for one attempt.
            wait: how to sleep between attempts.

        Raises:
            UsageError: the service needs a key and there is none.
        """
        self.name = name or model.name
        self.model, self.can_prefill = model, bool(getattr(model, "native_prefill", False))
        self._continues = self.can_prefill or bool(getattr(model, "continues", False))
        self._sampling = ChatRequest((), temperature=temperature, max_tokens=max_tokens)
        self._port = chat_port(
            model, recording=recording, deadline_seconds=deadline_seconds, attempt_seconds=attempt_seconds, wait=wait
        )

    def charged(self, budget: Budget) -> "ChatPolicy":
        """Return a copy of this agent with every attempt at a call paid from a budget."""
        policy = copy(self)
        policy._port = self._port.charged(budget)
        return policy

    def act(self, requests: Sequence[Request]) -> Sequence[Reply]:
        """Return the model's turns; raises EnvFault where the service failed for good."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: Request) -> Reply:
        """Return the reply, gone on with or asked for again where a stop string met in a thought; usage is of all calls."""
        chat_request = replace(
            self._sampling, messages=request.messages, tools=request.tools, stop=request.stop, prefill=request.prefill,
            seed=request.seed,
        )  # fmt: skip
        site = CallSite(request.episode_key, "", request.turn)
        reply, usage = ask(self._port, chat_request, site), Counter[str]()
        for _ in range(MOST_CONTINUED if self._continues and request.thoughts == "skip" else 0):
            if not (reply.text.endswith(tuple(request.stop)) and outside_thoughts(reply.text)[1]):
                break
            usage.update(reply.usage)  # a stop string inside a thought ends nothing: the model goes on from it
            reply = ask(self._port, replace(chat_request, prefill=reply.text), site)
        if request.stop and request.thoughts == "skip" and reply.outcome == "acted" and outside_thoughts(reply.text)[1]:
            # It can't be gone on from, and many servers do not tell which stop string they met.
            usage.update(reply.usage)
            reply = ask(self._port, replace(chat_request, stop=()), site)
            reply = replace(reply, text=_up_to_stop(reply.text, request.stop))
        usage.update(reply.usage)
        return turn_of(reply, reply.canonical, dict(usage))


def _up_to_stop(text: str, stop: Sequence[str]) -> str:
    """Return a text up to the end of its first stop string outside a thought."""
    acts = masked_thoughts(text)
    ends = [place + len(each) for each in stop if each and (place := acts.find(each)) >= 0]
    return text[: min(ends, default=len(text))]


def turn_of(reply: ChatReply, action: str, usage: dict[str, int]) -> Reply:
    """Return an action that an agent made of a model's reply, with its outcome; its opaque part if the action is the reply."""
    reason = ": ".join(filter(None, (reply.stop_reason, reply.refusal)))
    return Reply(
        "" if reply.refusal else action, usage=usage, finish_reason=escaped(reason, MOST_REASON)[:MOST_REASON],
        outcome=reply.outcome or "acted", opaque=reply.opaque if action == reply.canonical else "",
    )  # fmt: skip
