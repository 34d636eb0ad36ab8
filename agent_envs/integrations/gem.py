"""GEM makes ids of ours with `spawn`, which forks, and with seeds in its vectors: `gem.make(register("Sort"))`."""

from typing import Any

from agent_envs.integrations.session import Row, Session
from agent_envs.integrations.upstream import built_later, needs


def register(env_id: str, name: str = "", **arguments: Any) -> str:
    """Register an id of ours with GEM, and return the name that `gem.make` and `gem.make_vec` take: `agent_envs:Sort`, say."""
    with needs("gem-llm", "gem"):
        import gem
    name = name or f"agent_envs:{env_id}"
    gem.register(name, entry_point=f"{__name__}:AgentEnv", ours=env_id, **arguments)
    return name


class _GemEnv:
    """One environment; `info` is its own, chat messages and all. GEM's vectors give `seed`, for the first episode."""

    def __init__(self, ours: str, seed: int | None = None, **arguments: Any) -> None:
        self.session, self.seed, self.arguments = Session(ours, **arguments), seed, {"ours": ours, **arguments}

    def reset(self, seed: int | None = None) -> tuple[str, Row]:
        """Begin an episode; without a seed, the first reset takes that of the constructor."""
        seed, self.seed = (self.seed if seed is None else seed), None
        self.session.begin(seed=seed)
        return self.session.text, self.session.info

    def step(self, action: str) -> tuple[str, float, bool, bool, Row]:
        """Take a turn: return observation, reward, terminated, truncated and info."""
        _, session = self.session.act(action), self.session
        return session.text, session.rewards[-1], session.end == "terminated", session.end == "truncated", session.info

    def spawn(self, same_state: bool = False, **kwargs: Any) -> Any:
        """Make another environment; with `same_state` it goes on from a copy of this one's episode."""
        other = type(self)(**{**self.arguments, **kwargs})
        other.session = self.session.fork() if same_state else other.session
        return other


def _classes() -> tuple[type, ...]:
    """Return the class for GEM; MissingExtra where gem is not installed."""
    with needs("gem-llm", "gem"):
        import gem
    return (type("AgentEnv", (_GemEnv, gem.Env), {}),)


__getattr__ = built_later(__name__, _classes)
