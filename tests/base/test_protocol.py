"""From text to typed actions: what wins, what is malformed, and hostile text."""

import json

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import (
    MAX_CALL_CHARACTERS,
    MAX_CALL_DEPTH,
    Answer,
    Call,
    LabelProtocol,
    Malformed,
    MarkedAnswerProtocol,
    Say,
    TagProtocol,
    ToolCallProtocol,
    read_call,
)
from agent_envs.base.serialization import canonical_json
from tests.examples import examples
from tests.rows import each_row

TAGS = TagProtocol({"search": ("search", "query"), "look": ("open", "page")})
CALLS = ToolCallProtocol()
LABEL = LabelProtocol()
TEXTS = st.text(st.characters(), max_size=30)
PIECES = st.lists(
    st.sampled_from(
        ["<search>", "</search>", "<answer>", "</answer>", "<look>", "</look>", "<tool_call>", "</tool_call>", "ACTION:",
         '{"name": "f", "arguments": {}}', '{"name": "f"', "\n", " ", "<", "x"]
    )
    | TEXTS,
    max_size=12,
).map("".join)  # fmt: skip


def search(query):
    return Call((ToolCall("call_0", "search", canonical_json({"query": query})),))


@each_row(
    ("text", "parsed"),
    [
        ("<search>a</search>", search("a")),
        ("think <search> a\nb </search> more", search("a\nb")),
        ("<search>a</search><answer>b</answer>", search("a")),
        ("<answer>b</answer><search>a</search>", Answer("b")),
        ("<search>a</search><search>b</search>", search("a")),
        ("<answer>b", Answer("b")),
        ("<search>a", search("a")),
        ("<search>a <answer>b", Answer("b")),
        ("<answer>a <search>b", search("b")),
        ("<search>a<search>b", search("b")),
        ("<search>open <answer>b</answer>", Answer("b")),
        ("<answer>b</answer> <search>open", Answer("b")),
        ("</answer><answer>b</answer>", Answer("b")),
        ("</search><search>a", search("a")),
        ("<search><answer>b</answer></search>", search("<answer>b</answer>")),
        ("<answer><search>a</search></answer>", Answer("<search>a</search>")),
        ("<answer></answer>", Answer("")),
        ("<answer>", Answer("")),
        ("<answer>a</answer", Answer("a</answer")),
        ('<search>quote " and \\ and é</search>', search('quote " and \\ and é')),
        ("<look>3</look>", Call((ToolCall("call_0", "open", '{"page":"3"}'),))),
        ("<answer>a<answer>b</answer>", Answer("a<answer>b")),
    ],
)
def test_tags(text, parsed):
    assert TAGS.parse(text) == parsed


@pytest.mark.parametrize(
    "text", ["", "nothing", "<Search>a</Search>", "< search>a</search>", "</search>", "<search", "a>"]
)
def test_text_without_a_tag_is_malformed_and_told_what_to_write(text):
    parsed = TAGS.parse(text)
    assert isinstance(parsed, Malformed)
    assert all(f"<{name}>" in parsed.reason for name in ("search", "look", "answer"))


@each_row(
    ("text", "parsed"),
    [("<search>a</search> #### 3", search("a")), ("#### 3 <search>a</search>\n#### 4", Answer("4")),
     ("#### 3 <search>a", Answer("3 <search>a")), ("#### 3", Answer("3"))],
)  # fmt: skip
def test_of_a_marked_answer_and_a_complete_call_the_first_counts(text, parsed):
    assert MarkedAnswerProtocol({"search": ("search", "query")}).parse(text) == parsed


def test_stop_strings_close_every_tag():
    assert TAGS.stop == ("</search>", "</look>", "</answer>")
    assert TagProtocol({}, answer="final").parse("<final>x</final>") == Answer("x")


class Counted(str):
    """A text that counts how many characters its searches run over."""

    scanned = 0

    def find(self, part, start=0):
        found = str.find(self, part, start)
        self.scanned += (found if found >= 0 else len(self)) - start + len(part)
        return found

    def rfind(self, part):
        found = str.rfind(self, part)
        self.scanned += len(self) - max(found, 0)
        return found


