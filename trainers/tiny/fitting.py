"""A tokenizer is fitted to an environment by what its built-in agents see and say on training tasks."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
from transformers import PreTrainedTokenizerFast

from agent_envs.base.terminal import stage_lines
from agent_envs.core.env import core_of
from agent_envs.core.registry import full_id
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.policy import CompanionPolicy, Request
from trainers.environments import WrapperRow, wrap
from trainers.episode_agents import Act, EpisodeAgent, spread_episode
from trainers.tiny.models import ROLES, byte_tokenizer, ids_of, pieces_of, word_tokenizer

COVERAGE = {"words": 0.999, "digits": 0.9}


@dataclass(frozen=True)
class ChosenTokenizer:
    """A tokenizer for an environment, and why it is this one.

    Attributes:
        tokenizer: ready for a model.
        kind: `words` (numbers are words), `digits` (words, and numbers digit by digit) or `bytes`.
        coverage: the share of words on held-out tasks that are single tokens, by kind that was tried; none where one is given.
        phrases: the constant texts that are single tokens, schemas of tools among them.
        constant: these tokens, and those of a chat template's lines.
    """

    tokenizer: PreTrainedTokenizerFast
    kind: str
    coverage: dict[str, float]
    phrases: tuple[str, ...] = ()
    constant: frozenset[int] = frozenset()


def environment_tokenizer(
    env_id: str,
    *,
    plays: int = 2048,
    tags_apart: bool = False,
    numerals: str = "auto",
    stacks: Sequence[Sequence[WrapperRow]] = ((),),
    others: Sequence[tuple[str, Mapping[str, Any]]] = (),
    **arguments: Any,
) -> ChosenTokenizer:
    """Return an environment's tokenizer (words, digits or bytes) from its solver's and random agent's training plays.

    Numbers are words where held-out tasks bring no new words, digits where they bring few, and where they bring many
    the tokenizer is one of bytes.

    Args:
        env_id: an id of `agent_envs`, or any registered one whose class has a solver and a sampler.
        plays: how many training tasks each of the two plays; for "auto" as many held-out tasks, but 64 at most, are played.
        tags_apart: no constant text reaches over a tool's opening tag. What a counterfactual forces is then the token that
            the policy itself writes, and not one that it has never seen.
        numerals: "words" or "digits", whatever held-out tasks bring: names of theirs that no training task had make "auto"
            spell numbers, too.
        stacks: of wrappers, which the tasks are played in by turns, so that their words are known.
        others: further environments that it is for: ids with their arguments.
        arguments: of the environment.
    """
    environments = ((env_id, arguments), *others)
    report = stage_lines(f"tokenizer for {' and '.join(name for name, _ in environments)}")
    envs = [gym.make(full_id(name), **own) for name, own in environments]
    stack_envs = [[wrap(gym.make(full_id(name), **own), rows) for rows in stacks] for name, own in environments]
    parts = [_training_plays(stacked, plays, report) for stacked in stack_envs]
    solver_plays, random_plays = ([play for part in parts for play in part[place]] for place in (0, 1))
    thresholds = {kind: least for kind, least in COVERAGE.items() if numerals in ("auto", kind)}
    held_out_tasks = range(min(plays, 64) if numerals == "auto" else 0)
    texts = dict.fromkeys(text for trajectory in (*solver_plays, *random_plays) for text in texts_of(trajectory))
    solver = CompanionPolicy("solver")
    held_out = (spread_episode(env, solver, _held_out_split(env), task) for env in envs for task in held_out_tasks)
    fresh = [text for trajectory in held_out for text in texts_of(trajectory)]
    coverage = dict[str, float]()
    for number, (kind, least) in enumerate(thresholds.items()):
        report(f"vocabulary, {kind}", number / len(thresholds))
        base = word_tokenizer(texts, digits=kind == "digits")
        if not fresh or coverage.setdefault(kind, _coverage(base, fresh)) >= least:
            constant = [text for part in parts for text in _constant_texts(base, part[0][:256])]
            tags = [tag for env in envs for tag in _opening_tags(env)] if tags_apart else []
            phrases = (*without_tags(constant, tags), *(schema for env in envs for schema in _schemas(env)))
            tokenizer = word_tokenizer(texts, phrases=phrases, digits=kind == "digits")
            report(f"vocabulary, {kind}", 1.0)
            return ChosenTokenizer(tokenizer, kind, coverage, phrases, ids_of(tokenizer, (*phrases, *ROLES)))
    report("vocabulary, bytes", 1.0)
    return ChosenTokenizer(byte_tokenizer(), "bytes", coverage)


def _schemas(env: gym.Env[Any, Any]) -> list[str]:
    """Return the schemas of an environment's tools as chat templates write them."""
    _, info = env.reset(seed=0)
    return [json.dumps(tool, ensure_ascii=False) for tool in info["tools"]]


def _opening_tags(env: gym.Env[Any, Any]) -> list[str]:
    """Return the text that opens a tool call, where turns stop behind the text that closes it."""
    _, info = env.reset(seed=0)
    return [closing.replace("</", "<") for closing in info["stop"] if closing.startswith("</")]


def without_tags(texts: Sequence[str], tags: Sequence[str]) -> list[str]:
    """Return texts cut at tags, which are left out, each part once; parts of one word are dropped; as they are without tags."""
    if not tags:
        return list(texts)
    cut = re.compile("|".join(map(re.escape, tags)))
    parts = [(part, part == text) for text in texts for part in cut.split(text)]
    return list(dict.fromkeys(part for part, whole in parts if whole or len(part.split()) > 1))


