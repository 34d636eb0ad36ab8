"""A warm start imitates demonstrations before another trainer's first step, until what is held out has settled.

Episodes to imitate come from a solver, gold answers, a model's own successes, or a file. Only tokens of actions are in the
loss, the end of a turn among them; all tokens of a step weigh the same, over all processes.
"""

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.messages import Message
from agent_envs.base.terminal import stage_lines
from agent_envs.core.env import core_of
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.rollout.episode_runner import run_episode
from trainers.batching import MicroBatch, TrainRow
from trainers.environments import stacks_of, tasks_of_step, wrap
from trainers.episode_agents import Act, EpisodeAgent, spread_episode
from trainers.expanded_actions import expanded_parts
from trainers.imitation.demonstrations import SEARCH_FLAWS, TOOL_FLAWS, Flaws, demonstrations
from trainers.run import TrainingRun
from trainers.run_parts import RunParts
from trainers.sampling import plan_groups, play_groups, trim
from trainers.settings import WarmStartSettings
from trainers.training.forward import token_logprobs
from trainers.training.models import leave_out
from trainers.training.optimise import Optimiser, gradient_step

NAMED_FLAWS = {"none": Flaws(), "search": SEARCH_FLAWS, "tools": TOOL_FLAWS}


def solutions(env: gym.Env, count: int, flaws: str, split: str, seed: int, *, first: int = 0) -> Iterator[Trajectory]:
    """Return the solver's episodes from its `first` task on, with the flaws of a setting; UsageError for unknown ones.

    They are the same for the same arguments; where tasks have no end, no two are of one task.
    """
    if (expanded := expanded_parts(env, "demonstrations")) is not None:
        player = expanded.flawed_player(expanded.expanded_flaws_of(flaws), seed)
        return (spread_episode(env, player, split, number) for number in range(first, first + count))
    return demonstrations(env, count, flaws_of(flaws), split=split, seed=seed, first=first)


