"""Turns as models write them are read, or stay malformed, as tables say that somebody wrote who had not read the readers."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.base.dialects import (
    TOLERATED,
    action_name,
    before_run_on,
    canonical_calls,
    is_plain,
    may_be_call,
    outside_thoughts,
    plain_turn,
    without_placeholders,
)
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import (
    Answer,
    Call,
    LabelProtocol,
    Malformed,
    MarkedAnswerProtocol,
    Parsed,
    Say,
    TagProtocol,
    ToolCallProtocol,
)
from agent_envs.grading.dressed_numbers import are_told, asks_per_cent, plain_boxes, plain_marked_numbers, plain_number
from agent_envs.grading.text_answers import same_answer
from agent_envs.tools.retrieval.bm25 import tokenize

SCHEMAS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "parameters": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"}, "count": {"type": "integer"}, "sure": {"type": "boolean"}
                },
            },
        },
    }
]  # fmt: skip
TABLES = Path(__file__).parents[1] / "tables"
TAGS = {
    "searchqa": TagProtocol({"search": ("search", "query")}),
    "toolreasoning": TagProtocol({name: (name, "text") for name in ("search", "browse", "python")}),
}
MARKED = MarkedAnswerProtocol({"calculator": ("calculator", "text")})


def rows(name):
    """Return the rows of a table."""
    return [json.loads(line) for line in (TABLES / f"{name}.jsonl").read_text("utf-8").splitlines()]


def read(row, *, strict=False):
    """Return the typed action of a row's turn, read by its family's protocol as an environment reads it."""
    text, _ = outside_thoughts(row["text"])
    family = row["family"]
    if family in TAGS:
        protocol = TAGS[family]
        return protocol.parse(text if strict else without_placeholders(text, (*protocol.tools, protocol.answer)))
    if family == "arithmetic":
        plain = plain_marked_numbers(text, "####", per_cent=asks_per_cent(row.get("question", "")))[0]
        return MARKED.parse(text if strict else plain)
    if family == "calls":
        return ToolCallProtocol().parse(text if strict else canonical_calls(text)[0])
    line = LabelProtocol().parse(text)
    if not isinstance(line, Say):
        return line
    exact = line.text.strip().lower()
    name = (exact if exact in row["actions"] else None) if strict else action_name(line.text, row["actions"])
    return Malformed("no name") if name is None else Say(name)


def meant(row, parsed: Parsed):
    """Return a typed action in the form in which the table says what was meant; None for none."""
    if row["family"] == "arithmetic" and isinstance(parsed, Answer):
        # What is no number is an answer that is wrong, and no number that was read.
        return plain_number(parsed.text, per_cent=asks_per_cent(row.get("question", "")))
    if isinstance(parsed, Answer):
        return {"action": "answer", "argument": parsed.text}
    if not isinstance(parsed, Call):
        return parsed.text if isinstance(parsed, Say) and row["family"] == "game" else None
    calls = [[call.name, json.loads(call.arguments)] for call in parsed.calls]
    return calls if row["family"] == "calls" else {"action": calls[0][0], "argument": next(iter(calls[0][1].values()))}


def test_what_models_write_is_read_as_it_was_meant():
    """Of 200 rows, thoughts, numbers, calls, labels and searches alike."""
    table = rows("turns_tolerated")
    assert len(table) == 200
    for row in table:
        if row["family"] == "search":
            assert (set(tokenize(row["query"])) <= set(tokenize(row["document"]))) == row["meant"], row
        elif row["family"] == "text-answer":
            assert same_answer(row["text"], (row["gold"],)) == row["meant"], row
        else:
            assert meant(row, read(row)) == row["meant"], row


def test_prose_refusals_and_garbled_turns_stay_malformed():
    """None of 300 rows is an action."""
    table = rows("turns_malformed")
    assert len(table) == 300
    for row in table:
        parsed = read(row)
        assert isinstance(parsed, Malformed) or (row["family"] == "calls" and isinstance(parsed, Say)), (row, parsed)


def test_what_is_strictly_right_is_read_alike_strictly_and_tolerantly():
    """A tolerance changes no turn that has the documented form."""
    compared = 0
    for row in rows("turns_tolerated"):
        if row["family"] not in ("search", "text-answer") and row["strict"] == "valid" and row["meant"] is not None:
            strict = meant(row, read(row, strict=True))
            compared += strict is not None
            assert strict in (row["meant"], None), row
    assert compared >= 45


@pytest.mark.parametrize(
    ("text", "outside", "is_open"),
    [
        ("<think>a</think>b", "b", False),
        ("a<think>b</think>c", "a c", False),
        ("a <THINKING>b</thinking> c", "a  c", False),
        ("prompted thought</think>act", "act", False),
        ("<think>a<think>b</think>c</think>d", "d", False),
        ("act <think>cut", "act ", True),
        ("no thought", "no thought", False),
        ("<thought>a</thought>b<reasoning >c</reasoning>d", "b d", False),
        ("<th\u0131nk>a</think>b<rea\u017foning>c</reasoning>d", "b d", False),
        ("[THINK]a[/THINK]b", "b", False),
        ('<tool_call>{"a": "<think>"}</tool_call>', '<tool_call>{"a": "<think>"}</tool_call>', False),
        ('<tool_call>{"a": "</think>"}</tool_call>b', '<tool_call>{"a": "</think>"}</tool_call>b', False),
        ("<think>as <tool_call>{}</tool_call></think>b", "b", False),
        ("as <tool_call>{}</tool_call></think>b", "b", False),
        ("[Think] prose of a heading", "[Think] prose of a heading", False),
    ],
)
def test_thoughts_are_taken_out(text, outside, is_open):
    """Wherever they stand, closed or not."""
    assert outside_thoughts(text) == (outside, is_open)


TURN = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<search>",
            "</search>",
            "<answer>",
            "</answer>",
            "<tool_call>",
            "[THINK]",
            "<|im_end|>",
        ]
        + [
            "...",
            "and",
            "your query",
            "(",
            "####",
            "5",
            "a, B",
            "\n",
            " ",
            "\nQuestion: b",
            "\\boxed{5}",
            '{"name": "a"}',
        ]
    ),
    max_size=8,
).map("".join)


@given(TURN)
def test_a_plain_turn_has_nothing_to_tolerate(text):
    if plain := plain_turn(text):
        rest, is_open = outside_thoughts(text)
        assert (rest, is_open) == (text[plain.end(1) :], False)
        assert before_run_on(rest, lambda _: r"####[^\n]*\d") == canonical_calls(rest, SCHEMAS) == (rest, ())
        assert without_placeholders(rest, ("search", "answer")) == rest
        assert plain_boxes(rest)[0] == plain_marked_numbers(rest, "####")[0] == rest


SPEECH = st.text(alphabet="ab {}[]<>`\n\\◁", max_size=12)
CALLS = st.builds(
    lambda head, name, text, tail: f'{head}{{"name": "{name}", "arguments": {{"id": "{text}"}}}}{tail}',
    st.sampled_from(["<tool_call>\n", "<tool_call>", "", "[TOOL_CALLS] "]),
    st.sampled_from(["look_up", "other"]),
    st.sampled_from(["7", "[THINK]", "a\\nquestion: b", "[TOOL_CALLS] {", "<think>", "}", "\n"]),
    st.sampled_from(["\n</tool_call>", "</tool_call>", "", "\n</tool_call>\nquestion: x", "}\n</tool_call>"]),
)


@given(st.one_of(SPEECH, CALLS, TURN))
def test_plain_speech_and_plain_calls_have_nothing_to_tolerate(text):
    if is_plain(text):
        assert outside_thoughts(text) == (text, False)
        assert before_run_on(text, lambda _: "") == canonical_calls(text, SCHEMAS) == (text, ())


def test_usual_speech_and_calls_are_plain():
    call = ToolCallProtocol.render([ToolCall("call_0", "look_up", '{"id": "7"}')])
    assert is_plain(call) and is_plain("Which order is it?") and not is_plain(f"{call}\n{call}")
    assert not is_plain("<think>a</think>b") and not is_plain('{"name": "look_up"}') and not is_plain("a\nquestion: b")
    assert not is_plain(call.replace("arguments", "parameters"))


@pytest.mark.parametrize(
    "text", ["<a>B, C</a>", "A sum: <a>(1+2)</a>", "<think>x < y</think>\n<a>B</a>", "<a>android</a>"]
)
def test_usual_turns_are_plain(text):
    assert (plain_turn(text) is None) == ("x < y" in text)


@pytest.mark.parametrize(
    "part",
    [
        "#### 1\n",
        "<think>",
        "</think>",
        "<think>a</think>b",
        "#### 1. A\n",
        "#### (",
        '<tool_call>{"name":',
        "{",
        ",",
        "<a> your ",
        "<function=a>",
        "<parameter=a>",
        "<tool_call>  ",
        "<function=a></function>",
        "\n ##",
        "\nquestion ",
        "\\boxed ",
        "\\fbox{",
        "1,",
        "1,111",
        "$ ",
        "1.",
        "\n 1. ",
        '\\"',
    ],
)
def test_readers_return_on_long_hostile_texts(part):
    """Each returns, on parts that invite backtracking, in 400,000 characters; a quadratic one would take minutes."""
    text = part * (400_000 // len(part))
    for calls in (text, f"<tool_call>{text[:90_000]}"):
        canonical, events = canonical_calls(calls)
        assert canonical == calls or (events and "<function=" in part), (
            "calls in XML may be calls, and nothing else here"
        )
    assert all(event.startswith(TOLERATED) for event in canonical_calls(text, SCHEMAS)[1])
    assert text.startswith(before_run_on(text, lambda text: "####")[0])
    assert len(outside_thoughts(text)[0]) <= len(text) and len(without_placeholders(text, ["a"])) <= len(text)
    assert plain_turn(text) is None and plain_turn(f"<a>{text}</a>{text}<a>") is None
    assert are_told(["61", "blue"], [text]) == (False, False) and action_name(text, ["go"]) is None
    for _, events in (plain_boxes(text), plain_marked_numbers(text, "####")):
        assert all(event.startswith(TOLERATED) for event in events)


XML = (
    "<function=look_up>\n<parameter=id>\n007\n</parameter>\n<parameter=count>2</parameter>\n"
    "<parameter=sure>True</parameter></function>"
)
AS_JSON = '{"name":"look_up","arguments":{"id":"007","count":2,"sure":true}}'


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (XML, ["look_up"]),
        (f"I look.\n{XML}", ["look_up"]),
        (f"<tool_call>\n{XML}\n</tool_call>", ["look_up"]),
        (f"<tool_call>\n{XML}\n{XML}\n</tool_call>", ["look_up", "look_up"]),
        (
            f"<tool_call>\n{XML}\n</tool_call>\n<tool_call>{XML.removesuffix('</function>')}</tool_call>",
            ["look_up"] * 2,
        ),
        (XML.replace("</parameter>", ""), ["look_up"]),
    ],
)
def test_calls_in_xml_are_read_by_their_schemas(text, names):
    canonical, events = canonical_calls(text, SCHEMAS)
    parsed = ToolCallProtocol().parse(canonical)
    assert isinstance(parsed, Call) and [call.name for call in parsed.calls] == names
    for call in parsed.calls:
        assert json.loads(call.arguments) == json.loads(AS_JSON)["arguments"]
    assert events == ("tolerated: a call in XML",) * len(names)
    assert not isinstance(ToolCallProtocol().parse(text), Call)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('{"name": "Sofia Hernandez", "order": "#W1"}', False),
        ('{"name": "Sofia Hernandez"}', False),
        ('[{"name": "Ada"}, {"name": "Ben"}]', False),
        ('{"name": "look_up"}', True),
        ('{"name": "look_up", "parameters": {"id": "1"}}', True),
        ('{"name": "no_such_tool", "arguments": {}}', True),
        ("<function=prose>this is no tool</function>", False),
    ],
)
def test_data_is_no_call(text, calls):
    parsed = ToolCallProtocol().parse(canonical_calls(text, SCHEMAS)[0])
    assert isinstance(parsed, Call) is calls
    assert may_be_call(text, ["look_up"]) is calls or text.startswith("<")


@pytest.mark.parametrize(
    ("text", "action", "kept"),
    [
        ("so #### 72\n\nQuestion: next?\nAnswer: #### 5", "####", "so #### 72\n"),
        ("#### 72<|im_end|>", "####", "#### 72"),
        ("#### 72\n**Question 2:** x #### 5", "####", "#### 72"),
        ("#### 72\n\nHuman: #### 5", "####", "#### 72\n"),
        ("Question: what?\nQuestion: it is\n#### 72", "####", None),
        ("#### 72\nThe question: is it right?", "####", None),
        ("no action\nQuestion: next?", "####", None),
    ],
)
def test_a_reply_counts_up_to_where_it_runs_on(text, action, kept):
    cut, events = before_run_on(text, lambda text: action)
    assert (cut, len(events)) == ((text, 0) if kept is None else (kept, 1))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\\fbox{5}", "\\boxed{5}"),
        ("It is \\boxed 5.", "It is \\boxed{5}"),
        ("$\\boxed -3.5$", "$\\boxed{-3.5}$"),
        ("\\fbox {x^{2}}", "\\boxed{x^{2}}"),
        ("in \\boxed form", None),
        ("\\boxed{5}", None),
    ],
)
def test_boxes_in_other_forms(text, plain):
    read_as, events = plain_boxes(text)
    assert (read_as, len(events)) == ((text, 0) if plain is None else (plain, 1))


@pytest.mark.parametrize(
    "text",
    """18½|18 ½|18²|18‰|18 pct|18pct|18 bil|18 lakh|18 b|18a|18 BC|18 π|18 pi|18 no nineteen|18 nor nineteen|18 nope|18 nineteen
