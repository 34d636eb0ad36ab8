"""Pieces put together are the full render, token for token, however turns ended."""

from itertools import product

import pytest

from tests.trainers.tokens.toys import SCHEMA, TEMPLATES, bpe, metaspace, words
from trainers.tokens import ChatTokenizer
from trainers.tokens.rendering import find_template

START = [{"role": "system", "content": "the items"}, {"role": "user", "content": "the town?"}]
SAID = ("<think>the search</think>\n<search>the harbour</search>", "the north .\n", "")
SHOWN = (
    [{"role": "user", "content": "the town is in the north"}],
    [{"role": "tool", "content": "larger", "tool_call_id": "call_0"}, {"role": "user", "content": "smaller"}],
    [{"role": "system", "content": "sorted"}],
    [],
)
NAMES = ("chatml", "qwen", "llama")


def full_render(chat):
    template = find_template(chat.tokenizer, chat.template)
    return lambda messages, tools=(): template.render(messages, tools, generate=True)


@pytest.mark.parametrize("make", [bpe, words])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tools", [(), (SCHEMA,)])
def test_the_pieces_are_the_full_render(make, name, tools):
    chat = ChatTokenizer(make(name), name)
    render = full_render(chat)
    for ends in product(("eos", "length", "demonstrated"), repeat=3):
        conversation, messages, spoken = chat.open(START, tools), list(START), list[int]()
        for turn, (end, text, shown) in enumerate(zip(ends, SAID, SHOWN, strict=False), 1):
            ids = (*chat.codec.encode(text), *(() if end == "length" else chat.end_ids))
            spoken += ids
            if end == "demonstrated":
                conversation.append_demonstration(text, turn)
            else:
                conversation.append_sampled(ids, [-1.0] * len(ids), turn)
            conversation.observe(shown)
            messages += [{"role": "assistant", "content": text}, *shown]
            assert tuple(conversation.ids) == chat.codec.encode_rendered(render(messages, tools)), (ends, turn)
            marked = zip(conversation.ids, conversation.trained, strict=True)
            assert [number for number, mine in marked if mine] == spoken


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text", ["\n\n two \n\n", "  ", "\ttab", "é\u0301 👩‍🚀\u2028x", "a\r\nb", "\u0000", "<s> </s>"]
)
def test_odd_text_comes_back_as_it_went_in(name, text):
    chat = ChatTokenizer(bpe(name), name)
    conversation = chat.open(START)
    conversation.append_demonstration(text, 1)
    spoken = [number for number, mine in zip(conversation.ids, conversation.trained, strict=True) if mine]
    assert spoken[-1:] == list(chat.end_ids)
    assert chat.decode(spoken) == text
    conversation.observe(SHOWN[0])
    rendered = full_render(chat)([*START, {"role": "assistant", "content": text}, *SHOWN[0]])
    assert chat.tokenizer.decode(conversation.ids, clean_up_tokenization_spaces=False) == rendered


def test_what_stands_behind_the_end_token_is_not_lost():
    chat = ChatTokenizer(bpe(), "chatml")
    conversation = chat.open(START)
    conversation.append_sampled(chat.end_ids, [-1.0], 1)
    before = len(conversation.ids)
    conversation.observe(SHOWN[0])
    added = chat.tokenizer.decode(conversation.ids[before:])
    assert added == "\n<|im_start|>user\nthe town is in the north<|im_end|>\n<|im_start|>assistant\n"


def test_a_turn_that_was_cut_is_closed_by_tokens_that_nobody_sampled():
    chat = ChatTokenizer(bpe(), "chatml")
    conversation = chat.open(START)
    ids = chat.codec.encode("the nor")
    conversation.append_sampled(ids, [-1.0] * len(ids), 1)
    before = len(conversation.ids)
    conversation.observe(SHOWN[0])
    assert conversation.ids[before] == chat.end_ids[0]
    assert not any(conversation.trained[before:])


def test_an_opening_that_ends_in_the_assistants_words_is_gone_on_with():
    chat = ChatTokenizer(bpe("llama"), "llama")
    history = [*START, {"role": "assistant", "content": " compare(a, b)"}, {"role": "assistant", "content": " = <\n "}]
    text = chat.tokenizer.decode(chat.open(history).ids)
    assert text.endswith("<|start_header_id|>assistant<|end_header_id|>\n\n compare(a, b) = <\n ")
    empty = chat.open([*START, {"role": "assistant", "content": ""}])
    assert empty.ids == chat.open(START).ids


