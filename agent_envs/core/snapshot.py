"""An environment can be snapshotted, restored and forked with its whole wrapper stack, at any turn.

In process a snapshot is a few references, because everything that changes is immutable. As bytes it is canonical JSON with
a version and a sha256, never pickle; the sha256 covers a turn by the turn's own, so that each is hashed once. Gymnasium's
own wrappers that `make` adds are known; any other must be ours (`TurnWrapper`) or be registered with `register_snapshot`.
"""

import copy
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.spaces import OneOf
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit

from agent_envs.base.errors import UsageError
from agent_envs.base.protocol import sound_json
from agent_envs.base.serialization import cached_text, decode_state, digest, stored_text
from agent_envs.base.type_checks import attribute_fits, misfit
from agent_envs.core.env import Episode, TurnWrapper, core_of

FORMAT, OLD_FORMAT = "agent-envs/snapshot@2", "agent-envs/snapshot@1"
MAX_LEVELS = 200  # of the JSON of a snapshot; those of our ids have 22 at most
Get = Callable[[Any], Any]
Set = Callable[[Any, Any], None]
_BRANCH = re.compile(r"[A-Za-z0-9_-]+")
E = TypeVar("E", bound=gym.Env[Any, Any])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of an environment and its wrappers; `layers`, from the outermost wrapper in, are (label, state)."""

    spec_digest: str
    episode: Episode | None
    generator: Any
    layers: tuple[tuple[str, Any], ...]

    def to_bytes(self, since: int = 0) -> bytes:
        """Return canonical JSON, readable in any process with the same environment. Each turn and task is encoded once.

        Args:
            since: turns that bytes of before hold; the others alone are written, for `from_bytes` to join with those bytes.

        Raises:
            TypeError: some state is of a type that has no stored form; the message names it.
            UsageError: the episode has fewer turns than `since`.
        """
        start, end, turns = b"null", b"", list[tuple[bytes, bytes]]()
        if self.episode is not None:
            start, end = cached_text(self.episode, _episode_text)[0], b"]}}"
            turns = [cached_text(turn) for turn in self.episode.turns]
        if not 0 <= since <= len(turns):
            raise UsageError(f"to_bytes(since={since}): the episode has {len(turns)} turns")
        start = b'{"$pairs":[["spec_digest",%b],["episode",%b' % (stored_text(self.spec_digest), start)
        end += b'],["generator",%b],["layers",%b]]}' % (stored_text(self.generator), stored_text(self.layers))
        body = b"%b%b%b" % (start, b",".join([text for text, _ in turns[since:]]), end)
        seal = sha256(b"%b%b%b" % (start, b",".join([seal for _, seal in turns]), end)).hexdigest()
        more = b',"since":%d' % since if since else b""
        return b'{"body":%b,"format":"%b","sha256":"%b"%b}' % (body, FORMAT.encode(), seal.encode(), more)

    @classmethod
    def from_bytes(cls, *parts: bytes) -> "Snapshot":
        """Read `to_bytes`, in parts as they were written; UsageError for another format, or a digest that does not fit."""
        try:
            outer: dict[str, Any] = {}
            body: Any = None
            turns: list[Any] = []
            for data in parts:
                outer = sound_json(data.decode("utf-8", "surrogatepass"), MAX_LEVELS)
                body, since = outer["body"], outer.get("since", 0)
                if since > len(turns):
                    raise UsageError(f"these bytes go on from turn {since}: give the parts before them, too")
                if since or len(parts) > 1:
                    place = body["$pairs"][1][1]["turns"]
                    turns = place["$tuple"] = [*turns[:since], *place["$tuple"]]
            sound = outer["sha256"] == {FORMAT: _seal, OLD_FORMAT: digest}[outer["format"]](body)
        except UsageError:
            raise
        except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
            raise UsageError(f"these bytes are no snapshot: {type(error).__name__}") from error
        if not sound:
            raise UsageError(f"the snapshot is damaged, or of another format than {FORMAT} and {OLD_FORMAT}")
        try:
            fields = decode_state(body)
            if wrong := misfit(cls, fields) if isinstance(fields, dict) else "no mapping":
                raise ValueError(wrong)
            return cls(**fields)
        except (ValueError, TypeError) as error:
            raise UsageError(f"the snapshot cannot be read here: {error}") from error


def _seal(body: Any) -> str:
    """Return the digest of a body, each turn in it replaced by its own digest; of the body as it is without an episode."""
    episode = body["$pairs"][1][1]
    if episode is None:
        return digest(body)
    turns, place = episode["turns"]["$tuple"], episode["turns"]
    place["$tuple"] = [digest(turn) for turn in turns]
    try:
        return digest(body)
    finally:
        place["$tuple"] = turns


def _episode_text(episode: Episode) -> bytes:
    """Serialize an episode up to its turns; all parts but the state, which is new with every turn, come from a cache."""
    return b'{"$type":"Episode","header":%b,"prompt":{"$tuple":[%b]},"state":%b,"success":%b,"task":%b,"turns":{"$tuple":[' % (
        cached_text(episode.header)[0], b",".join([cached_text(message)[0] for message in episode.prompt]),
        stored_text(episode.state), stored_text(episode.success), cached_text(episode.task)[0],
    )  # fmt: skip


def _attributes(*names: str) -> tuple[Get, Set]:
    """Return get and set functions for a wrapper's state that is held in attributes of these names."""

    def get(wrapper: Any) -> Any:
        """Return the values of a wrapper's attributes as a tuple, deques as tuples."""
        return tuple(tuple(v) if isinstance(v, deque) else v for v in (getattr(wrapper, name) for name in names))

    def put(wrapper: Any, values: Any) -> None:
        """Set a wrapper's attributes from a snapshot; UsageError where number or types do not fit."""
        olds = [getattr(wrapper, name) for name in names]
        if not isinstance(values, tuple) or len(values) != len(names) or not all(map(_may_replace, olds, values)):
            raise UsageError(f"the snapshot's state of {type(wrapper).__name__} is not what that wrapper keeps")
        for name, old, value in zip(names, olds, values, strict=True):
            setattr(wrapper, name, deque(value, maxlen=old.maxlen) if isinstance(old, deque) else value)

    return get, put


