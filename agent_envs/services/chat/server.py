"""A server of chat completions is asked what its chat template does, which no list of models tells.

Each question is a call of one token more or less: what reaches the prompt is counted in it.
"""

from copy import copy
from dataclasses import replace

from agent_envs.base.errors import EnvFault
from agent_envs.services.chat.http import HttpChat
from agent_envs.services.chat.model import ChatRequest
from agent_envs.services.chat.port import ask, chat_port
from agent_envs.services.recording import CallSite

HELLO = ChatRequest([{"role": "user", "content": "Hello"}])
LOOK = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
WORD = "The"  # a token of any vocabulary
FEW = 3  # tokens that it may be; to open and close a message takes more


def prompt_tokens(model: HttpChat, request: ChatRequest = HELLO) -> int | None:
    """Return the tokens of a request's prompt, None where the server does not count them; EnvFault where it fails."""
    brief = copy(model)
    brief.options = replace(model.options, max_tokens=1)
    return ask(chat_port(brief, deadline_seconds=120.0), request, CallSite("server")).usage.get("input")


def shows_tools(model: HttpChat) -> bool | None:
    """Return whether tools lengthen the prompt; False where the server refuses them, None where it fails or counts none."""
    try:
        plain = prompt_tokens(model)
    except EnvFault:
        return None
    try:
        more = prompt_tokens(model, replace(HELLO, tools=[{"type": "function", "function": LOOK}]))
    except EnvFault:
        return False
    return None if plain is None or more is None else more > plain


def takes_prefill(model: HttpChat) -> bool | None:
    """Return whether a prefill adds at most 3 tokens, so is gone on from; False where the server fails, None if uncounted."""
    eager = copy(model)
    eager.native_prefill = True
    try:
        plain, more = prompt_tokens(model), prompt_tokens(eager, replace(HELLO, prefill=WORD))
    except EnvFault:
        return False
    return None if plain is None or more is None else more - plain <= FEW
