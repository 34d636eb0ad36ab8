"""The verbs of the command line share these options, the way their values are read, and what Ctrl-C does."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_envs.base.errors import UsageError
from agent_envs.base.terminal import show
from agent_envs.tools.forms import json_or_text

# An option of each of these belongs to a group of `--help`.
Environment = partial(typer.Option, rich_help_panel="The environment")
Player = partial(typer.Option, rich_help_panel="The agent")
Adviser = partial(typer.Option, rich_help_panel="Feedback before every turn")
Amount = partial(typer.Option, rich_help_panel="How much is played, and spent")
Storage = partial(typer.Option, rich_help_panel="What is kept")

EnvId = Annotated[
    str,
    typer.Argument(help="An id, with or without agent_envs/ and -v0: SearchQA; or module:namespace/Name-v0 of yours."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Arguments = Annotated[
    list[str] | None,
    typer.Option("--arg", "--env-arg", help="An argument of the environment: --arg retriever=oracle. Repeatable."),
]
AgentArguments = Annotated[
    list[str] | None, Player("--agent-arg", help="An argument of the agent: temperature=0, tools=text. Repeatable.")
]
FeedbackArguments = Annotated[
    list[str] | None,
    Adviser("--feedback-arg", help="An argument of its chat model: --feedback-arg max_tokens=300. Repeatable."),
]
RESUMED_WITH = {"resume", "set_aside", "as_json", "backend", "actors"}  # what may be given beside --resume


class Backend(StrEnum):
    """Processes that play a run: this one in threads, or actors of Ray."""

    threads = "threads"
    ray = "ray"


StepsIn = Annotated[Backend, Player("--backend", help="ray: actors of Ray play, on many machines (docs/scale.md).")]
Actors = Annotated[int, Player("--actors", min=1, help="With --backend ray: number of actors, a CPU each.")]


def tell(text: str) -> None:
    """Print a line beside the results, on standard error."""
    show(text, file=sys.stderr)


def named_values(pairs: list[str] | None, option: str) -> dict[str, Any]:
    """Return NAME=VALUE pairs as a dict, values as JSON where they read so, else text; UsageError without an =."""
    values: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"{option} {pair}: write NAME=VALUE")
        values[name] = json_or_text(text)
    return values


def make_env(env_id: str, arguments: list[str] | None) -> Any:
    """Make the environment of an id, of a module in the working directory too, with --arg values; UsageError for none."""
    import gymnasium as gym

    from agent_envs.core.registry import full_id

    sys.path.insert(0, "")
    return gym.make(full_id(env_id), **named_values(arguments, "--arg"))


def print_pack_notes(target: Path, name: str) -> None:
    """Print on standard error the packed folder, its submission's id, and the answers that only a person can add."""
    from agent_envs.evaluation.submission.provenance import unanswered

    tell(f"packed: {target}, submission {name}")
    if missing := unanswered(target):
        fix = "agent-envs pack RUN DIR --about FILE adds them; agent-envs pack --template prints such a file"
        tell(f"not stated: {', '.join(missing)}; {fix}")


@contextlib.contextmanager
def two_interrupts(running: str) -> Iterator[None]:
    """Raise KeyboardInterrupt on the first Ctrl-C, noting that what is `running` finishes first; exit 130 on the second."""

    def interrupted(number: int, frame: Any) -> None:
        """Raise KeyboardInterrupt on the first Ctrl-C, after arming the second to end the process."""
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
        if sys.platform != "win32":  # a main thread that is just about to wait for a lock would not hear of the second
            ears, mouth = os.pipe()
            os.set_blocking(mouth, False)
            signal.set_wakeup_fd(mouth)
            threading.Thread(target=lambda: os._exit(130 if os.read(ears, 1) else 1), daemon=True).start()
        tell(f"stopping: {running} finish first; Ctrl-C again leaves at once")
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, before)
