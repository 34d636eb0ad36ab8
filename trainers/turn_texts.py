"""A policy is examined by what it writes in some episodes: valid turns, reasoning, and how it fails, with examples.

Verlog's report puts prompts first: before any training one should know whether the model understands what it is shown.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from agent_envs.core.trajectory import Turn
from agent_envs.core.wrapper_stack import core_of
from agent_envs.evaluation.runs.episode_numbers import outcome_of, valid_turn
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.wrappers.memory import acting_span, acting_tags
from trainers.sampling import plan_groups, play_groups, tasks_of_step

EPISODES = 64
WANTED = 0.95  # Verlog's report: valid actions over 95 % of the time
GRAM = 4
_EXAMPLE = 300
_MARK = re.compile("THINK:|</?think>")


def examined(run: Any, seed: int, episodes: int = EPISODES) -> dict[str, Any]:
    """Play tasks of the training split and return what the policy's turns are like, as plain JSON; see `texts_told`."""
    tasks = tasks_of_step(0, min(episodes, run.parts.train_size), run.parts.train_size, seed)
    sampled = run.parts.policy.sampled_tokens
    groups = play_groups(
        plan_groups(run.parts.spec, run.parts.train_split, tasks, 1, f"{seed}/examined"), run.parts.policy
    )
    run.parts.policy.sampled_tokens = sampled  # which counts training alone
    run.weights_changed()
    tags = acting_tags(core_of(run.parts.environment()))
    return texts_told([result for group in groups for result in group.results], tags)


def texts_told(results: Sequence[EpisodeResult], tags: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the numbers of episodes' turns, in an environment in which these tags act.

    `distinct_4grams` is the share of different ones among the 4-word runs of all reasoning; `repeats` the share of reasoning
    that is that of the turn before; `failures` how often each kind of failure came, with the last turn of the first one.
    """
    turns = [turn for result in results for turn in result.trajectory.turns]
    thoughts = {id(turn): reasoning(turn, tags) for turn in turns}
    grams = [gram for text in thoughts.values() for gram in _grams(text)]
    followed = [pair for result in results for pair in pairwise(result.trajectory.turns)]
    same = [thoughts[id(one)] == thoughts[id(other)] for one, other in followed if thoughts[id(other)]]
    failures: dict[str, dict[str, Any]] = {}
    for result in results:
        kind = outcome_of(result, result.success)
        if kind != "solved":
            row = failures.setdefault(kind, {"episodes": 0, "example": str(result.trajectory.last.action)[:_EXAMPLE]})
            row["episodes"] += 1
    return {
        "episodes": len(results),
        "success": _share([result.success for result in results]),
        "turns": len(turns),
        "valid_turns": _share([valid_turn(turn) for turn in turns]),
        "tokens_per_turn": sum(len(turn.token_ids) for turn in turns) / max(1, len(turns)),
        "with_reasoning": _share([bool(text) for text in thoughts.values()]),
        "distinct_4grams": len(set(grams)) / max(1, len(grams)),
        "repeats": _share(same),
        "failures": failures,
    }


def reasoning(turn: Turn, tags: tuple[str, ...] = ()) -> str:
    """Return what a turn says beside its action, in an environment in which these tags act."""
    text, (start, end) = str(turn.action), acting_span(turn, tags)
    return " ".join(_MARK.sub(" ", f"{text[:start]} {text[end:]}").split())


def in_words(told: dict[str, Any]) -> str:
    """Return the numbers as lines for a reader, with a warning where too few turns are valid."""
    lines = [
        f"{told['episodes']} episodes, {100 * told['success']:.1f} % solved; {told['turns']} turns, "
        f"{100 * told['valid_turns']:.1f} % valid, {told['tokens_per_turn']:.1f} tokens each, "
        f"{100 * told['with_reasoning']:.1f} % with reasoning, {100 * told['distinct_4grams']:.1f} % of its 4-grams distinct, "
        f"{100 * told['repeats']:.1f} % of it as in the turn before"
    ]
    lines += [f"{row['episodes']} {kind}, the first ends: {row['example']!r}" for kind, row in told["failures"].items()]
    if told["valid_turns"] < WANTED:
        lines.append(f"warning: under {100 * WANTED:.0f} % of turns are valid: look at the prompt before you train")
    return "\n  ".join(lines)


def _grams(text: str) -> list[tuple[str, ...]]:
    words = text.split()
    return [tuple(words[place : place + GRAM]) for place in range(len(words) - GRAM + 1)]


def _share(values: Sequence[bool]) -> float:
    return sum(values) / max(1, len(values))
