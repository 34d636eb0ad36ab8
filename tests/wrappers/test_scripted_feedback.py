"""Scripted feedback of every environment: it is there, it is total, short and repeatable, and its words are few."""

import inspect
import random
import re
from importlib import import_module

import gymnasium as gym
import pytest

from agent_envs import env_ids
from agent_envs.base.errors import UsageError
from agent_envs.base.messages import Message
from agent_envs.core.registry import TABLE, companion_of, register_companions
from agent_envs.datasets.world import closed_vocabulary
from agent_envs.wrappers.scripted_feedback import MODES, MOST, QUALITIES, FeedbackWordings, scripted
from tests.examples import sample
from tests.hinted import half_able, play
from tests.hostile_texts import EVERYTHING, LARGE

FAMILIES = list(dict.fromkeys(row.family for row in TABLE))
ATTACKED = ("SearchQA", "Arithmetic", "Sort", "LegalSearch", "Tau2Retail", "Tau2Airline", "Tau2Telecom", "BabyAI", "BabaIsAI",
            "Crafter", "ToolReasoning")  # fmt: skip
ATTACKS = ("script", "template", "c0", "surrogate", "bidi", *LARGE)
EVERY = [(mode, quality) for mode in MODES for quality in QUALITIES]
AUTHORS = {"user": "environment", "assistant": "policy", "tool": "tool", "system": "environment"}


def feedback_of(row):
    module, _, name = row.entry.partition(":")
    return companion_of(getattr(import_module(module), name), "feedback")


def wordings_of(family):
    return import_module(f"agent_envs.envs.{family}.feedback").WORDINGS


def said(feedback, messages, mode, quality, seed=0):
    return feedback(messages, mode, quality, random.Random(seed))


def test_every_environment_has_feedback():
    assert [row.id for row in TABLE if feedback_of(row) is not None] == env_ids()
    for row in TABLE:
        assert list(inspect.signature(feedback_of(row)).parameters) == ["messages", "mode", "quality", "rng"]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_an_episode_is_told_something_at_every_turn_and_the_same_thing_again(row):
    env = gym.make(row.id)
    env.reset(seed=1, options={"task": 1})
    feedback, messages = feedback_of(row), list(env.unwrapped.episode.prompt)
    before = list(messages)
    for mode, quality in EVERY:
        text = said(feedback, messages, mode, quality)
        assert text == said(feedback, messages, mode, quality) and 0 < len(text) <= MOST
        assert text == said(feedback, [*messages, Message("user", "Do the opposite.", "feedback")], mode, quality)
        assert text.isprintable()
    assert messages == before
    apart = {said(feedback, messages, mode, quality) for mode, quality in EVERY}
    assert len(apart) == len(EVERY)
    told = []

    def follower(moment):
        told.append(moment.hint)
        return half_able(moment, 0.0)

    play(env, 1, follower, "good", "explore")  # checks that each hint is there, and short
    turns = env.unwrapped.episode.turns
    assert len(told) == len(turns) >= 1 and (turns[-1].terminated or turns[-1].truncated)


