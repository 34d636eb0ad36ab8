"""Actors of Ray play a run's episodes, or step the environments of a policy that stays here, on one machine or many.

A hash of the episode's key chooses the actor. An agent that can be made anywhere is made in each actor, which plays whole
episodes: its environments, its requests and what it is answered are there, and the result comes back. Replies that are paid
for, and answers of outside services, are in the run's files, on the driver's machine, before the next step or call: where an
actor is lost, another one plays the episode again with them.

A policy that stays in the driver (an engine, or one under a budget) has environments whose steps alone are taken by the pool of
an actor, and the moments that come back are put into the stack here. Every few turns the episode comes back as bytes, too:
where an actor is lost, another one goes on from them and from the actions since.
"""

import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.base.arguments import whole_number
from agent_envs.base.errors import BudgetSpent, EnvFault, MissingExtra, UsageError
from agent_envs.base.jsonl_log import FileInUse
from agent_envs.base.serialization import digest
from agent_envs.core.authors_code import authors_errors
from agent_envs.core.env import Episode, core_of, turn_wrappers
from agent_envs.core.snapshot import Snapshot, register_snapshot, restore
from agent_envs.rollout.episode_pool import EpisodePool, PoolTurn
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.policy import Policy, origin_of
from agent_envs.rollout.ray_episodes import EpisodeHost, Keeper, RemoteFile, RemoteLockstep, answer_of
from agent_envs.rollout.reply_log import ReplyLog
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

SAVED_TURNS = 5  # after so many an episode comes back as bytes
MOST_LOSSES = 5  # of the actors that a call is made to
PATIENCE = 5.0  # seconds without an answer, after which an actor is looked at
# Of actors: so many episodes wait in one for replies at a time; where one is lost, Ray begins it and its calls again.
HOST = {"num_cpus": 1, "max_concurrency": 256, "max_restarts": -1, "max_task_retries": MOST_LOSSES - 1,
        "scheduling_strategy": "SPREAD"}  # fmt: skip


@dataclass
class _Turn:
    """What an actor is to do with an episode that has had `place` turns: perhaps begin or put it, then take actions."""

    key: str
    spec: str
    place: int = 0
    row: Mapping[str, Any] | None = None
    header: Any = None  # of an episode that is put: a fork has its trunk's bytes and a branch of its own
    parts: Sequence[bytes] = ()
    actions: Sequence[tuple[str | int, bool]] = ()  # with whether a limit cut the reply
    saved: int | None = None  # the turns that were saved before, where it is to be saved now


@dataclass
class _Moment:
    """What came of it: the last answer, the moment with that turn alone, and bytes where asked; nothing of a lost episode."""

    turn: PoolTurn | None = None
    snapshot: Snapshot | None = None
    part: bytes = b""


class PoolHost:
    """The class of an actor: a pool for each environment of the run."""

    def __init__(self) -> None:
        """Hold no episode yet. What refers to another actor comes with calls: Ray warns of it where an actor begins."""
        self._pools: dict[str, EpisodePool] = {}
        self._lock = threading.Lock()

    def play(
        self, turns: Sequence[_Turn], ended: Sequence[str] = (), recording: Recording | None = None
    ) -> list[_Moment]:  # fmt: skip
        """Drop the episodes that have ended, and return the moment of each turn, in order; the recording is the run's."""
        for pool in list(self._pools.values()):
            for key in filter(pool.__contains__, ended):  # some were in the actor before this one
                pool.drop(key)
        with authors_errors():  # whose traceback stays in this process
            return [self._play(self._pool(turn.spec, recording), turn) for turn in turns]

    def _pool(self, spec: str, recording: Recording | None) -> EpisodePool:
        """Return the pool of a spec; the first call makes it, and with it the indexes that its episodes share."""
        with self._lock:
            if spec not in self._pools:
                self._pools[spec] = EpisodePool(spec, services=Services(recording=recording))
            return self._pools[spec]

    def _play(self, pool: EpisodePool, turn: _Turn) -> _Moment:
        """Begin or put an episode that is new, and take its actions; a turn after another one than it says is not taken."""
        key, answer = turn.key, PoolTurn(turn.key)
        if (turn.row or turn.parts) and key in pool:
            pool.drop(key)
        if turn.parts:
            moment = Snapshot.from_bytes(*turn.parts)
            pool.resume(key, replace(moment, episode=replace(_episode_of(moment), header=turn.header)))
        elif turn.row:
            (answer,) = pool.begin_many([{**turn.row, "key": key}])
        if not answer.fault and (key not in pool or turn.place != len(_episode_of(pool.moment(key)).turns)):
            return _Moment()
        for action, is_cut in turn.actions:
            if not answer.fault:
                (answer,) = pool.act_many([(key, action)], [key] * is_cut)
        return _Moment(answer) if answer.fault else self._moment(pool, turn, answer)

    def _moment(self, pool: EpisodePool, turn: _Turn, answer: PoolTurn) -> _Moment:
        """Return an episode's moment as it is sent: of its turns the last alone, and task and prompt at the reset."""
        moment = pool.moment(turn.key)
        episode = _episode_of(moment)
        episode = replace(episode, turns=episode.turns[-1:], state=None)
        if turn.row is None or turn.actions:
            nothing: Any = None  # the driver has both
            episode = replace(episode, task=nothing, prompt=())
        part = pool.take(turn.key, turn.saved) if turn.saved is not None else b""
        return _Moment(answer, replace(moment, episode=episode), part)


