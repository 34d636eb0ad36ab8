"""`chat_port` puts attempts, deadlines and recordings before a chat model."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from agent_envs.base.errors import EnvFault
from agent_envs.base.serialization import digest
from agent_envs.services.chat.model import ChatModel, ChatReply, ChatRequest, known_counts, stored_counts
from agent_envs.services.chat.spending import Budget, Metered
from agent_envs.services.recording import CallSite, ExternalPort, Recording


class ChatPort(ExternalPort):
    """A port to a chat model. A reply's usage holds what failed attempts at it were billed."""

    takes_temperature = True

    def charged(self, budget: Budget) -> "ChatPort":
        """Return a copy of this port with every attempt paid from a budget; one whose backend is no model pays nothing."""
        port = copy(self)
        if isinstance(self._backend, _Backend):
            port._backend = _Backend(Metered(self._backend.model, budget))
        return port

    def _with_waste(self, response: Any, wasted: Mapping[str, int]) -> Any:
        """Return a response with the tokens of failed attempts added to its usage; the response itself if there are none."""
        if not wasted:
            return response
        return {**response, "usage": stored_counts(Counter(known_counts(response["usage"])) + Counter(wasted))}


class _Backend:
    """A model as a function from JSON to JSON."""

    def __init__(self, model: ChatModel) -> None:
        """Hold a model; `close` is its own, or None where it has none."""
        self.model = model
        self.close: Callable[[], None] | None = getattr(model, "close", None)

    def __call__(self, request: Any, seconds: float) -> Any:
        """Ask the model, with request and reply as JSON, within the seconds."""
        return self.model.complete(ChatRequest.from_json(request), seconds).to_json()


def chat_port(
    model: ChatModel,
    *,
    recording: Recording | None = None,
    deterministic: bool = False,
    deadline_seconds: float = 600.0,
    attempt_seconds: float = 180.0,
    wait: Callable[[float], None] = time.sleep,
) -> ChatPort:
    """Return the port to a model, named by it and a digest of its settings; UsageError without a key, but in a replay.

    The limits are wide because nothing is streamed: a model that reasons answers after minutes.

    Args:
        model: who answers.
        recording: where replies are recorded, or replayed from; a replay needs no key.
        deterministic: equal requests share one recorded reply (a judge at temperature 0).
        deadline_seconds: over all attempts of one call.
        attempt_seconds: for one attempt.
        wait: how to sleep between attempts.

    Raises:
        UsageError: the service needs a key and there is none.
    """
    require_key = getattr(model, "require_key", None)
    if require_key is not None and (recording is None or recording.mode != "replay"):
        require_key()

    settings = getattr(model, "settings", None)
    port = ChatPort(
        f"{model.name}#{digest(settings)[:8]}" if settings else model.name,
        _Backend(model),
        recording=recording,
        deterministic=deterministic,
        deadline_seconds=deadline_seconds,
        attempt_seconds=attempt_seconds,
        wait=wait,
    )
    port.takes_temperature = getattr(model, "takes_temperature", True)
    return port


def ask(
    port: ExternalPort, request: ChatRequest, site: CallSite, usable: Callable[[ChatReply], bool] | None = None
) -> ChatReply:
    """Return the reply to a request through a `chat_port`; one not `usable` too, though a later run asks for it again.

    Args:
        port: the port.
        request: what is asked.
        site: where in the episode.
        usable: whether the caller can go on from a reply; one that is not is returned, and asked for again where a recorded
            run goes on.

    Raises:
        EnvFault: the service failed for good, or a recording holds something else.
    """
    answer = port.call(request.to_json(), site)
    try:
        reply = ChatReply.from_json(answer)
    except (KeyError, TypeError, ValueError) as error:
        raise EnvFault(f"{port.name}: the recorded reply is malformed: {type(error).__name__}", False) from error
    if usable is not None and not usable(reply):
        port.discard(request.to_json(), site, answer)
    return reply