def _may_replace(old: Any, value: Any) -> bool:
    """Return whether a stored value may replace an attribute: a tuple for a deque, else None, a bool or a number."""
    if isinstance(old, deque):
        return isinstance(value, tuple)
    # Gymnasium counts steps from None on.
    return value is None or isinstance(value, bool | int | float)


def _end_passive_checks(wrapper: Any) -> None:
    """Switch off gymnasium's passive checks, which belong to the first steps after a reset."""
    wrapper.checked_reset = wrapper.checked_step = wrapper.checked_data_reuse = True
    wrapper._previous_data = None


_WRAPPERS: dict[type, tuple[Get, Set]] = {
    OrderEnforcing: _attributes("_has_reset"),
    PassiveEnvChecker: (lambda wrapper: (), lambda wrapper, state: _end_passive_checks(wrapper)),
    TimeLimit: _attributes("_elapsed_steps"),
    RecordEpisodeStatistics: _attributes(
        "episode_count", "episode_start_time", "episode_returns", "episode_lengths",
        "time_queue", "return_queue", "length_queue",
    ),
}  # fmt: skip


def register_snapshot(wrapper: type[gym.Wrapper[Any, Any, Any, Any]], get: Get, set: Set) -> None:
    """Make snapshots hold the state of a wrapper class that is not ours.

    Args:
        wrapper: the class.
        get: `get(wrapper)` returns the immutable state of a wrapper.
        set: `set(wrapper, state)` puts it back.
    """
    _WRAPPERS[wrapper] = (get, set)


def snapshot(env: gym.Env[Any, Any]) -> Snapshot:
    """Return the present moment of a wrapper stack; TypeError for a wrapper that is neither ours nor registered.

    Raises:
        TypeError: a wrapper is neither ours nor registered; the message names it.
        UsageError: the core is no TurnEnv.
    """
    layers = []
    while isinstance(env, gym.Wrapper):
        layers.append((_wrapper_label(env), env.state if isinstance(env, TurnWrapper) else _access(env)[0](env)))
        env = env.env
    core = core_of(env)
    return Snapshot(core.spec_digest, core._episode, core.np_random.bit_generator.state, tuple(layers))


