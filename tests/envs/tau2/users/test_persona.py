"""Manners: names, knobs, and what they do to words."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.envs.tau2.user_script import Fact
from agent_envs.envs.tau2.users.persona import PERSONAS, Persona, mistyped, persona_of, swapped
from agent_envs.envs.tau2.users.wording import CONSENT, as_sentence, say, unknown
from tests.rows import each_row


def test_names_knobs_and_the_scripts_own():
    assert persona_of("terse").words == "terse" and persona_of("plain") == Persona()
    assert persona_of("task", "insistent") == PERSONAS["insistent"]
    assert persona_of({"like": "impatient", "patience": 4}) == Persona("terse", 4, identifies=True)
    assert persona_of({"typos": 0.5}).typos == 0.5


@pytest.mark.parametrize(
    "knobs",
    [
        {"mood": 1},
        {"patience": -1},
        {"patience": 2.5},
        {"forgets": 1.5},
        {"piecemeal": 1},
        {"words": "many"},
        {"typos": "x"},
    ],
)
def test_other_knobs_and_values_are_refused(knobs):
    with pytest.raises(UsageError, match=next(iter(knobs))):
        persona_of(knobs)


@pytest.mark.parametrize("name", ["rude", "", "Task"])
def test_other_names_are_refused(name):
    with pytest.raises(UsageError, match="the personas are task, plain"):
        persona_of(name)


@given(st.text(), st.integers())
def test_swapped_keeps_the_characters(value, seed):
    other = swapped(value, Random(seed))
    assert sorted(other) == sorted(value)
    assert sum(one != two for one, two in zip(value, other, strict=True)) in (0, 2)


def test_swapped_changes_a_number_and_leaves_what_has_none():
    assert all(swapped("10115", Random(seed)) in ("01115", "11015", "10151") for seed in range(20))
    assert swapped("Mira", Random(0)) == "Mira" and swapped("1111", Random(0)) == "1111"


@given(st.text(), st.floats(0, 1), st.integers())
def test_errors_of_typing_touch_small_words_alone(text, share, seed):
    typed = mistyped(text, share, Random(seed), frozenset({"spared"}))
    assert len(typed) == len(text)
    for one, two in zip(text.split(), typed.split(), strict=True):
        assert one == two or (one.isascii() and one.islower() and one.isalpha() and sorted(one) == sorted(two))


def test_errors_of_typing_spare_what_they_are_told_to():
    words = mistyped("spared words spared", 1, Random(0), frozenset({"spared"})).split()
    assert words[0] == words[2] == "spared" and words[1] != "words"
    assert mistyped("please return", 1, Random(0)) != "please return"
    assert mistyped("please return", 0, Random(0)) == "please return"


@each_row("name", PERSONAS)
def test_everybody_has_words_for_everything(name):
    for what in (
        "greet",
        "yes",
        "thanks",
        "all",
        "protest",
        "still",
        "works",
        "look_up",
        "person",
        "consent",
        "plainly",
    ):
        assert {say(what, PERSONAS[name], Random(seed)) for seed in range(9)}


def test_one_phrase_of_each_manner_leads_to_a_consent():
    for manners in PERSONAS.values():
        (phrase,) = {say("consent", manners, Random(seed)) for seed in range(20)}
        assert CONSENT.match(phrase) and "nothing more" in phrase and phrase.endswith(":")


@each_row(("fact", "sentence"), [
    (Fact("payment", "My gift card."), "For the payment I want this: my gift card."),
    (Fact("cabin", "To business, the same flights."), "For the cabin I want this: to business, the same flights."),
    (Fact("passengers", "Jana Boateng."), "For the passengers I want this: Jana Boateng."),
    (Fact("date", "May 18, May 19 or May 21."), "For the date I want this: May 18, May 19 or May 21."),
    (Fact("route", "From Phoenix to Seattle."), "For the route I want this: from Phoenix to Seattle."),
    (Fact("payment", "That goes on my gift card."), "That goes on my gift card."),
    (Fact("reason", "My plans have changed."), "My plans have changed."),
    (Fact("amount", "1 gigabyte if less than 3 are left."), "For the amount I want this: 1 gigabyte if less than 3 are left."),
])  # fmt: skip
def test_what_is_no_sentence_is_told_as_one(fact, sentence):
    assert as_sentence(fact) == sentence


def test_what_is_not_known_is_named():
    assert unknown(("zip", "email")) == "I do not know my zip code or my e-mail address."
    assert unknown(("options", "reason")) == "I have no preference about the options. There is no particular reason."
    assert unknown(("problem",)) == ""
