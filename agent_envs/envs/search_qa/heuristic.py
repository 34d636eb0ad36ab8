"""An honest baseline without a model searches for the question, then answers with a span of what came back."""

import re
from collections import Counter

from agent_envs.envs.search_qa.env import NATIVE
from agent_envs.rollout.policy import Request

_DOCUMENT = re.compile(
    r'Doc \d+(?:\(Title: "(.*?)"\)|: \\?"(.*?)\\?"(?:\\n|\n))(.*?)(?=Doc \d+(?:\(|: )|</information>|\Z)', re.S
)
_SPAN = re.compile(r"[A-Z][\w'-]+(?: (?:of |the |de |von )?[A-Z][\w'-]+)*")
_YEAR = re.compile(r"\b1\d{3}\b|\b20\d{2}\b")
_NUMBER = re.compile(r"\b\d[\d,.]*\b")
_STARTERS = frozenset(
    "The A An In It He She They This That His Her Its When Where Who What Which After Before Of Between Did Is Was".split()
)


def search_once_and_guess(request: Request) -> str:
    """Return a search for the question in the first turn, and in the second the likeliest span for its kind."""
    return in_protocol(request, _in_tags(request))


def in_protocol(request: Request, text: str) -> str:
    """Return a turn written in tags as its native call, if tools are offered and no prefill is given; else unchanged."""
    return NATIVE.write(text) if request.tools and not request.prefill else text


def _in_tags(request: Request) -> str:
    """Return the question as a search in the first turn, else (and with a prefill) the answer guessed from the last message."""
    question = str(request.messages[0]["content"]).rsplit("Question: ", 1)[-1].strip()
    if len(request.messages) == 1 and not request.prefill:
        return f"<think>I look for the question itself.</think>\n<search>{question}</search>"
    passages = str(request.messages[-1]["content"])
    thought = "" if request.prefill else "<think>This span fits best.</think>\n"
    return f"{thought}<answer>{guess(question, passages)}</answer>"


def guess(question: str, passages: str) -> str:
    """Return yes, an option, or the year, number or name nearest to the question's words; "unknown" where there is none."""
    lowered = question.lower()
    first = lowered.split(" ", 1)[0]
    if first in ("is", "are", "was", "were", "do", "does", "did", "has", "have", "can"):
        return "yes"
    if " or " in lowered:
        options = [span for span in _SPAN.findall(question) if span not in _STARTERS]
        return max(options, key=passages.count, default="unknown")
    if re.search(r"\b(when|what year|which year|year)\b", lowered):
        return _nearest_match(_YEAR, question, passages) or "unknown"
    if re.search(r"\bhow (many|much|old|long|far)\b", lowered):
        return _nearest_match(_NUMBER, question, passages) or "unknown"
    return _nearest_match(_SPAN, question, passages) or "unknown"


def _nearest_match(pattern: re.Pattern[str], question: str, passages: str) -> str:
    """Return the match with most question words within 60 characters, by passage rank, no question word itself; "" for none."""
    question_words = set(re.findall(r"\w+", question.lower()))
    scores: Counter[str] = Counter()
    for rank, (*_, text) in enumerate(_DOCUMENT.findall(passages)[:10], start=1):
        for match in pattern.finditer(text[:4000]):
            span = match.group().strip(".,")
            if span in _STARTERS or set(re.findall(r"\w+", span.lower())) <= question_words:
                continue
            near = re.findall(r"\w+", text[max(0, match.start() - 60) : match.end() + 60].lower())
            scores[span] += (1 + len(question_words & set(near))) / rank  # type: ignore[assignment]
    return max(scores, key=lambda span: (scores[span], span), default="")
