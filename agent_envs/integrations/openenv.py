"""OpenEnv serves an id of ours: `app = create_app("SearchQA")`, which its clients play over sockets, one episode each."""

import asyncio
from functools import partial
from importlib import import_module
from typing import Any

from agent_envs.core.env import core_of
from agent_envs.integrations.session import Row, Session
from agent_envs.integrations.upstream import built_later, needs


def create_app(env_id: str, max_concurrent_envs: int = 64, idle_seconds: float = 1800.0, **arguments: Any) -> Any:
    """Return the server's application, which `uvicorn` runs; `agent-envs serve` has more sessions, a queue and forks.

    Args:
        env_id: as `task_rows` takes it.
        max_concurrent_envs: sessions open at once; OpenEnv refuses the next.
        idle_seconds: a session that nobody uses ends after that.
        arguments: of the environment.
    """
    with needs("openenv", "openenv"):
        from openenv.core.env_server import http_server
    ours = import_module(__name__)
    factory = partial(ours.AgentEnvironment, env_id, **arguments)
    limits = http_server.ConcurrencyConfig(max_concurrent_envs=max_concurrent_envs, session_timeout=idle_seconds)
    return http_server.create_app(factory, ours.Turn, ours.Seen, env_name="agent_envs", concurrency_config=limits)


def client(url: str) -> Any:
    """Return OpenEnv's own client of any server, which connects at its first call; MissingExtra where it is not installed."""
    with needs("openenv", "openenv"):
        from openenv.core.generic_client import GenericEnvClient
    return GenericEnvClient(base_url=url).sync()


class _AgentEnvironment:
    """One environment. A reset takes `seed`, `split`, and a `task` or `index`; a step takes a text, or an expanded action."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env_id: str, **arguments: Any) -> None:
        super().__init__()
        self.session, self.episode_id = Session(env_id, **arguments), ""

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Any:
        """Begin an episode by seed, split, and task or index; return the first observation."""
        self.episode_id, task = episode_id or "", kwargs.get("task", kwargs.get("index"))
        return self._observe(await self.session.begin_async(seed=seed, task=task, split=kwargs.get("split")))

    async def step_async(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Take a turn; return the next observation."""
        return self._observe(await self.session.act_async(action.text))

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Any:
        """Begin an episode, as `reset_async`, from code that is not asynchronous."""
        return asyncio.run(self.reset_async(seed, episode_id, **kwargs))

    def step(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Take a turn, as `step_async`, from code that is not asynchronous."""
        return asyncio.run(self.step_async(action))

    @property
    def state(self) -> Any:
        """The id of the episode and the number of its turns, in OpenEnv's form."""
        types = import_module("openenv.core.env_server.types")
        return types.State(episode_id=self.episode_id, step_count=len(self.session.rewards))

    def list_splits(self) -> list[str]:
        """Return the splits of the environment's tasks."""
        return list(core_of(self.session.make()).source.splits)

    def num_tasks(self, split: str) -> int:
        """Return the number of a split's tasks."""
        return core_of(self.session.make()).source.size(split)

    def get_task(self, split: str, index: int) -> Row:
        """Return id and place of a task; not the task itself, whose answer stays hidden."""
        return {"id": core_of(self.session.make()).source.get(split, index).id, "split": split, "index": index}

    def close(self) -> None:
        """Close the session and its environment."""
        self.session.close()

    def _observe(self, messages: list[Row]) -> Any:
        """Build an observation from messages, info, reward and end; the action mask becomes a list of legal ids."""
        session, info = self.session, {key: value for key, value in self.session.info.items() if key != "messages"}
        if "action_mask" in info:
            info["legal"] = info.pop("action_mask").nonzero()[0].tolist()
        ended = {"end": session.end, "success": session.success, "done": bool(session.end)}
        reward = session.rewards[-1] if session.rewards else None
        return import_module(__name__).Seen(messages=messages, info=info, reward=reward, **ended)


def _classes() -> tuple[type, ...]:
    """Build the classes of actions, observations and environment on OpenEnv's own."""
    with needs("openenv", "openenv"):
        from openenv.core.env_server.interfaces import Environment
        from openenv.core.env_server.types import Action, Observation
    turn = type("Turn", (Action,), {"__annotations__": {"text": str | int}})
    fields = {"messages": list[Row], "info": Row, "end": str, "success": bool}
    observation = type("Seen", (Observation,), {"__annotations__": fields})
    return turn, observation, type("AgentEnvironment", (_AgentEnvironment, Environment), {})


__getattr__ = built_later(__name__, _classes)
