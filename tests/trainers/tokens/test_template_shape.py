"""The shape of chat templates: roles or calls that a template refuses are adapted, and what cannot serve is refused."""

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.services.chat.conversation import TOOLS
from tests.trainers.tokens.toys import SCHEMA, TEMPLATES, bpe
from trainers.tokens import ChatTokenizer


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("has no system", ("system", "later system")),
        ("has no tool", ("tool",)),
        ("alternates", None),
        ("collects the system", ("later system",)),
    ],
)
def test_roles_that_are_refused_become_the_users(name, folded):
    chat = ChatTokenizer(bpe(), TEMPLATES[name])
    expected = ("system", "later system", "tool") if folded is None else folded
    assert chat.shape.folded == expected
    assert chat.shape.alternates == (name == "alternates")
    start = [{"role": "system", "content": "zero"}, {"role": "user", "content": "one"}]
    conversation = chat.open(start)
    conversation.append_sampled(chat.end_ids, [-1.0], 1)
    conversation.observe([{"role": "tool", "content": "two"}, {"role": "system", "content": "three"}])
    text = chat.tokenizer.decode(conversation.ids)
    assert all(text.count(said) == 1 for said in ("zero", "one", "two", "three"))
    if "system" in expected:
        assert "<|im_start|>user\nzero\n\none<|im_end|>" in text
    if name == "alternates":
        assert "<|im_start|>user\ntwo\n\nthree<|im_end|>" in text
        assert text.count("<|im_start|>user") == 2
    if name == "collects the system":
        assert "<|im_start|>tool\ntwo<|im_end|>\n<|im_start|>user\nthree<|im_end|>" in text
    if name == "has no tool":
        assert "<|im_start|>user\ntwo<|im_end|>\n<|im_start|>system\nthree<|im_end|>" in text


def test_messages_of_users_stay_apart_where_nothing_was_folded():
    chat = ChatTokenizer(bpe(), "chatml")
    text = chat.tokenizer.decode(
        chat.open([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]).ids
    )
    assert text.startswith("<|im_start|>user\none<|im_end|>\n<|im_start|>user\ntwo<|im_end|>")


def test_calls_with_json_texts_are_objects_where_a_template_would_quote_them_twice():
    chat = ChatTokenizer(bpe(), TEMPLATES["rewrites calls"])
    assert chat.shape.objects
    call = {"id": "call_0", "type": "function", "function": {"name": "seek", "arguments": '{"goal":"the town"}'}}
    rows = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "user", "content": "two"},
    ]
    assert '[CALL]seek{"goal": "the town"}<|im_end|>' in chat.tokenizer.decode(chat.open(rows).ids)


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("auto", "give chatml"),
        ("mistake", "give chatml"),
        ("{% for %}", "no jinja"),
        ("{{ raise_exception('never') }}", "never"),
        ("{{ 'always this' }}", "leaves out"),
        ("{{ messages.__class__.__mro__ }}", "refuses"),
    ],
)
def test_templates_that_cannot_serve_are_refused_in_one_line(template, problem):
    with pytest.raises(UsageError, match=problem):
        ChatTokenizer(bpe(), template)


def test_the_tokenizers_own_template_is_the_default():
    tokenizer = bpe()
    tokenizer.chat_template = TEMPLATES["trims"]
    assert ChatTokenizer(tokenizer).template == TEMPLATES["trims"]


def test_without_anything_that_closes_a_turn_there_is_no_conversation():
    tokenizer = bpe()
    tokenizer.eos_token = None
    with pytest.raises(UsageError, match="nothing closes a turn"):
        ChatTokenizer(tokenizer, TEMPLATES["has no end"])


@pytest.mark.parametrize("name", ["trims", "has no system", "rewrites calls"])
@pytest.mark.parametrize("has_system", [True, False])
def test_schemas_reach_the_model_where_a_template_has_no_place_for_them(name, has_system):
    start = [{"role": "system", "content": "zero"}] * has_system + [{"role": "user", "content": "one"}]
    chat = ChatTokenizer(bpe(), TEMPLATES[name])
    assert not chat.shape.takes_tools
    text = chat.tokenizer.decode(chat.open(start, (SCHEMA,)).ids)
    assert text.count(TOOLS) == text.count(canonical_json(SCHEMA["function"])) == 1
    assert text.index(TOOLS) < text.index("one") and text.count("zero") == has_system
    assert TOOLS not in chat.tokenizer.decode(chat.open(start).ids)
