"""A third party's Gymnasium environment is made, started, stepped and copied here, and its answers are checked.

Nothing it says is taken on trust: numpy's scalars become Python's, what it prints is dropped, what `reset` and `step` raise is
a fault, and what does not fit is an error that names it and what to do.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from agent_envs.base.errors import AgentEnvsError, EnvFault, UsageError
from agent_envs.base.serialization import digest
from agent_envs.envs.text_games.game import Moved
from agent_envs.envs.text_games.muted_stdout import muted_stdout

AnyEnv = gym.Env[Any, Any]
Describe = Callable[[AnyEnv, Any, dict[str, Any]], str]
Success = Callable[[AnyEnv, float, bool, dict[str, Any]], bool]
Progress = Callable[[AnyEnv, dict[str, Any]], float]
CopyEnv = Callable[[AnyEnv], AnyEnv]
FIRST = ord("0")  # the character of action 0 in a line of actions
MOST_ACTIONS = 1_000
MOST_SEED = 2**31


@dataclass(slots=True)
class LiveGame:
    """An environment in mid-episode, what it showed last, and actions that are known to lead to success from here."""

    env: AnyEnv
    observation: Any
    info: dict[str, Any]
    text: str
    turns: int = 0
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    plan: str = ""

    def mark(self) -> str:
        """Return a digest by which a replay to another state is noticed."""
        return digest([self.text, self.reward, self.terminated, self.truncated])[:8]


def won(env: AnyEnv, reward: float, terminated: bool, info: dict[str, Any]) -> bool:
    """Return whether an episode ended well, where nobody says otherwise: it terminated with a reward above 0."""
    return terminated and reward > 0


def sharing(*names: str) -> CopyEnv:
    """Return a deep-copier of environments that keeps named attributes of the unwrapped one, specs, unsampled spaces shared.

    Args:
        names: attributes that never change once the environment is made, such as FrozenLake's table of transitions `P`.
            Specs, and spaces that nobody has sampled from, are shared in any case.
    """

    def copy(env: AnyEnv) -> AnyEnv:
        """Return a deep copy that shares the named attributes, each layer's spec, and spaces without a generator."""
        memo: dict[int, Any] = {}
        layer: Any = env
        while layer is not None:
            spaces = [getattr(layer, name, None) for name in ("action_space", "observation_space")]
            spaces = [space for space in spaces if getattr(space, "_np_random", None) is None]
            memo |= {id(thing): thing for thing in (*spaces, layer.spec) if thing is not None}
            layer = layer.env if isinstance(layer, gym.Wrapper) else None
        for name in names:
            thing = getattr(env.unwrapped, name)
            memo[id(thing)] = thing
        return deepcopy(env, memo)

    return copy


def maker(
    gym_env: str | Callable[..., AnyEnv] | AnyEnv, arguments: dict[str, Any]
) -> tuple[Callable[[], AnyEnv], AnyEnv, str]:
    """Return a factory (its first call hands out the probe), the probe and a name; UsageError where none can be made.

    Raises UsageError: it cannot be made, or is no environment of Gymnasium's.
    """
    name = gym_env if isinstance(gym_env, str) else getattr(gym_env, "__name__", type(gym_env).__name__)

    def make() -> AnyEnv:
        """Make a new environment in silence; what it raises becomes a UsageError that names it."""
        try:
            with muted_stdout():
                env = _build(gym_env, arguments)
        except AgentEnvsError:
            raise
        except Exception as error:
            raise UsageError(f"{name}: it cannot be made: {type(error).__name__}: {error}") from error
        if not isinstance(env, gym.Env):
            raise UsageError(f"{name}: {type(env).__name__} is no gymnasium.Env; wrap it as one")
        return env

    probe = make()
    spare = [probe]

    def first_or_new() -> AnyEnv:
        """Return an environment from the spare ones; make a new one if there is none."""
        try:
            return spare.pop()
        except IndexError:
            return make()

    return first_or_new, probe, probe.spec.id if probe.spec is not None else name


def _build(gym_env: str | Callable[..., AnyEnv] | AnyEnv, arguments: dict[str, Any]) -> AnyEnv:
    """Make an environment from an id or a callable, or copy an object; UsageError for arguments with an object."""
    if isinstance(gym_env, str):
        return gym.make(gym_env, disable_env_checker=True, **arguments)
    if not isinstance(gym_env, gym.Env):
        return gym_env(**arguments)
    if arguments:
        raise UsageError("env_arguments go with an id or a callable, not with an environment that is made")
    return deepcopy(gym_env)


