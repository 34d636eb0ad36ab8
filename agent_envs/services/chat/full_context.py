"""Services refuse a prompt that is longer than the model's context in words of their own, most of them with both numbers."""

import re

from agent_envs.base.errors import ContextFull

_REFUSED = re.compile(r"answered 4(?:00|13|22)\b|the answer has no")
_SUBJECT = re.compile(
    r"context[_ ](?:length|size|window|limit)|exceed_context|model'?s? (?:length|context)|prompt (?:is too long|length is)|"
    r"too large for model|input is too long|too many tokens|input token count|max_new_tokens.? must be",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(r"exceed|longer|maximum|too (?:long|large|many)|overflow|reduce|only|must be <=", re.IGNORECASE)
# Of each the first that is found holds.
_CONTEXT = [
    r"> (\d{2,})", r"n_ctx\D{1,5}(\d{2,})", r"too large for model with (\d{2,})", r"tokens allowed \((\d{2,})", r"<= (\d{2,})",
    r"(?:context (?:length|size|window|limit)|(?:model|prompt) length)(?: is| of)?(?: only)?\D{0,4}(\d{2,})",
]  # fmt: skip
_PROMPT = [
    r"too long: (\d+)", r"(\d+) (?:tokens )?\+ \d+ >", r"n_prompt_tokens\D{1,5}(\d+)",
    r"(\d+) (?:tokens )?(?:in the messages|in the prompt|from the input)",
    r"(?:request|input|prompt \(length|count|length) \(?(\d+)", r"has (\d+) input", r"at least (\d+) input",
    r"(?:requested|resulted in|contains|Given:|first|total of)(?: over)? (\d+)",
]  # fmt: skip


def full_context(cause: str) -> ContextFull | None:
    """Return the error of a fault's cause that is a refusal of too long a prompt; None for any other cause."""
    head = _REFUSED.search(cause)
    text = cause[head.end() :] if head else ""
    if not (_SUBJECT.search(text) and _TOO_LONG.search(text)):
        return None
    return ContextFull(cause, _first_number(_PROMPT, text), _first_number(_CONTEXT, text))


def _first_number(patterns: list[str], text: str) -> int:
    matches = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    return next((int(match[1][:9]) for match in matches if match), 0)
