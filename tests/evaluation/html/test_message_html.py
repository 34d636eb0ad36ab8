"""Texts of a page: bounded, folded, tagged, and nothing lost."""

from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.terminal import visible
from agent_envs.evaluation.html.message_html import passage


def test_long_observations_are_folded() -> None:
    short, long = passage("word " * 240), passage("word " * 1000)
    assert short.folded == () and short.folded_size == 0
    assert 1000 <= len(long.visible[0][1]) <= 1200
    assert long.visible[0][1].endswith(" ")
    assert long.visible[0][1] + long.folded[0][1] == "word " * 1000
    assert long.folded_size == len(long.folded[0][1])
    assert len(passage("x" * 5000).visible[0][1]) == 1200


def test_action_tags_of_the_policy_are_marked() -> None:
    text = "Hm.<think>a <b> c</think>\n<search>q</search><answer>x"
    pieces = (
        ("", "Hm."),
        ("think", "<think>a <b> c</think>"),
        ("", "\n"),
        ("call", "<search>q</search>"),
        ("answer", "<answer>x"),
    )
    assert passage(text, highlight=True).visible == pieces
    assert passage(text).visible == (("", text),)


def test_an_open_tag_ends_where_the_next_opens() -> None:
    pieces = passage("<think>so <tool_call>{}</tool_call> and", highlight=True).visible
    assert pieces == (("think", "<think>so "), ("call", "<tool_call>{}</tool_call>"), ("", " and"))


@given(st.text(max_size=3000), st.booleans())
def test_a_passage_loses_nothing(text: str, highlight: bool) -> None:
    part = passage(text, highlight)
    assert "".join(piece for _, piece in part.visible + part.folded) == text.strip("\n")


@given(st.text(alphabet=st.characters(), max_size=200))
def test_visible_is_stable_and_encodable(text: str) -> None:
    once = visible(text)
    assert visible(once) == once
    once.encode("utf-8")
