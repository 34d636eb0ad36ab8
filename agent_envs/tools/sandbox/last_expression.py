"""The last statement of a cell is found without parsing the cell, so that its value can be shown.

Monty gives a cell's value as an object, not as the text that is wanted (a small object can have an endless text), and Python's
own parser is not run on strangers' code in our process. So this guesses, in one pass over brackets, strings, comments and line
ends, and Monty's parser judges: only an expression fits between the brackets that are put around the guess.
"""

import re

_STRING = r"(?i:br|rb|fr|rf|tr|rt|[rbuft])?(?:\"{3}|'{3}|\"|')"
_TOKEN = re.compile(
    r"(?P<comment>\#[^\n]*)"
    rf"|(?P<string>{_STRING})"
    r"|(?P<space>\\\n|[^\S\n]+)"
    r"|(?P<end>[\n;])"
    r"|(?P<bracket>[()\[\]{}])"
    r"|(?P<assign>:=|(?<![=!<>])=(?!=)|(?:<<|>>|//|\*\*|[+\-*/%&|^@])=)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<other>\d\w*|.)",
    re.DOTALL,
)
_PLAIN_ENDS = {
    quote: re.compile(rf"(?:[^\\{quote}\n]|\\.)*{quote}", re.DOTALL) for quote in ("'", '"')
} | {
    quote * 3: re.compile(rf"(?:[^\\{quote}]|\\.|{quote}(?!{quote}{quote}))*{quote * 3}", re.DOTALL) for quote in ("'", '"')
}  # fmt: skip
_PAIRS = {")": "(", "]": "[", "}": "{"}
_COMPOUND = frozenset("async class def elif else except finally for if try while with".split())
_SIMPLE = frozenset("assert break continue del from global import nonlocal pass raise return".split())


def split_last(code: str) -> tuple[str, str] | None:
    """Return the code before a last statement that may be an expression, and that statement; None where there is none."""
    scan = _Scan()
    at = 0
    while at < len(code):
        token = _TOKEN.match(code, at)
        assert token is not None  # the last alternative takes any character
        at = token.end()
        if token.lastgroup == "string":
            end = _string_end(code, at, token.group())
            if end is None:
                return None
            at = end
        if not scan.take(token):
            return None
    if scan.start is None or scan.depth or not scan.expression:
        return None
    return code[: scan.start], code[scan.start : len(code) if scan.fresh is False else scan.stop]


class _Scan:
    """The state of a scan: where the last statement begins and stops, and whether it may be an expression."""

    def __init__(self) -> None:
        self.start: int | None = None
        self.stop = self.depth = self.line = 0
        self.fresh, self.expression = True, False
        self._block, self._lambda = False, False

    def take(self, token: re.Match[str]) -> bool:
        """Take one token; return False where a bracket closes that was not opened."""
        kind, text = token.lastgroup, token.group()
        if kind == "end":
            self._end(token, text)
        elif kind not in ("comment", "space"):
            if self.fresh:
                self._begin(token, text)
            if kind == "bracket":
                self.depth += -1 if text in _PAIRS else 1
            elif self.depth == 0:
                self._judge(kind, text)
        return self.depth >= 0

    def _end(self, token: re.Match[str], text: str) -> None:
        """End a statement, but not inside brackets; at a line break the next line begins."""
        if self.depth:
            return
        if not self.fresh:
            self.stop = token.start()
        self.fresh = True
        if text == "\n":
            self.line, self._block = token.end(), False

    def _begin(self, token: re.Match[str], text: str) -> None:
        """Begin a statement; one in a block, or behind a colon on the block's own line, cannot be the last expression."""
        indented = token.string[self.line : token.start()][:1].isspace()
        self._block = self._block or indented or text in _COMPOUND
        self.start, self.fresh, self._lambda = token.start(), False, False
        self.expression = not self._block and text not in _SIMPLE and text != "@"

    def _judge(self, kind: str | None, text: str) -> None:
        """Rule out that the last statement is an expression: a bare `for`, or an assignment, of which a lambda allows `=`."""
        if kind == "word":
            self._lambda = self._lambda or text == "lambda"
            self.expression = self.expression and text != "for"
        elif kind == "assign":
            self.expression = self.expression and self._lambda and text == "="


def _string_end(code: str, at: int, opening: str) -> int | None:
    """Return the end of a string whose opening (prefix and quotes) ends at `at`; None if it does not end."""
    prefix = opening.rstrip("'\"")
    quote = opening[len(prefix) :]
    if "f" in prefix.lower() or "t" in prefix.lower():
        return _formatted_end(code, at, quote)
    match = _PLAIN_ENDS[quote].match(code, at)
    return None if match is None else match.end()


def _formatted_end(code: str, at: int, quote: str) -> int | None:
    """Return the end of a formatted string; None where it is not closed."""
    inside = [quote]
    while inside and at < len(code):
        if inside[-1] in _PLAIN_ENDS or inside[-1] == "format":
            step = _in_text(code, at, inside)
        else:
            step = _in_field(code, at, inside)
        if step is None:
            return None
        at = step
    return None if inside else at


def _in_text(code: str, at: int, inside: list[str]) -> int | None:
    """Take one step in a formatted string's text or a field's format; return where it leads, None for a wrong line break."""
    char = code[at]
    if inside[-1] == "format":
        if char == "}":
            del inside[-2:]
        elif char == "{":
            inside.append("field")
        return None if char == "\n" else at + 1
    quote = inside[-1]
    if code.startswith(quote, at):
        inside.pop()
        return at + len(quote)
    if char == "\\" or code[at : at + 2] in ("{{", "}}"):
        return at + 2
    if char == "{":
        inside.append("field")
    return None if char == "\n" and len(quote) == 1 else at + 1


def _in_field(code: str, at: int, inside: list[str]) -> int | None:
    """Take one token of a field's code, pushing a nested formatted string; return its end, None for a wrong bracket."""
    token = _TOKEN.match(code, at)
    assert token is not None
    text, end = token.group(), token.end()
    if token.lastgroup == "string":
        prefix = text.rstrip("'\"")
        if "f" in prefix.lower() or "t" in prefix.lower():
            inside.append(text[len(prefix) :])
            return end
        return _string_end(code, end, text)
    if token.lastgroup == "bracket":
        if text not in _PAIRS:
            inside.append(text)
        elif inside[-1] == _PAIRS[text] or (text == "}" and inside[-1] == "field"):
            inside.pop()
        else:
            return None
    elif inside[-1] == "field" and text in (":", ":="):
        inside.append("format")
        return at + 1
    return end
