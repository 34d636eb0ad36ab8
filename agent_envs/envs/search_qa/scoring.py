"""Search QA pays one of the rewards `em`, `em_format` and `f1`.

All read the policy's own turns only, but for one released rule, off by default.
`em` is Search-R1's outcome reward (arXiv 2503.09516, section 3.3). `em_format` has every outcome of its v0.3 release
(qa_em_format.py): correct 1, or 0.8 in a broken format; wrong 0.2 in a sound format, 0.1 in a broken one; no answer 0 (the
release pays 0.2 for a sound format without an answer, which cannot be: a sound format ends with one).
"""

import re
from collections.abc import Callable
from functools import partial

from agent_envs.base.arguments import choice, number
from agent_envs.base.errors import UsageError
from agent_envs.base.protocol import Answer
from agent_envs.core.episode import RewardSpec, Share, Term
from agent_envs.core.trajectory import Trajectory
from agent_envs.grading.text_answers import contains_answer_characters, exact_match, says_unknown, token_f1

STRUCTURE_SCORE = 0.2  # structure_format_score of the v0.3 launch script
FINAL_SCORE = 0.1  # final_format_score of the same script
REWARDS = ("em", "exact", "em_format", "f1")
Equal = Callable[[str, tuple[str, ...]], bool]
_TAG = re.compile(r"</?(?:think|search|information|answer)>")


def make_reward(name: str, retrieval_score: float, equal: Equal = exact_match) -> RewardSpec:
    """Return a reward of a name; UsageError for an unknown one, or a retrieval score out of range or not with `em_format`.

    Args:
        name: `em`, `exact`, `em_format` or `f1`.
        retrieval_score: the released rule's bonus for a wrong answer in a sound format when the text of a search result
            holds a gold answer as a run of characters; 0 switches it off, as the release does.
        equal: how an answer is compared with the gold answers.
    """
    choice("SearchQA", "reward", name, REWARDS)
    if retrieval_score and name != "em_format":
        raise UsageError(f"SearchQA: retrieval_score={retrieval_score!r} has no meaning with reward={name!r}")
    exact = partial(_exact_score, equal=equal)
    term = Term("exact_match", 0.0, 1.0, "1 if the answer equals a gold answer after normalisation", exact, _ended)
    if name in ("em", "exact"):
        return RewardSpec(name, (term,), (0.0, 1.0))
    if name == "f1":
        term = Term("f1", 0.0, 1.0, "best F1 of the answer's words against a gold answer", _f1, _ended)
        return RewardSpec("f1", (term,), (0.0, 1.0))
    number("SearchQA", "retrieval_score", retrieval_score, 0, 1 - STRUCTURE_SCORE)
    terms = [
        term,
        Term(
            "format",
            -STRUCTURE_SCORE,
            STRUCTURE_SCORE,
            "-0.2 correct but broken; 0.2 wrong but sound; 0.1 both",
            partial(_format, exact=exact),
            lambda trajectory: _answer(trajectory) is not None,
        ),
    ]
    if retrieval_score:
        may_pay = partial(_wrong_in_form, exact=exact)
        terms.append(
            Term(
                "retrieval_score", 0.0, retrieval_score,
                "released rule: wrong, sound, and a gold answer stands in a passage that was retrieved",
                lambda trajectory: retrieval_score * (may_pay(trajectory) and _has_retrieved(trajectory)), may_pay,
            )
        )  # fmt: skip
    return RewardSpec("em_format", tuple(terms), (0.0, 1.0))


def sound_format(trajectory: Trajectory) -> bool:
    """Return whether every turn is a thought and a search carried out, the last a thought and an answer, nothing besides."""
    turns = trajectory.turns
    if not isinstance(turns[-1].parsed, Answer):
        return False
    searched = all(turn.results and not turn.results[0].error for turn in turns[:-1])
    kinds = ["search"] * (len(turns) - 1) + ["answer"]
    return searched and all(_sound_turn(str(turn.action), kind) for turn, kind in zip(turns, kinds, strict=True))


def _sound_turn(text: str, kind: str) -> bool:
    """Return whether a turn is a thought, then a `kind` tag, maybe unclosed; only white space before, what follows ignored."""
    text = "".join(text.partition(f"</{kind}>")[:2])  # what follows the action is ignored, as the release cuts it
    tags = _TAG.findall(text)
    expected = ["<think>", "</think>", f"<{kind}>", f"</{kind}>"]
    if tags not in (expected, expected[:3]):  # a server may have cut the stop string
        return False
    parts = _TAG.split(text)
    return not any(parts[place].strip() for place in (0, 2, 4) if place < len(parts))


def metrics(trajectory: Trajectory) -> dict[str, float]:
    """Return the shares "abstained" and "wrong" (an answer, no abstention, no success); without an answer both are 0."""
    answer = _answer(trajectory)
    abstained = answer is not None and says_unknown(answer)
    wrong = answer is not None and not abstained and not trajectory.success
    return {"abstained": Share(abstained), "wrong": Share(wrong)}


def _ended(trajectory: Trajectory) -> bool:
    """Return whether the newest turn ended the episode, by an answer or a limit."""
    return trajectory.last.terminated or trajectory.last.truncated


def _answer(trajectory: Trajectory) -> str | None:
    """Return the text of the answer in the last turn; None if that was no answer."""
    parsed = trajectory.turns[-1].parsed
    return parsed.text if isinstance(parsed, Answer) else None


def _gold(trajectory: Trajectory) -> tuple[str, ...]:
    """Return the gold answers of a trajectory's task."""
    assert trajectory.task is not None
    return trajectory.task.gold


def _exact_score(trajectory: Trajectory, equal: Equal) -> float:
    """Return 1.0 if the episode ended in an answer that equals a gold one; else 0.0."""
    answer = _answer(trajectory)
    return float(answer is not None and equal(answer, _gold(trajectory)))


def _f1(trajectory: Trajectory) -> float:
    """Return the best token F1 of the answer with a gold one; 0.0 without an answer."""
    answer = _answer(trajectory)
    return 0.0 if answer is None else token_f1(answer, _gold(trajectory))


def _format(trajectory: Trajectory, exact: Callable[[Trajectory], float]) -> float:
    """Return the format's part: 0 or -0.2 (broken) if right, 0.2 (sound) or 0.1 if wrong; 0.0 without an answer."""
    if _answer(trajectory) is None:
        return 0.0
    sound = sound_format(trajectory)
    if exact(trajectory):
        return 0.0 if sound else -STRUCTURE_SCORE
    return STRUCTURE_SCORE if sound else FINAL_SCORE


def _wrong_in_form(trajectory: Trajectory, exact: Callable[[Trajectory], float]) -> bool:
    """Return whether an episode ended in a wrong answer in a sound format."""
    return _answer(trajectory) is not None and not exact(trajectory) and sound_format(trajectory)


def _has_retrieved(trajectory: Trajectory) -> bool:
    """Return whether a gold answer stands, as characters, in a search result."""
    results = (result for turn in trajectory.turns for result in turn.results if not result.error)
    return any(contains_answer_characters(result.content, _gold(trajectory)) for result in results)
