"""A `Kit` holds the tools of one side, and `call` executes them on a domain's databases by the original's rules.

A tool is a plain function `name(world, **arguments)` that returns a text, a `Record`, or JSON data. Arguments are passed
as they come: what does not fit fails inside the tool, and every failure becomes the text "Error: ...".
"""

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import state_type
from agent_envs.base.tool_schema import Tool, argument_texts, json_type
from agent_envs.envs.tau2.compat import ORIGINAL
from agent_envs.envs.tau2.compat import Compat as Compat
from agent_envs.envs.tau2.database import NO_CHANGES, Changes, Database, View, thawed

Side = Literal["assistant", "user"]
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
# What a tool's own arithmetic and look-ups raise on arguments that are not what it expects.
_CLASS_ERRORS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)

_DEEPEST = 50
# What tools make of such numbers is finite, and short enough to be written down.
_LARGEST = 1e300


class ToolFailure(Exception):
    """A domain error: the text is the original's, word for word."""


def present(value: T | None, failure: str) -> T:
    """Return a value that a tool needs. Raises ToolFailure, with the text, where there is none."""
    if value is None:
        raise ToolFailure(failure)
    return value


class Record(dict[str, Any]):
    """A database record in a result: its numbers stay numbers, whereas bare numbers of a result become texts."""


@state_type
@dataclass(frozen=True)
class DomainState:
    """The changes of an episode: empty at reset.

    Attributes:
        agent: changes of the agent's database.
        user: changes of the user's database; stays empty where the domain has none.
        extras: small plain values of a domain (telecom: how many bills were made, the shared VPN record).
    """

    agent: Changes = NO_CHANGES
    user: Changes = NO_CHANGES
    extras: dict[str, Any] = field(default_factory=dict)


FRESH = DomainState()


class World:
    """Both databases as one call sees them, the first argument of every tool.

    Attributes:
        agent: the agent's database.
        user: the user's database, or None.
        compat: the switches.
        extras: the domain's small values; this call's own copy, to be changed in place.
    """

    __slots__ = ("agent", "user", "compat", "extras")

    def __init__(self, domain: "Domain", state: DomainState) -> None:
        """Look at a domain as an episode left it."""
        self.agent = View(domain.agent_database, state.agent)
        self.user = View(domain.user_database, state.user) if domain.user_database is not None else None
        self.compat, self.extras = domain.compat, dict(state.extras)

    @property
    def phone(self) -> View:
        """The user's database, for tools of domains that have one; UsageError for others."""
        if self.user is None:
            raise UsageError("this domain has no user database")
        return self.user

    def commit(self, state: DomainState) -> DomainState:
        """Return the state after this call; the very same object if nothing changed."""
        agent = self.agent.commit()
        user = self.user.commit() if self.user is not None else state.user
        if agent is state.agent and user is state.user and self.extras == state.extras:
            return state
        return DomainState(agent, user, self.extras)


