"""SkyRL plays ids of ours as its text environments: `register()`, and `env_class: agent_envs` in the rows of its data set."""

from typing import Any

from agent_envs.integrations.session import Row, Session
from agent_envs.integrations.upstream import built_later, needs


def register(name: str = "agent_envs", env_id: str = "", **arguments: Any) -> None:
    """Register the environment that rows name, or one of ours, under a row's `env_class`, in each process that makes them."""
    with needs("skyrl-gym", "skyrl"):
        from skyrl_gym.envs import registration
    registration.register(name, f"{__name__}:AgentEnv", {"env_id": env_id, **arguments})


class _SkyRLEnv:
    """An episode of the environment that `extras`, a row of the data set, names."""

    def __init__(self, env_config: Any = None, extras: Row | None = None, env_id: str = "", **arguments: Any) -> None:
        super().__init__()
        self.session, self.row = Session(env_id, **arguments), dict(extras or {})

    def init(self, prompt: list[Row]) -> tuple[list[Row], Row]:
        """Begin the row's episode; return its messages, with task, stop texts and tools as metadata."""
        messages, info = self.session.begin(self.row), self.session.info
        self.turns, self.max_turns = 0, info["turns_left"]
        return messages, {"task_id": info["task_id"], "stop": info["stop"], "tools": self.session.tools}

    def step(self, action: str) -> Any:
        """Take a turn and return observations, reward and end in SkyRL's form."""
        messages, session = self.session.act(action), self.session
        self.turns += 1
        metadata = {"end": session.end, "success": session.success, "reward_terms": session.info["reward_terms"]}
        ended = {"reward": session.rewards[-1], "done": bool(session.end), "metadata": metadata}
        return {"observations": messages, **ended}

    def get_metrics(self) -> Row:
        """Return success, truncation, turns and return of the episode so far."""
        success, end, rewards = self.session.success, self.session.end, self.session.rewards
        ended = {"success": float(success), "truncated": float(end == "truncated")}
        return {**ended, "turns": len(rewards), "return": sum(rewards)}

    def close(self) -> None:
        """Close the session and its environment."""
        self.session.close()


def _classes() -> tuple[type, ...]:
    """Return the class for SkyRL; MissingExtra where skyrl-gym is not installed."""
    with needs("skyrl-gym", "skyrl"):
        from skyrl_gym.envs.base_text_env import BaseTextEnv
    return (type("AgentEnv", (_SkyRLEnv, BaseTextEnv), {}),)


__getattr__ = built_later(__name__, _classes)
