import ast
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.tools.sandbox.last_expression import split_last
from tests.rows import each_row

LAST = {
    "1 + 1": "1 + 1",
    "x = 1\nx": "x",
    "x = 1; x + 1": "x + 1",
    "import math; math.pi": "math.pi",
    "print(1);\n\n\n# end": "print(1)",
    "x; # comment": "x",
    "x # comment;": "x # comment;",
    "f(a=1)": "f(a=1)",
    "lambda x=1: x": "lambda x=1: x",
    "x == 1": "x == 1",
    "x <= 1": "x <= 1",
    "not x": "not x",
    "x if y else z": "x if y else z",
    "else_": "else_",
    "await f()": "await f()",
    "[i for i in y]": "[i for i in y]",
    "(1,\n 2)": "(1,\n 2)",
    "a \\\n + b": "a \\\n + b",
    "def f():\n  return 1\nf()": "f()",
    "'''a\nb'''": "'''a\nb'''",
    "x = '''\n'''\nx": "x",
    "rb'a\\'b'": "rb'a\\'b'",
    "1 if'a'else 2": "1 if'a'else 2",
    "f'{{}}' + '{'": "f'{{}}' + '{'",
    "f\"{d['k']}\"": "f\"{d['k']}\"",
    'f"{d["k"]:>{w}}"': 'f"{d["k"]:>{w}}"',
    "f'{x:\"^10}'": "f'{x:\"^10}'",
    "f'{x!r}'": "f'{x!r}'",
    "f'{ {1: 2}[1] }'": "f'{ {1: 2}[1] }'",
    "f'''{x\n}'''": "f'''{x\n}'''",
}
NONE = [
    "", "# only", "x = 1", "x += 1", "x <<= 1", "x := 1", "i for i in y", "import math", "pass", "del x", "assert x",
    "if x: y; z", "if x:\n  y", "for i in range(3): i", "with a as b: c", "try:\n 1\nexcept E: 2", "class A: x = 1",
    "def f(): return 1", "@d\ndef f(): pass", "x: int", "x: int = 3", "1)) + ((2", "(1", "'abc", "'''abc", "f'{x", "f'{x)}'",
    "f'{x:{'", "'a\nb'", "match x:\n  case 1: 2", "raise E", "async def f(): 1", "return 1",
]  # fmt: skip


@each_row("code", LAST)
def test_the_last_expression_is_found(code):
    before, last = split_last(code)
    assert last == LAST[code]
    assert code.startswith(before + last)


@each_row("code", NONE)
def test_what_is_no_expression_is_left_alone(code):
    found = split_last(code)
    if found is not None:  # a guess that the parser behind it refuses is as good
        with pytest.raises(SyntaxError):
            ast.parse(f"{found[0]}(\n{found[1]}\n)")


def test_it_agrees_with_pythons_parser_on_the_standard_library():
    seen = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:50]:
        code = path.read_text(encoding="utf-8", errors="replace").replace("\f", "")
        try:
            body = ast.parse(code).body
        except SyntaxError:
            continue
        lines = code.splitlines(keepends=True)
        for node in body[:40]:  # the code up to each statement in turn: every one is once the last
            text = "".join(lines[: node.end_lineno])
            found = split_last(text)
            if isinstance(node, ast.Expr):
                assert found is not None and text[: len(found[0])] == "".join(lines[: node.lineno - 1]), (
                    path,
                    node.lineno,
                )
                seen += 1
            elif found is not None:
                with pytest.raises(SyntaxError):
                    ast.parse(f"(\n{found[1]}\n)")
    assert seen > 20


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::SyntaxWarning")
@given(st.text(alphabet="ab1 \n;()[]{}'\"\\f:=#,.!l", max_size=60))
def test_any_text_is_split_in_two_or_left_alone(code):
    found = split_last(code)
    if found is not None:
        assert code.startswith(found[0] + found[1])
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError):
            return
        assert tree.body, "there is a last statement"


@pytest.mark.parametrize(
    "piece", ["(", "f'{", "'", "f'''{x:", "\\\n", "a", "'\\", '"" ', "f'{\"", "\\", "{", "lambda=", ";"]
)
def test_long_hostile_text_takes_one_pass(piece):
    code = piece * (200_000 // len(piece))
    assert split_last(code) is None or split_last(code)[1]
