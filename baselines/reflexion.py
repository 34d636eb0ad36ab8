"""Reflexion: after a failed attempt the model writes down what to do otherwise, and tries the task again (Shinn et al. 2023).

`--trials` 3 attempts at most, each with the notes of those before (the paper keeps 1 to 3, arXiv 2303.11366, section 3). It
learns from the environment whether an attempt succeeded, so its numbers are those of `multi_attempt` and no single attempt's;
they are printed as solved within 1, 2, ... attempts. Differs from the paper: notes stand in the system message, before
everything else.

    python -m baselines.reflexion SearchQA --agent-arg model=openai:MODEL@URL --tasks 20
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.base.errors import AgentEnvsError
from agent_envs.base.terminal import stop_on_sigterm
from agent_envs.core.env import spec_json
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.policy import Request
from agent_envs.rollout.run_many import run_many
from baselines.best_of_n import named_options
from baselines.chat_agent import TurnModel
from baselines.prompts import prompt, user
from baselines.tag_agent import TagAgent
from baselines.view import EpisodeView, joined

MOST_TRANSCRIPT = 20_000  # characters that the reflection reads


class Reflexion(TagAgent):
    """An agent with notes on earlier attempts at the same task."""

    short = "reflexion"

    def __init__(self, model: Any = "", *, notes: Sequence[str] = (), **options: Any) -> None:
        """Take the notes of earlier attempts."""
        super().__init__(model, **options)
        self.notes = list(notes)

    def instruction(self, view: EpisodeView) -> str:
        """Return the text of the system, with the notes behind it."""
        text = super().instruction(view)
        return f"{text}\n\n{prompt('reflexion', 'recall', notes=joined(self.notes))}" if self.notes else text

    def reflect(self, transcript: str, key: str) -> None:
        """Ask the model for a note on a failed attempt, shown the end of its transcript, and add it to the notes."""
        model = TurnModel(self._port, Request(f"{key}/reflection", 0, ()), self._max_tokens)
        text = prompt("reflexion", "reflect", transcript=transcript[-MOST_TRANSCRIPT:])
        self.notes.append(model.ask([user(text)]).strip())


def attempts(
    env: gym.Env[Any, Any], task: int, split: str, trials: int, model: Any, **options: Any
) -> tuple[int, list[str]]:
    """Play a task up to `trials` times, reflecting between; return the attempt that solved it (0: none) and the notes."""
    agent = Reflexion(model, **options)
    for trial in range(1, trials + 1):
        plan = [Planned(f"reflexion/{task}/{trial}", spec_json(env), task, split, trial)]
        (_, result), *_ = run_many(plan, agent)
        if result.success:
            return trial, agent.notes
        if trial < trials and result.trajectory is not None:
            lines = [*(message.content for message in result.trajectory.prompt)]
            for turn in result.trajectory.turns:
                lines += [f"AGENT: {turn.action}", *(message.content for message in turn.observation)]
            agent.reflect("\n\n".join(lines), plan[0].key)
    return 0, agent.notes


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and print the tasks solved within each trial; return 0, or 2 for an error, told on stderr."""
    stop_on_sigterm()
    parser = argparse.ArgumentParser(prog="python -m baselines.reflexion", description=__doc__.partition("\n")[0])
    parser.add_argument("env", help="an id, as SearchQA")
    parser.add_argument("--agent-arg", action="append", default=[], help="model=openai:MODEL@URL and its options")
    parser.add_argument("--tasks", type=int, default=20, help="how many tasks (20)")
    parser.add_argument("--split", default="test")
    parser.add_argument("--trials", type=int, default=3, help="attempts at most (3)")
    args = parser.parse_args(arguments)
    try:
        env = gym.make(args.env if "/" in args.env else f"agent_envs/{args.env}-v0")
        options = named_options(args.agent_arg)
        won = [
            attempts(env, task, args.split, args.trials, **{"model": "", **options})[0] for task in range(args.tasks)
        ]
    except AgentEnvsError as error:
        print(f"reflexion: {error}", file=sys.stderr)
        return 2
    for trial in range(1, args.trials + 1):
        print(f"solved within {trial}: {sum(0 < n <= trial for n in won)} of {args.tasks}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
