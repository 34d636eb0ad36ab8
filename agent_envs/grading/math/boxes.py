r"""Finding the final answer of a solution: the last `\boxed{...}`."""

import re

# Escaped braces are signs of their own, as in LaTeX: `\boxed{\{1,2\}}` is balanced.
_MARK = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)


def boxed(text: str) -> str | None:
    r"""Return what stands in the last `\boxed{...}` whose braces balance, as written; None if there is none.

    "Last" is the box that begins last: of two nested ones it is the inner. One pass over the text.
    """
    opened: list[int] = []  # where the content of each open group begins, -1 for a group that is no box
    begin, end = -1, -1
    for mark in _MARK.finditer(text):
        sign = mark.group()
        if sign == "{":
            opened.append(-1)
        elif sign.startswith("\\boxed"):
            opened.append(mark.end())
        elif sign == "}" and opened:
            start = opened.pop()
            if start > begin:
                begin, end = start, mark.start()
    return text[begin:end] if begin >= 0 else None