@pytest.mark.parametrize("row", [row for row in TABLE if row.name in ATTACKED], ids=lambda row: row.name)
@pytest.mark.parametrize("name", sample([*ATTACKS, "brackets", "numbers", "documents", "a map", "empty"], 6))
def test_any_conversation_is_answered(row, name):
    text = {
        "empty": "",
        "brackets": "[" * 100_000,
        "numbers": "7" * 100_000 + " of " + "1,234 " * 20_000,
        "documents": 'Doc 1(Title: "' * 20_000 + "Question: " * 5_000 + "<information>" * 5_000,
        "a map": "The map has 9 columns and 9 rows. You are baba, in column 9, row 9.\n" + "- key: 1 step up\n" * 20_000,
    }.get(name) or EVERYTHING.get(name, "")  # fmt: skip
    feedback, env = feedback_of(row), gym.make(row.id)
    env.reset(seed=1)
    prompt = env.unwrapped.episode.prompt
    roles = ("assistant", "tool", "user", "assistant", "user")
    attack = [Message(role, text, AUTHORS[role]) for role in roles]
    for messages in (
        [],
        attack[:1],
        attack,
        [*prompt, *attack],
        [Message(m.role, m.content + text, m.author) for m in prompt],
    ):
        for mode, quality in EVERY:
            found = said(feedback, messages, mode, quality)
            assert 0 < len(found) <= MOST
            assert found.isprintable() and found.encode()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_texts_have_the_papers_shape(family):
    table = wordings_of(family).table
    assert set(table) == set(MODES) and all(set(table[mode]) == set(QUALITIES) for mode in MODES)
    for mode, quality in EVERY:
        rows = table[mode][quality]
        assert list(rows) == ["any"] if quality == "weak" else "lost" in rows
        for situation, texts in rows.items():
            for text in texts:
                sentences = len(re.findall(r"[.:?](?= |$)", re.sub(r"\{\w+\}", "x", text).replace("x.", "x.")))
                assert sentences == 1 if mode == "explore" else 1 <= sentences <= 3, text
            assert len(texts) >= 2 or mode == "exploit" or situation == "unlikely", (family, mode, quality, situation)
    assert "unlikely" in table["explore"]["good"], "at least one avenue seems less promising"
    assert all("{" not in text for mode in MODES for text in table[mode]["weak"]["any"])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_vocabulary_is_small(family):
    wordings = wordings_of(family)
    assert 100 < len(wordings.words) < 500
    assert all(text == text.strip() and "{" not in text for text in wordings.texts)


def test_feedback_on_a_closed_world_is_made_of_known_words():
    world = {"vocabulary": "closed", "short": True, "paraphrase": False}
    env = gym.make("agent_envs/SearchQA-v0", world=world)
    known = {*closed_vocabulary(), *wordings_of("search_qa").words}
    told = set()

    def follower(moment):
        told.update(re.findall(r"\w+|[^\w\s]", moment.hint.lower()))
        return half_able(moment, 0.7)

    for task in range(12):
        for mode, quality in EVERY:
            play(env, task, follower, quality, mode)
    assert len(told) > 100 and told <= known


def test_what_is_asked_for_must_be_known():
    feedback = feedback_of(TABLE[0])
    for mode, quality, fix in (
        ("explode", "good", "explore, exploit"),
        ("explore", "perfect", "good, weak, misleading"),
    ):
        with pytest.raises(UsageError, match=fix):
            said(feedback, [], mode, quality)
    with pytest.raises(UsageError, match="feedback"):
        register_companions("nowhere:Nothing", feedbakc="nowhere:nothing")


class Misnamed:
    """An environment whose script is named wrongly."""


@pytest.mark.parametrize(
    "script, told",
    [
        ("nowhere_at_all:nothing", "Misnamed's feedback is named 'nowhere_at_all:nothing': there is no module"),
        ("tests.toy:nothing", "Misnamed's feedback is named 'tests.toy:nothing': the module has no 'nothing'"),
    ],
)
def test_a_script_that_is_named_wrongly_is_one_line(script, told):
    register_companions(Misnamed, feedback=script)
    with pytest.raises(UsageError, match=re.escape(told)):
        companion_of(Misnamed, "feedback")


def test_a_name_of_a_script_has_a_module():
    for name in ("tests.toy.sampler", ":sampler", "tests.toy:"):
        with pytest.raises(UsageError, match="write module:name"):
            register_companions(Misnamed, feedback=name)


def test_what_cannot_be_filled_or_read_is_answered_in_general():
    wordings = FeedbackWordings("agent_envs.envs.search_qa")
    general = wordings.table["exploit"]["good"]["lost"]

    def broken(messages, mode, quality):
        raise KeyError("anything")

    for advise in (broken, lambda *_: ("look_up", {"name": "\u202e<>\x00", "question": ""})):
        assert scripted(wordings, advise, [], "exploit", "good", random.Random(0)) in general
    quoted = scripted(wordings, lambda *_: ("name", {"name": "A\n<answer>B\u202e {name}" + "x" * 9_000}), [], "exploit",
                      "good", random.Random(0))  # fmt: skip
    assert "Nothing is known of A answer B {name}xxx" in quoted and len(quoted) <= MOST
