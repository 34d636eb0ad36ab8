"""Chat models are made by name, such as `openai:MODEL@URL`."""

from dataclasses import fields
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.services.chat.anthropic import AnthropicChat
from agent_envs.services.chat.http import HttpChat
from agent_envs.services.chat.model import ChatModel, ChatOptions
from agent_envs.services.chat.openai import OpenAIChat, OpenAIText
from agent_envs.services.recording import ExternalPort

FORMS = ("openai:MODEL", "openai:MODEL@URL", "anthropic:MODEL", "anthropic:MODEL@URL", "openai-text:MODEL@URL")
_MAKERS: dict[str, type[HttpChat]] = {kind.provider: kind for kind in (OpenAIChat, OpenAIText, AnthropicChat)}
PROVIDERS = tuple(_MAKERS)
OPTIONS = (*(field.name for field in fields(ChatOptions)), "api_key_env")


def is_chat_name(name: str) -> bool:
    """Return whether a name is meant for a provider of chat models."""
    return name.partition(":")[0] in PROVIDERS and ":" in name


def is_chat_model(value: Any) -> bool:
    """Return whether an object is a chat model, or a port before one."""
    completes = getattr(value, "complete", None) or isinstance(value, ExternalPort)
    return isinstance(getattr(value, "name", None), str) and bool(completes) and not isinstance(value, type)


def judge_model(owner: str, judge: Any, argument: str = "judge") -> ChatModel | None:
    """Return the chat model that an argument names or is; None for "" and None, UsageError for anything else.

    Raises:
        UsageError: it is neither a name nor a model.
    """
    if isinstance(judge, str):
        return make_chat_model(judge) if judge else None
    if judge is not None and not is_chat_model(judge):
        raise UsageError(f"{owner}: {argument}={judge!r}; give {' or '.join(FORMS)}, a chat model, or leave it out")
    model: ChatModel | None = judge
    return model


def make_chat_model(name: str, **options: Any) -> HttpChat:
    """Make the chat model of a name, with its options; UsageError for another form, or an unknown or wrong option.

    Args:
        name: `openai:MODEL` (OpenAI), `openai:MODEL@URL` (any server of that format), `anthropic:MODEL[@URL]`, or a base model
            as `openai-text:MODEL@URL`.
        options: `temperature`, `max_tokens`, `top_p`, `reasoning_effort`, `extra` (see `ChatOptions`), and `api_key_env`, the
            environment variable that holds the key in place of OPENAI_API_KEY or ANTHROPIC_API_KEY.

    Raises:
        UsageError: the name has no such form, or an option is unknown or out of its range.
    """
    provider, _, rest = name.partition(":")
    model, at, url = _split(rest)
    if not is_chat_name(name) or not model or (at and not url):
        raise UsageError(f"chat model {hide_password(name)!r} is unknown; the forms are {', '.join(FORMS)}")
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise UsageError(
            f"{provider}:{model}: unknown option {', '.join(unknown)}; the options are {', '.join(OPTIONS)}"
        )
    variable = options.pop("api_key_env", None)
    if variable is not None and not isinstance(variable, str):
        raise UsageError(f"{provider}:{model}: api_key_env={variable!r}; give the name of an environment variable")
    return _MAKERS[provider](model, url, key_variable=variable, options=ChatOptions(**options))


def hide_password(name: str) -> str:
    """Return a name with "..." for what stands between :// and @ in its URL; unchanged where there is no @."""
    head, at, tail = name.partition("://")
    return f"{head}{at}...@{tail.rpartition('@')[2]}" if "@" in tail else name


def _split(rest: str) -> tuple[str, str, str]:
    """Split `MODEL@URL` where the URL begins: models may hold an @ of their own. Return model, "@" or "", and URL or ""."""
    starts = [place for place in (rest.find("@http://"), rest.find("@https://")) if place >= 0]
    if starts:
        return rest[: min(starts)], "@", rest[min(starts) + 1 :]
    model, at, behind = rest.partition("@")
    return (rest, "", "") if behind.isalnum() else (model, at, "")