def _training_plays(
    envs: Sequence[gym.Env[Any, Any]], plays: int, report: Callable[[str, float], None]
) -> tuple[list[Trajectory], list[Trajectory]]:
    """Play tasks, spread over envs by turns: the solver all; random agents, in games invalid turns too, the first quarter."""
    solver_plays, random_plays, unlabelled = [], [], EpisodeAgent("unlabelled", _unlabelled_actions)
    solver, stray = CompanionPolicy("solver"), CompanionPolicy("random")
    splits = core_of(envs[0]).source.splits
    split = "train" if "train" in splits else splits[0]
    for task in range(plays):
        env = envs[task % len(envs)]
        solver_plays.append(spread_episode(env, solver, split, task))
        if task < plays // 4:
            random_plays.append(spread_episode(env, stray, split, task))
            if hasattr(core_of(env), "game"):  # which says what came of a turn without an action
                random_plays.append(spread_episode(env, unlabelled, split, task))
        report("playing", (task + 1) / plays)
    return solver_plays, random_plays


def texts_of(trajectory: Trajectory) -> list[str]:
    """Return the texts of an episode, message by message; expanded actions are the text that they append."""
    texts = [message.content for message in trajectory.prompt]
    for turn in trajectory.turns:
        actions = [turn.action] if isinstance(turn.action, str) else []
        texts += [*actions, *(message.content for message in turn.observation)]
    return [text.encode("utf-8", "replace").decode("utf-8") for text in texts]


def _unlabelled_actions(env: gym.Env[Any, Any]) -> Act:
    """Return a random player of a game whose turns are invalid: without the label on odd ones, the label alone on even."""
    sampler = CompanionPolicy("random", env)

    def act(request: Request) -> str:
        """Draw an action and leave out its label; on even turns, leave out the action."""
        text = str(sampler.act([request])[0].action).removeprefix("ACTION: ")
        return text if request.turn % 2 else "ACTION:"

    return act


def _held_out_split(env: gym.Env[Any, Any]) -> str:
    """Return the split for held-out tasks: dev, or the last one where there is none."""
    splits = core_of(env).source.splits
    return "dev" if "dev" in splits else splits[-1]


def _coverage(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> float:
    """Return the share of pieces that are single tokens."""
    vocabulary = tokenizer.get_vocab()
    pieces = [piece for text in texts for piece in pieces_of(tokenizer, text)]
    return sum(piece in vocabulary for piece in pieces) / len(pieces)


def _constant_texts(base: PreTrainedTokenizerFast, plays: Sequence[Trajectory]) -> list[str]:
    """Return texts that all prompts hold, message by message, and phrases that recur in observations and in actions."""
    pieces = partial(pieces_of, base)
    longest = max(len(play.prompt) for play in plays)
    prompts = [[play.prompt[place].content for play in plays if len(play.prompt) > place] for place in range(longest)]
    turns = [turn for play in plays for turn in play.turns]
    observations = [message.content for turn in turns for message in turn.observation]
    runs = [run for group in prompts for run in shared_runs([pieces(text) for text in group])]
    runs += settled_runs([pieces(text) for text in observations])
    runs += settled_runs([pieces(turn.action) for turn in turns if isinstance(turn.action, str)])
    return [base.backend_tokenizer.decoder.decode(list(run)) for run in dict.fromkeys(runs)]


def shared_runs(rows: Sequence[Sequence[str]], shortest: int = 3) -> list[tuple[str, ...]]:
    """Return the longest runs of `shortest` or more pieces that every row holds, each once, in the order of the first row."""
    joined = ["\0" + "\0".join(row) + "\0" for row in rows]
    first, runs, start = rows[0], list[tuple[str, ...]](), 0
    while start < len(first):
        stop = start
        while stop < len(first) and all("\0" + "\0".join(first[start : stop + 1]) + "\0" in row for row in joined):
            stop += 1
        if stop - start >= shortest:
            runs.append(tuple(first[start:stop]))
        start = max(stop, start + 1)
    return list(dict.fromkeys(runs))


def settled_runs(rows: Sequence[Sequence[str]], share: float = 0.05, sure: float = 0.98) -> list[tuple[str, ...]]:
    """Return the runs of pieces that follow their first one almost always (`sure`), none that lies within another.

    A piece begins a run only if it stands in this share of the rows.
    """
    places: dict[str, list[tuple[int, int]]] = {}
    for number, row in enumerate(rows):
        for place, piece in enumerate(row):
            places.setdefault(piece, []).append((number, place))
    runs = []
    for piece, occurrences in places.items():
        run = [piece]
        while occurrences and len({number for number, _ in occurrences}) >= max(5, share * len(rows)):
            nexts = Counter(rows[number][place + 1] for number, place in occurrences if place + 1 < len(rows[number]))
            likely, count = nexts.most_common(1)[0] if nexts else ("", 0)
            if count < sure * len(occurrences):
                break
            run.append(likely)
            occurrences = [(n, p + 1) for n, p in occurrences if p + 1 < len(rows[n]) and rows[n][p + 1] == likely]
        if len(run) > 1:
            runs.append(tuple(run))
    joined = ["\0" + "\0".join(run) + "\0" for run in runs]
    return [run for run, text in zip(runs, joined, strict=True) if sum(text in other for other in joined) == 1]