def parameters_of(function: Callable[..., Any], terms: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the schema of a tool's arguments but the first; its docstring describes them before `terms`."""
    hints = get_type_hints(function)
    described = {**(terms or {}), **argument_texts(inspect.getdoc(function) or "")}
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        properties[name] = _schema(hints.get(name), f"{function.__name__}({name})")
        if name in described:
            properties[name]["description"] = described[name]
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            properties[name]["default"] = parameter.default
    return {"type": "object", "properties": properties, "required": required}


def _schema(hint: Any, where: str) -> dict[str, Any]:
    """Return the JSON schema of a TypedDict, a list, a Literal of texts or a plain type; an error naming `where` for others."""
    if is_typeddict(hint):
        members = {name: _schema(of, f"{where}.{name}") for name, of in get_type_hints(hint).items()}
        required = [name for name in members if name in hint.__required_keys__]
        return {"type": "object", "properties": members, "required": required}
    if get_origin(hint) is list:
        return {"type": "array", "items": _schema(get_args(hint)[0], where)}
    return {"type": "string", "enum": list(get_args(hint))} if get_origin(hint) is Literal else json_type(hint, where)


class Kit:
    """The tools of one side, and the functions that only initial actions and assertions call."""

    def __init__(self, side: Side, terms: Mapping[str, str] | None = None) -> None:
        """Begin an empty kit; `terms` describe, by name, arguments that a tool's docstring does not."""
        self.side, self.terms = side, terms or {}
        self.tools: dict[str, Tool] = {}
        self.helpers: dict[str, Callable[..., Any]] = {}

    def tool(self, kind: Literal["read", "write", "generic"] = "read") -> Callable[[F], F]:
        """Return a decorator that registers a tool under its name, described by its docstring before "Args:"."""

        def register(function: F) -> F:
            """Add a function to the kit as a tool, described by its docstring, and return the function unchanged."""
            name, text = function.__name__, (inspect.getdoc(function) or "").split("\n\nArgs:")[0]
            self.tools[name] = Tool(name, text, parameters_of(function, self.terms), function, kind == "write")
            return function

        return register

    def helper(self, function: F) -> F:
        """Register a function that no tool call reaches."""
        self.helpers[function.__name__] = function
        return function

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return a tool's function, else the helper of that name, else None."""
        return self.tools[name].function if name in self.tools else self.helpers.get(name)


def left_apart(world: World) -> None:
    """Synchronise nothing: of a domain without a user database, or where the original does not."""


@dataclass(frozen=True)
class Domain:
    """One domain: its databases, both sides' tools, and what happens after each call.

    Attributes:
        name: "retail", "airline" or "telecom".
        agent_database: the agent's, pristine.
        assistant: the agent's tools.
        compat: which of the original's bugs to reproduce.
        user_database: the user's, pristine, or None.
        user: the user's tools, or None.
        sync: brings both databases in line after a call.
        policy: the agent's policy.
        solo_policy: the policy of solo mode; "" where the domain has none.
        now: the domain's fixed date and time.
    """

    name: str
    agent_database: Database
    assistant: Kit
    compat: Compat = ORIGINAL
    user_database: Database | None = None
    user: Kit | None = None
    sync: Callable[[World], None] = left_apart
    policy: str = ""
    solo_policy: str = ""
    now: str = ""

    def find_tool(self, requestor: str, name: str, solo: bool = False) -> Tool | None:
        """Return the tool that a call by this side reaches (solo: of both sides, the user's first); None without one."""
        if requestor == "user":
            return self.user.tools.get(name) if self.user is not None and not solo else None
        if solo and self.user is not None and name in self.user.tools:
            return self.user.tools[name]
        return self.assistant.tools.get(name)


@dataclass(frozen=True)
class ToolOutcome:
    """The outcome of a call. `kind` of an error: "domain" (its text is the original's) or "other" (only the flag counts)."""

    content: str
    error: bool = False
    kind: Literal["", "domain", "other"] = ""


@dataclass(frozen=True)
class FunctionOutcome:
    """The outcome of an initial action or assertion: JSON data, or the text of what it raised."""

    returned: Any = None
    raised: str | None = None


def call(
    domain: Domain, state: DomainState, requestor: str, name: str, arguments: Mapping[str, Any], solo: bool = False
) -> tuple[ToolOutcome, DomainState]:
    """Execute a call and synchronise, `state` untouched; a failure is a result ("Error: ..."), its changes so far stay."""
    if requestor == "user" and (solo or domain.user is None):
        text = "User tool calls are not allowed in solo mode" if solo else "User tools not available"
        return ToolOutcome(f"Error: {text}", True, "domain"), state
    tool = domain.find_tool(requestor, name, solo)
    if tool is None:
        return ToolOutcome(f"Error: Tool '{name}' not found.", True, "domain"), state
    content, failure, state = _execute(domain, state, tool.function, arguments, serialised)
    if failure is None:
        return ToolOutcome(content), state
    return ToolOutcome(f"Error: {failure}", True, "domain" if isinstance(failure, ToolFailure) else "other"), state


def run_function(
    domain: Domain, state: DomainState, side: str, name: str, arguments: Mapping[str, Any]
) -> tuple[FunctionOutcome, DomainState]:
    """Run a helper or tool of a side and synchronise; what it raises is in the outcome; UsageError for an unknown one."""
    kit = domain.user if side == "user" else domain.assistant
    function = kit.function(name) if kit is not None else None
    if function is None:
        raise UsageError(f"tau2 {domain.name}: the {side} side has no function {name!r}")
    returned, failure, state = _execute(domain, state, function, arguments, _copy_result)
    return FunctionOutcome(returned, None if failure is None else str(failure)), state


def _execute(
    domain: Domain, state: DomainState, function: Callable[..., Any], arguments: Mapping[str, Any],
    finish: Callable[[Any], Any],
) -> tuple[Any, Exception | None, DomainState]:  # fmt: skip
    """Return (a function's finished result, None, state), or (None, the usual error that it raised, state with its changes)."""
    world = World(domain, state)
    try:
        _check_storable(arguments)
        result = finish(function(world, **arguments))
        domain.sync(world)
    except (ToolFailure, *_CLASS_ERRORS) as error:
        return None, error, world.commit(state)
    return result, None, world.commit(state)


def _check_storable(value: Any, depth: int = 0) -> None:
    """Raise ValueError for arguments that cannot be stored: names with $, deep nesting, numbers too large or not finite."""
    if depth > _DEEPEST:
        raise ValueError("the arguments are nested too deeply")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key.startswith("$"):
                raise ValueError(f"an argument's member cannot be named {key!r}")
            _check_storable(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_storable(item, depth + 1)
    elif isinstance(value, int | float) and not abs(value) <= _LARGEST:
        raise ValueError("an argument is no number of a size that can be reckoned with")


def _copy_result(value: Any) -> Any:
    """Return a copy of a dict or list, sharing no record with a database; any other value unchanged."""
    return thawed(value) if isinstance(value, dict | list) else value


def serialised(value: Any) -> str:
    """Return the text of a result: texts as they are, all else as JSON in which bare numbers and truths are texts."""
    return value if isinstance(value, str) else json.dumps(_spell(value))


def _spell(value: Any) -> Any:
    """Return a value with bare numbers and truths as texts, down through lists and objects; a `Record` stays whole."""
    if isinstance(value, Record) or value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {key: _spell(item) for key, item in value.items()}
    return [_spell(item) for item in value] if isinstance(value, list | tuple) else str(value)
