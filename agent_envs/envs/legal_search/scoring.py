"""The rewards pay by how the episode ended: `segmented`, after the paper, and `art_e`, that published formula exactly.

How an episode ended travels as one typed result of its last turn, which no tool can forge: its call id is empty. The rewards
read it there, and read what was found from the typed results of searches and reads.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from agent_envs.base.arguments import choice, number
from agent_envs.base.errors import UsageError
from agent_envs.core.episode import RewardSpec, Share, terms_from
from agent_envs.core.trajectory import Task, Trajectory
from agent_envs.envs.legal_search.outcomes import Ended, Evidence, ended_of, scenario_of
from agent_envs.envs.legal_search.tasks import LegalScenario
from agent_envs.envs.legal_search.tools import FAULTS

REWARDS = ("segmented", "art_e")
MARGIN = 0.01  # how far below its upper end a band stops, so that no two bands share a point

# Weights of ART-E (OpenPipe/ART, examples/art-e/art_e/rollout.py), but that fewer turns and searches, which the paper names,
# fill what citations leave of its band [1, 2]. `near_format` is a step between ART-E's kinds of format errors.
WEIGHTS = {
    "found": 0.1,
    "read": 0.1,
    "valid_reads": 0.1,
    "citation": 0.3,
    "concise": 0.1,
    "fewer_turns": 0.3,
    "fewer_searches": 0.3,
    "near_format": 0.1,
}
# The floor of each segment's part of its band, the width of that part, and the inner terms that count in it.
_PROGRESS = ("found", "read", "valid_reads")
SEGMENTS: dict[str, tuple[float, float, tuple[str, ...]]] = {
    "cited": (1.0, 1.0, ("citation", "concise", "fewer_turns", "fewer_searches")),
    "uncited": (0.5, 0.5 - MARGIN, _PROGRESS),
    "abstained_rightly": (0.5, 0.5 - MARGIN, _PROGRESS),
    "abstained": (0.0, 0.5 - MARGIN, _PROGRESS),
    "out_of_turns": (-0.5, 0.0, ()),
    "wrong": (-1.0, 0.5 - MARGIN, ("found",)),
    "format_error": (-2.0, 1.0 - MARGIN, (*_PROGRESS, "near_format")),
}


@dataclass(frozen=True)
class EpisodeLimits:
    """The turns and searches of an episode at most: the measure of a bonus for fewer of them."""

    turns: int
    searches: int


def make_reward(name: str, limits: EpisodeLimits, weights: Mapping[str, float] | None = None) -> RewardSpec:
    """Return the reward of a name; UsageError for an unknown name or weight, a weight beyond 0 to 10, or any with `art_e`.

    Args:
        name: `segmented` or `art_e`.
        limits: the episode's.
        weights: inner weights of `segmented` that differ from `WEIGHTS`, each from 0 to 10.

    Raises:
        UsageError: there is no such reward or weight.
    """
    choice("LegalSearch", "reward", name, REWARDS)
    if weights is not None and not isinstance(weights, Mapping):
        raise UsageError(f"LegalSearch: weights={weights!r}; give a mapping from {', '.join(WEIGHTS)} to numbers")
    if name == "art_e":
        if weights:
            raise UsageError(f"LegalSearch: weights={weights!r} have no meaning with reward='art_e'; leave them out")
        values = partial(_art_e, limits=limits)
        return RewardSpec("art_e", terms_from(values, _ART_E_TERMS), (-2.0, 1.5))
    unknown = sorted(set(weights or ()) - set(WEIGHTS))
    if unknown:
        raise UsageError(
            f"LegalSearch: weights name {', '.join(map(str, unknown))}; the weights are {', '.join(WEIGHTS)}"
        )
    full = {**WEIGHTS, **(weights or {})}
    for key, weight in full.items():
        number("LegalSearch", f"weights[{key!r}]", weight, 0, 10)
    bounds = {"band": (-2.0, 1.0, "the floor of the segment that the episode ended in")}
    for key, weight in full.items():
        bounds[key] = (0.0, weight * (2 if key == "near_format" else 1), _DOCS[key])
    most = sum(high for _, high, _ in list(bounds.values())[1:])
    bounds["kept_in_band"] = (-most, 0.0, "takes back what would leave the segment's part of its band")
    values = partial(segmented, limits=limits, weights=full)
    return RewardSpec("segmented", terms_from(values, bounds), (-2.0, 2.0))


_DOCS = {
    "found": "share of the gold sections that a search or a read brought up",
    "read": "share of the gold sections that were read",
    "valid_reads": "something was read, and no read was of an ID or page that is not there",
    "citation": "share of the sections that prove the answer which it cites",
    "concise": "share of the cited sections which prove the answer",
    "fewer_turns": "the weight times the share of the turns but the answer's that were not taken",
    "fewer_searches": "the weight times the share of the searches that were not made",
    "near_format": "0 for what cannot be parsed, 1 for an unknown tool, 2 for wrong or missing arguments or no call",
}


def segmented(trajectory: Trajectory, limits: EpisodeLimits, weights: Mapping[str, float]) -> dict[str, float]:
    """Return the terms of `segmented` for the newest turn; {} unless it ended the episode."""
    ended = ended_of(trajectory)
    if not ended.outcome:
        return {}
    scenario = scenario_of(trajectory.task)
    rightly = ended.outcome == "abstained" and not scenario.answerable
    floor, width, inner = SEGMENTS["abstained_rightly" if rightly else ended.outcome]
    shares = _shares(trajectory, ended, scenario, limits)
    terms = {name: weights[name] * shares[name] for name in inner}
    beyond = min(0.0, width - math.fsum(terms.values()))
    return {"band": floor, **terms, **({"kept_in_band": beyond} if beyond else {})}


def _shares(trajectory: Trajectory, ended: Ended, scenario: LegalScenario, limits: EpisodeLimits) -> dict[str, float]:
    """Return the measures that pay an ended episode, from 0 to 1, `near_format` up to 2; without gold sections shares are 0."""
    evidence = Evidence.of(trajectory)
    gold = scenario.gold_sections
    retrieved = evidence.hit_ids | evidence.read
    proving = set(scenario.answer_sections) & set(ended.sources)
    return {
        "found": sum(name in retrieved for name in gold) / max(len(gold), 1),
        "read": sum(name in evidence.read for name in gold) / max(len(gold), 1),
        "valid_reads": float(evidence.reads > 0 and not evidence.invalid_reads),
        "citation": len(proving) / max(len(scenario.answer_sections), 1),
        "concise": len(proving) / max(len(ended.sources), 1),
        "fewer_turns": max(0.0, 1 - (len(trajectory.turns) - 1) / max(limits.turns - 1, 1)),
        "fewer_searches": max(0.0, 1 - evidence.searches / max(limits.searches, 1)),
        "near_format": float((0, 1, 2, 2)[FAULTS.index(ended.fault)]) if ended.fault in FAULTS else 0.0,
    }


_ART_E_TERMS = {
    "outcome": (-2.0, 1.0, "-2, -1.9, -1.8 for format errors, -1 wrong, 0 abstained or out of turns, 1 right"),
    "progress": (0.0, 0.4, "not for right answers: 0.1 each for found, read, no invalid read, sources right"),
    "sources": (0.0, 0.3, "for right answers: the sources are right"),
    "concise": (0.0, 0.1, "for right answers: 0.1 over the number of sources, if there are any"),
    "fewer_turns": (0.0, 0.1, "for right answers: 0.1 times the share of the turns that were not taken"),
}


def _art_e(trajectory: Trajectory, limits: EpisodeLimits) -> dict[str, float]:
    """Return the terms of `art_e` at the end, {} before: outcome and what adds to it, or a fault's floor and progress."""
    ended = ended_of(trajectory)
    if not ended.outcome:
        return {}
    evidence, right = Evidence.of(trajectory), set(scenario_of(trajectory.task).answer_sections)
    sources_right = not right.isdisjoint(ended.sources)
    if ended.outcome in ("cited", "uncited"):
        return {
            "outcome": 1.0,
            "sources": 0.3 * sources_right,
            "concise": 0.1 / len(ended.sources) if ended.sources else 0.0,
            "fewer_turns": 0.1 * (1 - len(trajectory.turns) / limits.turns),
        }
    kinds = dict(zip(FAULTS, (-2.0, -1.9, -1.8, -1.8), strict=True))
    floor = kinds[ended.fault] if ended.fault else -1.0 if ended.outcome == "wrong" else 0.0
    signs = (
        not right.isdisjoint(evidence.hit_ids),
        not right.isdisjoint(evidence.read),
        not evidence.invalid_reads,
        sources_right,
    )
    return {"outcome": floor, "progress": 0.1 * sum(signs)}


