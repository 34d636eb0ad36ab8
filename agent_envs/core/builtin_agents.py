"""Companions are registered for an environment class by name: built-in agents, and what tells of its tasks and episodes."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import UsageError

Companion = str | Callable[..., Any]
KINDS = (
    "solver", "sampler", "heuristic", "labels", "metrics", "first_look", "conversation_view", "feedback", "out_of_reach",
    "shows_gold",
)  # fmt: skip
_COMPANIONS: dict[tuple[str, str], Companion] = {}


def register_companions(env_class: str | type, **companions: Companion) -> None:
    """Name the companions of an environment class, each a callable or "module:name" (imported at use).

    Args:
        env_class: the class or "module:Class".
        companions: `solver(env) -> action`, the best next action as the episode stands (it may read the task's gold and
            scenario, and acts through the same actions as anyone); `sampler(env, rng) -> action`, a random legal action
            (`rng` is a `random.Random`); `heuristic(request) -> action`, a simple honest policy that sees a `Request` only;
            `labels(task) -> {name: text}`, the labels that a task has, such as `{"size": "4"}`, from the task alone;
            `metrics(trajectory) -> {name: number}`, finite numbers of an episode that came to its end, its task included;
            those named `abstained` and `wrong` (0 or 1) are plotted over turn limits;
            `first_look(env) -> (message, ...)`, what a policy without a free turn is shown, see `wrappers/turns.py`;
            `conversation_view(env) -> ConversationView`, all sides of the episode as it stands, for the pages of finished runs;
            `out_of_reach(env, split) -> {task id: reason}`, the tasks of a split that cannot succeed under the environment's
            arguments; a reason completes "3 tasks ...", as "rest on a judge and nobody judges";
            `shows_gold(env) -> reason`, why what the environment shows under its arguments tells the gold, and "" where it does
            not: such runs are marked and not packed; a reason as "an oracle plan tells the expected actions";
            `feedback(messages, mode, quality, rng) -> text`, a scripted feedback model that sees the conversation as the policy
            does, and nothing else: `mode` is `explore` or `exploit`, `quality` is `good`, `weak` or `misleading`.
    """
    name = env_class if isinstance(env_class, str) else f"{env_class.__module__}:{env_class.__qualname__}"
    for kind, companion in companions.items():
        if kind not in KINDS:
            raise UsageError(f"register_companions({name}): {kind!r} is none of {', '.join(KINDS)}")
        if isinstance(companion, str) and not all(companion.partition(":")):
            raise UsageError(f"register_companions({name}): {kind}={companion!r}; write module:name")
        _COMPANIONS[name, kind] = companion


def companion(env: gym.Env[Any, Any], kind: str) -> Callable[..., Any] | None:
    """Return the companion of an environment's class or of its nearest ancestor that has one."""
    return companion_of(type(env.unwrapped), kind)


def companion_of(env_class: type, kind: str) -> Callable[..., Any] | None:
    """Return the companion of a class or of its nearest ancestor that has one."""
    for cls in env_class.__mro__:
        found = _COMPANIONS.get((f"{cls.__module__}:{cls.__qualname__}", kind))
        if isinstance(found, str):
            return _imported(found, f"{cls.__qualname__}'s {kind}")
        if found is not None:
            return found
    return None


def _imported(text: str, whose: str) -> Callable[..., Any]:
    """Return what "module:name" names; a package that such a module lacks is its own error."""
    module, _, name = text.partition(":")
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"{whose} is named {text!r}: there is no module {error.name!r}") from None
    if not hasattr(found, name):
        raise UsageError(f"{whose} is named {text!r}: the module has no {name!r}")
    return getattr(found, name)  # type: ignore[no-any-return]


def refuse_live_service(core: Any) -> None:
    """Raise UsageError where the next turn of an environment that a solver plays would call a live service."""
    if core.live_service:
        service = f"the solver does not call the live service {core.live_service}"
        raise UsageError(f"{core.env_id}: {service}; replay a recording of it")