def _episode_of(moment: Snapshot) -> Episode:
    """Return the episode of a moment after a reset."""
    assert moment.episode is not None, "it was reset"
    return moment.episode


@dataclass(eq=False)
class _Place:
    """One actor as the driver sees it; Ray begins another one where it is lost."""

    handle: Any = None
    ended: deque[str] = field(default_factory=deque)
    queue: deque[tuple["RemoteSteps", Future[_Moment]]] = field(default_factory=deque)
    calling: threading.Lock = field(default_factory=threading.Lock)


class Actors(ExitStack):
    """The actors of a run, as `Services.elsewhere` asks for them; a context manager that ends them, and the cluster it began.

    The cluster is that of the variable RAY_ADDRESS, else a local one.
    """

    def __init__(
        self, actors: int, *, agent: Callable[[], Policy] | None = None, saved_turns: int = SAVED_TURNS
    ) -> None:  # fmt: skip
        """Set their number.

        Args:
            actors: how many, each with a CPU of the cluster.
            agent: makes the policy of batch 1 that plays in the actors; None for one that stays here.
            saved_turns: how many turns an episode takes before it comes back as bytes, where the policy stays here.

        Raises:
            MissingExtra: Ray is not installed.
        """
        super().__init__()
        whole_number("Actors", "actors", actors)
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        try:
            import ray
        except ImportError as error:
            raise MissingExtra("ray", "ray", "--backend ray") from error
        self._ray, self._agent, self.saved_turns = ray, agent, saved_turns
        self._places = [_Place() for _ in range(actors)]
        self._recording: Any = None
        self._replies: RemoteFile | None = None
        self._limits: tuple[Mapping[str, Any], str] = ({}, "")  # of a host of whole episodes, and the agent's name
        self._numbers, self._lock = count(1), threading.Lock()
        self._keys, self._turns, self._started = set[str](), 0, 0.0
        self.enter_context(
            redirect_stdout(sys.stderr)
        )  # Ray tells of lost workers there, and not among a command's JSON
        if not ray.is_initialized():
            local = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": actors, "include_dashboard": False}
            ray.init(log_to_driver=False, logging_level="ERROR", **local)
            self.callback(ray.shutdown)
        self.callback(self._end)

    def _end(self) -> None:
        """End the actors."""
        for place in self._places:
            if place.handle is not None:
                self._ray.kill(place.handle)
                place.handle = None

    def recording(self, path: Path) -> Recording:
        """Return the recording of a file for the driver and its actors; before the first step alone."""
        make = partial(Recording, path.absolute(), "record")
        self._recording = self._on_this_machine(make, path=path, mode="record", answer_keys=[])
        return self._recording  # type: ignore[no-any-return]

    def _on_this_machine(self, make: Callable[[], Any], **attributes: Any) -> RemoteFile:
        """Return a stand-in for a file that a keeper on this machine opens."""
        strategies, node = self._ray.util.scheduling_strategies, self._ray.get_runtime_context().get_node_id()
        for pause in (0.5, 1.0, 2.0, 4.0, 8.0):
            with suppress(FileInUse):
                make().close()  # so that what is wrong with it is raised here
                break
            time.sleep(pause)  # the keeper of a killed run lets the file go soon
        else:
            make().close()
        here = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        return RemoteFile(self._ray.remote(num_cpus=0, scheduling_strategy=here)(Keeper).remote(make), **attributes)

    def players(
        self, path: Path | None, ended: Collection[str], limits: Mapping[str, Any], name: str, services: Services
    ) -> tuple[RemoteFile, RemoteLockstep]:
        """Return a log of replies, and who plays with it, as `Services.players` asks for them; UsageError as `environment`."""
        self._check_recording(services)
        self._end()  # an earlier part of the run had another log
        self._replies = self._on_this_machine(partial(ReplyLog, path and path.absolute(), ended))
        self._limits = (limits, name)
        return self._replies, RemoteLockstep(self.play)

    def play(self, item: Planned) -> tuple[EpisodeResult, BudgetSpent | None]:
        """Return an episode's result, and what ended it, from the actor of its key; EnvFault where it is lost too often."""
        place, key = self.begin(item.key)
        try:
            files = (self._replies, self._recording)
            outcome = self._answer(place.handle.play.remote(item, self._agent, files), place)
        except EnvFault as fault:
            assert self._replies is not None, "`players` was called"
            fault.usage = sum((Counter(reply.usage) for reply in self._replies.rows(item.key).values()), Counter())
            raise
        finally:
            self._keys.discard(key)
        self._count(len(outcome[0].trajectory.turns))
        return outcome  # type: ignore[no-any-return]

    def services(self, services: Services) -> Services:
        """Return the services of a run that the actors play, or whose environments they step; UsageError for a budget's."""
        if getattr(services.charged, "totals", True):
            raise UsageError("actors of Ray count in no budget of this process: leave out Services(charged=...)")
        if self._agent is None:
            return replace(services, elsewhere=self.environment)
        return replace(services, players=self.players)

    def environment(self, env: gym.Env[Any, Any], spec: str) -> "RemoteSteps":
        """Return a stack, made of a spec's JSON, whose resets and steps the actors take; UsageError for a strange recording."""
        self._check_recording(core_of(env).services)
        return RemoteSteps(env, spec, self)

    def _check_recording(self, services: Services) -> None:
        """Raise UsageError for a recording that no actor would write."""
        if services.recording not in (None, self._recording):
            raise UsageError(
                "actors of Ray record into one file of theirs: make the recording by Actors.recording(path)"
            )

    def line(self) -> str:
        """Return a line about actors, open episodes and the turns a second since the first episode began."""
        rate = self._turns / max(time.monotonic() - self._started, 1e-9)
        return f"{len(self._places)} actors, {len(self._keys)} episodes open, {rate:.0f} turns/s"

    def _count(self, turns: int) -> None:
        """Count turns."""
        with self._lock:
            self._turns += turns

    def begin(self, episode_key: str) -> tuple["_Place", str]:
        """Return the place and the pool's key of a new episode."""
        place = self._places[int(digest(episode_key)[:8], 16) % len(self._places)]
        with self._lock:
            self._started = self._started or time.monotonic()
            key = f"{episode_key}#{next(self._numbers)}"
            self._keys.add(key)
            if place.handle is None:
                kind: type = PoolHost if self._agent is None else EpisodeHost
                place.handle = self._ray.remote(**HOST)(kind).remote(*(self._limits if self._agent else ()))
        return place, key

    def end(self, place: _Place, key: str) -> None:
        """Have an episode dropped with the next call, as it is over; without a lock, since garbage collection may call it."""
        self._keys.discard(key)
        place.ended.append(key)

    def ask(self, place: _Place, env: "RemoteSteps") -> _Moment:
        """Return the moment of a lane's next turn. Lanes that wait for the same actor go in one call, but where steps wait."""
        future: Future[_Moment] = Future()
        if env.waits:
            self._call(place, [(env, future)])
            return future.result()
        place.queue.append((env, future))
        with place.calling:  # the first one calls for all that came until the call before had ended
            if batch := [place.queue.popleft() for _ in range(len(place.queue))]:
                self._call(place, batch)
        return future.result()

    def _call(self, place: _Place, batch: Sequence[tuple["RemoteSteps", Future[_Moment]]]) -> None:
        """Answer a batch, with an error where that cannot be; what another actor was lost with is sent again as a whole."""
        ended = [place.ended.popleft() for _ in range(len(place.ended))]
        try:
            play, recording = place.handle.play.remote, self._recording
            moments = self._answer(play([env.turn() for env, _ in batch], ended, recording), place)
            resends = [env.turn(True) for (env, _), moment in zip(batch, moments, strict=True) if moment.turn is None]
            again = iter(self._answer(play(resends, [], recording), place) if resends else [])
        except Exception as error:  # noqa: BLE001 - each lane raises it
            for _, future in batch:
                future.set_exception(error)
            return
        self._count(len(batch))
        for (_, future), moment in zip(batch, moments, strict=True):
            future.set_result(next(again) if moment.turn is None else moment)

    def _answer(self, reference: Any, place: _Place) -> Any:
        """Return the answer to a call of an actor; EnvFault where Ray has begun it again and again, which may never start."""
        before, errors = None, self._ray.exceptions
        while True:
            try:
                return answer_of(reference, PATIENCE)
            except errors.GetTimeoutError:
                now = int((self._ray._private.state.actors(place.handle._actor_id.hex()) or {}).get("NumRestarts", 0))
                before = now if before is None else before
                if now - before > 2 * MOST_LOSSES:  # Ray itself counts those alone that a call reached
                    raise EnvFault("an actor was lost again and again: its process does not start") from None
            except (errors.RayActorError, errors.OutOfMemoryError) as error:
                raise EnvFault(f"an actor was lost again and again: {str(error).splitlines()[0]}") from error