def flaws_of(text: str) -> Flaws:
    """Return flaws by name (none, search, tools), or from a JSON object of chances; UsageError for anything else.

    Raises:
        UsageError: no such name, or no such chance.
    """
    if text in NAMED_FLAWS:
        return NAMED_FLAWS[text]
    try:
        return Flaws(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise UsageError(f"flaws={text!r}: {', '.join(NAMED_FLAWS)}, or a JSON object of chances: {error}") from None


def _gold_answer(env: gym.Env[Any, Any]) -> Act:
    """Answer at once with the first accepted answer: what Search-R1's SFT baseline is shown."""
    core = core_of(env)
    before, after = core.answer_tags
    return lambda _: f"{before}{core.episode.task.gold[0]}{after}"


def direct_answers(env: gym.Env, split: str, count: int) -> Iterator[Trajectory]:
    """Yield the solved episodes of a split's first tasks, answered at once with the gold; UsageError if answers have no tags.

    Raises:
        UsageError: the environment's answers have no tags, so there is no direct one.
    """
    core = core_of(env)
    if not core.answer_tags[0]:
        raise UsageError(f"{core.env_id}: an answer has no tags here; data=solver shows how it is played")
    for task in range(min(count, core.source.size(split))):
        episode = run_episode(env, EpisodeAgent("gold", _gold_answer), seed=task, split=split, task=task)
        if episode.success:
            yield episode.trajectory


def own_successes(run: TrainingRun, episodes: int, samples_per_task: int, seed: int) -> Iterator[Trajectory]:
    """Yield the model's own solved episodes of step 0, kept in OUT/accepted.jsonl; UsageError for several processes.

    A run that was killed while it collected goes on with the next tasks; later the file is what is imitated.

    Raises:
        UsageError: there are several processes, or the file of a run that has begun to learn is not whole.
    """
    if run.parts.accelerator.num_processes > 1:
        raise UsageError(
            "rejection sampling plays in one process; then train in many on its file: --data .../accepted.jsonl"
        )
    path, tasks = run.parts.out / "accepted.jsonl", min(episodes, run.parts.train_size)
    order = tasks_of_step(0, tasks, run.parts.train_size, seed)
    chunk = max(1, run.parts.policy.batch // samples_per_task)
    skip = max((row["tasks"] for row in read_journal(path)), default=0) if path.exists() else 0
    if run.step and skip < tasks:
        raise UsageError(f"{path} holds {skip} of {tasks} tasks, and the weights that sampled them changed: start anew")
    with contextlib.closing(Journal(path)) as journal:
        for start in range(skip, tasks, chunk):
            some, key = order[start : start + chunk], f"{seed}/rejection/{start}"
            groups = play_groups(
                plan_groups(run.parts.spec, run.parts.train_split, some, samples_per_task, key), run.parts.policy
            )
            solved = [result.trajectory.to_json() for group in groups for result in group.results if result.success]
            journal.append({"tasks": start + len(some), "solved": solved})
    yield from (Trajectory.from_json(body) for row in read_journal(path) for body in row["solved"])


def recordings(path: Path, env: gym.Env, split: str) -> Iterator[Trajectory]:
    """Yield a file's solved episodes as text: rows of `Trajectory.to_json`, a run's journal, or published tool answers."""
    if holds_tool_texts(path):
        yield from tool_episodes(path, env, split)
        return
    for row in read_journal(path):
        bodies = row.get("solved", [row.get("trajectory", row)]) if isinstance(row, dict) else []
        for body in bodies:
            if not isinstance(body, dict) or "turns" not in body:
                continue  # the head of a journal
            episode = Trajectory.from_json(body)
            if episode.success:
                # As text: the tokens may be another model's.
                bare = {"token_ids": (), "logprobs": (), "entropies": (), "sampled": ()}
                yield replace(episode, turns=tuple(replace(turn, **bare) for turn in episode.turns))


MOST_CHARACTERS = 2_000_000  # of a row
_RESULT = re.compile(r"<result>(.*?)</result>", re.DOTALL)
_CALL = re.compile(r"</(?:search|python)>\Z")


def tool_episodes(path: Path, env: gym.Env[Any, Any], split: str) -> Iterator[Trajectory]:
    """Yield a file's published answers as episodes that begin with the environment's prompt; unfit rows are only counted.

    Two layouts are known, both with tags in one text: `<think>`, `<search>` or `<python>`, its `<result>`, and `<answer>`.
    ARPO's file (ARPO-SFT-54K, with STILL's answers in it) has rows of `conversations` and `system`, a JSON object a line;
    Tool-Star's (Tool-Star-SFT-54K) has rows of `instruction`, `input` and `output`, in one JSON list. What a tool said is no
    word of the policy: it becomes an observation, in the frame of our environments. The row's question stands in the prompt.
    A row without an action before each result, or behind the last one, is left out; how many were is told at the end.

    Args:
        path: of the file.
        env: whose prompt stands in place of the file's; it holds the question of a task once.
        split: of its tasks.

    Raises:
        UsageError: the prompt has no place for a question, or a row is of neither layout.
    """
    env.reset(seed=0, options={"task": 0, "split": split})
    episode = core_of(env).episode
    messages, question = episode.prompt, episode.task.question
    if sum(message.content.count(question) for message in messages) != 1 or not question:
        raise UsageError(f"{core_of(env).env_id}: its prompt has no one place for a question of {path.name}")
    left_out = 0
    for number, row in enumerate(tool_rows(path), start=1):
        posed, text = _question_and_answer(row, f"{path.name}, row {number}")
        turns = _turns(text, f"{path.name}/{number}/")
        if not turns:
            left_out += 1
            continue
        prompt = tuple(Message(one.role, one.content.replace(question, posed), one.author) for one in messages)
        yield Trajectory(
            Header("", "", str(number), split, "", 0, f"{path.name}/{number}"), prompt, turns, success=True
        )
    if left_out:
        print(f"{path.name}: {left_out} rows left out, whose results follow no call or are their end", file=sys.stderr)


def tool_rows(path: Path) -> Iterator[Any]:
    """Yield the rows of a .json file's list, or of a file with a JSON object a line; UsageError where it is malformed.

    Raises:
        UsageError: it is not that.
    """
    try:
        with path.open(encoding="utf-8") as file:
            rows = json.load(file) if path.suffix == ".json" else map(json.loads, filter(str.strip, file))
            if path.suffix == ".json" and not isinstance(rows, list):
                raise UsageError(f"{path.name}: a .json file of answers is one list of rows")
            yield from rows
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name}: {error}") from None


def holds_tool_texts(path: Path) -> bool:
    """Return whether a file is of one of the two layouts by its first row; a damaged one, by its name."""
    try:
        first = next(tool_rows(path), None)
    except UsageError:
        return path.suffix == ".json"  # a damaged journal is its own reader's to tell of
    return isinstance(first, dict) and ("conversations" in first or {"instruction", "input", "output"} <= first.keys())


def _question_and_answer(row: Any, place: str) -> tuple[str, str]:
    """Read the question and answer of a row in either format, both as bounded text; UsageError for any other row."""
    talk = row.get("conversations") if isinstance(row, dict) else None
    if isinstance(talk, list) and len(talk) == 2 and all(isinstance(one, dict) for one in talk):
        values = [one.get("value") for one in talk]
    else:
        values = [row.get(name) for name in ("input", "output")] if isinstance(row, dict) else []
    if len(texts := [one for one in values if isinstance(one, str) and len(one) <= MOST_CHARACTERS]) != 2:
        raise UsageError(f"{place}: neither a conversation of two nor instruction, input and output, as text")
    return texts[0].strip(), texts[1]


def _turns(text: str, origin: str) -> tuple[Turn, ...]:
    """Return the turns of an answer; none where a result follows no call, or nothing follows a result."""
    actions, results = (list(map(str.strip, _RESULT.split(text)[start::2])) for start in (0, 1))
    if not all(actions) or not all(_CALL.search(action) for action in actions[:-1]):
        return ()
    observations = [(Message("user", f"\n<result>\n{result}\n</result>\n", "tool"),) for result in results]
    pairs = zip(actions, [*observations, ()], strict=True)
    turns = [
        Turn(number, origin, action, None, observation) for number, (action, observation) in enumerate(pairs, start=1)
    ]
    return (*turns[:-1], Turn(len(turns), origin, actions[-1], None, (), terminated=True))


def imitate(settings: WarmStartSettings, run: TrainingRun, seed: int) -> None:
    """Fine-tune on demonstrations until steps end or success settles, with an own optimiser; the result is in `run.memory`."""
    episodes = list(warm_start_episodes(settings, run, seed))
    rows = rows_of(episodes, run.parts)
    optimiser = Optimiser(run.parts.model, settings.optim, settings.steps)
    success = run.parts.processes.mean([float(one.success) for one in episodes])
    report, settling = stage_lines("warm start"), Settling(settings, success)
    while optimiser.steps < settling.last:
        places = run.parts.processes.share(tasks_of_step(optimiser.steps, settings.rows_per_step, len(rows), seed))
        stats = imitation_step([rows[place] for place in places], run.parts, optimiser, settings.token_budget)
        if settling.due(optimiser.steps):
            settling.add_measure(optimiser.steps, run.held_out_success(settings.settling.tasks))
        if settling.cools_after(optimiser.steps):
            optimiser.cool_down(settings.settling.cooldown)
        report(f"loss {stats['loss']:.3f}{settling.in_words}", optimiser.steps / settling.last)
    unsaid = sorted(run.parts.constant - action_tokens(rows))
    leave_out(run.parts.bare, unsaid)
    run.weights_changed()
    run.memory["unsaid"] = unsaid
    run.memory["warm_start"] = {
        "steps": optimiser.steps,
        "demonstrations": settling.reference,
        "measures": settling.measures,
    }


class Settling:
    """The end of a warm start: after its steps, or `cooldown` steps after its held-out success settled.

    Attributes:
        reference: the success of the demonstrations themselves.
        last: the step after which it ends, as far as is known.
        measures: (step, success), in their order.
    """

    def __init__(self, settings: WarmStartSettings, reference: float) -> None:
        """Take the settings and the success of the demonstrations."""
        self.reference, self.last, self.measures = round(reference, 4), settings.steps, list[list[float]]()
        self._rule, self._settled = settings.settling, False

    @property
    def in_words(self) -> str:
        """The last measure, for a line on the screen; "" before any."""
        return f", held-out success {self.measures[-1][1]:.3f}" if self.measures else ""

    def due(self, step: int) -> bool:
        """Return whether success is measured after a step."""
        rule = self._rule
        return bool(rule.every) and step % rule.every == 0 and not self._settled and step < self.last - rule.cooldown

    def add_measure(self, step: int, success: float) -> None:
        """Take a measure; settle if the newest few pass the best before by no margin, and that is half the reference."""
        self.measures.append([step, round(success, 4)])
        values = [value for _, value in self.measures]
        before, lately = values[: -self._rule.patience], values[-self._rule.patience :]
        best = max(before, default=0.0)
        if before and best > 0 and best >= self.reference / 2 and max(lately) <= best + self._rule.margin:
            self._settled, self.last = True, step + self._rule.cooldown

    def cools_after(self, step: int) -> bool:
        """Return whether the rate begins to fall with the next step."""
        return bool(self._rule.every) and step == self.last - self._rule.cooldown


def warm_start_episodes(settings: WarmStartSettings, run: TrainingRun, seed: int) -> Iterator[Trajectory]:
    """Yield the demonstrations of a warm start, in equal shares within each of its stacks of wrappers."""
    stacks = stacks_of(settings.stacks, "warm_start.stacks")
    cuts = [settings.demonstrations * place // len(stacks) for place in range(len(stacks) + 1)]
    for stack, (first, stop) in zip(stacks, pairwise(cuts), strict=True):
        for env, count in run.parts.share_episodes(stop - first):
            flaws = stack.flaws or settings.flaws
            yield from solutions(wrap(env, stack.rows), count, flaws, run.parts.train_split, seed, first=first)


def imitation_step(rows: list[TrainRow], parts: RunParts, optimiser: Optimiser, token_budget: int) -> dict[str, float]:
    """Take one gradient step towards the tokens that are trained; the loss is the mean over those of all processes."""

    def by_token(micro: MicroBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Compute the negative log-probability of each token of a micro-batch."""
        with parts.accelerator.autocast():
            logprobs, _ = token_logprobs(parts.model, micro, with_entropy=False)
        return -logprobs, {}

    stats = gradient_step(rows, parts, by_token, token_budget=token_budget, optimiser=optimiser)
    return stats | {"tokens": sum(len(row.sequence.ids) for row in rows)}


def rows_of(episodes: Sequence[Trajectory], parts: RunParts) -> list[TrainRow]:
    """Return episodes as rows whose actions are trained; too long ones are left out; UsageError for none.

    Raises:
        UsageError: there are none.
    """
    sequences = [trim(seq) for episode in episodes for seq in parts.encode(episode)]
    fitting = [sequence for sequence in sequences if len(sequence.ids) <= parts.max_context]
    if left := len(sequences) - len(fitting):
        longest = f"sampling.max_context={parts.max_context}"
        print(f"{left} episodes are longer than {longest} and left out", file=sys.stderr)
    if not fitting:
        raise UsageError(
            "there are no episodes to imitate: rejection sampling kept none, the file is empty, or all are too long"
        )
    return [TrainRow(sequence, (0.0,) * len(sequence.ids)) for sequence in fitting]


def action_tokens(rows: Sequence[TrainRow]) -> set[int]:
    """Return the tokens that the actions of demonstrations are made of."""
    pairs = (pair for row in rows for pair in zip(row.sequence.ids, row.sequence.turns, strict=True))
    return {token for token, turn in pairs if turn}
