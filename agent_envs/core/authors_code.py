"""An exception of an author's environment or agent, which is no part of this package, is put in one line.

The line names the environment or agent, the method that was called, the exception, and file and line of the author. It is read
from the traceback, so that nothing stands around the calls of an episode.
"""

import contextlib
import inspect
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.terminal import escaped

VARIABLE = "AGENT_ENVS_TRACEBACK"
MOST_CHARACTERS = 300  # of an exception's own words
# Functions whose frames stand for a method of the environment or agent.
_METHODS = {name: name for name in ("__init__", "reset", "step", "render", "close", "act", "begin")} | {
    "make": "__init__", "record_turn": "step",
}  # fmt: skip
_MACHINERY = {"agent_envs", "gymnasium", "typer", "click", "ray", "__main__", *sys.stdlib_module_names}
# What our code raises where it reads a value that an environment should not have returned.
_OF_VALUES = (TypeError, ValueError, LookupError, AttributeError, AssertionError, gym.error.Error)


def author_line(error: BaseException) -> str:
    """Return the line for what an author's code raised; "" for an exception that is none of it, such as Ctrl-C."""
    if isinstance(error, AgentEnvsError):
        return ""  # its words are for the author
    by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # which raises in the main thread
    if isinstance(error, KeyboardInterrupt) and by_default and threading.current_thread() is threading.main_thread():
        return ""
    if isinstance(error, SyntaxError) and error.filename and os.path.isfile(error.filename):  # of a module
        return f"{_words(error)} ({error.filename}:{error.lineno})"
    if type(error) is RuntimeError and str(error) == "generator raised StopIteration" and error.__cause__ is not None:
        error = error.__cause__  # a generator of ours, which it passed, made another error of it
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    owners = [(frame, owner) for frame in frames if (owner := _owner(frame)) is not None]
    owner = owners[-1][1] if owners else None
    authors = [frame for frame in frames if _is_authors(frame, _root_of(owner))]
    if isinstance(error, KeyboardInterrupt) and (owner is None or _root(frames[-1]) == "agent_envs"):
        return ""  # the handler of Ctrl-C, which is ours, raised it
    if not authors and (owner is None or not isinstance(error, _OF_VALUES)):
        return ""
    names = [_name_of(one) for _, one in owners if _root_of(one) == _root_of(owner)]
    who = f"{max(names, key=lambda name: '/' in name)}: " if names else ""  # an id, where a frame around it knows one
    methods = [_method(frame) for frame, _ in owners]
    if not authors:
        what = next(filter(None, reversed(methods)), "it")
        ours = f"{frames[-1].f_code.co_filename}:{traceback.extract_tb(error.__traceback__)[-1].lineno}"
        what = f"{who}{what} does not keep the contract: {_words(error)} ({_class_place(owner)})"
        return f"{what}, as {ours} found; if the contract is kept, that line errs"
    functions = [*methods, f"{authors[0].f_code.co_name}()".replace("<module>()", "its module")]
    what = next(filter(None, reversed(functions[:-1])), functions[-1])
    return f"{who}{what} raised {_words(error)} ({author_place(error, _root_of(owner))})"


@contextlib.contextmanager
def authors_errors() -> Iterator[None]:
    """Raise UsageError with an author's line in place of the exception, which another process may not be able to read."""
    try:
        yield
    except BaseException as error:
        if not (line := author_line(error)):
            raise
        raise UsageError(line) from None


def traceback_or_hint(error: BaseException) -> str:
    """Return the hint for the traceback, to stand behind an exception's line; print it and return "" where it is asked for."""
    if os.environ.get(VARIABLE, "0") not in ("", "0"):
        traceback.print_exception(error)
        return ""
    return f"; set {VARIABLE}=1 to see the traceback"


