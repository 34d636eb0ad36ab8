"""The cache of rendered pieces returns the function's results and never exceeds its limit of characters."""

from hypothesis import given
from hypothesis import strategies as st

from tests.trainers.players import chat_for
from trainers.tokens.chat import TextCache

WORDS = st.text("ab", max_size=6)


@given(st.lists(st.tuples(WORDS, WORDS), max_size=40), st.integers(0, 20))
def test_results_are_the_functions_and_no_more_characters_are_kept_than_allowed(calls, most):
    asked = []

    def joined(*texts):
        asked.append(texts)
        return "".join(texts)

    remembered = TextCache(joined, most)
    for texts in calls:
        assert remembered(*texts) == "".join(texts)
        assert remembered.characters <= most
        if sum(map(len, texts)) <= most:
            count = len(asked)
            assert remembered(*texts) == "".join(texts) and len(asked) == count


def test_what_was_used_last_stays_longest():
    asked = []
    remembered = TextCache(lambda text: asked.append(text) or text, 4)
    for text in ("aa", "bb", "aa", "cc", "aa", "bb"):
        remembered(text)
    assert asked == ["aa", "bb", "cc", "bb"]


def test_long_conversations_do_not_pile_up():
    """512 openings of any length were kept once; fifty long ones held all their characters."""
    chat = chat_for("Order")
    for number in range(50):
        said = [{"role": "user", "content": f"{number} " + "word " * 10_000}]
        conversation = chat.open(said)
        assert chat.decode(conversation.ids).count("word") >= 10_000
        assert chat._rendered.characters <= 2_000_000
