"""The registry is the one table of environments, by id, and of the companions of their classes; it names both by string.

Companions are built-in agents, and what tells of tasks and episodes. No environment is imported here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import WrapperSpec

from agent_envs.base.arguments import choice
from agent_envs.base.errors import UsageError
from agent_envs.core.authors_code import author_line

NAMESPACE = "agent_envs"


@dataclass(frozen=True)
class Row:
    """One id.

    Attributes:
        name: without namespace and version.
        entry: "module:Class".
        summary: one line for the tables.
        variants: argument -> the values that have a golden replay of their own, embedded data only.
        outside: the same for values that need outside data; their goldens hold digests and are checked where it is.
        extra: the pip extra it needs, "" for none.
        twin: of an id with expanded actions, the name of the same tasks as text; "" of text ids.
    """

    name: str
    entry: str
    summary: str
    variants: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    outside: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    extra: str = ""
    version: int = 0
    twin: str = ""

    @property
    def id(self) -> str:
        """The full id."""
        return f"{NAMESPACE}/{self.name}-v{self.version}"

    @property
    def family(self) -> str:
        """The package under `agent_envs.envs` that holds it."""
        return self.entry.split(".")[2]


_CALCULATOR = {"reward": ("em", "exact", "numeric", "em_format", "released"), "env_prompt": (True, False),
               "decimal_point": (True, False), "protocol": ("tags", "json")}  # fmt: skip
_TAU2 = {
    "tasks": ("generated",),
    "side": ("agent", "user"),
    "user": ("scripted",),
    "agent": ("scripted", "heuristic"),
    "persona": ("task", "plain", "terse", "talkative", "impatient", "insistent", "piecemeal", "forgetful", "mistaken",
                "typing"),
    "consent": ("restate", "plain"),
    "plan": ("none", "oracle"),
    "difficulty": ("mixed", "easy", "medium", "hard"),
    "compat": ("tau2-1.0.1", "fixed"),
    "reward": ("official", "without_nl", "dense"),
}  # fmt: skip
_TAU2_OUTSIDE = {"tasks": ("official",), "guidelines": ("official",)}
_GAME = {"reward": ("binary", "native", "format_penalty", "format_penalty_released"),
         "on_invalid": ("default", "end"), "prompt_role": ("system", "user")}  # fmt: skip
_BABA_TASKS = (
    "goto_win", "make_win", "two_room-goto_win", "two_room-make_win", "two_room-break_stop-goto_win",
    "two_room-break_stop-make_win", "two_room-maybe_break_stop-goto_win",
)  # fmt: skip
_BABA_DISTRACTIONS = ("", "-distr_obj", "-distr_rule", "-distr_obj_rule", "-distr_obj-irrelevant_rule")
_BABA_KINDS = (
    "mixed", *(task + distraction for task in _BABA_TASKS for distraction in _BABA_DISTRACTIONS),
    "two_room-goto_win-distr_win_rule", "two_room-make_win-distr_win_rule", "two_room-make_you",
    "two_room-make_you-make_win", "two_room-make_wall_win",
)  # fmt: skip
_SORT = {"reward": ("fixed", "released", "paper", "success"), "env_prompt": (True, False), "protocol": ("tags", "json")}


def with_twins(*rows: Row) -> tuple[Row, ...]:
    """Return rows of the ExpA family, each followed by its twin with expanded actions: the class named `...ExpA`."""
    twins = []
    for row in rows:
        summary = row.summary.replace("as text", "with expanded actions")
        shared = {name: values for name, values in row.variants.items() if name != "protocol"}
        twin = replace(row, name=f"{row.name}ExpA", entry=f"{row.entry}ExpA", summary=summary, twin=row.name)
        twins.append(replace(twin, variants=shared))
    return tuple(row for pair in zip(rows, twins, strict=True) for row in pair)


TABLE: tuple[Row, ...] = (
    Row(
        "SearchQA",
        "agent_envs.envs.search_qa.env:SearchQA",
        "Multi-hop questions answered by searching a corpus, in Search-R1's protocol.",
        variants={
            "tasks": ("world",),
            "retriever": ("bm25", "random", "empty", "oracle"),
            "reward": ("em", "exact", "em_format", "f1"),
            "observation_format": ("search_r1", "skyrl_json"),
            "protocol": ("tags", "json"),
            "vocabulary": ("open", "closed"),
        },
        outside={"tasks": ("nq", "triviaqa", "popqa", "hotpotqa", "2wiki", "musique", "bamboogle", "nq+hotpotqa")},
    ),
    *with_twins(
        Row(
            "Arithmetic",
            "agent_envs.envs.expa.calculator.env:Arithmetic",
            "Arithmetic, some of it in words, with a calculator, as text.",
            variants={"labels": ("tree", "released"), **_CALCULATOR},
        ),
        Row(
            "Countdown",
            "agent_envs.envs.expa.calculator.env:Countdown",
            "Make a target out of given numbers, with a calculator, as text.",
            variants={"targets": ("any", "integers", "natural"), **_CALCULATOR},
        ),
        Row(
            "Count",
            "agent_envs.envs.expa.calculator.env:Count",
            "Count a digit or a symbol in a sequence, as text.",
            variants={"sequences": ("digits", "symbols"), **_CALCULATOR},
        ),
        Row(
            "GSM8KScaled",
            "agent_envs.envs.expa.calculator.env:GSM8KScaled",
            "Word problems with large numbers, with a calculator, as text.",
            variants={"tasks": ("generated",), **_CALCULATOR},
            outside={"tasks": ("gsm8k",)},
        ),
        Row(
            "CalcBench",
            "agent_envs.envs.expa.calculator.env:CalcBench",
            "The mixture of the four calculator tasks, as text.",
            variants={"tasks": ("generated",), **_CALCULATOR},
            outside={"tasks": ("gsm8k",)},
        ),
        Row(
            "Sort",
            "agent_envs.envs.expa.sorting.env:Sort",
            "Sort items by hidden numbers with compare and swap, as text.",
            variants={"directions": ("both", "ascending", "descending"), **_SORT},
        ),
        Row(
            "Order",
            "agent_envs.envs.expa.sorting.env:Order",
            "Bring items into the order that the task names by swaps, as text: the curriculum before Sort.",
            variants={"directions": ("both", "ascending", "descending"), **_SORT},
        ),
    ),
    Row(
        "LegalSearch",
        "agent_envs.envs.legal_search.env:LegalSearch",
        "Questions of law answered by keyword search, semantic search and reading, with citations.",
        variants={
            "semantic": ("static", "bm25", "hybrid", "random", "empty", "oracle"),
            "protocol": ("tags", "json"),
            "reward": ("segmented", "art_e"),
        },
        outside={"tasks": ("dc_code",)},
        extra="legal",
    ),
    Row(
        "Tau2Retail",
        "agent_envs.envs.tau2.env:Tau2Retail",
        "Serve an online shop's customers by policy and tools, as tau2-bench's retail domain.",
        variants=_TAU2,
        outside=_TAU2_OUTSIDE,
    ),
    Row(
        "Tau2Airline",
        "agent_envs.envs.tau2.env:Tau2Airline",
        "Serve an airline's passengers by policy and tools, as tau2-bench's airline domain.",
        variants=_TAU2,
        outside=_TAU2_OUTSIDE,
    ),
    Row(
        "Tau2Telecom",
        "agent_envs.envs.tau2.env:Tau2Telecom",
        "Serve a mobile network's customers, who have tools too, as tau2-bench's telecom domain.",
        variants={**_TAU2, "side": ("agent", "user", "solo"), "difficulty": (*_TAU2["difficulty"], "starter")},
        outside={**_TAU2_OUTSIDE, "policy": ("workflow",)},
    ),
    Row(
        "BabyAI",
        "agent_envs.envs.text_games.babyai.env:BabyAI",
        "Go, pick up, open and put next in rooms seen from inside, in text, as BALROG and Verlog play BabyAI.",
        variants={"kind": ("mixed", "goto", "pickup", "open", "putnext", "pick_up_seq_go_to"), **_GAME},
        extra="babyai",
    ),
    Row(
        "BabaIsAI",
        "agent_envs.envs.text_games.baba_is_ai.env:BabaIsAI",
        "Push words to make and break the rules of a small world, in text.",
        variants={"kind": _BABA_KINDS, **_GAME},
    ),
    Row(
        "Crafter",
        "agent_envs.envs.text_games.crafter.env:Crafter",
        "Survive, gather and craft in an open world, in text.",
        variants={"goal": ("collect_wood", "place_table", "make_pickaxe", "full"), **_GAME},
        extra="crafter",
    ),
    Row(
        "ToolReasoning",
        "agent_envs.envs.tool_reasoning.env:ToolReasoning",
        "Questions that need a search, a program or both: search, browse and a Python sandbox, as ARPO has them.",
        variants={
            "tasks": ("math_world",),
            "protocol": ("tags", "json"),
            "reward": ("hierarchical", "hierarchical_released", "accuracy", "em", "f1"),
        },
        outside={"tasks": ("gsm8k", "hotpotqa")},
        extra="sandbox",
    ),
)


# Numeric views of rows for classic reinforcement learning: name -> the row's name, arguments of its environment, the wrapper.
_NUMBERS = WrapperSpec("DiscreteActions", "agent_envs.envs.expa.discrete:DiscreteActions", {})
_GRID = WrapperSpec("GridActions", "agent_envs.envs.text_games.babyai.numbers:GridActions", {})
_DISCRETE: dict[str, tuple[str, dict[str, Any], WrapperSpec]] = {
    "SortDiscrete": ("SortExpA", {}, _NUMBERS),
    "OrderDiscrete": ("OrderExpA", {"compare_percent": 0}, _NUMBERS),
    "BabyAIDiscrete": ("BabyAI", {}, _GRID),
}


_REMOTE = f"{NAMESPACE}/Remote-v0"  # of a server, whose environment it is; no row, as it needs a URL

Companion = str | Callable[..., Any]
KINDS = (
    "solver", "sampler", "heuristic", "labels", "metrics", "first_look", "conversation_view", "feedback", "out_of_reach",
    "shows_gold",
)  # fmt: skip
_COMPANIONS: dict[tuple[str, str], Companion] = {}


def env_ids(kind: str = "turns") -> list[str]:
    """Return the full ids of all environments of a kind, in the order of the table: `turns`, or `discrete` numeric views."""
    if choice("env_ids", "kind", kind, ("turns", "discrete")) == "turns":
        return [row.id for row in TABLE]
    return [f"{NAMESPACE}/{name}-v0" for name in _DISCRETE]


def row_of(env_id: str) -> Row:
    """Return the row of an id, with or without namespace and version, in any case; UsageError, with hints, for none.

    Raises:
        UsageError: there is none; the message names the nearest, and lists the ids, or the same tasks as text.
    """
    rows = {name.casefold(): row for row in TABLE for name in (row.id, row.name, row.id.removeprefix(f"{NAMESPACE}/"))}
    if row := rows.get(env_id.casefold()):
        return row
    short = env_id.casefold().removeprefix(f"{NAMESPACE}/").removesuffix("-v0")
    if twin := {name.casefold(): row for name, (row, *_) in _DISCRETE.items()}.get(short, ""):
        raise UsageError(f"{env_id}: its actions are numbers; an agent that writes plays {twin.removesuffix('ExpA')}")
    near = [rows[name].name for name in get_close_matches(env_id.casefold(), rows, 1)]
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"no environment {env_id!r}{hint}; the ids are {', '.join(env_ids())}")


def full_id(name: str) -> str:
    """Return the id that `gymnasium.make` takes for a short name of ours or anyone's `module:id`; UsageError for none.

    Args:
        name: `SearchQA`, a full id, or `module:namespace/Name-v0`, whose module is imported and registers it.

    Raises:
        UsageError: there is none, or it takes numbers; the message lists our ids, or names the same tasks as text.
    """
    module, colon, rest = name.partition(":")
    if colon:
        if not module or module.startswith("."):
            raise UsageError(
                f"{name}: give a module before the colon, as in module:namespace/Name-v0, or an id without one"
            )
        try:
            import_module(module)
        except ImportError as error:
            why = author_line(error) or error
            raise UsageError(f"{name}: module {module!r} cannot be imported: {why}") from error
        name = rest
        if name not in gym.registry and "/" in name and not name.startswith(f"{NAMESPACE}/"):
            raise UsageError(f"{module} registers no {name}: be in the folder of its package, or pip install -e it")
    return name if name in gym.registry and name not in env_ids("discrete") else row_of(name).id


def register_all() -> None:
    """Register every row with Gymnasium; a second call changes nothing."""
    for row in TABLE:
        if row.id not in gym.registry:
            gym.register(id=row.id, entry_point=row.entry)
    for env_id, (name, arguments, wrapper) in zip(env_ids("discrete"), _DISCRETE.values(), strict=True):
        if env_id not in gym.registry:
            gym.register(env_id, row_of(name).entry, kwargs=arguments, additional_wrappers=(wrapper,))
    if _REMOTE not in gym.registry:
        gym.register(_REMOTE, entry_point="agent_envs.serving.remote:Remote")


def make_vec(env_id: str, num_envs: int = 1, vectorization_mode: str = "sync", **kwargs: Any) -> Any:
    """Make a vector environment, as `gymnasium.make_vec`; `async` has no shared memory unless `vector_kwargs` say so.

    Args:
        env_id: an id of ours.
        num_envs: how many copies.
        vectorization_mode: `sync` or `async`.
        kwargs: arguments of the environment; `vector_kwargs` go to Gymnasium.
    """
    vector_kwargs = dict(kwargs.pop("vector_kwargs", {}))
    if vectorization_mode == "async":
        vector_kwargs.setdefault("shared_memory", False)
    return gym.make_vec(env_id, num_envs, vectorization_mode, vector_kwargs=vector_kwargs, **kwargs)


def register_companions(env_class: str | type, **companions: Companion) -> None:
    """Register an environment class's companions, each a callable or "module:name" (imported at use); UsageError for others.

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
    """Return the companion of an environment's class or of its nearest ancestor that has one; None if none has."""
    return companion_of(type(env.unwrapped), kind)


def companion_of(env_class: type, kind: str) -> Callable[..., Any] | None:
    """Return the companion of a class or of its nearest ancestor that has one; None if none has."""
    for cls in env_class.__mro__:
        companion = _COMPANIONS.get((f"{cls.__module__}:{cls.__qualname__}", kind))
        if isinstance(companion, str):
            return _import_object(companion, f"{cls.__qualname__}'s {kind}")
        if companion is not None:
            return companion
    return None


def _import_object(text: str, whose: str) -> Callable[..., Any]:
    """Import the object at "module:name"; UsageError if there is none, but a package that its module lacks is its own error."""
    module, _, name = text.partition(":")
    try:
        loaded_module = import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"{whose} is named {text!r}: there is no module {error.name!r}") from None
    if not hasattr(loaded_module, name):
        raise UsageError(f"{whose} is named {text!r}: the module has no {name!r}")
    return getattr(loaded_module, name)  # type: ignore[no-any-return]


def refuse_live_service(core: Any) -> None:
    """Raise UsageError where the next turn of an environment that a solver plays would call a live service."""
    if core.live_service:
        service = f"the solver does not call the live service {core.live_service}"
        raise UsageError(f"{core.env_id}: {service}; replay a recording of it")
