"""The environment's arguments are checked here, each alone and together with others that it must fit."""

from collections.abc import Sequence
from typing import Any

from agent_envs.base.arguments import choice, number
from agent_envs.base.errors import UsageError
from agent_envs.envs.tool_reasoning.actions import BROWSE, PROTOCOLS, PYTHON, SEARCH, TOOLS
from agent_envs.envs.tool_reasoning.equality import EQUALITIES
from agent_envs.tools.retrieval.build import MODEL_FORMS, REMOTE_FORMS, RETRIEVERS, is_outside, is_retriever
from agent_envs.tools.sandbox import BACKENDS, Limits
from agent_envs.tools.web import WEB_FORMS, is_web_search
from agent_envs.tools.web.url_policy import url_policy_for

_OWNER = "ToolReasoning"
BROWSES = ("auto", "corpus", "web")
WALL_FACTOR, WALL_SECONDS = 3, 10  # the backstop behind the limit of processor time


def check_names(**names: str) -> None:
    """Raise UsageError for an unknown `protocol`, `sandbox`, `equality` or `browse`, each passed by its argument's name."""
    choices = {"protocol": PROTOCOLS, "sandbox": BACKENDS, "equality": EQUALITIES, "browse": BROWSES}
    for argument, name in names.items():
        choice(_OWNER, argument, name, choices[argument])


def offered_tools(tools: Sequence[str] | str, searchable: bool) -> tuple[str, ...]:
    """Return the tools offered, in their fixed order (`auto`: python alone unless searchable); UsageError for unknown ones.

    Args:
        tools: their names; `auto` leaves search and browse out where there is nothing to search.
        searchable: whether there is.
    """
    if tools == "auto":
        return TOOLS if searchable else (PYTHON,)
    if isinstance(tools, str) or not isinstance(tools, Sequence) or any(name not in TOOLS for name in tools):
        raise UsageError(f"{_OWNER}: tools={tools!r}; give auto, or a list of some of {', '.join(TOOLS)}")
    return tuple(name for name in TOOLS if name in tools)


def texts(argument: str, value: Any) -> tuple[str, ...]:
    """Return a list of texts as a tuple; UsageError for anything else."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise UsageError(f"{_OWNER}: {argument}={value!r}; give a list of texts")
    return tuple(value)


def levels_of(levels: Any) -> tuple[int | str, ...]:
    """Return a list of levels, whole numbers or names, as a tuple; UsageError for anything else."""
    fits = isinstance(levels, Sequence) and not isinstance(levels, str)
    if not fits or any(isinstance(one, bool) or not isinstance(one, int | str) for one in levels):
        raise UsageError(f"{_OWNER}: levels={levels!r}; give a list of numbers or names, such as [1, 2]")
    return tuple(levels)


def hosts(value: Any) -> tuple[str, ...]:
    """Return the private hosts."""
    names = texts("private_hosts", value)
    url_policy_for(names)
    return names


def check_retriever(name: str) -> None:
    """Raise UsageError for what is neither a retriever, nor a server, nor a search of the web."""
    if is_outside(name) or is_retriever(name):
        return
    forms = ", ".join((*RETRIEVERS, *MODEL_FORMS, *REMOTE_FORMS, *WEB_FORMS))
    raise UsageError(f"{_OWNER}: retriever={name!r}; the retrievers are {forms}")


def where_to_browse(browse: str, offered: tuple[str, ...], retriever: str, here: bool) -> str:
    """Resolve `browse`, auto: "corpus" if it is searched here, else "web"; "" if not offered; UsageError for nothing to open.

    Args:
        browse: the argument.
        offered: the tools.
        retriever: what searches.
        here: whether the source has documents on this machine.

    Raises:
        UsageError: search or browse have nothing to look into; the message says what to give.
    """
    if SEARCH in offered and not here and not is_outside(retriever):
        forms = ", ".join((*WEB_FORMS, *REMOTE_FORMS))
        raise UsageError(
            f"{_OWNER}: these tasks have no documents, and retriever={retriever!r} needs some; give corpus=PATH, "
            f"retriever= one of {forms}, or leave search out of tools"
        )
    if BROWSE not in offered:
        return ""
    if browse == "auto":
        served = SEARCH in offered and not is_web_search(retriever) and is_outside(retriever)
        browse = "corpus" if here and not is_outside(retriever) else "" if served else "web"
    if not browse or (browse == "corpus" and not here):
        raise UsageError(
            f"{_OWNER}: browse has nothing to open: what {retriever!r} searches is not on this machine; leave browse out of "
            'tools, or set browse="web"'
        )
    return browse


def program_limits(cpu_seconds: float, output_chars: int) -> Limits:
    """Return the limits of a program; raises UsageError where the seconds are out of range."""
    seconds = number(_OWNER, "cpu_seconds", cpu_seconds, 0, 600, above=True)
    wall = seconds * WALL_FACTOR + WALL_SECONDS
    return Limits(cpu_seconds=seconds, wall_seconds=wall, output_bytes=max(4 * output_chars, 65_536))