def metrics(trajectory: Trajectory) -> dict[str, float | None]:
    """Return the metrics beside success: the outcome, sections cited, hit and read, and whether judge and metric agree."""
    return dict(_metrics(trajectory))


def _metrics(trajectory: Trajectory) -> Iterator[tuple[str, float | None]]:
    """Yield metrics: shares of outcomes, of gold found (None without), searches, reads, and judge's agreement (if judged)."""
    ended, evidence = ended_of(trajectory), Evidence.of(trajectory)
    for name in ("abstained", "wrong", "out_of_turns", "format_error"):
        yield name, Share(ended.outcome == name)
    yield "cited", Share(ended.outcome == "cited")
    gold = scenario_of(trajectory.task).gold_sections
    sections = evidence.hit_ids | evidence.read
    yield "found", Share(sum(name in sections for name in gold) / len(gold)) if gold else None
    yield "searches", float(evidence.searches)
    yield "reads", float(evidence.reads)
    if ended.judge:
        yield "judge_agrees", Share((ended.judge == "1") == ended.metric)


def labels(task: Task) -> dict[str, str]:
    """Return the strata `kind` (of the question; "question" if unknown) and `answerable` (yes or no)."""
    kind = str(task.data[0]) if isinstance(task.data, tuple) and task.data else "question"
    return {"kind": kind, "answerable": "yes" if scenario_of(task).answerable else "no"}
