"""Best of n: several samples a task, and the solved ones as JSONL that `trainers.sft` imitates (`--data FILE`).

Search-R1's rejection sampling takes 5 trajectories a prompt and keeps the correct ones (arXiv 2503.09516, section 4.1). Of a
task's solved episodes the one with the fewest turns is kept, all of them with `--all`. It refuses the test split.

    python -m baselines.best_of_n SearchQA --agent baseline:tag_agent --agent-arg model=openai:MODEL@URL --out solved.jsonl
"""

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.terminal import progress_bar, stop_on_sigterm
from agent_envs.core.env import spec_json
from agent_envs.evaluation.runs.evaluate import make_agent
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.policy import Policy
from agent_envs.rollout.run_many import run_many


def sample(env_id: str, policy: Policy, out: Path, *, tasks: int, samples: int, split: str, keep_all: bool) -> int:
    """Append each task's shortest solved episode (`keep_all`: every one) to `out`, skipping tasks there; count those solved.

    Raises:
        UsageError: the split is the test split.
    """
    if split == "test":
        raise UsageError("best_of_n: episodes of the test split are nothing to train on; --split train")
    env = gym.make(env_id)
    rows = list(read_journal(out)) if out.exists() else []
    finished = {row["task"] for row in rows}
    solved = sum(bool(row["solved"]) for row in rows)
    with contextlib.closing(Journal(out)) as journal, progress_bar(f"best of {samples}") as progress:
        for task in range(tasks):
            if task in finished:
                continue
            plan = [Planned(f"best/{task}/{n}", spec_json(env), task, split, n) for n in range(samples)]
            won = [result.trajectory for _, result in run_many(plan, policy) if result.success]
            episodes = won if keep_all else sorted(won, key=lambda episode: len(episode.turns))[:1]
            journal.append({"task": task, "solved": [episode.to_json() for episode in episodes]})
            solved += bool(won)
            if progress is not None:
                progress(task + 1, tasks, solved)
    return solved


def named_options(pairs: list[str], option: str = "--agent-arg") -> dict[str, Any]:
    """Return `NAME=VALUE` pairs as a dict, a value as JSON if it parses, else as text; UsageError without an =."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{option} {pair}: write NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and print how many tasks were solved; return 0, or 2 for an error, told on standard error."""
    stop_on_sigterm()
    parser = argparse.ArgumentParser(prog="python -m baselines.best_of_n", description=__doc__.partition("\n")[0])
    parser.add_argument("env", help="an id, as SearchQA")
    parser.add_argument("--agent", required=True, help="baseline:NAME, openai:MODEL@URL, ...")
    parser.add_argument(
        "--agent-arg", action="append", default=[], help="an option of the agent, as model=openai:MODEL@URL"
    )
    parser.add_argument("--tasks", type=int, default=20, help="how many tasks of the split (20)")
    parser.add_argument("--samples", type=int, default=5, help="episodes a task (5)")
    parser.add_argument("--split", default="train", help="train or dev")
    parser.add_argument("--all", action="store_true", help="keep every solved episode, not the shortest alone")
    parser.add_argument("--out", type=Path, required=True, help="the file; a stopped command goes on with it")
    args = parser.parse_args(arguments)
    env_id = args.env if "/" in args.env else f"agent_envs/{args.env}-v0"
    try:
        policy = make_agent(args.agent, **named_options(args.agent_arg))
        more = {"tasks": args.tasks, "samples": args.samples, "split": args.split, "keep_all": args.all}
        solved = sample(env_id, policy, args.out, **more)
    except AgentEnvsError as error:
        print(f"best_of_n: {error}", file=sys.stderr)
        return 2
    print(
        f"{solved} of {args.tasks} tasks were solved; {args.out} is data for python -m trainers.sft --data {args.out}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