@pytest.mark.parametrize("protocol", [TAGS, CALLS], ids=["tags", "calls"])
@pytest.mark.parametrize(
    "piece",
    ["<search>", "</search>", "<answer>", "<search></answer>", "<tool_call>", "</tool_call>", "<tool_call></tool_call>",
     '<tool_call>{"name":"f"}</tool_call>'],
)  # fmt: skip
def test_a_megabyte_of_tags_is_read_in_linear_work(piece, protocol):
    costs = []
    for size in (10_000, 1_000_000):
        text = Counted(piece * (size // len(piece)))
        protocol.parse(text)
        costs.append(text.scanned / len(text))
    assert costs[1] <= max(2 * costs[0], 1) and costs[1] <= 12


@examples(300)
@given(PIECES)
def test_no_text_raises_and_what_comes_out_is_whole(text):
    for protocol in (TAGS, CALLS, LABEL):
        parsed = protocol.parse(text)
        assert isinstance(parsed, Say | Call | Answer | Malformed)
        for call in parsed.calls if isinstance(parsed, Call) else ():
            assert canonical_json(json.loads(call.arguments)) == call.arguments


SOUND = st.text(st.characters(codec="utf-8"), max_size=30)  # lone surrogates do not come back: they are replaced
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | SOUND
    | st.sampled_from(["</tool_call>", "<tool_call>", "\\</tool_call>", "</answer>", "\n</tool_call>\n", "</", "\\u003c"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SOUND, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
NAMES = SOUND | st.just("x</tool_call>y")


@examples(120, suppress_health_check=[HealthCheck.too_slow])  # so it is on a machine under load
@given(st.lists(st.tuples(NAMES, st.dictionaries(SOUND, JSON, max_size=3)), min_size=1, max_size=4))
def test_the_canonical_text_of_calls_is_read_back(rows):
    calls = tuple(
        ToolCall(f"call_{index}", name, canonical_json(arguments)) for index, (name, arguments) in enumerate(rows)
    )
    text = ToolCallProtocol.render(calls)
    parsed = CALLS.parse(text)
    assert parsed == Call(calls)
    assert ToolCallProtocol.render(parsed.calls) == text
    assert CALLS.parse(f"I think first.\n{text}\nThat is all.") == Call(calls)


def test_the_canonical_text_is_fixed():
    calls = [ToolCall("call_0", "f", '{"a":1}'), ToolCall("call_1", "g", "{}")]
    assert ToolCallProtocol.render(calls) == (
        '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
    )


def test_calls_by_hand():
    assert CALLS.parse("no call here") == Say("no call here")
    assert CALLS.parse('<tool_call>{"name": "f"}') == Call((ToolCall("call_0", "f", "{}"),))
    assert CALLS.parse('<tool_call>{"arguments": {"b": 2, "a": 1}, "name": "f"}</tool_call>') == Call(
        (ToolCall("call_0", "f", '{"a":1,"b":2}'),)
    )
    assert isinstance(CALLS.parse('<tool_call>{"name": "f"}</tool_call><tool_call>oops</tool_call>'), Malformed)


@each_row(
    "body",
    [
        "", "nonsense", "null", "3", "[]", '"f"', "{}", '{"name": 3}', '{"name": null, "arguments": {}}',
        '{"name": "f", "arguments": []}', '{"name": "f", "arguments": "{}"}', '{"name": "f", "arguments": null}',
        '{"name": "f", "arguments": {"x": NaN}}', '{"name": "f", "arguments": {"x": Infinity}}',
        '{"name": "f", "arguments": {"x": -Infinity}}', '{"name": "f", "arguments": {"x": 1e999}}',
        '{"name": "f", "arguments": {"x": ' + "[" * 30_000 + "]" * 30_000 + "}}",
        '{"name": "f", "arguments": {"x": ' + '{"a":' * MAX_CALL_DEPTH + "1" + "}" * MAX_CALL_DEPTH + "}}",
        '{"name": "f", "arguments": {"x": ' + '{"a":' * 9_000 + "1" + "}" * 9_000 + "}}",
        '{"name": "f", "arguments": {"x": ' + "9" * 5000 + "}}",
        '{"name": "f", "arguments": {"x": ' + "9" * MAX_CALL_CHARACTERS + "}}",
        '{"name": "f"} {"name": "g"}', '{"name": "f",}', "{'name': 'f'}", "\ufeff{}", "\ud800",
    ],
)  # fmt: skip
def test_bodies_that_are_no_call(body):
    assert isinstance(read_call(body, "call_0"), Malformed)
    assert isinstance(CALLS.parse(f"<tool_call>{body}</tool_call>"), Malformed)


def test_a_call_may_be_nested_up_to_a_bound_that_no_version_of_python_moves():
    deepest = '{"a":' * (MAX_CALL_DEPTH - 2) + '"[["' + "}" * (MAX_CALL_DEPTH - 2)
    assert isinstance(read_call('{"name": "f", "arguments": {"x": ' + deepest + "}}", "call_0"), ToolCall)
    deep = "[" * MAX_CALL_DEPTH + "]" * MAX_CALL_DEPTH
    for body in (
        f'{{"name": "f", "e": {deep}}}',
        f"[{deep}",
        f'{{"name": {deep}}}',
        f'{{"name": "f", "arguments": {deep}}}',
    ):
        assert read_call(body, "call_0") == Malformed(f"the tool call is nested more than {MAX_CALL_DEPTH} deep")


def test_the_longest_call_is_read_and_one_character_more_is_refused():
    def body(length):
        head = '{"name": "f", "arguments": {"x": "'
        return f'{head}{"a" * (length - len(head) - 3)}"}}}}'

    assert len(body(MAX_CALL_CHARACTERS)) == MAX_CALL_CHARACTERS
    assert read_call(body(MAX_CALL_CHARACTERS), "call_0").name == "f"
    late = read_call(body(MAX_CALL_CHARACTERS + 1), "call_0")
    assert late == Malformed(f"the tool call is longer than {MAX_CALL_CHARACTERS} characters")
    spaced = f'{" " * MAX_CALL_CHARACTERS}{{"name": "f"}}'
    assert isinstance(read_call(spaced, "call_0"), Malformed), "the text is bounded, not what it says"


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("THINK: a\nACTION: go forward", Say("go forward")),
        ("ACTION: a\nACTION: b\nmore", Say("b")),
        ("ACTION:\n\n  turn left  \nx", Say("turn left")),
        ("ACTION:a", Say("a")),
        ("Action: a", Say("a")),
        ("action: a\nReaction: b", Say("a")),
    ],
)
def test_labels(text, parsed):
    assert LABEL.parse(text) == parsed


@pytest.mark.parametrize("text", ["", "go forward", "reaction: go", "ACTION:", "ACTION: go\nACTION: \n "])
def test_texts_without_a_labelled_action(text):
    assert isinstance(LABEL.parse(text), Malformed) and "ACTION:" in LABEL.parse(text).reason


def test_a_surrogate_made_by_a_json_escape_is_replaced():
    text = '<tool_call>{"name": "a\\ud800", "arguments": {"q": "x\\udfffy"}}</tool_call>'
    (call,) = ToolCallProtocol().parse(text).calls
    assert (call.name, call.arguments) == ("a?", '{"q":"x?y"}')
