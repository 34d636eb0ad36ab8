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
from collections import Counter
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
from agent_envs.core.env import core_of, turn_wrappers
from agent_envs.core.snapshot import Snapshot, register_snapshot, restore
from agent_envs.rollout.episode_pool import EpisodePool, PoolTurn
from agent_envs.rollout.episode_runner import EpisodeResult, Planned
from agent_envs.rollout.policy import Policy
from agent_envs.rollout.ray_episodes import EpisodeHost, Keeper, RemoteFile, RemoteLockstep, answer_of
from agent_envs.rollout.reply_log import ReplyLog
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

SAVED_TURNS = 5  # after so many an episode comes back as bytes
MOST_LOSSES = 5  # of the actors that a call is made to
THREADS = 256  # of an actor: so many episodes wait there for replies at a time


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

    def __init__(self, recording: Recording | None) -> None:
        """Hold no episode yet."""
        self._services = Services(recording=recording)
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
        episode = replace(episode, turns=episode.turns[-1:], state=None)
        if turn.row is None or turn.actions:
            nothing: Any = None  # the driver has both
            episode = replace(episode, task=nothing, prompt=())
        part = pool.take(turn.key, turn.saved) if turn.saved is not None else b""
        return _Moment(answer, replace(moment, episode=episode), part)


_Batch = list[tuple["RemoteSteps", Future[_Moment]]]


@dataclass(eq=False)
class _Place:
    """One actor as the driver sees it. Where it is lost, `life` counts on, and another one stands here."""

    handle: Any = None
    life: int = 0
    ended: list[str] = field(default_factory=list)
    queue: _Batch = field(default_factory=list)
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
        self._host: tuple[Any, ...] = ()  # what a host of whole episodes is made with, beside the recording
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
        self._host = (self._replies, limits, name)
        return self._replies, RemoteLockstep(self.play)

    def play(self, item: Planned) -> tuple[EpisodeResult, BudgetSpent | None]:
        """Return an episode's result, and what ended it, from the actor of its key; EnvFault where it is lost too often."""
        place, key = self.begin(item.key)
        try:
            outcome, _ = self._ask_actor(place, lambda handle, life: handle.play.remote(item, self._agent))
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
        with self._lock:
            self._started = self._started or time.monotonic()
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
        self._count(len(batch))
        for (env, future), moment in zip(batch, moments, strict=True):
            env.life = life
            future.set_result(moment)

    def _moments(self, place: _Place, envs: Sequence["RemoteSteps"]) -> tuple[list[_Moment], int]:
        """Return the moments of a batch, and in which life the actor gave them; EnvFault where it is lost again and again."""

        def call(handle: Any, life: int) -> Any:
            """Begin the call that plays the batch, and has the place's ended episodes dropped."""
            with self._lock:
                ended, place.ended = place.ended, []
            return handle.play.remote([env.turn_for(life) for env in envs], ended)

        return self._ask_actor(place, call)

    def _ask_actor(self, place: _Place, call: Callable[[Any, int], Any]) -> tuple[Any, int]:
        """Return the answer to a call of a place's actor and its life; EnvFault where it is lost again and again."""
        errors, losses = self._ray.exceptions, 0
        while True:
            with self._lock:
                if place.handle is None:
                    kind: type = PoolHost if self._agent is None else EpisodeHost
                    actor = self._ray.remote(num_cpus=1, max_concurrency=THREADS, scheduling_strategy="SPREAD")(kind)
                    place.handle = actor.remote(self._recording, *self._host)
                handle, life = place.handle, place.life
            try:
                return answer_of(call(handle, life)), life
            except (errors.RayActorError, errors.OutOfMemoryError) as error:
                with self._lock:
                    if place.life == life:
                        place.handle, place.life = None, life + 1
                losses += 1
                if losses >= MOST_LOSSES:
                    why = str(error).splitlines()[0]
                    raise EnvFault(f"an actor was lost {MOST_LOSSES} times: {why}") from error


class RemoteSteps(gym.Wrapper[Any, Any, Any, Any]):
    """A stack that an actor's pool steps; here it stands at the moment that came back, without the family's state."""

    def __init__(self, env: gym.Env[Any, Any], spec: str, actors: Actors) -> None:
        """Hold no episode yet."""
        super().__init__(env)
        self._spec, self._actors = spec, actors
        self._place, self.life = _Place(), -1
        self._key, self._row = "", dict[str, Any]()
        self._parts: list[bytes] = []
        self._since: list[tuple[str | int, bool]] = []  # actions that no part has
        self._saved = 0
        self.waits = core_of(env).waits or any(wrapper.waits for wrapper in turn_wrappers(env))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in the actor of its key."""
        self._row = {"seed": seed, **(options or {})}
        if self._key:
            self._actors.end(self._place, self._key)
        self._place, self._key = self._actors.begin(str(self._row.get("episode_key")))
        self._parts, self._since, self._saved, self.life = [], [], 0, -1
        turn = self._ask()
        return turn.text, dict(turn.info or {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a turn where the episode is."""
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


def _refuse_fork(env: Any, state: Any) -> None:
    """Raise UsageError: the states stayed in the actors."""
    raise UsageError("an episode in an actor of Ray cannot be forked: play without that backend")


register_snapshot(RemoteSteps, lambda env: None, _refuse_fork)