@dataclass(frozen=True, slots=True)
class ThirdParty:
    """A third party's environment: how to make, start, step and copy it.

    Attributes:
        make: returns a new one.
        values: its actions, in the order of ours.
        describe: what the policy reads of a moment.
        success: asked of an episode that is over: whether it was won.
        progress: how far an episode has come, from 0 to 1; None for 1 at success and 0 before.
        native: bounds of its reward in a step; None where they do not matter.
        most: after so many turns the episode is over.
        copy: copies it; None for never.
    """

    name: str
    make: Callable[[], AnyEnv]
    values: tuple[Any, ...]
    describe: Describe
    success: Success
    progress: Progress | None
    native: tuple[float, float] | None
    most: int
    copy: CopyEnv | None

    def start(self, seed: int) -> LiveGame:
        """Return a new environment after `reset(seed=seed)`."""
        env = self.make()
        observation, info = self._call("reset", ("observation", "info"), env.reset, seed=seed)
        return LiveGame(env, observation, info, self._description(env, observation, info))

    def act(self, live: LiveGame, code: str) -> Moved:
        """Step an environment in place by an action's character; return what came of it; UsageError for bad progress."""
        names = ("observation", "reward", "terminated", "truncated", "info")
        answer = self._call("step", names, live.env.step, self.values[ord(code) - FIRST])
        live.turns, live.observation, live.info = live.turns + 1, answer[0], answer[4]
        live.reward, live.terminated, live.truncated = self._reward(answer[1]), bool(answer[2]), bool(answer[3])
        live.text = self._description(live.env, live.observation, live.info)
        live.plan = live.plan[1:] if live.plan.startswith(code) else ""
        success = self.over(live) and bool(self.success(live.env, live.reward, live.terminated, live.info))
        progress = float(success) if self.progress is None else float(self.progress(live.env, live.info))
        if not 0 <= progress <= 1:
            raise self._wrong(f"progress(...) gave {progress}", "it lies between 0 and 1")
        return Moved(live.mark(), live.reward, progress, live.terminated, success, live.truncated)

    def over(self, live: LiveGame) -> bool:
        """Return whether an episode has ended: terminated, truncated, or at the turn limit."""
        return live.terminated or live.truncated or live.turns >= self.most

    def copied(self, live: LiveGame) -> LiveGame:
        """Return an independent copy with the same state; TypeError where it is never copied or is no other object."""
        if self.copy is None:
            raise TypeError(f"{self.name} is never copied")
        env = self.copy(live.env)
        if env is live.env or env.unwrapped is live.env.unwrapped:
            raise TypeError(f"the copy of {self.name} is not another")
        return replace(live, env=env, observation=deepcopy(live.observation), info=deepcopy(live.info))

    def _reward(self, value: Any) -> float:
        """Return a step's reward as a float; UsageError where it is no finite number within `native`."""
        try:
            reward = float(value)
        except (TypeError, ValueError):
            raise self._wrong(f"the reward is a {type(value).__name__}", "a reward is one number") from None
        low, high = self.native or (-math.inf, math.inf)
        if not math.isfinite(reward):
            raise self._wrong(f"the reward is {reward}", "a reward is finite")
        if not low <= reward <= high:
            raise self._wrong(f"the reward is {reward:g}, outside native=({low:g}, {high:g})", "give its true bounds")
        return reward

    def _description(self, env: AnyEnv, observation: Any, info: dict[str, Any]) -> str:
        """Return the observation as the caller's text, lone surrogates replaced; UsageError where it is no text."""
        with muted_stdout():
            text = self.describe(env, observation, info)
        if not isinstance(text, str):
            raise self._wrong(f"describe(...) returned a {type(text).__name__}", "it returns the text that is shown")
        return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")

    def _call(
        self, what: str, names: tuple[str, ...], call: Callable[..., Any], *values: Any, **keywords: Any
    ) -> tuple[Any, ...]:
        """Return a method's tuple of `names`, its last {} for None; EnvFault if it raises, UsageError for another form."""
        try:
            with muted_stdout():
                answer = call(*values, **keywords)
        except AgentEnvsError:
            raise
        except Exception as error:
            raise EnvFault(f"{self.name}: {what}() raised {type(error).__name__}: {error}", retryable=False) from error
        if not isinstance(answer, tuple) or len(answer) != len(names) or not isinstance(answer[-1], dict | None):
            fix = "update it to Gymnasium's API, or wrap it"
            raise self._wrong(f"{what}() did not return ({', '.join(names)})", fix)
        return (*answer[:-1], answer[-1] or {})

    def _wrong(self, what: str, fix: str) -> UsageError:
        """Return the error about this environment, with what is wrong and how to mend it."""
        return UsageError(f"{self.name}: {what}; {fix}")
