"""Actors of Ray play a run's episodes, or step the environments of a policy that stays here, on one machine or many.

A hash of the episode's key chooses the actor. An agent that can be made anywhere is made in each actor, which plays whole
episodes: its environments, its requests and what it is answered are there, and the result comes back. Replies that are paid
for, and answers of outside services, are in the run's files, on the driver's machine, before the next step or call: where an
actor is lost, another one plays the episode again with them.

A policy that stays in the driver (an engine, or one under a budget) has environments whose steps alone are taken by the pool of
an actor, and the moments that come back are put into the stack here. Every few turns the episode comes back as bytes, too:
where an actor is lost, another one goes on from them and from the actions since. So does a fork.

What an actor is lost with again and again is tried once more alone, in an actor that plays nothing else: an episode that ends
its process is a fault, and takes no other one with it. Whole episodes that wait meanwhile go back to their own actor once.
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
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from agent_envs.base.arguments import whole_number
from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.base.jsonl_log import FileInUse
from agent_envs.base.serialization import digest
from agent_envs.core.env import core_of, turn_wrappers
from agent_envs.core.snapshot import register_snapshot, restore
from agent_envs.rollout import ray_hosts
from agent_envs.rollout.episode_pool import PoolTurn
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.lockstep import Lane
from agent_envs.rollout.policy import Policy, origin_of
from agent_envs.rollout.reply_log import ReplyLog
from agent_envs.services.recording import Recording
from agent_envs.services.run_services import Services

# Of actors: so many episodes wait in one for replies at a time; where one is lost, Ray begins it and its calls again.
HOST = {"num_cpus": 1, "max_concurrency": 256, "max_restarts": 12, "max_task_retries": 4,
        "scheduling_strategy": "SPREAD"}  # fmt: skip
ALONE = {"num_cpus": 0, "max_task_retries": 1}  # what differs in an actor for one episode at a time


class _Lost(EnvFault):
    """An actor was lost with a call as often as it may be."""


@dataclass(eq=False)
class _Place:
    """One actor as the driver sees it, with a place for what is tried alone; Ray begins a lost one again, so many times."""

    alone: "_Place | None" = None
    handle: Any = None
    started: Any = None  # the handle whose process has answered
    losses: int = 0  # that ended calls, however many calls one of them ended
    ended: deque[str] = field(default_factory=deque)
    queue: deque[tuple[tuple[ray_hosts.StepTurn, bool], Future[Any]]] = field(default_factory=deque)
    calling: threading.Lock = field(default_factory=threading.Lock)


class Actors(ExitStack):
    """The actors of a run, as `Services.elsewhere` asks for them; a context manager that ends them, and the cluster it began.

    The cluster is that of the variable RAY_ADDRESS, else a local one.
    """

    def __init__(self, actors: int, *, agent: Callable[[], Policy] | None = None, saved_turns: int = 5) -> None:
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
        self._losses = (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError)
        self._places = [_Place(_Place()) for _ in range(actors)]
        self._recording: Any = None
        self._replies: ray_hosts.RemoteFile | None = None
        self._limits: tuple[Any, ...] = ()  # of a host of whole episodes, and the agent's name
        self._numbers, self._lock = count(1), threading.Lock()
        self._keys, self._turns, self._started = set[str](), 0, 0.0
        # Ray tells of lost workers there, and not among a command's JSON.
        self.enter_context(redirect_stdout(sys.stderr))
        if not ray.is_initialized():
            local = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": actors, "include_dashboard": False}
            ray.init(log_to_driver=False, logging_level="ERROR", **local)
            self.callback(ray.shutdown)
        self.callback(self._end)

    def _end(self) -> None:
        """End the actors."""
        for place in self._places:
            for one in filter(None, (place, place.alone)):
                if one.handle is not None:
                    self._ray.kill(one.handle)
                    one.handle = None

    def recording(self, path: Path) -> Recording:
        """Return the recording of a file for the driver and its actors; before the first step alone."""
        place = (path.absolute(), "record")
        self._recording = self._on_this_machine(Recording, *place, path=path, mode="record", answer_keys=[])
        return self._recording  # type: ignore[no-any-return]

    def _on_this_machine(self, kind: type, *arguments: Any, **attributes: Any) -> ray_hosts.RemoteFile:
        """Return a stand-in for a file that an actor on this machine, the keeper, opens by calling a class."""
        strategies, node = self._ray.util.scheduling_strategies, self._ray.get_runtime_context().get_node_id()
        for pause in (0.5, 1.0, 2.0, 4.0, 8.0):
            with suppress(FileInUse):
                kind(*arguments).close()  # so that what is wrong with it is raised here
                break
            time.sleep(pause)  # the keeper of a killed run lets the file go soon
        else:
            kind(*arguments).close()
        here = strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        keeper = self._ray.remote(num_cpus=0, scheduling_strategy=here)(kind).remote(*arguments)
        return ray_hosts.RemoteFile(keeper, **attributes)

    def players(
        self, path: Path | None, ended: Collection[str], limits: Mapping[str, Any], name: str, services: Services
    ) -> tuple[ray_hosts.RemoteFile, ray_hosts.RemoteLockstep]:
        """Return a log of replies, and who plays with it, as `Services.players` asks for them; UsageError as `environment`."""
        self._check_recording(services)
        self._end()  # an earlier part of the run had another log
        self._replies = self._on_this_machine(ReplyLog, path and path.absolute(), ended)
        self._limits = (limits, name)
        return self._replies, ray_hosts.RemoteLockstep(self.play)

    def play(self, item: Planned) -> ray_hosts.PlayedLane | Lane:
        """Return the lane of an episode that the actor of its key has played; one with a fault where that is lost too often."""
        place, key = self.begin(item.key)
        try:
            return self._play(place, item)
        except Exception as error:  # noqa: BLE001 - its lane keeps it, and who plays the plan raises it
            return ray_hosts.PlayedLane(item, None, error)
        finally:
            self._keys.discard(key)

    def _play(self, place: _Place, item: Planned, is_back: bool = False) -> ray_hosts.PlayedLane | Lane:
        """Have the actor of a place play an episode, perhaps one that has waited to be alone."""
        files = (self._replies, self._recording)
        try:
            result, error = self._answer(place, item.key, lambda host: host.play.remote(item, self._agent, files))
        except EnvFault as fault:
            if isinstance(fault, _Lost) and place.alone is not None:
                losses = place.alone.losses
                with place.alone.calling:
                    if is_back or place.alone.losses == losses:
                        return self._play(place.alone, item)
                return self._play(place, item, is_back=True)  # what it was lost with has perhaps become a fault
            assert self._replies is not None, "`players` was called"
            usage = sum((Counter(reply.usage) for reply in self._replies.rows(item.key).values()), Counter[str]())
            return Lane(item, gym.make(EnvSpec.from_json(item.spec)), fault=fault.cause, usage=usage)
        self._count(len(result.trajectory.turns))
        return ray_hosts.PlayedLane(item, result, error)

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
            raise UsageError("actors of Ray record into one file: make the recording by Actors.recording(path)")

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

    def ask(self, place: _Place, turn: ray_hosts.StepTurn, is_there: bool, waits: bool) -> ray_hosts.Moment:
        """Return the moment of a turn, whose episode the actor perhaps has; turns of steps that do not wait go in one call."""
        future: Future[ray_hosts.Moment | Exception] = Future()
        if waits:
            future.set_result(self._moments(place, [(turn, is_there)])[0])
        else:
            place.queue.append(((turn, is_there), future))
            with place.calling:  # the first one calls for all that came until the call before had ended
                if batch := [place.queue.popleft() for _ in range(len(place.queue))]:
                    for (_, one), moment in zip(batch, self._moments(place, [ask for ask, _ in batch]), strict=True):
                        one.set_result(moment)
        if isinstance(answer := future.result(), Exception):
            raise answer
        return answer

    def _moments(
        self, place: _Place, pairs: Sequence[tuple[ray_hosts.StepTurn, bool]]
    ) -> list[ray_hosts.Moment | Exception]:
        """Return turns' moments, or what is to be raised; what another actor was lost with is sent again as a whole."""
        with self._lock:
            ended = [place.ended.popleft() for _ in range(len(place.ended))]
        turns = [replace(turn, header=None, parts=(), since=()) if is_there else turn for turn, is_there in pairs]
        name, recording = turns[0].key.rpartition("#")[0], self._recording
        try:
            moments = self._answer(place, name, lambda host: host.play.remote(turns, ended, recording))
            wholes = [turn for (turn, _), moment in zip(pairs, moments, strict=True) if moment is None]
            if wholes:
                again = iter(self._answer(place, name, lambda host: host.play.remote(wholes, [], recording)))
                moments = [moment or next(again) for moment in moments]
        except Exception as error:  # noqa: BLE001 - each of them raises it
            if not isinstance(error, _Lost) or place.alone is None:
                return [error] * len(pairs)
            with place.alone.calling:
                moments = [self._moments(place.alone, [one])[0] for one in pairs]
            place.alone.ended.extend(turn.key for turn in turns)
            return moments
        self._count(len(pairs))
        return moments  # type: ignore[no-any-return]

    def _answer(self, place: _Place, name: str, call: Callable[[Any], Any]) -> Any:
        """Return the answer to a call of a place's actor, which is begun anew where it is lost too often.

        Raises:
            EnvFault: its process does not start; `_Lost` where it was lost with the call, and the episode of this name first.
        """
        with self._lock:
            if place.handle is None:
                kind: type = ray_hosts.PoolHost if self._agent is None else ray_hosts.EpisodeHost
                options = HOST if place.alone else HOST | ALONE
                place.handle = self._ray.remote(**options)(kind).remote(*self._limits)
            host, losses = place.handle, place.losses
            is_ready = place.started is host
        try:
            if not is_ready:
                self._ray.get(host.__ray_ready__.remote())
                place.started, is_ready = host, True
            return ray_hosts.answer_of(call(host))
        except self._losses as error:
            over = place.alone is None or isinstance(error, self._ray.exceptions.ActorDiedError)
            with self._lock:
                if place.losses == losses:  # else it was killed since this call began
                    self._ray.kill(host, no_restart=over)  # it may be one that does not answer
                    place.losses += 1
                if over and place.handle is host:
                    place.handle = None
            line = str(error).splitlines()[0]
            if not is_ready:
                raise EnvFault(f"an actor was lost again and again: its process does not start: {line}") from error
            raise _Lost(f"an actor was lost again and again with episode {name}: {line}", retryable=False) from error


