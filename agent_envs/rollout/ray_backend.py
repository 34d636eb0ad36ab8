"""Actors of Ray hold pools of episodes, and a run's lanes step there in place of here, on one machine or many.

The policy, its replies, the journal and the budget stay in the driver. A lane's environment is the stack as ever, but its steps
are taken by the pool of an actor, which a hash of the episode's key chooses, and the moments that come back are put into it.
Every few turns the episode comes back as bytes, too: where an actor is lost, another one goes on from them and from the
actions since. Answers of outside services are in the run's file, on the driver's machine, before the next call is made.
"""

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym

from agent_envs.base.arguments import whole_number
from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.base.serialization import digest
from agent_envs.core.env import core_of, turn_wrappers
from agent_envs.core.snapshot import Snapshot, register_snapshot, restore
from agent_envs.rollout.episode_pool import EpisodePool, PoolTurn
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

SAVED_TURNS = 5  # after so many an episode comes back as bytes
MOST_LOSSES = 5  # of an actor, without an answer in between


@dataclass
class _Turn:
    """What an actor is to do with an episode: perhaps begin or `put` it, then take actions; None ends a list of none."""

    key: str
    spec: str
    row: Mapping[str, Any] | None
    parts: Sequence[bytes] = ()
    actions: Sequence[tuple[str | int, bool]] = ()  # with whether a limit cut the reply
    saved: int | None = None  # the turns that were saved before, where it is to be saved now


@dataclass
class _Moment:
    """What came of it: the last answer, the moment with that turn alone, and bytes where asked."""

    turn: PoolTurn
    snapshot: Snapshot | None = None
    part: bytes = b""


class PoolHost:
    """The class of an actor: a pool for each environment of the run."""

    def __init__(self, recording: Recording | None, with_state: bool) -> None:
        """Hold no episode yet; `with_state` sends the families' states, too, which policies that read environments need."""
        self._services, self._with_state = Services(recording=recording), with_state
        self._pools: dict[str, EpisodePool] = {}
        self._lock = threading.Lock()

    def play(self, turns: Sequence[_Turn], ended: Sequence[str]) -> list[_Moment]:
        """Drop the episodes that have ended, and return the moment of each turn, in order."""
        for pool in list(self._pools.values()):
            for key in filter(pool.__contains__, ended):  # some were in the actor before this one
                pool.drop(key)
        moments: dict[str, _Moment] = {}
        for spec in dict.fromkeys(turn.spec for turn in turns):
            moments |= self._play_one(self._pool(spec), [turn for turn in turns if turn.spec == spec])
        return [moments[turn.key] for turn in turns]

    def _pool(self, spec: str) -> EpisodePool:
        """Return the pool of a spec; the first call makes it, and with it the indexes that its episodes share."""
        with self._lock:
            if spec not in self._pools:
                self._pools[spec] = EpisodePool(spec, services=self._services)
            return self._pools[spec]

    def _play_one(self, pool: EpisodePool, turns: Sequence[_Turn]) -> dict[str, _Moment]:
        """Play in one pool: begin or put what is not there, then step all that have an action left, until none has."""
        rows = [{**turn.row, "key": turn.key} for turn in turns if turn.row is not None]
        answers = {answer.key: answer for answer in pool.begin_many(rows)}
        for turn in turns:
            if turn.parts:
                pool.put(turn.key, *turn.parts)
        for place in range(max(len(turn.actions) for turn in turns)):
            failed = {key for key, answer in answers.items() if answer.fault}
            due = [turn for turn in turns if len(turn.actions) > place and turn.key not in failed]
            cut = [turn.key for turn in due if turn.actions[place][1]]
            new = pool.act_many([(turn.key, turn.actions[place][0]) for turn in due], cut)
            answers |= {answer.key: answer for answer in new}
        return {turn.key: self._moment(pool, turn, answers[turn.key]) for turn in turns}

    def _moment(self, pool: EpisodePool, turn: _Turn, answer: PoolTurn) -> _Moment:
        """Return an episode's moment as it is sent: of its turns the last alone, and task and prompt at the reset."""
        if answer.fault:
            return _Moment(answer)
        moment = pool.moment(turn.key)
        episode = moment.episode
        assert episode is not None, "it was reset"
        state = episode.state if self._with_state else None
        episode = replace(episode, turns=episode.turns[-1:], state=state)
        if turn.row is None or turn.actions:
            nothing: Any = None  # the driver has both
            episode = replace(episode, task=nothing, prompt=())
        part = pool.take(turn.key, turn.saved) if turn.saved is not None else b""
        return _Moment(answer, replace(moment, episode=episode), part)


