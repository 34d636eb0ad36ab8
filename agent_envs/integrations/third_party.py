"""Anyone's environment by a scheme and a name: `gym:ID`, `openenv:URL`, `verifiers:ID`, each with an adapter to the checker.

`agent-envs check` plays the checker's parts on it (docs/integrations.md has the table).
"""

import asyncio
import copy
import hashlib
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import httpx
import numpy as np

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import Utterance
from agent_envs.base.terminal import escaped
from agent_envs.checker.env_under_test import CheckSkipped
from agent_envs.checker.third_party import Step, ThirdPartyEnv, random_text
from agent_envs.integrations import openenv, verifiers
from agent_envs.integrations.session import Row
from agent_envs.services.http.faults import parse_json

MOST_TASKS = 256  # of a taskset that are listed
MOST_SECONDS = 60  # for an episode of verifiers' to go on, or to be left


def third_party_env(name: str, arguments: Row, solved: float | None = None) -> ThirdPartyEnv | None:
    """Return the environment behind `gym:ID`, `openenv:URL` or `verifiers:ID`; None for a name without such a scheme.

    Args:
        name: the scheme, a colon, and an id or address.
        arguments: of `gymnasium.make`, fields of each action that stay as they are, or fields of the taskset's configuration.
        solved: the return of a solved episode, where it is known.

    Raises:
        UsageError: no such environment, or arguments that it does not take.
        MissingExtra: its client or package is not installed.
        EnvFault: no server answers.
    """
    scheme, _, rest = name.partition(":")
    if scheme not in SCHEMES:
        return None
    return SCHEMES[scheme](name, rest, arguments, solved)


class GymEnv:
    """An environment by its id of Gymnasium, or `module:ID` of a module to import first."""

    outside: tuple[type[Exception], ...] = (EnvFault,)

    def __init__(self, name: str, env_id: str, arguments: Row, solved: float | None) -> None:
        """Make it; UsageError where Gymnasium cannot."""
        self.name, self.flaw = name, ""
        self._make: Callable[[], gym.Env[Any, Any]] = lambda: gym.make(env_id, disable_env_checker=True, **arguments)
        try:
            self._env = self._make()
        except (gym.error.Error, ImportError, TypeError, ValueError, SystemExit) as error:
            raise UsageError(escaped(f"check {name}: {error}", 600)) from error
        self.text = isinstance(self._env.action_space, gym.spaces.Text | Utterance)
        self.solved = solved if solved is not None or self._env.spec is None else self._env.spec.reward_threshold

    def renew(self, bare: bool = False) -> None:
        """Close it and make another; `bare`: without the wrappers of Gymnasium that answer a step before the reset."""
        try:
            self._env.close()
        finally:
            self._env = self._make()
            if bare and self._env.spec is not None:
                spec = copy.deepcopy(self._env.spec)
                spec.order_enforce, spec.max_episode_steps = False, None  # as TimeLimit counts from the reset on
                self._env = gym.make(spec, disable_env_checker=True)

    def reset(self, seed: int) -> str:
        """Reset to a seed; return the observation as text."""
        return self._read(self._env.reset(seed=seed)[0], 0.0)

    def step(self, action: Any) -> Step:
        """Step; return observation, reward, and whether it terminated or was truncated."""
        observation, reward, terminated, truncated, _ = self._env.step(action)
        return self._read(observation, reward), float(reward), bool(terminated or truncated)

    def sample(self, rng: random.Random, observations: Sequence[str]) -> Any:
        """Return an action of its space, or as often random printable text where it takes text."""
        if self.text and rng.random() < 0.5:
            return random_text(rng)
        self._env.action_space.seed(rng.randrange(2**31))
        return self._env.action_space.sample()

    def close(self) -> None:
        """Close it."""
        self._env.close()

    def _read(self, observation: Any, reward: Any) -> str:
        """Return an observation as text, and note where it lies outside its space or the reward is no number."""
        inside = observation in (space := self._env.observation_space)
        self.flaw = reward_flaw(reward) if inside else f"the observation {repr(observation)[:80]} is not in {space}"
        return as_text(observation)


def reward_flaw(reward: Any) -> str:
    """Return the flaw of a reward, "" for a finite number."""
    good = isinstance(reward, int | float | np.number) and math.isfinite(float(reward))
    return "" if good else f"the reward is {reward!r}, and no finite number"


