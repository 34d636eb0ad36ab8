"""Scripted feedback of legal search: who follows good hints finds what the answer rests on, who follows bad ones does not."""

import random
import re

import gymnasium as gym

from agent_envs.base.messages import Message
from agent_envs.envs.legal_search.feedback import give_feedback
from agent_envs.envs.legal_search.tools import Final, read_turn
from tests.examples import part
from tests.hinted import along, counts, half_able

TASKS = range(part(40, 10))


def as_text(moment):
    """Search, read and answer as a hint says. Its reader is right if all was read that the answer rests on."""
    hint = moment.hint
    searched = re.search(r"Search by (words|meaning)[^:]*: (.+)\.$", hint)
    read = re.search(r"Read (.+?) (?:next|before you answer|once more)[.,]", hint)
    if searched:
        tag = "keyword" if searched[1] == "words" else "semantic"
        return f"<{tag}>{searched[2]}</{tag}>"
    if read:
        return f"<read>{read[1]}</read>"
    if "Search once more" in hint:
        return "<keyword>anything</keyword>"
    if "don't know" in hint:
        return "<answer>I don't know</answer>"
    if "Answer" in hint:
        return answered(moment)
    own = half_able(moment, 0.5, "heuristic")
    final = read_turn(own, "tags")[1]
    return answered(moment) if isinstance(final, Final) and "know" not in final.text else own


def answered(moment):
    """Answer what is right if the sections that prove it were read, else what is wrong."""
    episode = moment.env.unwrapped.episode
    read = {
        name
        for turn in episode.turns
        for result in turn.results
        if result.name == "read_section"
        for name in result.ids
    }
    proved = {step.section for step in episode.task.hidden.steps if step.section} <= read
    return f"<answer>{episode.task.gold[0] if proved else 'thirty'}</answer>"


def test_good_hints_help_and_misleading_ones_hurt():
    env = gym.make("agent_envs/LegalSearch-v0")
    good, own, misleading = counts(env, TASKS, as_text).values()
    assert good >= part(30, 8) and good > own + part(4, 1) and misleading <= part(4, 1), (good, own, misleading)


def test_what_a_question_needs_is_found_one_section_after_the_other():
    told = along(gym.make("agent_envs/LegalSearch-v0"), 3)
    assert len(told) >= 4 and told[0].startswith("The right section was not seen yet. Search by words")
    assert any("Read " in hint for hint in told)


def test_other_questions_are_led_by_the_searchers_rules():
    prompt = Message("user", "You have 11 turns.\n\nQuestion: Who must feed the cat?", "environment")
    told = give_feedback([prompt], "exploit", "good", random.Random(0))
    query = "Definitions means Who must feed the cat?"
    assert told == f"The right section was not seen yet. Search by words, with those that matter: {query}."