class RemoteRecording(Recording):
    """A recording that an actor on the driver's machine keeps, for all others: who keeps an answer waits until it is there."""

    def __init__(self, keeper: Any, path: Path) -> None:
        """Stand for the recording of a keeper."""
        self.path, self.mode, self.answer_keys, self._keeper = path, "record", [], keeper

    def __contains__(self, key: object) -> bool:
        return bool(self._call("__contains__", key))

    def find(self, key: str, request: tuple[str, Any] | None = None) -> Any | None:
        """As `Recording.find`."""
        return self._call("find", key, request)

    def keep(self, key: str, port: str, request: Any, response: Any) -> Any:
        """As `Recording.keep`."""
        return self._call("keep", key, port, request, response)

    def discard(self, key: str, response: Any) -> None:
        """As `Recording.discard`."""
        self._call("discard", key, response)

    def close(self) -> None:
        """As `Recording.close`."""
        self._call("close")

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a method of the recording; its errors are raised here."""
        return _answer(self._keeper.__ray_call__.remote(lambda recording: getattr(recording, name)(*arguments)))


def _answer(reference: Any) -> Any:
    """Wait for a call to an actor; an error of ours that came up there is raised as itself."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, Exception) else error) from error


_Batch = list[tuple["RemoteSteps", Future[_Moment]]]


@dataclass(eq=False)
class _Place:
    """One actor as the driver sees it. Where it is lost, `life` counts on, and another one stands here."""

    handle: Any = None
    life: int = 0
    losses: int = 0
    ended: list[str] = field(default_factory=list)
    queue: _Batch = field(default_factory=list)
    calling: threading.Lock = field(default_factory=threading.Lock)


class Actors(ExitStack):
    """The actors of a run, as `Services.elsewhere` asks for them; a context manager that ends them, and the cluster it began.

    The cluster is that of the variable RAY_ADDRESS, else a local one.
    """

    def __init__(self, actors: int, *, with_state: bool = False, saved_turns: int = SAVED_TURNS) -> None:
        """Set their number.

        Args:
            actors: how many, each with a CPU of the cluster.
            with_state: whether the policy reads environments (`needs_env`).
            saved_turns: how many turns an episode takes before it comes back as bytes.

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
        self._ray, self.has_state, self.saved_turns = ray, with_state, saved_turns
        self._places = [_Place() for _ in range(actors)]
        self._recording: Recording | None = None
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
        for handle in [place.handle for place in self._places if place.handle is not None]:
            self._ray.kill(handle)

    def recording(self, path: Path) -> Recording:
        """Return the recording of a file for the driver and its actors; before the first step alone."""
        strategies, node = self._ray.util.scheduling_strategies, self._ray.get_runtime_context().get_node_id()
        here = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        for pause in (0.5, 1.0, 2.0, 4.0, 8.0):
            with suppress(UsageError):
                Recording(path, "record").close()
                break
            time.sleep(pause)  # the keeper of a killed run lets the file go soon
        Recording(path, "record").close()  # so that what is wrong with it is raised here
        keeper = self._ray.remote(num_cpus=0, scheduling_strategy=here)(Recording)
        self._recording = RemoteRecording(keeper.remote(path.absolute(), "record"), path)
        return self._recording

    def environment(self, env: gym.Env[Any, Any], spec: str) -> "RemoteSteps":
        """Return a stack, made of a spec's JSON, whose resets and steps are taken by the actors."""
        return RemoteSteps(env, spec, self)

    def line(self) -> str:
        """Return a line about actors, open episodes and the turns a second since the first."""
        rate = self._turns / max(time.monotonic() - self._started, 1e-9)
        return f"{len(self._places)} actors, {len(self._keys)} episodes open, {rate:.0f} turns/s"

    def begin(self, episode_key: str) -> tuple["_Place", str]:
        """Return the place and the pool's key of a new episode."""
        with self._lock:
            key = f"{episode_key}#{next(self._numbers)}"
            self._keys.add(key)
        return self._places[int(digest(episode_key)[:8], 16) % len(self._places)], key

    def end(self, place: _Place, key: str) -> None:
        """Have an episode dropped with the next call, as it is over."""
        with self._lock:
            self._keys.discard(key)
            place.ended.append(key)

    def ask(self, place: _Place, env: "RemoteSteps") -> _Moment:
        """Return the moment of a lane's next turn. Lanes that wait for the same actor go in one call, but where steps wait."""
        future: Future[_Moment] = Future()
        if env.waits:
            self._call(place, [(env, future)])
            return future.result()
        with self._lock:
            place.queue.append((env, future))
            is_first = len(place.queue) == 1
        if is_first:  # it calls for all that come until the call before has ended
            with place.calling:
                with self._lock:
                    batch, place.queue = place.queue, []
                self._call(place, batch)
        return future.result()

    def _call(self, place: _Place, batch: _Batch) -> None:
        """Answer a batch, with an error where that cannot be; where the actor is lost, another one goes on."""
        try:
            moments, life = self._moments(place, [env for env, _ in batch])
        except Exception as error:  # noqa: BLE001 - each lane raises it
            for _, future in batch:
                future.set_exception(error)
            return
        with self._lock:
            self._started = self._started if self._turns else time.monotonic()  # before it actors were made
            self._turns += len(batch)
        for (env, future), moment in zip(batch, moments, strict=True):
            env.life = life
            future.set_result(moment)

    def _moments(self, place: _Place, envs: Sequence["RemoteSteps"]) -> tuple[list[_Moment], int]:
        """Return the moments of a batch, and in which life the actor gave them; EnvFault where it is lost again and again."""
        while True:
            with self._lock:
                if place.handle is None:
                    host = self._ray.remote(num_cpus=1, max_concurrency=256, scheduling_strategy="SPREAD")(PoolHost)
                    place.handle = host.remote(self._recording, self.has_state)
                handle, life, (ended, place.ended) = place.handle, place.life, (place.ended, [])
            try:
                moments = _answer(handle.play.remote([env.turn_for(life) for env in envs], ended))
                place.losses = 0
                return moments, life
            except self._ray.exceptions.RayActorError as error:
                with self._lock:
                    if place.life == life:
                        place.handle, place.life, place.losses = None, life + 1, place.losses + 1
                if place.losses >= MOST_LOSSES:
                    why = str(error).splitlines()[0]
                    raise EnvFault(f"an actor was lost {MOST_LOSSES} times: {why}") from error


