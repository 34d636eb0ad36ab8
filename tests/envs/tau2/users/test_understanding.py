"""The simulated user recognizes topics, yes and no in an agent's message, and accepts any text."""

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.envs.tau2.user_script import TOPICS
from agent_envs.envs.tau2.users.agent_words import topics
from agent_envs.envs.tau2.users.sentences import LONGEST, MOST, sentences
from agent_envs.envs.tau2.users.understanding import understood
from tests.envs.tau2.users.utterances import EXACT, UTTERANCES
from tests.rows import each_row


@each_row(("text", "topics", "flags"), UTTERANCES)
def test_utterances(text, topics, flags):
    heard = understood(text)
    named = set(flags.split())
    assert set(heard.topics) == set(topics.split())
    assert {flag for flag in EXACT if getattr(heard, flag)} == named & set(EXACT)
    assert all(getattr(heard, flag) for flag in named)


def test_the_table_has_every_topic_and_every_flag():
    assert {topic for _, topics, _ in UTTERANCES for topic in topics.split()} == set(TOPICS)
    assert {flag for _, _, flags in UTTERANCES for flag in flags.split()} >= {
        *EXACT,
        "asks",
        "waits",
        "probes",
        "invites",
        "extends",
    }


def test_there_are_words_for_every_topic_of_a_script():
    assert tuple(name for name, _ in topics()) == TOPICS


def test_a_list_is_asked_for_where_words_begin_it_and_told_where_it_has_values():
    asked = understood("Please give me the following:\n\n* **Zip code**\n\n* Date of birth\n")
    told = understood("Here is what I have:\n- Zip code: 10115\n- Date of birth: 1990-01-01")
    assert asked.topics == ("zip", "date_of_birth") and told.topics == ()


def test_topics_come_in_the_order_in_which_they_are_asked_for():
    assert understood("Your zip code, your name and your e-mail, please?").topics == ("zip", "name", "email")
    assert understood("What is your order number? And your name?").topics == ("order", "name")


def test_what_is_offered_leaves_refusals_out():
    heard = understood("I cannot refund your gift card, but I can refund the credit card. Shall I?")
    assert "credit card" in heard.offered and "gift" not in heard.offered


def test_typographic_marks_make_no_difference():
    assert understood("I can\u2019t cancel it \u2013 sorry.").refuses
    assert understood("What\u2019s your **zip** code\uff1f").topics == ("zip",)


@given(st.text())
def test_any_text_is_understood_alike_twice(text):
    assert understood(text) == understood("".join(text))
    assert set(understood(text).topics) <= set(TOPICS)


@given(st.text(alphabet="x?.! \n-*1", max_size=400))
def test_sentences_lose_no_words(text):
    words = "".join(char for char in text if char == "x")
    assert "".join(char for part in sentences(text) for char in part.text if char == "x") == words


def test_a_text_without_end_is_read_at_its_ends():
    assert len(sentences("Hm. " * 100_000)) == MOST
    assert understood("x" * 3 * LONGEST + " What is your zip code?").topics == ("zip",)
