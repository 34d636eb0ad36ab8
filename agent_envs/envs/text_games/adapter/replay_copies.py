"""`Replayed` keeps live copies of a third party's environment, and rebuilds any state from its seed and actions.

A copy that stands at the wanted place is stepped on. Where none does (after a fork, a restore, in another process), the
nearest copy that was kept goes the rest of the way, or a new one from the seed.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from threading import Lock
from typing import Any, Generic, TypeVar

from agent_envs.base.errors import EnvFault

Actions = str | tuple[Any, ...]
Place = tuple[int, Actions]
E = TypeVar("E")
R = TypeVar("R")


class Replayed(Generic[E, R]):
    """A bounded store of live copies, one for an environment object and its forks; threads may share it.

    A place is (seed, actions), the actions a str of one character each or a tuple. What `act` raises is passed on, and the
    copy that raised is thrown away.
    """

    def __init__(
        self,
        *,
        name: str,
        start: Callable[[int], E],
        act: Callable[[E, Any], R],
        copy: Callable[[E], E] | None = deepcopy,
        mark: Callable[[E], str] | None = None,
        every: int = 32,
        live: int = 16,
        checkpoints: int = 32,
    ) -> None:
        """Take how the third party's environment is handled.

        Args:
            name: of the environment, for messages.
            start: returns a new one at the start of a seed's episode.
            act: takes one action in it, and returns what came of it.
            copy: returns an independent copy; None, or a copy that raises, means that all is replayed from the seed.
            mark: returns a text that is equal wherever the same seed and actions led, such as a digest of what is seen.
            every: a copy is kept after so many actions, and wherever one was asked for that had gone on.
            live: at most so many copies stand at the ends of lines.
            checkpoints: at most so many copies are kept to go back to.
        """
        self._name, self._start, self._act, self._copy, self._mark = name, start, act, copy, mark
        self._every, self._most_live, self._most_checkpoints = every, live, checkpoints
        self._forget()

    def step(self, seed: int, actions: Actions, action: Any, mark: str = "") -> R:
        """Take one action at a place and return its result; EnvFault where the place, rebuilt, looks another way than it did.

        Args:
            seed: of the episode.
            actions: taken so far.
            action: the next; one character where `actions` is a str.
            mark: what `mark` must give at the place, "" where that is not known.

        Raises:
            EnvFault: the place looks another way than it did: the environment is not deterministic, or another version.
        """
        env = self._take((seed, actions), mark)
        result = self._act(env, action)
        self._stand((seed, actions + action if isinstance(actions, str) else (*actions, action)), env)
        return result

    @contextmanager
    def at(self, seed: int, actions: Actions, mark: str = "") -> Iterator[E]:
        """Lend the environment at a place, to be looked at only; EnvFault where, rebuilt, it looks another way than it did."""
        env = self._take((seed, actions), mark)
        try:
            yield env
        finally:
            self._stand((seed, actions), env)

    def _take(self, place: Place, mark: str) -> E:
        """Take a place's live copy from the store, or rebuild it from checkpoint or seed; EnvFault if its mark is another."""
        with self._lock:
            env = self._live.pop(place, None)
        if env is not None:
            return env
        checkpoint, turns = self._nearest(place)
        env = self._advance(place, self._start(place[0]) if checkpoint is None else checkpoint, turns)
        if checkpoint is not None and not self._looks(env, mark):
            self._copy = None  # its copies are not whole: the seed decides
            with self._lock:
                self._checkpoints.clear()
            env, turns = self._advance(place, self._start(place[0]), 0), 0
        if not self._looks(env, mark):
            why = f"seed {place[0]} and {len(place[1])} actions led to something else than before"
            raise EnvFault(f"{self._name} is not deterministic, or is another version: {why}", retryable=False)
        if len(place[1]) > turns:
            self._keep(place, env)
        return env

    def _looks(self, env: E, mark: str) -> bool:
        """Return whether a copy looks as it did before; True where no mark is known."""
        return not mark or self._mark is None or self._mark(env) == mark

    def _advance(self, place: Place, env: E, turns: int) -> E:
        """Play the actions of a place behind the first `turns` of them, and return the environment."""
        for action in place[1][turns:]:
            self._act(env, action)
        return env

    def _nearest(self, place: Place) -> tuple[E | None, int]:
        """Return a copy of the last checkpoint before a place, and its number of actions; (None, 0) without a copy."""
        seed, actions = place
        with self._lock:
            before = [key for key in self._checkpoints if key[0] == seed and actions[: len(key[1])] == key[1]]
            if not before:
                return None, 0
            nearest = max(before, key=lambda key: len(key[1]))
            self._checkpoints.move_to_end(nearest)
            env = self._checkpoints[nearest]
        twin = self._try_copy(env)
        return twin, 0 if twin is None else len(nearest[1])

    def _try_copy(self, env: E) -> E | None:
        """Return a copy; None where it is no other object, or copying fails, which gives up copies for good."""
        if self._copy is None:
            return None
        try:
            twin = self._copy(env)
        except Exception:  # noqa: BLE001 - what cannot be copied says so in any way it likes, and is replayed
            self._copy = None
            return None
        return None if twin is env else twin

    def _stand(self, place: Place, env: E) -> None:
        """Store a live copy at its place as the latest, and every so many actions a checkpoint of it."""
        if place[1] and len(place[1]) % self._every == 0:
            self._keep(place, env)
        self._put(self._live, self._most_live, place, env)

    def _keep(self, place: Place, env: E) -> None:
        """Store a copy at a place as a checkpoint, unless there is one already or it cannot be copied."""
        with self._lock:
            is_checkpoint = place in self._checkpoints
        twin = None if is_checkpoint else self._try_copy(env)
        if twin is not None:
            self._put(self._checkpoints, self._most_checkpoints, place, twin)

    def _put(self, shelf: OrderedDict[Place, E], most: int, place: Place, env: E) -> None:
        """Put a copy on a shelf as the latest; beyond `most` the oldest is dropped."""
        with self._lock:
            shelf[place] = env
            shelf.move_to_end(place)
            if len(shelf) > most:
                shelf.popitem(last=False)

    def _forget(self) -> None:
        """Begin with a new lock and without any copies."""
        self._lock = Lock()
        self._live, self._checkpoints = OrderedDict[Place, E](), OrderedDict[Place, E]()

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the copies: a copy or a pickle of the store begins empty."""
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_live", "_checkpoints")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the settings; the store begins without copies."""
        vars(self).update(state)
        self._forget()
