"""Many episodes are open at once in an `EpisodePool`: each is a snapshot, and a few environments step all of them.

A pool has no loop and no policy: whoever has the actions calls it, from any number of threads. A step puts an environment back
to the episode's moment, takes the turn and keeps the new moment; where it fails, the episode stands where it stood.
"""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.arguments import display_value, number, whole_number
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.core.env import RESET_OPTIONS, Episode, core_of, turn_wrappers
from agent_envs.core.registry import full_id
from agent_envs.core.snapshot import Snapshot, fork, restore, snapshot
from agent_envs.services.run_services import Services

SHARED_PARTS, SHARED_CHARACTERS = (
    2**14,
    2**13,
)  # actions, calls and messages kept for later turns, of such a length at most


@dataclass(frozen=True, slots=True)
class PoolTurn:
    """The answer to a reset or a turn of one episode; `info` is the environment's, with `messages` and, at reset, `tools`.

    Attributes:
        fault: the cause of an outside fault, "" for none. Such a turn was not taken and has no reward: act again, or drop it.
        retryable: whether the same call may succeed later.
    """

    key: str
    text: str = ""
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] | None = None
    fault: str = ""
    retryable: bool = True


class _Part:
    """A part of a turn, equal to others by type and value all the way down: True is not 1 here, nor 0.0 -0.0."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.key, self.value = _typed(value), value

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Part) and self.key == other.key


Answer = tuple[PoolTurn, Snapshot | None]


class EpisodePool:
    """Episodes of one environment under keys, open at the same time; safe to use from many threads.

    A key is in one call at a time. An environment whose step waits on a model, a judge or a sandbox (`TurnEnv.waits`) steps in
    up to `threads` threads of a call; any other steps in the caller's.
    """

    def __init__(
        self, spec: str, *, services: Services | None = None, idle_seconds: float | None = None, threads: int = 64,
        **arguments: Any,
    ) -> None:  # fmt: skip
        """Make the first environment.

        Args:
            spec: an id, short or full, or the JSON of `spec_json`, which has wrappers, too. It is code of the caller's, never a
                stranger's: the modules that its `entry_point` and its wrappers name are imported.
            services: what stands before the environment's outside services.
            idle_seconds: an episode that no call named for so long is dropped; None keeps all.
            threads: the most that step one call's episodes, where steps wait.
            arguments: of the environment, with an id.

        Raises:
            UsageError: there is no such environment, or an argument is wrong.
        """
        if not isinstance(spec, str) or "id" in arguments:
            raise UsageError(
                f"EpisodePool: spec={display_value(spec)}; give an id or the JSON of spec_json, and no id beside"
            )
        if idle_seconds is not None:
            number("EpisodePool", "idle_seconds", idle_seconds, 0, above=True)
        self._spec, self._arguments = spec, arguments
        self._services, self._idle_seconds = services or Services(), idle_seconds
        self._threads = whole_number("EpisodePool", "threads", threads)
        self._lock, self._numbers = threading.Lock(), count(1)
        self._moments: dict[str, Snapshot] = {}
        self._last_calls: OrderedDict[str, float] = OrderedDict()  # with an idle limit; the newest stand at the end
        self._same = lru_cache(SHARED_PARTS)(lambda part: part)  # of _Part
        self._under_way: set[str] = set()
        self._over: set[str] = set()
        self._counts = {"turns": 0, "faults": 0, "idle": 0, "waiting": 0}
        self._free = [self._make()]
        first = self._free[0]
        self.waits = core_of(first).waits or any(wrapper.waits for wrapper in turn_wrappers(first))

    def __len__(self) -> int:
        return len(self._moments)

    def __contains__(self, key: object) -> bool:
        return key in self._moments

    def begin_many(self, rows: Sequence[Mapping[str, Any]]) -> list[PoolTurn]:
        """Begin an episode for each row, in order; a fault is in its turn, and leaves no episode.

        Args:
            rows: each with `task`, `split`, `seed`, `episode_key`, as a reset takes them, and `key`, a new one where it lacks.
                Other names, as rows of `task_rows` have, are passed over.

        Raises:
            UsageError: a key is taken or none, or there is no such task; then none is begun.
        """
        for row in rows:
            if not isinstance(row, Mapping):
                raise UsageError(f"EpisodePool.begin_many: rows: {display_value(row)}; give a dict for each episode")
        keys = [row.get("key") or f"episode-{next(self._numbers)}" for row in rows]
        with self._claim(keys, fresh=True):
            return self._each(self._begin, keys, rows)

    def act_many(self, actions: Sequence[tuple[str, str | int]], cut: Collection[str] = ()) -> list[PoolTurn]:
        """Take a turn in each (key, action), in order; a fault is in its turn, and leaves its episode as it was.

        Args:
            actions: each of an open episode.
            cut: the keys whose action a limit cut short.

        Raises:
            UsageError: a key is unknown, in another call or twice in this one, an episode is over, or an action is none; then
                no turn is taken.
        """
        for pair in actions:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise UsageError(
                    f"EpisodePool.act_many: actions: {display_value(pair)}; give pairs of a key and an action"
                )
        keys = [key for key, _ in actions]
        with self._claim(keys):
            return self._each(self._act, keys, [(action, key in cut) for key, action in actions])

    def fork(self, key: str, n: int, branch: str = "") -> list[str]:
        """Return the keys of `n` new episodes that go on from where one stands.

        Args:
            key: of the episode, which stays.
            n: how many.
            branch: "" for equal futures; a name draws samples of their own from outside services, as `fork` does.
        """
        whole_number("EpisodePool.fork", "n", n)
        with self._claim([key]), self._environment() as env:
            keys = []
            for place in range(n):
                restore(env, self._moments[key])
                twin = snapshot(fork(env, f"{branch}{place}")) if branch else self._moments[key]
                keys.append(f"{key}.{next(self._numbers)}")
                self._keep(keys[-1], twin, over=key in self._over)
            return keys

    def take(self, key: str, since: int = 0) -> bytes:
        """Return an episode as bytes, which any pool of the same environment goes on from; it stays here, too.

        Args:
            key: of the episode.
            since: turns that were taken out before: what was written then, and this, are its parts (`put`).
        """
        whole_number("EpisodePool.take", "since", since, 0)
        with self._claim([key]):
            return self._moments[key].to_bytes(since)

    def put(self, key: str, *parts: bytes) -> None:
        """Open the episode of `take` under a key.

        Args:
            key: the name of the episode in this pool.
            parts: the bytes of `take`, in the order in which they were taken.

        Raises:
            UsageError: the key is taken, or the bytes are damaged or of another environment.
        """
        self.resume(key, Snapshot.from_bytes(*parts))

    def resume(self, key: str, moment: Snapshot) -> None:
        """Open an episode at a snapshot under a key.

        Args:
            key: the name of the episode in this pool.
            moment: the snapshot, of an environment made as the pool's are.

        Raises:
            UsageError: the key is taken, or the snapshot is of another environment.
        """
        with self._claim([key], fresh=True), self._environment() as env:
            restore(env, moment)
            ended = moment.episode is not None and moment.episode.over
            over = ended or any(wrapper.over for wrapper in turn_wrappers(env))
            self._keep(key, moment, over=over)

    def drop(self, key: str) -> None:
        """Forget an episode."""
        with self._claim([key]), self._lock:
            self._forget(key)

    def moment(self, key: str) -> Snapshot:
        """Return the snapshot of an episode, whose `episode` has its turns and its task."""
        with self._claim([key]):
            return self._moments[key]

    @property
    def counts(self) -> dict[str, int]:
        """Episodes open, over, in a call, and waiting on something outside now; turns, faults, and dropped as idle so far."""
        with self._lock:
            ends = {"open": len(self._moments) - len(self._over), "over": len(self._over)}
            return {**ends, "in_call": len(self._under_way), **self._counts}

    def close(self) -> None:
        """Forget all episodes and close the environments that stand by."""
        with self._lock:
            for key in list(self._moments):
                self._forget(key)
            for env in self._free:
                env.close()
            self._free.clear()

    def _make(self) -> gym.Env[Any, Any]:
        """Make an environment; UsageError where there is none of that spec."""
        if self._spec.lstrip().startswith("{"):
            try:
                spec = EnvSpec.from_json(self._spec)
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError, gym.error.Error) as error:
                raise UsageError(
                    f"EpisodePool: spec={display_value(self._spec)}; give the JSON of spec_json ({error!r:.200})"
                ) from error
            env = gym.make(spec, **self._arguments)
        else:
            env = gym.make(full_id(self._spec), disable_env_checker=True, **self._arguments)
        core_of(env).services = self._services
        return env

    @contextmanager
    def _claim(self, keys: Sequence[str], fresh: bool = False) -> Iterator[None]:
        """Hold keys, all open or all new, for one call, once what was idle is dropped; UsageError where that cannot be."""
        for key in keys:
            if not isinstance(key, str):
                raise UsageError(f"EpisodePool: key={display_value(key)}; give a text")
        with self._lock:
            self._drop_idle()
            for key, times in Counter(keys).items():
                wrong = "it is twice in one call" if times > 1 else ""
                if key in self._under_way:
                    wrong = "it is in a call that is under way"
                elif (key in self._moments) is fresh:
                    wrong = "it is taken" if fresh else "there is no such episode; it may have been idle too long"
                if wrong:
                    raise UsageError(f"EpisodePool: key={display_value(key)}; {wrong}")
            self._under_way.update(keys)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.difference_update(keys)

    def _drop_idle(self) -> None:
        """Drop the episodes that no call has named for too long, from the longest on."""
        while self._idle_seconds is not None and self._last_calls:
            key, last = next(iter(self._last_calls.items()))
            if key in self._under_way or time.monotonic() - last < self._idle_seconds:
                return
            self._forget(key)
            self._counts["idle"] += 1

    def _forget(self, key: str) -> None:
        """Forget an episode; the caller has the lock."""
        del self._moments[key]
        self._last_calls.pop(key, None)
        self._over.discard(key)

    @contextmanager
    def _environment(self) -> Iterator[gym.Env[Any, Any]]:
        """Lend an environment that nobody steps; one in which an error came up goes."""
        with self._lock:
            env = self._free.pop() if self._free else None
        env = env or self._make()
        try:
            yield env
        except UsageError:
            self._free.append(env)
            raise
        self._free.append(env)

    def _each(self, call: Callable[..., Answer], keys: Sequence[str], items: Sequence[Any]) -> list[PoolTurn]:
        """Return the answers of a call to each key with its item; new moments are kept once all have answered."""
        with self._lock:
            self._counts["waiting"] += len(keys) * self.waits
        try:
            if self.waits and len(keys) > 1:
                with ThreadPoolExecutor(min(self._threads, len(keys)), thread_name_prefix="pool") as threads:
                    answers = list(threads.map(call, keys, items))
            else:
                answers = list(map(call, keys, items))
        finally:
            with self._lock:
                self._counts["waiting"] -= len(keys) * self.waits
        for key, (turn, moment) in zip(keys, answers, strict=True):
            self._keep(key, moment, turn)
        return [turn for turn, _ in answers]

    def _keep(self, key: str, moment: Snapshot | None, turn: PoolTurn | None = None, over: bool = False) -> None:
        """Make a moment that of a key, which was named now, perhaps as over; None leaves the one that it has."""
        with self._lock:
            if turn is not None:
                self._counts["faults"] += bool(turn.fault)
                self._counts["turns"] += moment is not None and bool(turn.info and turn.info["turn"])  # a reset is none
            if moment is not None:
                self._moments[key] = moment
            if over or (turn is not None and (turn.terminated or turn.truncated)):
                self._over.add(key)
            if self._idle_seconds is not None and key in self._moments:
                self._last_calls[key] = time.monotonic()
                self._last_calls.move_to_end(key)

    def _begin(self, key: str, row: Mapping[str, Any]) -> Answer:
        """Reset an environment to a row."""
        options = {name: row[name] for name in RESET_OPTIONS if row.get(name) is not None}
        with self._environment() as env:
            return self._answer(key, env, lambda: env.reset(seed=row.get("seed"), options=options))

    def _act(self, key: str, turn: tuple[str | int, bool]) -> Answer:
        """Take a turn from the moment of a key: an action, and whether it was cut."""
        action, is_cut = turn
        with self._environment() as env:
            restore(env, self._moments[key])
            core_of(env).reply_cut = is_cut
            return self._answer(key, env, lambda: env.step(action))

    def _answer(self, key: str, env: gym.Env[Any, Any], call: Callable[[], Any]) -> Answer:
        """Return the answer of a reset or step of an environment, and its new moment."""
        try:
            text, *ends, info = call()
        except EnvFault as fault:
            return PoolTurn(key, fault=fault.cause, retryable=fault.retryable), None
        moment = snapshot(env)
        if moment.episode is not None:
            self._share(moment.episode)
        reward, terminated, truncated = ends or (0.0, False, False)
        return PoolTurn(key, text, reward, terminated, truncated, info), moment

    def _share(self, episode: Episode) -> None:
        """Let the newest part of an episode hold texts, calls and results that any turn had, in place of its equal ones."""
        owner: Any = episode
        names, texts = ["prompt"], [message.content for message in episode.prompt]
        if episode.turns:
            owner, names = episode.turns[-1], ["action", "parsed", "observation", "results"]
            texts = [str(owner.action), *(part.content for part in (*owner.observation, *owner.results))]
            if len(episode.turns) > 1 and episode.turns[-2].origin == owner.origin:
                object.__setattr__(owner, "origin", episode.turns[-2].origin)
        if sum(map(len, texts)) <= SHARED_CHARACTERS:
            for name in names:
                if not isinstance(part := getattr(owner, name), int):
                    with suppress(TypeError):
                        object.__setattr__(owner, name, self._same(_Part(part)).value)


def _typed(value: Any) -> Any:
    """Return a key of a value and its types; TypeError for all but plain values, tuples and frozen dataclasses."""
    if isinstance(value, tuple):
        return type(value), *map(_typed, value)
    if (parameters := getattr(type(value), "__dataclass_params__", None)) and parameters.frozen:
        return type(value), *(_typed(getattr(value, name)) for name in value.__dataclass_fields__)
    if type(value) is float:
        return float, repr(value)
    if value is None or type(value) in (str, int, bool):
        return type(value), value
    raise TypeError
