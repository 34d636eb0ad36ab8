"""Scripted feedback of tool reasoning: who follows good hints solves more; it reads nothing but the conversation."""

import random
import re

import gymnasium as gym
import pytest

from agent_envs.base.messages import Message
from agent_envs.envs.tool_reasoning.feedback import FeedbackContext, give_feedback
from agent_envs.envs.tool_reasoning.solver import UNKNOWN
from tests.examples import part
from tests.hinted import along, counts, half_able

ID = "agent_envs/ToolReasoning-v0"


def follower(moment):
    """Searches for what it is told to, knows how to program what its pages tell, and answers when it is told to.

    It reads pages as an oracle does: what stands on a page that was shown, it knows. Without a hint it guesses or half knows.
    """
    core = moment.env.unwrapped
    hidden = core.episode.task.hidden
    seen = {page for turn in core.episode.turns for result in turn.results for page in result.ids}
    known = set(hidden.support) <= seen
    if named := re.search(r"Search for (.+)\.$", moment.hint):
        missing = [query for query, page in zip(hidden.queries, hidden.support, strict=True) if page not in seen]
        about = [query for query in missing if named[1] in query]
        return f"<think>so</think><search>{about[0] if about else named[1]}</search>"
    if "Write a program" in moment.hint or "Mend it" in moment.hint:
        return f"<think>so</think><python>\n{hidden.code if known else 'print(0)'}\n</python>"
    if printed := re.search(r"The program printed (.+)\. Put that", moment.hint):
        return f"<think>so</think><answer>\\boxed{{{printed[1]}}}</answer>"
    if "Put it into the box" in moment.hint:
        return f"<think>so</think><answer>\\boxed{{{hidden.answer if known else UNKNOWN}}}</answer>"
    if "Answer now" in moment.hint:
        return f"<think>so</think><answer>\\boxed{{{UNKNOWN}}}</answer>"
    return half_able(moment, 0.5)


def test_followers_of_good_hints_solve_more():
    successes = counts(gym.make(ID), range(part(40, 10)), follower)
    assert list(successes.values()) == part([27, 15, 0], [6, 2, 0])


def test_what_is_said_along_a_solution():
    told = along(gym.make(ID), 1)
    assert told[0].startswith("Nothing is known of ") and told[-1].startswith("The program printed ")


def asked(question, *since):
    """A conversation about a question of one's own."""
    prompt = Message("system", f"You may search and run a program. Question: {question}", "environment")
    return [prompt, *since]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Who is the mother of Ana Vilks's brother?", ["Ana Vilks"]),
        ("Who is the mother of Ana Vilks\u2019s brother?", ["Ana Vilks"]),
        ("Which medal did James Woods' teacher win in Lund?", ["James Woods", "Lund"]),
        ("Who acted in Grey's Anatomy beside Tom O'Neal?", ["Grey's Anatomy", "Tom O'Neal"]),
        ("Who wrote The Hornets' Nest?", ["The Hornets' Nest"]),
        ("When was NATO's first office opened in L'Aquila?", ["NATO", "L'Aquila"]),
    ],
)
def test_a_possessive_is_no_part_of_a_name(question, names):
    assert FeedbackContext(asked(question)).names() == names


def test_a_name_that_was_looked_up_or_shown_is_known_without_its_possessive():
    def said(*since):
        return give_feedback(
            asked("Who is the mother of Ana Vilks's brother?", *since), "exploit", "good", random.Random(0)
        )

    assert said() == "Nothing is known of Ana Vilks yet. Search for Ana Vilks."
    query = Message("assistant", "<search>siblings</search>", "policy")
    found = Message("user", "<result>\nPage 1 [p1] Jon Ek\nJon Ek is a brother of Ana Vilks.\n</result>", "tool")
    assert said(query, found).startswith("The pages speak of Ana Vilks")
    query = Message("assistant", "<search>Ana Vilks</search>", "policy")
    assert "Search for Ana Vilks" not in said(query, found)


def test_names_of_hostile_questions_cost_little():
    for text in ("A'" * 9_000, "A's " * 4_000, "Ab' " * 4_000, "Aa " * 5_000, "A" * 15_000):
        assert len(FeedbackContext(asked(text)).names()) < 2_000