def author_place(error: BaseException, root: str = "") -> str:
    """Return "file:line" of the author's last line in a traceback, "" where there is none.

    Args:
        error: the exception.
        root: the first name of the author's package, where it may be an installed one.
    """
    pairs = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_authors(frame, root)]
    return f"{pairs[-1][0].f_code.co_filename}:{pairs[-1][1]}" if pairs else ""


def _words(error: BaseException) -> str:
    """Return the type and the words of an exception, in one line."""
    with contextlib.suppress(Exception):  # an author's own __str__ may raise, too
        return escaped(": ".join(filter(None, (type(error).__name__, str(error)))), MOST_CHARACTERS)
    return type(error).__name__


def _is_authors(frame: FrameType, root: str) -> bool:
    """Whether a frame is of the package `root`, or of a module that is neither installed nor one of ours or Python's."""
    package = _root(frame)
    return package == root or (package not in _MACHINERY and not _is_installed(frame.f_code.co_filename))


def _is_installed(file: str) -> bool:
    """Whether a file lies in a folder of installed packages, such as site-packages or pip's `--target`."""
    folders = [Path(folder) for folder in sys.path if folder and file.startswith(folder.rstrip(os.sep) + os.sep)]
    return any(
        folder.name in ("site-packages", "dist-packages") or any(folder.glob("*.dist-info")) for folder in folders
    )


def _root(frame: FrameType) -> str:
    """Return the first name of the module of a frame."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _owner(frame: FrameType) -> Any:
    """Return the author's environment, its spec, or the author's agent that a frame works for; None for none.

    A function of ours works for its `self` or `env`, and the command line for nobody; any other for what it has a name for.
    """
    values, ours = frame.f_locals, _root(frame) == "agent_envs"
    if ours and str(frame.f_globals["__name__"]).startswith("agent_envs.cli"):
        return None
    for name in ("self", "env") if ours else ("self", *values):
        value = values.get(name)
        inner = _attribute(value, "unwrapped") if isinstance(value, gym.Env) else None
        for one in (value, inner):  # a wrapper may be the author's, too
            if isinstance(one, gym.Env | EnvSpec) or (name == "self" and callable(getattr(type(one), "act", None))):
                if _root_of(one) not in _MACHINERY - {"__main__"}:
                    return one
    return None


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute of an author's object; None where it has none, or raises."""
    with contextlib.suppress(Exception):
        return getattr(owner, name)
    return None


def _root_of(owner: Any) -> str:
    """Return the first name of the module that an environment, a spec or an agent comes from; "" for None."""
    entry = owner.entry_point if isinstance(owner, EnvSpec) else type(owner)
    module = entry.partition(":")[0] if isinstance(entry, str) else str(getattr(entry, "__module__", ""))
    return module.partition(".")[0] if owner is not None else ""


def _method(frame: FrameType) -> str:
    """Return the method of an author's that a frame stands for, as "step()"; "" for none."""
    name = frame.f_code.co_name
    if name == "__init__" and isinstance(frame.f_locals.get("env"), gym.Env) and _root(frame) == "agent_envs":
        name = "reset"  # of an `EpisodeWalk`, whose __init__ resets
    return f"{_METHODS[name]}()" if name in _METHODS else ""


def _name_of(owner: Any) -> str:
    """Return the id of an environment, or `module:Class` where it has no spec yet, and of an agent."""
    spec = owner if isinstance(owner, EnvSpec) else _attribute(owner, "spec")
    name = spec.id if isinstance(spec, EnvSpec) else f"{type(owner).__module__}:{type(owner).__qualname__}"
    return name if isinstance(owner, gym.Env | EnvSpec) else f"agent {name}"


def _class_place(owner: Any) -> str:
    """Return the file and line of a class, for what our code met in what its methods returned."""
    if isinstance(owner, EnvSpec):
        return str(owner.entry_point)
    try:
        return f"{inspect.getsourcefile(type(owner))}:{inspect.getsourcelines(type(owner))[1]}"
    except (OSError, TypeError):  # a class without a file
        return f"no file of {_name_of(owner)}"