def restore(env: gym.Env[Any, Any], moment: Snapshot) -> None:
    """Put an environment back to a moment; UsageError if it does not fit.

    Args:
        env: an environment made with the arguments and wrappers of the snapshot's.
        moment: the snapshot; it can be restored any number of times.

    Raises:
        UsageError: the snapshot is of another environment or another stack of wrappers, or holds what they never kept.
    """
    stack: list[Any] = []
    while isinstance(env, gym.Wrapper):
        stack.append(env)
        env = env.env
    core = core_of(env)
    names = [_wrapper_label(wrapper) for wrapper in stack]
    if core.spec_digest != moment.spec_digest or names != [name for name, _ in moment.layers]:
        raise UsageError(
            f"{core.env_id}: the snapshot is of another environment, other arguments or other wrappers; "
            "make the environment exactly as it was made for the snapshot"
        )
    generator = _generator(moment.generator)
    for wrapper, (_, state) in zip(stack, moment.layers, strict=True):
        if isinstance(wrapper, TurnWrapper) and not attribute_fits(type(wrapper), "state", state):
            raise UsageError(f"{core.env_id}: the snapshot's state of {wrapper.label} is not what that wrapper keeps")
    for wrapper, (_, state) in zip(stack, moment.layers, strict=True):
        if isinstance(wrapper, TurnWrapper):
            wrapper.state = state
        else:
            _access(wrapper)[1](wrapper, state)
    core._episode = moment.episode
    core._np_random = generator


def fork(env: E, branch: str = "") -> E:
    """Return an independent copy of the whole stack: same future for the same actions; with a `branch`, samples of its own.

    Args:
        env: the environment; it is not changed.
        branch: a name makes the twin's turns nodes of their own in a tree, and draws new samples from outside services.

    Raises:
        UsageError: the branch has characters other than letters, digits, - and _.
        TypeError: a wrapper of the stack has no snapshot; `register_snapshot` gives it one.
    """
    if isinstance(env, gym.Wrapper):
        get, put = (None, None) if isinstance(env, TurnWrapper) else _access(env)
        wrapper = _shallow_copy(env)
        wrapper.env = fork(env.env, branch)
        if get is not None and put is not None:
            put(wrapper, get(env))
        return wrapper  # type: ignore[no-any-return]
    core = core_of(env)
    twin = _shallow_copy(core)
    twin.action_space, twin.observation_space = _space(core.action_space), _space(core.observation_space)
    twin._np_random = _generator(core.np_random.bit_generator.state)
    if branch and not _BRANCH.fullmatch(branch):
        raise UsageError(f"{core.env_id}: fork(branch={branch!r}); a branch is named with letters, digits, - and _")
    if branch and core._episode is not None:
        header = core._episode.header
        path = f"{header.branch}.{branch}" if header.branch else branch
        twin._episode = replace(core._episode, header=replace(header, branch=path))
    return twin  # type: ignore[no-any-return]


def _wrapper_label(wrapper: gym.Wrapper[Any, Any, Any, Any]) -> str:
    """Return a wrapper's label with its arguments; of a wrapper that is not ours, the class's name."""
    return wrapper.label if isinstance(wrapper, TurnWrapper) else type(wrapper).__name__


def _access(wrapper: gym.Wrapper[Any, Any, Any, Any]) -> tuple[Get, Set]:
    """Return the functions that read and set a wrapper's state; TypeError if none are registered for its type."""
    access = _WRAPPERS.get(type(wrapper))
    if access is None:
        name = f"{type(wrapper).__module__}.{type(wrapper).__qualname__}"
        raise TypeError(f"no snapshot of wrapper {name}: call agent_envs.register_snapshot({name}, get, set) first")
    return access


def _shallow_copy(thing: Any) -> Any:
    """Return a shallow copy of an object: its attributes, without a call of `__init__`."""
    twin = object.__new__(type(thing))
    twin.__dict__.update(thing.__dict__)
    return twin


def _space(space: gym.Space[Any]) -> gym.Space[Any]:
    """Copy an action space, deeply only where its generator is in use."""
    if space._np_random is not None:
        return copy.deepcopy(space)
    twin = copy.copy(space)
    if isinstance(twin, OneOf):  # its parts have generators of their own
        twin.spaces = tuple(map(_space, twin.spaces))
    return twin


def _generator(state: Any) -> np.random.Generator:
    """Restore a PCG64 generator from its state; UsageError for another kind or a malformed state."""
    name = state.get("bit_generator") if isinstance(state, dict) else state
    if name != "PCG64":
        raise UsageError(f"snapshots know the PCG64 generator, not {str(name)[:100]!r}")
    generator = np.random.Generator(np.random.PCG64(0))
    try:
        generator.bit_generator.state = state
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise UsageError(f"the snapshot holds no state of a PCG64 generator: {error}") from error
    return generator