18 isn't right|18 is false|18 instead of nineteen|18 dollars, fifty cents|18 hours thirty minutes|18 below zero|18 halves
18. No wait, it is 19|18. Actually nineteen|18! Sorry, 19""".replace("\n", "|").split("|"),
)
def test_a_number_that_is_another_one_or_is_taken_back_is_none(text):
    """What follows a number may change its value, and then nothing is paid for it."""
    assert plain_number(text) is None


def test_words_that_stand_for_a_query_are_no_query():
    """Instructions that are copied, with brackets or without."""
    for body in ("your query", "your search query here", "your answer here", "..."):
        assert without_placeholders(f"<a>{body}</a>", ["a"]).strip() == ""
    for body in ("query", "your name", "Your Song", "the answer"):
        assert body in without_placeholders(f"<a>{body}</a>", ["a"])


@pytest.mark.parametrize(
    "line",
    [
        "do nothing",
        "do not move",
        "left is blocked",
        "right now I cannot",
        "left nor right",
        "left right",
        "up to you",
        "left isn't free",
    ],
)
def test_a_sentence_about_an_action_is_none(line):
    """What stands behind the name says that it is not taken, or names another."""
    assert action_name(line, ["do", "up", "left", "right"]) is None


LOOK = [{"function": {"name": "look", "parameters": {}}}]


def test_json_that_is_data_is_no_call():
    """Without tags, unless it names a tool; an empty list between tags stays what it was."""
    for text in ('[{"name": "Bob", "age": 5}]', '{"name": "Bob"}', "<tool_call>[]</tool_call>"):
        assert canonical_calls(text, LOOK) == (text, ())
    assert canonical_calls('[{"name": "look"}]', LOOK)[1]
