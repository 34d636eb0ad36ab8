"""Scripted feedback for tool reasoning says which name is not looked up yet, when a program is due, and when to answer."""

import random
import re
from collections.abc import Sequence

from agent_envs.base.messages import Message
from agent_envs.wrappers.scripted_feedback import FeedbackWordings, Hint, scripted

WORDINGS = FeedbackWordings(__package__)
_PART = r"[A-Z](?:[\w-]|['\u2019](?!(?:s\b|(?!\w))(?! [A-Z]))){1,40}"  # "Ana" of "Ana's son", but "O'Neal", "Grey's Anatomy"
_NAME = re.compile(rf"(?<![.?!] )(?<!^)\b{_PART}(?: (?:of |the )?{_PART}){{0,4}}")
_LETTER = re.compile(r"\b[PQR]\b")  # how math_world calls a fact that a calculation needs
_PAGE = re.compile(r"^Page \d+ \[[^\]\n]{1,200}\] ([^\n]{1,200})\n([^\n]{0,2000})", re.M)
_FAILED = re.compile(r"^\w*(?:Error|Exception|Timeout)\b|^The program (?:was stopped|ended and printed nothing)", re.M)
_CALLED = {
    "search": re.compile(r"<search>([^<]{0,500})|\"query\": ?\"([^\"]{0,500})"),
    "python": re.compile(r"<python>()|\"name\": ?\"python\"()"),
}
_WORD = re.compile(r"[a-z]{4,}")
_MOST_TEXT = 20_000  # characters of a message, and of a question


def give_feedback(messages: Sequence[Message], mode: str, quality: str, rng: random.Random) -> str:
    """Return feedback on a conversation; see `agent_envs.wrappers.scripted_feedback.scripted`."""
    return scripted(WORDINGS, _advise, messages, mode, quality, rng)


class FeedbackContext:
    """A conversation so far: the question, the calls, and the results of the tools."""

    def __init__(self, messages: Sequence[Message]) -> None:
        """Parse the messages: question, tools, queries, pages, programs, and the output of a program that ran last."""
        prompt = messages[0].content
        self.question = prompt.rpartition("Question: ")[2].strip()[:_MOST_TEXT]
        head = prompt.rpartition("Question: ")[0]
        self.may_search, self.may_run = "search" in head, "program" in head
        own = [message.content[:_MOST_TEXT] for message in messages if message.role == "assistant"]
        self.queries = [query.lower() for text in own if (query := _call_in("search", text))]
        results = [message.content[:_MOST_TEXT] for message in messages[1:] if message.author == "tool"]
        self.pages = [page for text in results for page in _PAGE.findall(text)]
        self.ran = [text for text in own if _CALLED["python"].search(text)]
        ran_last = bool(own) and own[-1] in self.ran[-1:]
        self.output = (
            results[-1].replace("<result>", "").replace("</result>", "").strip() if ran_last and results else ""
        )

    def names(self) -> list[str]:
        """Return the names in the question that no query held yet."""
        names = dict.fromkeys(_NAME.findall(self.question[:3_000]))
        return [name for name in names if self._fresh(name)]

    def mentions(self, name: str) -> bool:
        """Return whether a page that was shown says something of a name."""
        return any(name.lower() in f"{title} {text}".lower() for title, text in self.pages)

    @property
    def calculates(self) -> bool:
        """Whether programs are offered and the question names nothing, or has letters for numbers."""
        return self.may_run and (not _NAME.search(self.question[:3_000]) or bool(_LETTER.search(self.question)))

    def onward(self) -> str:
        """Return the last unsearched name of the sentence nearest to the question, on pages of the last query; "" for none."""
        question_words = set(_WORD.findall(self.question.lower()))
        best, onward = 0, ""
        for title, text in self.pages[-3:]:
            if not self.queries or title.partition(" (")[0].lower() not in self.queries[-1]:
                continue
            for sentence in re.split(r"(?<=[.?!]) ", text):
                names = [name for name in _NAME.findall(" " + sentence) if name not in title and self._fresh(name)]
                shared = 1 + len(question_words & set(_WORD.findall(sentence.lower())))
                if names and shared > best:
                    best, onward = shared, names[-1]
        return onward

    def _fresh(self, name: str) -> bool:
        """Return whether no query held a name yet."""
        return not any(name.lower() in query for query in self.queries)


def _advise(messages: Sequence[Message], mode: str, quality: str) -> Hint:
    """Return a hint: the next step (good exploit), how far the work is (good), or misleading advice."""
    talk = FeedbackContext(messages)
    if mode == "exploit" and quality == "good":
        return _next(talk)
    names = talk.names() or _NAME.findall(talk.question[:3_000]) or [""]
    others = [title for title, _ in reversed(talk.pages)] or [names[-1]]
    slots = {"name": names[0], "other": others[0], "value": talk.output}
    if quality == "misleading":
        return ("known" if talk.output else "early"), slots
    return ("printed" if talk.output else "middle" if talk.pages or talk.ran else "start"), slots


def _next(talk: FeedbackContext) -> Hint:
    """Return the next step: mend a failed program, answer with the output, look a name up, go onward, run or read."""
    if talk.output and _FAILED.search(talk.output):
        return "mend", {}
    if talk.output:
        return "answer", {"value": talk.output}
    names = talk.names() if talk.may_search else []
    if names:
        first = min(names, key=talk.mentions)
        return ("mentioned" if talk.mentions(first) else "look_up"), {"name": first}
    onward = talk.onward() if talk.may_search else ""
    if onward:
        return "onward", {"name": onward}
    return ("run" if talk.calculates else "read"), {}


def _call_in(tool: str, text: str) -> str:
    """Return the argument of a tool's first call in a text; empty where it has none."""
    call = _CALLED[tool].search(text)
    return (call[1] or call[2] or "").strip() if call else ""