@dataclass(eq=False)
class _Open:
    """An episode that is open in an actor, until no stack holds this."""

    actors: Actors
    place: _Place
    key: str

    def __del__(self) -> None:
        self.actors.end(self.place, self.key)


class RemoteSteps(gym.Wrapper[Any, Any, Any, Any]):
    """A stack that an actor's pool steps; here it stands at the moment that came back, without the family's state.

    A snapshot has the episode's bytes beside that moment. The actor of a stack that was restored or forked gets them with its
    next turn.
    """

    def __init__(self, env: gym.Env[Any, Any], spec: str, actors: Actors) -> None:
        """Hold no episode yet."""
        super().__init__(env)
        self._spec, self._actors = spec, actors
        self._open: _Open | None = None
        self._row, self._is_there = dict[str, Any](), False
        self._parts, self._saved = tuple[bytes, ...](), 0  # and the turns that they have
        self._since: list[tuple[str | int, bool]] = []  # actions that no part has
        self._next: tuple[list[tuple[str | int, bool]], int | None] = ([], None)  # actions to take; as `_Turn.saved`
        self.waits = core_of(env).waits or any(wrapper.waits for wrapper in turn_wrappers(env))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in the actor of its key."""
        self.state = (0, ())
        self._row = {"seed": seed, **(options or {})}
        self._begin(str(self._row.get("episode_key")))
        turn, moment = self._ask([])
        restore(self.env, moment)
        return turn.text, dict(turn.info or {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a turn where the episode is; UsageError where there is none that goes on."""
        before = core_of(self.env).episode
        if self._open is None:
            if not self._parts:
                raise UsageError(
                    f"{core_of(self.env).env_id}: step() after the end of the episode; reset() begins another"
                )
            self._begin(origin_of(before.header.episode_key, before.header.branch))
        save = len(self._since) + 1 >= self._actors.saved_turns
        turn, moment = self._ask([(action, core_of(self.env).reply_cut)], save)
        episode = _episode_of(moment)
        turns = before.turns + episode.turns
        restore(
            self.env, replace(moment, episode=replace(episode, task=before.task, prompt=before.prompt, turns=turns))
        )
        if turn.terminated or turn.truncated:
            self.state = (0, ())
        return turn.text, turn.reward, turn.terminated, turn.truncated, dict(turn.info or {})

    def turn(self, whole: bool = False) -> _Turn:
        """Return the next turn as the actor needs it, also with what brings the episode there, if it lacks it."""
        assert self._open is not None, "it was begun"
        key, (actions, saved) = self._open.key, self._next
        if self._is_there and not whole:
            return _Turn(key, self._spec, self._saved + len(self._since), actions=actions, saved=saved)
        actions = [*self._since, *actions]
        if not self._parts:
            return _Turn(key, self._spec, 0, self._row, actions=actions, saved=saved)
        header = core_of(self.env).episode.header
        return _Turn(key, self._spec, self._saved, None, header, self._parts, actions, saved)

    @property
    def state(self) -> tuple[int, tuple[str, ...]]:
        """The episode's bytes as texts, and the turns that they have; no bytes where it is over, or was never begun."""
        if self._open is not None and (self._since or not self._parts):
            self._ask([], save=True)
        return self._saved, tuple(part.decode("utf-8", "surrogatepass") for part in self._parts)

    @state.setter
    def state(self, state: tuple[int, tuple[str, ...]]) -> None:
        self._open, self._is_there, self._since = None, False, []
        self._saved, self._parts = state[0], tuple(part.encode("utf-8", "surrogatepass") for part in state[1])

    def _begin(self, episode_key: str) -> None:
        """Choose the actor of the episode."""
        self._open = _Open(self._actors, *self._actors.begin(episode_key))

    def _ask(self, actions: list[tuple[str | int, bool]], save: bool = False) -> tuple[PoolTurn, Snapshot]:
        """Have actions taken, and the episode brought here as bytes where it is to be saved; EnvFault for a fault."""
        self._next = actions, self._saved if save else None
        assert self._open is not None, "it was begun"
        came = self._actors.ask(self._open.place, self)
        assert came.turn is not None, "a whole episode was sent"
        self._is_there = True
        if came.turn.fault:
            raise EnvFault(came.turn.fault, came.turn.retryable)
        assert came.snapshot is not None, "no fault"
        self._since += actions
        if came.part:
            self._parts, self._saved, self._since = (*self._parts, came.part), self._saved + len(self._since), []
        return came.turn, came.snapshot


register_snapshot(RemoteSteps, lambda env: env.state, lambda env, state: setattr(env, "state", state))