def test_words_of_the_assistant_in_an_observation_go_on_with_its_turn():
    chat = ChatTokenizer(bpe(), "chatml")
    conversation = chat.open(START)
    ids = chat.codec.encode("so ")
    conversation.append_sampled(ids, [-1.0] * len(ids), 1)
    conversation.observe([{"role": "assistant", "content": "compare("}])
    conversation.append_sampled(ids, [-1.0] * len(ids), 2)
    assert chat.tokenizer.decode(conversation.ids).endswith("<|im_start|>assistant\nso compare(so ")
    conversation.append_sampled(chat.end_ids, [-1.0], 2)
    conversation.observe([{"role": "user", "content": "?"}, {"role": "assistant", "content": "then "}])
    tail = "so <|im_end|>\n<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\nthen "
    assert chat.tokenizer.decode(conversation.ids).endswith(tail)
    conversation.append_sampled(chat.end_ids, [-1.0], 3)
    conversation.observe([{"role": "assistant", "content": "more"}])
    assert chat.tokenizer.decode(conversation.ids).endswith("then <|im_end|>\n<|im_start|>assistant\nmore")


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_no_template_rewrites_what_was_said(template):
    chat = ChatTokenizer(bpe(bos=True), TEMPLATES[template])
    conversation = chat.open([{"role": "system", "content": "zero"}, {"role": "user", "content": "one"}], [SCHEMA])
    said = " <think>weigh</think>\n\n<tool_call>\n{}\n</tool_call> \n"
    for turn, shown in enumerate(([{"role": "tool", "content": "two"}], [{"role": "user", "content": "three"}]), 1):
        kept = list(conversation.ids)
        ids = (*chat.codec.encode(said), *chat.end_ids)
        conversation.append_sampled(ids, [-1.0] * len(ids), turn)
        conversation.observe(shown)
        assert conversation.ids[: len(kept)] == kept
        text = chat.tokenizer.decode(conversation.ids, clean_up_tokenization_spaces=False)
        assert text.count(said) == turn and shown[0]["content"] in text and text.count("zero") == 1
    assert text.count("one") == 1 and text.count("two") == 1


def test_a_template_without_a_generation_prompt_still_opens_the_turn():
    chat = ChatTokenizer(bpe(), TEMPLATES["has no prompt"])
    conversation = chat.open(START)
    assert chat.tokenizer.decode(conversation.ids).endswith("the town?<|im_end|>\n<|im_start|>assistant\n")


def test_a_space_before_the_end_token_is_demonstrated_and_not_doubled():
    tokenizer = bpe()
    chat = ChatTokenizer(tokenizer, TEMPLATES["ends after a space"])
    assert chat.end_ids == (tokenizer.eos_token_id,)
    texts = []
    for end in ("demonstrated", "length", "eos"):
        conversation = chat.open([{"role": "user", "content": "one"}])
        ids = (*chat.codec.encode("two"), *(chat.end_ids if end == "eos" else ()))
        if end == "demonstrated":
            conversation.append_demonstration("two", 1)
        else:
            conversation.append_sampled(ids, [-1.0] * len(ids), 1)
        conversation.observe([{"role": "user", "content": "three"}])
        texts.append(tokenizer.decode(conversation.ids))
    assert texts == ["[one]two <|im_end|>[three]", "[one]two <|im_end|>[three]", "[one]two<|im_end|>[three]"]


def test_a_turn_that_was_closed_by_the_last_end_token_is_not_closed_again():
    chat = ChatTokenizer(bpe(), TEMPLATES["ends otherwise at the end"])
    assert chat.tokenizer.decode(chat.end_ids) == "<|eot_id|>"
    for ids, end in ((chat.end_ids, "<|eot_id|>"), ((), "<|im_end|>")):
        conversation = chat.open([{"role": "user", "content": "one"}])
        conversation.append_sampled(ids, [-1.0] * len(ids), 1)
        conversation.observe([{"role": "user", "content": "three"}])
        text = f"<|im_start|>user\none<|im_end|><|im_start|>assistant\n{end}<|im_start|>user\nthree<|im_end|>"
        assert chat.tokenizer.decode(conversation.ids) == f"{text}<|im_start|>assistant\n"


def test_a_template_without_an_end_token_leaves_it_to_the_policy():
    tokenizer = bpe()
    chat = ChatTokenizer(tokenizer, TEMPLATES["has no end"])
    assert chat.end_ids == (tokenizer.eos_token_id,)
    texts = []
    for ids in (chat.codec.encode("two"), (*chat.codec.encode("two"), *chat.end_ids)):
        conversation = chat.open([{"role": "user", "content": "one"}])
        conversation.append_sampled(ids, [-1.0] * len(ids), 1)
        conversation.observe([{"role": "user", "content": "three"}])
        texts.append(tokenizer.decode(conversation.ids))
    rest = "\nuser:\nthree\nassistant:\n"
    assert texts == [f"user:\none\nassistant:\ntwo{end}{rest}" for end in ("", "<|im_end|>")]


def test_a_tokenizer_that_adds_a_space_in_front_adds_none_inside():
    chat = ChatTokenizer(metaspace(), "chatml")
    conversation = chat.open(START)
    conversation.append_demonstration("the town", 1)
    conversation.observe([{"role": "user", "content": "north"}])
    assert "assistant\nthe town<|im_end|>" in chat.tokenizer.decode(conversation.ids)
    for text in ("the town", " the town"):
        assert chat.decode(chat.codec.encode(text)) == text
