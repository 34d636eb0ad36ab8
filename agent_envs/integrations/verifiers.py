"""verifiers plays ids of ours in its own episodes: a taskset of `task_rows`, and an environment that answers each turn."""

from importlib import import_module
from typing import Any

from agent_envs.integrations.session import Row, Session, task_rows
from agent_envs.integrations.upstream import built_later, needs

__all__ = ["TurnEnv", "TurnTaskset"]  # noqa: F822 (built below)


async def _run(self: Any, task: Any, agents: Any) -> None:
    """Play an episode as the run's user, to its end or the agent's; record reward, success, truncation; faults fail it."""
    session = Session()
    messages = await session.begin_async(task.data.row)
    async with agents.player.interaction(task) as interaction:
        while not session.end:
            segment = await interaction.turn(messages)
            if segment.terminated:
                break
            reply = segment.messages[-1]
            calls = [(call.name, call.arguments) for call in reply.tool_calls or ()]
            messages = await session.act_async(reply.content or "", calls)
    trace = interaction.trace
    trace.record_reward("episode", sum(session.rewards))
    trace.record_metrics({"success": float(session.success), "truncated": float(session.end == "truncated")})
    trace.info["rewards"], trace.info["end"] = session.rewards, session.end


def package() -> Any:
    """Return verifiers' own package; MissingExtra where it is not installed."""
    with needs("verifiers", "verifiers"):
        return import_module("verifiers.v1")


def _classes() -> tuple[type, ...]:
    """Build the classes of task, taskset and environment on verifiers' own."""
    with needs("verifiers", "verifiers"):
        import verifiers.v1 as vf

    class TurnData(vf.TaskData):  # type: ignore[misc]
        row: Row

    class TurnTask(vf.Task[TurnData, vf.State, vf.TaskConfig]):  # type: ignore[misc]
        pass

    class TurnTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
        env_id: str = "SearchQA"
        n: int = 100
        split: str = "train"
        seed: int = 0
        arguments: Row = {}

    class TurnTaskset(vf.Taskset[TurnTask, TurnTasksetConfig]):  # type: ignore[misc]
        def load(self) -> list[Any]:
            """Return a task for each row that the configuration asks for."""
            config = self.config
            rows = task_rows(config.env_id, config.n, config.split, config.seed, **config.arguments)
            return [TurnTask(TurnData(name=row["task_id"], row=row), config.task) for row in rows]

    class TurnEnvConfig(vf.EnvConfig):  # type: ignore[misc]
        player: vf.AgentConfig = vf.AgentConfig()

    class TurnEnv(vf.Env[TurnEnvConfig]):  # type: ignore[misc]
        run = _run

    return TurnData, TurnTask, TurnTasksetConfig, TurnTaskset, TurnEnvConfig, TurnEnv


__getattr__ = built_later(__name__, _classes)
