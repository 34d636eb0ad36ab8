"""The warm-up of Verlog's critic is checked before the policy learns from its values; report and release only train it."""

import sys
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from agent_envs.base.errors import AgentEnvsError
from agent_envs.wrappers.turns import allowance
from trainers.batching import TrainRow
from trainers.fixed_turns import DataPoint
from trainers.training.critic import WarmupSettings, fit


def turns_of_an_episode(run: Any) -> int:
    """Return the most turns of an episode of a run's environment."""
    env = run.parts.environment()
    env.reset(seed=0, options={"split": run.parts.train_split, "task": 0})
    return allowance(env)[0]


def note_if_short(turns: int, limit: int) -> None:
    """Print a note if a warm-up has so few turns a lane that short episodes are too many among those that end in it."""
    if 0 < turns < 2 * limit:
        note = f"critic warm-up: {turns} turns a lane are fewer than two episodes of {limit}"
        print(f"note: {note}: short episodes, the successes, are too many among those that end", file=sys.stderr)


def rounds_of(warmup: WarmupSettings, history: Sequence[dict[str, float]]) -> Iterator[int]:
    """Yield the rounds of a warm-up; with `check` as many again, up to `most_rounds`, while the loss has not settled.

    Args:
        warmup: how many there are.
        history: metrics before the first round and after each, as it grows.
    """
    for number in range(max(warmup.rounds, warmup.most_rounds)):
        look = number >= warmup.rounds and number % warmup.rounds == 0
        if look and (not warmup.check or has_settled([row["value_loss"] for row in history])[0]):
            return
        yield number


def has_settled(losses: Sequence[float]) -> tuple[bool, str]:
    """Return whether value losses over the same turns, before the first round and after each, have settled, and words about it.

    The mean of the last quarter of the rounds, two to six, is held against that of as many rounds before: it differs by less
    than two rounds of a tenth each would make, either way (0.81 to 1 / 0.81). Single rounds scatter by a tenth by chance, and
    further back than twelve rounds nothing counts: more rounds let a loss settle that fell before.
    """
    count = min(6, len(losses) // 2, max(2, (len(losses) - 1) // 4))
    before, last = fmean(losses[-2 * count : -count]), fmean(losses[-count:])
    steady = 0.81 * before <= last <= before / 0.81
    return steady, f"value loss {before:.4f} -> {last:.4f}, means of {count} rounds each"


def check_warm_up(
    pool: Sequence[Sequence[DataPoint]],
    rows: Sequence[TrainRow],
    history: Sequence[dict[str, float]],
    faults: float,
    run: Any,
    settings: Any,
) -> None:
    """Print how the critic did and keep it for the result; AgentEnvsError, with `check`, if badly.

    Args:
        pool: the warm-up's turns, batch by batch and lane by lane.
        rows: of them, with the values of the critic as it is now.
        history: metrics before the first round and after each.
        faults: that ended episodes.
        run: of the policy.
        settings: of Verlog.

    Raises:
        AgentEnvsError: the value loss has not settled, or values explain nothing.
    """
    turns, faults = map(int, run.parts.processes.sums([sum(map(len, pool)), faults]))
    losses, explained = [row["value_loss"] for row in history], history[-1]["explained_variance"]
    steady, words = has_settled(losses)
    r2, r, count = fit(ended_pairs(pool, rows, settings), run.parts.processes)
    words += f", explained variance {explained:.3f}"
    words += f", {r2:.3f} in episodes that ended (r = {r:.3f})" if count else ", no episode ended"
    summary = {"turns": turns, "faults": faults, "value_losses": losses, "explained_variance": explained}
    summary |= {"in_ended_episodes": {"tokens": count, "explained_variance": r2, "correlation": r}}
    run.memory |= {"uncounted_turns": run.memory["uncounted_turns"] + turns, "critic_warm_up": summary}
    print(f"critic warm-up: {turns} turns, {faults} faults, {words}", file=sys.stderr)
    if settings.warmup.check and not (steady and explained > 0 and (r > 0 or not count)):
        raise AgentEnvsError(f"the critic has not settled: {words}; raise warmup.most-rounds, or --warmup.no-check")


def ended_pairs(
    pool: Sequence[Sequence[DataPoint]], rows: Sequence[TrainRow], settings: Any
) -> list[tuple[float, float]]:
    """Return values beside returns that hold no value, of the tokens of episodes that ended within the warm-up's batches.

    Behind a limit nothing counts, though values look past it: in many an environment successes alone end without one.
    """
    lanes, left, pairs = len(pool) // settings.warmup.batches, iter(rows), list[tuple[float, float]]()
    row_of = {id(point): next(left) for piece in pool for point in piece if not point.empty}
    for lane in range(lanes):
        gain, is_complete, index = 0.0, False, 0
        for point in reversed([point for piece in pool[lane::lanes] for point in piece]):
            over = point.turn.terminated or point.turn.truncated
            if over or point.turn.index + 1 != index:  # where a fault took turns it is not known how the episode ended
                gain, is_complete = 0.0, over
            gain, index = point.turn.reward + settings.discounts.gamma_turn * gain, point.turn.index
            row = row_of.get(id(point))
            places = [] if row is None else [place for place, own in enumerate(row.sequence.trained) if own]
            for place in reversed(places):
                gain *= settings.discounts.gamma_token if place != places[-1] else 1.0
                pairs += [(row.more["values"][place], gain)] if row is not None and is_complete else []
    return pairs
