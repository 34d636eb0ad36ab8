"""Scripted feedback of tool reasoning: who follows good hints solves more; it reads nothing but the conversation."""

import re

import gymnasium as gym

from agent_envs.envs.tool_reasoning.solver import UNKNOWN
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
    found = counts(gym.make(ID), range(40), follower)
    assert found == {"good": 27, "weak": 15, "misleading": 0}


def test_what_is_said_along_a_solution():
    told = along(gym.make(ID), 1)
    assert told[0].startswith("Nothing is known of ") and told[-1].startswith("The program printed ")
