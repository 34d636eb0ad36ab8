"""Whatever is said and shown, tokens only grow, and the mask marks exactly what was sampled."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.trainers.tokens.toys import TEMPLATES, bpe, words
from trainers.tokens import ChatTokenizer

CHATS = {
    f"{make.__name__} {name}": (make, name, template)
    for make in (bpe, words)
    for name, template in [(n, n) for n in ("chatml", "qwen", "llama")] + list(TEMPLATES.items())
}
TEXT = st.one_of(
    st.text(max_size=20), st.sampled_from(["<|im_end|>", "\n<|im_start|>user\n", " the town\n\n", "<|eot_id|>"])
)
MESSAGE = st.builds(
    lambda role, content: {"role": role, "content": content}, st.sampled_from(["user", "tool", "system"]), TEXT
)
TURN = st.tuples(
    TEXT,  # prefill
    st.lists(st.integers(0, 10_000), max_size=8),
    st.booleans(),
    st.lists(MESSAGE, max_size=3),
)


@cache
def chat_named(name):
    make, of, template = CHATS[name]
    return ChatTokenizer(make(of), template)


@pytest.mark.parametrize("name", sorted(CHATS))
@examples(15)
@given(st.lists(MESSAGE, max_size=2), st.lists(TURN, min_size=1, max_size=3))
def test_tokens_only_grow(name, before, turns):
    chat = chat_named(name)
    conversation = chat.open([*before, {"role": "user", "content": "q"}])
    sampled, ids = [], tuple(conversation.ids)
    for number, (prefill, drawn, closed, shown) in enumerate(turns, 1):
        conversation.prefill(prefill)
        drawn = [token % (len(chat.tokenizer) - 8) for token in drawn]
        drawn += chat.end_ids if closed else ()
        conversation.append_sampled(drawn, [-1.5] * len(drawn), number)
        sampled += [(token, number) for token in drawn]
        conversation.observe(shown)
        row = conversation.sequence()
        assert row.ids[: len(ids)] == ids and len(row.ids) >= len(ids) + len(drawn)
        ids = row.ids
    marked = [(token, turn) for token, turn, mine in zip(row.ids, row.turns, row.trained, strict=True) if mine]
    assert marked == sampled
    assert [value != 0.0 for value in row.logprobs] == list(row.trained)


@examples(200)
@given(st.text(max_size=60))
def test_bytes_decode_to_the_text_that_was_encoded(text):
    chat = chat_named("bpe chatml")
    clean, _ = chat.control.neutralise(text)
    assert chat.decode((*chat.codec.encode(clean), *chat.end_ids)) == clean


@given(
    st.text(alphabet=" \n.,<>/", max_size=12), st.sampled_from(["the town", "harbour  north", "<search>the</search>"])
)
def test_words_decode_to_the_text_that_was_encoded(space, text):
    chat = chat_named("words qwen")
    whole = f"{space}{text}{space}"
    assert chat.decode((*chat.codec.encode(whole), *chat.end_ids)) == whole


def test_a_character_that_is_cut_in_half_is_shown_as_a_replacement_and_kept_as_it_was():
    chat = chat_named("bpe chatml")
    ids = chat.codec.encode("👩")[:2]
    conversation = chat.open([{"role": "user", "content": "q"}])
    conversation.append_sampled(ids, [-1.0] * len(ids), 1)
    conversation.observe([{"role": "user", "content": "more"}])
    assert "\ufffd" in chat.decode(ids)
    assert [token for token, mine in zip(conversation.ids, conversation.trained, strict=True) if mine] == list(ids)
