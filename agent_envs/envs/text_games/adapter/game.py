"""`AdaptedGame` gives the rules of a third party's environment as a `Game`, and `Seeds` gives its seeds as tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import state_type
from agent_envs.core.env import Task
from agent_envs.datasets.seeded import SeededSource
from agent_envs.envs.text_games.adapter.replay_copies import Replayed
from agent_envs.envs.text_games.adapter.third_party import FIRST, MOST_SEED, AnyEnv, Describe, Live, ThirdParty
from agent_envs.envs.text_games.game import Action, Game, Moved
from agent_envs.envs.text_games.muted_stdout import muted_stdout


@state_type
@dataclass(frozen=True, slots=True)
class AdaptedState:
    """Where an episode stands: its seed, a character for each action since, and the mark of what is seen there."""

    seed: int
    actions: str
    mark: str


@dataclass(eq=False)
class AdaptedGame(Game):
    """The rules: what `Game` asks for is asked of a live copy. `native` bounds the environment's own reward in a step."""

    party: ThirdParty
    lines: Replayed[Live, Moved]
    actions: tuple[Action, ...]
    default: int
    prompt: str
    told_goal: str | Describe
    pictured: Callable[[AnyEnv], str] | None
    drawn: Callable[[AnyEnv], str] | None
    native: tuple[float, float]
    native_episode: tuple[float, float] = field(init=False)

    def __post_init__(self) -> None:
        """Bound the sum of rewards over an episode, which has one step at least."""
        low, high = self.native
        self.most_turns = self.party.most
        self.native_episode = (min(low, low * self.party.most), max(high, high * self.party.most))

    def begin(self, task: Task, limit: int) -> AdaptedState:
        """Return the start of a task's seed."""
        if type(task.hidden) is not int:
            raise UsageError(
                f"{self.party.name}: task {task.id!r} has no seed; take a task of this environment's source"
            )
        seed = task.hidden % MOST_SEED
        with self.lines.at(seed, "") as live:
            return AdaptedState(seed, "", live.mark())

    def limit(self, state: AdaptedState) -> int:
        """Return how many turns there are."""
        return self.party.most

    def goal(self, state: AdaptedState) -> str:
        """Return the goal."""
        return self.goal_of(state.seed)

    def goal_of(self, seed: int) -> str:
        """Return the goal of a seed."""
        if isinstance(self.told_goal, str):
            return self.told_goal
        with self.lines.at(seed, "") as live:
            return self._text("goal", self.told_goal(live.env, live.observation, live.info))

    def move(self, state: AdaptedState, action: int) -> Moved:
        """Step the live copy."""
        code = chr(FIRST + action)
        moved = self.lines.step(state.seed, state.actions, code, state.mark)
        return replace(moved, state=AdaptedState(state.seed, state.actions + code, moved.state))

    def describe(self, state: AdaptedState) -> str:
        """Return what was seen."""
        with self.lines.at(state.seed, state.actions, state.mark) as live:
            return live.text

    def picture(self, state: AdaptedState) -> str:
        """Return the caller's picture, "" without one."""
        return self._looked("picture", state, self.pictured)

    def drawing(self, state: AdaptedState) -> str:
        """Return the caller's drawing, "" without one."""
        return self._looked("drawing", state, self.drawn)

    def _looked(self, name: str, state: AdaptedState, look: Callable[[AnyEnv], str] | None) -> str:
        if look is None:
            return ""
        with self.lines.at(state.seed, state.actions, state.mark) as live, muted_stdout():
            return self._text(name, look(live.env))

    def _text(self, name: str, value: str) -> str:
        if not isinstance(value, str):
            raise UsageError(f"{self.party.name}: {name}(...) returned a {type(value).__name__}; it returns a text")
        return value


class Seeds(SeededSource[Task]):
    """Tasks that are the given seeds of an environment. The seed is the hidden scenario."""

    bounded = True

    def __init__(self, name: str, seeds: Mapping[str, Sequence[int]], goal: Callable[[int], str], digest: str) -> None:
        """Take the seeds of each split, what tells the goal of a seed, and the digest of what else the tasks rest on."""
        super().__init__(name, {split: len(row) for split, row in seeds.items()}, kept=256)
        self.digest, self._seeds, self._goal = digest, seeds, goal

    def build(self, split: str, index: int) -> Task:
        """Return the task of a seed."""
        seed = int(self._seeds[split][index])
        return Task(self.task_id(split, index), split, self._goal(seed), hidden=seed)