@dataclass(eq=False)
class _Open:
    """An episode that is open in an actor, until no stack holds this."""

    actors: Actors
    place: _Place
    key: str

    def __del__(self) -> None:
        """Have it dropped with the next call; without a lock, since garbage collection may call this."""
        self.actors._keys.discard(self.key)
        self.place.ended.append(self.key)


class RemoteSteps(gym.Wrapper[Any, Any, Any, Any]):
    """A stack that an actor's pool steps; here it stands at the moment that came back, without the family's state.

    A snapshot has beside that moment the episode's bytes, and the actions that came after them. The actor of a stack that was
    restored or forked gets them with its next turn. Where steps wait on a service, bytes come with every turn, so that
    nobody asks it twice.
    """

    def __init__(self, env: gym.Env[Any, Any], spec: str, actors: Actors) -> None:
        """Hold no episode yet."""
        super().__init__(env)
        self._spec, self._actors = spec, actors
        self.state = (0, (), ())
        self.waits = core_of(env).waits or any(wrapper.waits for wrapper in turn_wrappers(env))

    @property
    def state(self) -> tuple[int, tuple[str, ...], tuple[ray_hosts.Action, ...]]:
        """The turns that the episode's bytes have, the bytes as texts, none where it is over, and the actions since."""
        return self._saved, self._parts, self._since

    @state.setter
    def state(self, state: tuple[int, tuple[str, ...], tuple[ray_hosts.Action, ...]]) -> None:
        self._open: _Open | None = None
        self._is_there = False
        self._saved, self._parts, self._since = (*state, ())[:3]  # a checkpoint of before may have no actions

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in the actor of its key."""
        self.state = (0, (), ())
        row = {"seed": seed, **(options or {})}
        self._open = _Open(self._actors, *self._actors.begin(str(row.get("episode_key"))))
        turn, moment = self._ask(row=row)
        restore(self.env, moment)
        return turn.text, dict(turn.info or {})

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a turn where the episode is; UsageError where there is none that goes on."""
        before = core_of(self.env).episode
        if not self._parts:
            raise UsageError(f"{core_of(self.env).env_id}: step() after the end of the episode; reset() begins another")
        if self._open is None:
            origin = origin_of(before.header.episode_key, before.header.branch)
            self._open = _Open(self._actors, *self._actors.begin(origin))
        turn, moment = self._ask((_plain(action), core_of(self.env).reply_cut), header=before.header)
        episode = moment.episode
        own = {"task": before.task, "prompt": before.prompt, "header": before.header}
        episode = replace(episode, turns=before.turns + episode.turns, **own)
        restore(self.env, replace(moment, episode=episode))
        if turn.terminated or turn.truncated:
            self.state = (0, (), ())
        return turn.text, turn.reward, turn.terminated, turn.truncated, dict(turn.info or {})

    def _ask(self, action: ray_hosts.Action | None = None, **more: Any) -> tuple[PoolTurn, Any]:
        """Have a reset or an action taken, and the episode brought here as bytes where it is due; EnvFault for a fault."""
        assert self._open is not None, "it was begun"
        since = self._since if action is None else (*self._since, action)
        # With its first turn there, too: from then on the actor has it with the header of a fork.
        if self.waits or not self._is_there or len(since) >= self._actors.saved_turns:
            more["saved"] = self._saved
        at = self._open.key, self._spec, self._saved + len(self._since)
        turn = ray_hosts.StepTurn(*at, self._parts, self._since, action, **more)
        reply = self._actors.ask(self._open.place, turn, self._is_there, self.waits)
        assert reply is not None, "a whole episode was sent"
        answer, moment, part = reply
        if answer.fault:
            raise EnvFault(answer.fault, answer.retryable)
        self._is_there, self._since = True, since
        if part:
            self._parts, self._saved, self._since = (*self._parts, part), self._saved + len(since), ()
        return answer, moment


def _plain(action: Any) -> Any:
    """Return an action that can be stored: numbers of numpy as Python's, also in the pairs that a space samples."""
    if isinstance(action, tuple):
        return tuple(map(_plain, action))
    return action.tolist() if hasattr(action, "tolist") else action


register_snapshot(RemoteSteps, lambda env: env.state, lambda env, state: setattr(env, "state", state))
