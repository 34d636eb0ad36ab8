"""From a turn's text to what it asks for, in both styles, with ids that hold anything."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.protocol import Answer, Call
from agent_envs.envs.legal_search.tools import (
    ANSWER,
    FAULTS,
    KEYWORD,
    MOST_SOURCES,
    PROTOCOLS,
    READ,
    SEMANTIC,
    Fault,
    Final,
    Read,
    Search,
    citable,
    read_turn,
    rendered,
)  # fmt: skip
from tests.rows import each_row

IDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters=";<"), min_size=1, max_size=20
).map(lambda text: f"T28:STI:28:2-616 § {text}")

PIECES = (
    "<answer>", "</answer>", "[sources:", "]", ";", "<read>", "</read>", " [up 1]", " [page 2]", "<keyword>x</keyword>",
    "<tool_call>", "</tool_call>", '{"name": "read_section", "arguments": {"section_id": "a"}}',
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=9), max_size=9).map("".join)


def call(name, **arguments):
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@each_row(
    ("text", "wish"),
    [
        ("<answer>45 days [sources: a:b; c (d)]</answer>", Final("45 days", ("a:b", "c (d)"))),
        ("<answer>45 days[Source: x]</answer>", Final("45 days", ("x",))),
        ("<answer>45 days [sources: x].</answer>", Final("45 days", ("x",))),
        ("<answer>[sources: x] 45 days</answer>", Final("45 days", ("x",))),
        ("<answer>45 days [sources: x [old]; y]</answer>", Final("45 days", ("x [old]", "y"))),
        ("<answer>45 days [sources: x; ; x]</answer>", Final("45 days", ("x",))),
        ("<answer>45 days [sources: ]</answer>", Final("45 days")),
        ("<answer>45 days [sources: x", Final("45 days", ("x",))),
        ("<answer>see [sources: a] and [sources: b]</answer>", Final("see [sources: a] and", ("b",))),
        ("<answer>45 days</answer>", Final("45 days")),
        ("<answer></answer>", Final("")),
    ],
)
def test_answers_and_their_citations(text, wish):
    for protocol in PROTOCOLS:
        parsed, found = read_turn(f"<think>so</think>{text}", protocol)
        assert found == wish and parsed == Answer(wish.text)


@each_row(
    ("body", "read"),
    [
        ("28:2-616", ("28:2-616", 0, 1)),
        ("28:2-616 [up 2]", ("28:2-616", 2, 1)),
        ("28:2-616 [page 3]", ("28:2-616", 0, 3)),
        ("28:2-616 [up 1] [page 3]", ("28:2-616", 1, 3)),
        ("28:2-616[page 3][up 1]", ("28:2-616", 1, 3)),
        ("28:2-616 [page 1] [page 3]", ("28:2-616 [page 1]", 0, 3)),
        ("§ 9 [old]", ("§ 9 [old]", 0, 1)),
        ("§ 9 [page two]", ("§ 9 [page two]", 0, 1)),
    ],
)
def test_reads_by_tag(body, read):
    _, wish = read_turn(f"<read>{body}</read>", "tags")
    assert isinstance(wish, Read)
    assert (wish.section_id, wish.up, wish.page) == read


@each_row(
    ("text", "kind", "protocol"),
    [
        ("", "no_call", "tags"),
        ("I think the answer is 5.", "no_call", "tags"),
        ("<keyword> </keyword>", "bad_arguments", "tags"),
        ("<read></read>", "bad_arguments", "tags"),
        ("<read>x [page 0]</read>", "bad_arguments", "tags"),
        ("", "no_call", "json"),
        ("<keyword>x</keyword>", "no_call", "json"),
        ("<tool_call>{</tool_call>", "unparsable", "json"),
        ("<tool_call>[]</tool_call>", "unparsable", "json"),
        (call("ask_a_judge", query="x"), "unknown_tool", "json"),
        (call(KEYWORD), "bad_arguments", "json"),
        (call(KEYWORD, query=3), "bad_arguments", "json"),
        (call(KEYWORD, query=" "), "bad_arguments", "json"),
        (call(READ, section_id="x", up=-1), "bad_arguments", "json"),
        (call(READ, section_id="x", page=0), "bad_arguments", "json"),
        (call(READ, section_id="x", depth=1), "bad_arguments", "json"),
        (call(ANSWER, answer="x"), "bad_arguments", "json"),
        (call(ANSWER, answer="x", sources="y"), "bad_arguments", "json"),
        (call(ANSWER, answer="x", sources=[1]), "bad_arguments", "json"),
    ],
)
def test_format_errors(text, kind, protocol):
    _, wish = read_turn(text, protocol)
    assert isinstance(wish, Fault) and wish.kind == kind and kind in FAULTS
    assert wish.reason and len(wish.reason) < 600


@each_row(
    ("section", "sound"),
    [("28:2-616", True), ("§ 9 [old]", True), ("]", True), ("a [up 1] b", True), ("a < b [", True), ("a;b", False),
     ("a [up 1]", False), ("a</read>b", False), ("a</answer>", False), ("a [Source: b", False)],
)  # fmt: skip
def test_ids_that_cannot_be_read_back_are_told_apart(section, sound):
    assert citable(section) is sound


@given(section=st.lists(st.sampled_from(PIECES) | st.text(max_size=9), max_size=4).map("".join))
def test_what_is_citable_is_read_back(section):
    section = " ".join(section.split())
    if section and citable(section):
        for protocol in PROTOCOLS:
            _, read = read_turn(rendered(READ, protocol, section_id=section), protocol)
            assert isinstance(read, Read) and (read.section_id, read.up, read.page) == (section, 0, 1)
            for sources in ([section], ["x", section], [section, "x"]):
                _, final = read_turn(rendered(ANSWER, protocol, answer="5", sources=sources), protocol)
                assert isinstance(final, Final) and final.sources == tuple(dict.fromkeys(sources))


def test_in_the_json_style_an_answer_tag_counts_only_before_any_call():
    search = call(KEYWORD, query="moorings")
    assert isinstance(read_turn(f"<answer>5</answer>{search}", "json")[1], Final)
    assert isinstance(read_turn(f"{search}<answer>5</answer>", "json")[1], Search)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(section=IDS, other=IDS, up=st.integers(0, 9), page=st.integers(1, 99))
def test_what_is_rendered_is_read_back(protocol, section, other, up, page):
    _, read = read_turn(rendered(READ, protocol, section_id=section, up=up, page=page), protocol)
    assert isinstance(read, Read) and (read.section_id, read.up, read.page) == (section, up, page)
    text = rendered(ANSWER, protocol, answer="45 days", sources=[section, other])
    _, final = read_turn(text, protocol)
    assert final == Final("45 days", tuple(dict.fromkeys((section, other))))
    for name in (KEYWORD, SEMANTIC):
        _, search = read_turn(rendered(name, protocol, query=section), protocol)
        assert isinstance(search, Search) and (search.call.name, search.query) == (name, section)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(text=TEXTS)
def test_any_text_is_read(protocol, text):
    for wrapped in (text, f"<answer>{text}", f"<read>{text}", f"<tool_call>{text}</tool_call>"):
        parsed, wish = read_turn(wrapped, protocol)
        if isinstance(wish, Fault):
            assert wish.kind in FAULTS and wish.reason
        elif isinstance(wish, Final):
            assert parsed == Answer(wish.text) and wish.text == wish.text.strip()
            assert len(set(wish.sources)) == len(wish.sources) <= MOST_SOURCES + 1
            assert all(source and source == source.strip() and source in wrapped for source in wish.sources)
        else:
            assert isinstance(parsed, Call) and parsed.calls[0] == wish.call
    if "<" not in text:
        assert isinstance(read_turn(f"<answer>{text}", protocol)[1], Final)
        _, wish = read_turn(f"<read>{text}", "tags")
        assert wish.section_id in text if isinstance(wish, Read) else wish.kind == "bad_arguments"


def test_a_megabyte_is_read_in_linear_time():
    texts = [
        "[sources:" * 100_000,
        "<answer>" + "a;" * 400_000 + "[sources:" + "b;" * 200_000,
        "<read>" + "[up 1] " * 140_000,
    ]
    start = time.process_time()
    for text in texts:
        for protocol in PROTOCOLS:
            _, wish = read_turn(text, protocol)
            if isinstance(wish, Final):
                assert len(wish.sources) <= MOST_SOURCES + 1
    assert time.process_time() - start < 20  # quadratic work would take hours
