"""HigherLower is an environment of one's own: the checker plays it, then two agents are evaluated on it.

python examples/own_environment.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import gymnasium as gym

from agent_envs import Message, Outcome, RewardSpec, Task, Term, TurnEnv, register_companions
from agent_envs.datasets import SeededSource, stream


class Numbers(SeededSource[Task]):
    """A hidden number among fifteen. The splits share the numbers: how to look for one is to be learnt, not which one it is."""

    def build(self, split: str, index: int) -> Task:
        """Draw a range and the number in it."""
        draw = stream(self.name, split, index)
        low = draw.choice((10, 30, 50, 70))
        secret = draw.randint(low, low + 14)
        question = f"Find the number from {low} to {low + 14} ."
        return Task(self.task_id(split, index), split, question, (str(secret),), f"{secret} from {low}", low, secret)


def right(trajectory) -> float:
    """Return the reward of the last turn."""
    return float(trajectory.last.action.strip() in trajectory.task.gold)


class HigherLower(TurnEnv):
    """Each turn is a guess, answered by `higher` or `lower`. Halving needs at most four guesses, which is the limit."""

    def __init__(self, *, render_mode: str | None = None) -> None:
        self.source, self.max_turns, self.render_mode = Numbers("numbers", {"train": 4096, "test": 512}), 4, render_mode
        self.reward_spec = RewardSpec("right", (Term("right", 0, 1, "1 for the number", right),), (0, 1))

    def _begin(self, task, key):
        return (), (Message("user", task.question, "environment"),)

    def _advance(self, episode, action):
        guess, secret = action.strip(), episode.task.hidden
        if guess == str(secret):
            return Outcome((), None, terminated=True, success=True)
        if not (guess.isascii() and guess.isdigit() and len(guess) < 3):
            return Outcome((), None, (Message("user", "say a number", "environment"),), events=("no number",))
        return Outcome((), None, (Message("user", "higher" if int(guess) < secret else "lower", "environment"),))


def halve(env: gym.Env) -> str:
    """Return the middle of what the answers leave: a solver that needs no gold."""
    episode = env.unwrapped.episode
    low = episode.task.data
    high = low + 14
    for turn in env.unwrapped.trajectory.turns:
        if turn.observation[0].content == "higher":
            low = max(low, int(turn.action) + 1)
        elif turn.observation[0].content == "lower":
            high = min(high, int(turn.action) - 1)
    return str((low + high) // 2)


def somewhere(env: gym.Env, rng) -> str:
    """Return any number of the range."""
    return str(env.unwrapped.episode.task.data + rng.randrange(15))


register_companions(HigherLower, solver=halve, sampler=somewhere)
gym.register("examples/HigherLower-v0", entry_point=f"{__name__}:HigherLower")

if __name__ == "__main__":
    name = "own_environment:examples/HigherLower-v0"
    with tempfile.TemporaryDirectory() as folder:
        for words in (
            ["check", name],
            ["eval", name, "--agent", "random", "-n", "40", "--out", f"{folder}/random"],
            ["eval", name, "--agent", "solver", "-n", "40", "--out", f"{folder}/solver"],
        ):
            subprocess.run([sys.executable, "-m", "agent_envs", *words], cwd=Path(__file__).parent, check=True)