def as_text(value: Any) -> str:
    """Return an observation as text, equal for equal observations: strings as they stand, large arrays by a digest."""
    if isinstance(value, np.ndarray) and value.size > 100:
        return f"{value.dtype}{value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, dict):
        value = [f"{key}: {as_text(value[key])}" for key in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        return "\n".join(map(as_text, value))
    return value if isinstance(value, str) else repr(value.tolist() if hasattr(value, "tolist") else value)


class ServedEnv:
    """A server of OpenEnv's, by its address: one session at a time, played by OpenEnv's own client."""

    outside: tuple[type[Exception], ...] = (ConnectionError, EnvFault)

    def __init__(self, name: str, url: str, arguments: Row, solved: float | None) -> None:
        """Read the server's schema of actions; EnvFault where none answers, UsageError for actions without a form."""
        self.name, self.url, self.flaw, self.solved = name, url, "", solved
        self.client = openenv.client(url)
        try:
            schema = parse_json(httpx.get(f"{url.rstrip('/')}/schema", timeout=30).raise_for_status().content)["action"]
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
            raise EnvFault(f"check {name}: no server of OpenEnv's answers there: {error!r}"[:300]) from error
        fields = {key: row for key, row in schema.get("properties", {}).items() if key != "metadata"}
        needed = {key: fields[key] for key in schema.get("required", fields) if key in fields and key not in arguments}
        texts = [key for key, row in needed.items() if _takes_text(row)]
        forms = {key: _choices(row) for key, row in needed.items() if key not in texts}
        if len(texts) > 1 or not all(forms.values()) or not needed:
            fix = "give all but one text a value: --arg FIELD=VALUE"
            raise UsageError(f"check {name}: an action has the fields {list(fields)}; {fix}")
        self.text, self._field, self._fixed, self._forms = bool(texts), "".join(texts), arguments, forms

    def renew(self, bare: bool = False) -> None:
        """Close the session; the next call opens another."""
        self.client.close()
        self.client = openenv.client(self.url)

    def reset(self, seed: int) -> str:
        """Reset to a seed; return the observation as text."""
        return self._read(self.client.reset(seed=seed))

    def step(self, action: Any) -> Step:
        """Take a turn, a text or a mapping of fields; return observation, reward (0 for none) and end."""
        fields = action if isinstance(action, dict) else {self._field: action, **self._sample(random.Random(0))}
        result = self.client.step(fields)
        return self._read(result), float(result.reward or 0.0), bool(result.done)

    def sample(self, rng: random.Random, observations: Sequence[str]) -> Any:
        """Return a random text, half of them of the observation's words, or fields drawn from their schema."""
        return random_text(rng, observations[-1].split()) if self.text else self._sample(rng)

    def close(self) -> None:
        """Close the session."""
        self.client.close()

    def _sample(self, rng: random.Random) -> Row:
        return {**{key: rng.choice(choices) for key, choices in self._forms.items()}, **self._fixed}

    def _read(self, result: Any) -> str:
        """Return a result's observation as text, and note a reward that is no number."""
        self.flaw = reward_flaw(result.reward or 0.0)
        return as_text({key: value for key, value in result.observation.items() if key != "metadata"})


def _takes_text(row: Row) -> bool:
    """Return whether a field's schema takes any string."""
    kinds = [row, *row.get("anyOf", ())]
    return any(kind.get("type") == "string" and not {"enum", "const", "format"} & kind.keys() for kind in kinds)


def _choices(row: Row) -> list[Any]:
    """Return values that a field's schema allows, at most 100; none where it names no simple type."""
    low = int(row.get("minimum", 0))
    numbers = [*range(low, int(row.get("maximum", low + 9)) + 1)[:100]]
    simple: dict[str, list[Any]] = {"boolean": [False, True], "integer": numbers, "number": numbers}
    return list(row.get("enum", simple.get(row.get("type", ""), ())))


class TasksetEpisodes:
    """A taskset or environment of verifiers', whose agents are all played by the actions of `step`: no model, no key.

    A seed names a task by its place. An episode runs in an event loop of its own, and stands still while an action is awaited;
    its reward comes at its end, the sum over its agents. Nobody calls tools, and a sandbox is a folder of this machine's.
    """

    text = True
    outside: tuple[type[Exception], ...] = (ConnectionError, EnvFault)

    def __init__(self, name: str, env_id: str, arguments: Row, solved: float | None) -> None:
        """Load it and list up to 256 tasks; UsageError where verifiers cannot."""
        self.name, self.flaw, self.solved, self._vf = name, "", solved, verifiers.package()
        self._episode: asyncio.Task[Any] | None = None
        self._config = {"taskset": {**arguments, "id": env_id}}
        try:
            self.renew()
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"check {name}: {error}") from error
        if not self._tasks or self._tasks[0].NEEDS_CONTAINER:
            raise UsageError(f"check {name}: it has no task, or its tasks need a container, which scripted agents lack")
        self._loop = asyncio.new_event_loop()

    def renew(self, bare: bool = False) -> None:
        """Leave the episode, and load environment and tasks again."""
        self._leave()
        self._env = self._vf.load_environment(self._vf.resolve_env_config(self._config))
        self._tasks = list(self._env.taskset.take(MOST_TASKS))

    def reset(self, seed: int) -> str:
        """Begin the task at a place; return what its first agent reads."""
        self._leave()
        self._questions, self._answers = asyncio.Queue[str](), asyncio.Queue[str]()
        self._episode = self._loop.create_task(self._run(self._tasks[seed % len(self._tasks)]))
        observation, _, over = self._go_on()
        self.flaw = "the episode ended before an agent was asked" if over else ""
        return observation

    def step(self, action: Any) -> Step:
        """Reply as the agent that was asked; return what the next one reads, the reward at the end, and the end."""
        if self._episode is None:
            raise CheckSkipped("verifiers asks its agents: there is no step before the reset")
        self._answers.put_nowait(action.encode("utf-8", "replace").decode())  # as HTTP brings a model's text
        return self._go_on()

    def sample(self, rng: random.Random, observations: Sequence[str]) -> str:
        """Return a random text, half of them of the observation's words."""
        return random_text(rng, observations[-1].split())

    def close(self) -> None:
        """Leave the episode and close its event loop."""
        self._leave()
        self._loop.close()

    def _leave(self) -> None:
        if self._episode is not None:
            self._episode.cancel()
            self._loop.run_until_complete(asyncio.wait({self._episode}, timeout=MOST_SECONDS))
            self._episode = None

    def _go_on(self) -> Step:
        """Run the episode until it asks an agent or ends."""
        assert self._episode is not None
        question = self._loop.create_task(self._questions.get())
        first = asyncio.wait({question, self._episode}, timeout=MOST_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        self._loop.run_until_complete(first)
        if question.done():
            return question.result(), 0.0, False
        question.cancel()
        if not self._episode.done():
            raise TimeoutError(f"neither a question nor an end within {MOST_SECONDS} s")
        reward = self._episode.result()
        self.flaw = reward_flaw(reward)
        return "", float(reward), True

    async def _run(self, task: Any) -> Any:
        """Play a task as verifiers does; return the reward, or raise the first error that it recorded."""
        vf, traces = self._vf, dict[str, Any]()
        stops = [stop for stop in task.hooks("stop") if vf.session.hook_boundary(stop, allow_trace=True) is vf.Trace]
        harness = self._harness(traces, stops)

        def agent(name: str, config: Any) -> Any:
            """Return a seat's agent, on this machine and with the scripted harness."""
            local = {"model": "script", "runtime": vf.SubprocessConfig(), "harness": harness.config}
            player = vf.make_agent(config.model_copy(update=local))
            player.harness = harness
            return player

        await self._env.setup(agents := vf.Agents(self._env.config, agent))
        await self._env.run(task, agents)
        about = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        await self._env.finalize(task, vf.Episode(task=about, traces=list(traces.values())))
        for error in (error for trace in traces.values() for error in trace.errors):
            raise RuntimeError(f"{error.type}: {error.message}")
        return sum(trace.reward for trace in traces.values())

    def _harness(self, traces: dict[str, Any], stops: list[Any]) -> Any:
        """Return a harness, verifiers' program of an agent, which gets each reply from `step` in place of a model."""
        vf, questions, answers = self._vf, self._questions, self._answers

        class ScriptedHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc,name-defined]
            APPENDS_SYSTEM_PROMPT = SUPPORTS_RESUME = SUPPORTS_MCP = True
            EXECUTES_CODE = NEEDS_CONTAINER = False

            async def launch(self, ctx: Any, trace: Any, *others: Any, data: Any = None, **more: Any) -> Any:
                """Put the conversation's new messages as a question, and its answer into the trace as a sampled reply."""
                traces[trace.id] = trace
                limits = vf.session.RolloutLimits(max_turns=trace.agent.config.max_turns)
                if await vf.session.RolloutSession(ctx=ctx, trace=trace, trace_stops=stops, limits=limits).refused():
                    return vf.ProgramResult(0, "", "")
                system, prompt = self.resolve_prompt(data or others[-1])
                messages = [vf.SystemMessage(content=system)] if system else []
                messages += [vf.UserMessage(content=prompt)] if isinstance(prompt, str) else prompt
                news = messages[len(trace.branches[-1].messages) if trace.branches else 0 :]
                questions.put_nowait("\n\n".join(vf.types.content_text(message.content) for message in news))
                reply = vf.AssistantMessage(content=await answers.get())
                answer = vf.Response(id="", created=0, model="script", message=reply, finish_reason="stop")
                vf.graph.prepare_turn(trace, messages).commit(answer)
                return vf.ProgramResult(0, "", "")

        return ScriptedHarness(vf.HarnessConfig(id="null"))


SCHEMES: dict[str, Callable[..., ThirdPartyEnv]] = {"gym": GymEnv, "openenv": ServedEnv, "verifiers": TasksetEpisodes}