class RemoteSteps(gym.Wrapper[Any, Any, Any, Any]):
    """A stack that an actor's pool steps; here it stands at the moment that came back. A fork of it steps here."""

    def __init__(self, env: gym.Env[Any, Any], spec: str, actors: Actors) -> None:
        """Hold no episode yet."""
        super().__init__(env)
        self._spec, self._actors, self.is_here = spec, actors, False
        self._place, self.life = _Place(), -1
        self._key, self._row = "", dict[str, Any]()
        self._parts: list[bytes] = []
        self._since: list[tuple[str | int, bool]] = []  # actions that no part has
        self._saved = 0
        self.waits = core_of(env).waits or any(wrapper.waits for wrapper in turn_wrappers(env))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in the actor of its key."""
        if self.is_here:
            return self.env.reset(seed=seed, options=options)
        self._row = {"seed": seed, **(options or {})}
        if self._key:
            self._actors.end(self._place, self._key)
        self._place, self._key = self._actors.begin(str(self._row.get("episode_key")))
        self._parts, self._since, self._saved, self.life = [], [], 0, -1
        turn = self._ask()
        return turn.text, dict(turn.info or {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a turn where the episode is."""
        if self.is_here:
            return self.env.step(action)  # type: ignore[return-value]
        self._since.append((action, core_of(self.env).reply_cut))
        turn = self._ask()
        if turn.terminated or turn.truncated:
            self._actors.end(self._place, self._key)
        return turn.text, turn.reward, turn.terminated, turn.truncated, dict(turn.info or {})

    def turn_for(self, life: int) -> _Turn:
        """Return the next turn as an actor in its n-th life needs it: with what brings the episode there, if it lacks it."""
        saved = self._saved if len(self._since) >= self._actors.saved_turns else None
        if life == self.life:
            return _Turn(self._key, self._spec, None, (), self._since[-1:], saved)
        return _Turn(self._key, self._spec, None if self._parts else self._row, self._parts, self._since, saved)

    def _ask(self) -> PoolTurn:
        """Have the newest turn taken, put the moment into the stack here and return the answer; EnvFault for a fault."""
        came = self._actors.ask(self._place, self)
        if came.turn.fault:
            raise EnvFault(came.turn.fault, came.turn.retryable)
        assert came.snapshot is not None and came.snapshot.episode is not None, "no fault"
        episode = came.snapshot.episode
        if episode.turns:
            before = core_of(self.env).episode
            episode = replace(episode, task=before.task, prompt=before.prompt, turns=before.turns + episode.turns)
        restore(self.env, replace(came.snapshot, episode=episode))
        if came.part:
            self._parts.append(came.part)
            self._saved, self._since = len(episode.turns), []
        return came.turn

    def step_here(self) -> None:
        """Step here from now on; UsageError where the states stayed in the actors."""
        if not self._actors.has_state:
            raise UsageError("an episode in an actor of Ray cannot be forked: play without that backend")
        self.is_here = True


register_snapshot(RemoteSteps, lambda env: None, lambda env, state: env.step_here())
