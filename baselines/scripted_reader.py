"""`ScriptedReader` is a test double in place of a chat model: it reads generated tasks by rule, and errs at three fixed rates.

It sees the messages of a request and nothing else. No agent is named in them, but instructions differ from agent to agent, and
the reader goes by phrases of theirs ("Write the next sentence alone" is IRCoT's), which decide the form of its reply (a search,
notes, a sentence, a program, an answer). What it knows it takes from the question, documents and results anywhere in the
messages, and its errors are the same whoever asks. With it, procedures can be told apart without a paid model: what a
procedure shows to its model, the reader can use. Figures made with it say that the procedures work; they say nothing about
language models, and no table of models holds them.

Errors, each a probability drawn from (seed, what it is about), so that they are the same whoever asks; sums are drawn anew
where a temperature asks for samples:
    missed_fact: a document is overlooked, in the whole episode.
    wrong_hop: the next query asks for the wrong thing; another try may be right.
    wrong_sum: a step of arithmetic in the head is off; a calculator or a program is not.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import canonical_json
from agent_envs.envs.search_qa.chains import (
    ChainProgress,
    ParsedQuestion,
    SearchDocument,
    Wordings,
    documents,
    follow,
    parse_question,
)
from agent_envs.envs.tool_reasoning.math_world.almanac import relations
from agent_envs.grading.arithmetic import ExpressionError, evaluate, number_text
from agent_envs.services.chat import ChatReply, ChatRequest
from baselines.legal_reader import read_law
from baselines.reading_errors import Errors

_HEAD = re.compile(r'Doc \d{1,4}\(Title: "')
_PAGE = re.compile(r"^Page \d{1,4} \[[^\]\n]*\] (.*)\n(.*)$", re.MULTILINE)
_SHEET = ": figures"  # how ToolReasoning's sheets of numbers are titled, behind the name that they are about
_EXPRESSION = re.compile(r"What is ([-+*/() .\d]+)\?")
_STEP = re.compile(r"[-+*/]")
_RESULT = re.compile(r"<result>\s*(-?[\d.,]+)\s*</result>")
_LIMIT = re.compile(r"\b(\d{1,6}) (searches|turns)")
_MOST_TRIES = 2  # queries for one name
__all__ = ["Errors", "ScriptedReader"]


class ScriptedReader:
    """A `ChatModel` that reads and answers by rule."""

    def __init__(self, errors: Errors = Errors(), name: str = "scripted-reader") -> None:  # noqa: B008 - frozen
        """Take the errors. The name plays no part."""
        self.errors, self.name = errors, name

    def complete(self, request: ChatRequest, seconds: float = 60.0) -> ChatReply:
        """Return the reply by kind of question (law, calculation, research); a search is a native call if tools are given."""
        inputs = ReaderInput.of(request)
        if "[sources:" in inputs.rules:
            text = read_law(inputs.rows, inputs.question, self.errors)
        elif match := _EXPRESSION.search(inputs.question):
            draw = request.seed if request.temperature else 0  # samples err apart, as a model's would
            text = self._compute(match[1].strip(), inputs, draw)
        else:
            text = self._research(inputs)
        tokens = {"input": sum(map(len, inputs.texts)) // 4, "output": len(text) // 4 + 1}
        call = re.search(r"<search>(.*?)</search>", text) if request.tools else None
        if call is None:
            return ChatReply(text, usage=tokens)
        return ChatReply("", (ToolCall(f"call_{inputs.own}", "search", canonical_json({"query": call[1]})),), tokens)

    def _compute(self, expression: str, inputs: "ReaderInput", draw: int) -> str:
        """Return a program, a calculator call or its result, by the rules; else a sum by hand that may err; 0 if unreadable."""
        if "<python>" in inputs.rules:
            return f"<python>print(round({expression}, 3))</python>"
        results = _RESULT.findall("\n".join(inputs.back))
        if "<calculator>" in inputs.rules:
            return f"#### {results[-1]}" if results else f"<calculator>{expression}</calculator>"
        try:
            value = evaluate(expression)
        except ExpressionError:
            return "#### 0"
        for step in _STEP.finditer(expression):
            if self.errors.strikes("wrong_sum", expression, step.start(), draw):
                value += (1 + step.start()) * (1 + draw % 97)
        return f"The steps give this.\n#### {number_text(value)}"

    def _research(self, inputs: "ReaderInput") -> str:
        """Return notes on pages (some missed by chance; "None." without any) if notes alone are asked for, else an action."""
        pages = [page for page in inputs.pages if not self.errors.strikes("missed_fact", inputs.question, page.title)]
        notes = " ".join(f'Doc {n}(Title: "{page.title}") {page.text}' for n, page in enumerate(pages, 1))
        if "Write down what of them helps" in inputs.rules:
            return notes or "None."
        prefix = f"<think>{notes}</think>\n" if "adds to your notes" in inputs.rules else ""
        return prefix + self._act(inputs, pages)

    def _act(self, inputs: "ReaderInput", pages: list[SearchDocument]) -> str:
        """Return the next search, or the answer so far if none is missing or allowed, in the form that the rules ask for."""
        plan = parse_question(inputs.question, wordings())
        about = [SearchDocument(page.title.removesuffix(_SHEET), page.text) for page in pages]
        ways = [follow(side, about) for side in plan.sides] if plan else []
        missing = next((way for way in ways if not way.complete and inputs.tried(way.name) < _MOST_TRIES), None)
        answer = conclusion(plan, ways, self._sum_error(inputs.question)) if plan else "unknown"
        if "Write the next sentence alone" in inputs.rules:
            return self._query(missing, ways, inputs) if missing else f"So the answer is: {answer}."
        if missing is not None and inputs.may_search:
            query = self._query(missing, ways, inputs)
            return f"Action: search[{query}]" if "Action: one action" in inputs.rules else f"<search>{query}</search>"
        if "\\boxed{" in inputs.rules:
            answer = f"\\boxed{{{answer}}}"
        return f"Action: finish[{answer}]" if "Action: one action" in inputs.rules else f"<answer>{answer}</answer>"

    def _query(self, missing: ChainProgress, ways: list[ChainProgress], inputs: "ReaderInput") -> str:
        """Return the question of what is missing, or by a scripted error a query about something else."""
        if not self.errors.strikes("wrong_hop", inputs.question, missing.name, inputs.tried(missing.name)):
            return missing.question
        others = [way.name for way in ways if way.name != missing.name]
        return f"{others[0] if others else 'Something else'} and its surroundings, not {missing.name}."

    def _sum_error(self, question: str) -> int:
        """Return 1 where the scripted error `wrong_sum` strikes a question; else 0."""
        return 1 if self.errors.strikes("wrong_sum", question) else 0


@dataclass(frozen=True)
class ReaderInput:
    """A request as the reader takes it: its texts, rules, question and pages.

    Attributes:
        rows: the messages.
        texts: their contents.
        rules: the instructions: messages of others, without the documents and results in them.
        question: the newest one.
        pages: every document that is shown anywhere, each once.
        own: what the reader said before, in its own messages or as reasoning in the prompt.
    """

    rows: tuple[dict[str, Any], ...]
    texts: tuple[str, ...]
    rules: str
    question: str
    pages: tuple[SearchDocument, ...]
    offered: bool
    own: int

    @staticmethod
    def of(request: ChatRequest) -> "ReaderInput":
        """Parse a request: rules without documents, newest question ("" if none), pages each once, count of own turns."""
        rows = tuple(dict(row) for row in request.messages)
        texts = tuple(str(row["content"] or "") for row in rows)
        others = [text for row, text in zip(rows, texts, strict=True) if row["role"] in ("system", "user")]
        heads = [text for text in others if "Question: " in text]
        question = heads[-1].rpartition("Question: ")[2].partition("\n\n")[0].strip() if heads else ""
        if not heads and others:
            question = next((text for text in reversed(others) if _EXPRESSION.search(text)), "")
        pages: dict[str, SearchDocument] = {}
        for text in texts:
            if _HEAD.search(text):
                body = text.replace("<information>", " ").replace("</information>", " ")
                for page in documents(f"<information>{body}</information>"):
                    pages.setdefault(f"{page.title} {page.text[:200]}", page)
            for title, body in _PAGE.findall(text):
                pages.setdefault(f"{title} {body[:200]}", SearchDocument(title, body))
        own = sum(row["role"] == "assistant" for row in rows)
        rules = _PAGE.sub("", re.sub(r'Doc \d{1,4}\(Title: ".*', "", "\n".join(others)))
        return ReaderInput(rows, texts, rules, question, tuple(pages.values()), bool(request.tools), own)

    @property
    def back(self) -> list[str]:
        """The messages that came back after the reader's own; none before that."""
        roles = [row["role"] for row in self.rows]
        return list(self.texts[roles.index("assistant") :]) if "assistant" in roles else []

    @property
    def may_search(self) -> bool:
        """Whether a search is offered, the limits leave one and a later turn, and the newest message sets no beginning."""
        offered = self.offered or "<search>" in self.rules or "search[" in self.rules
        limits = {name: int(number) for number, name in reversed(_LIMIT.findall(self.rules))}
        last = self.own + 1 >= limits.get("turns", 10**6) or self.own >= limits.get("searches", 10**6)
        return offered and not last and "Begin your reply with" not in self.texts[-1]

    def tried(self, name: str) -> int:
        """Count the earlier queries that hold a name."""
        # Native calls stand beside the text of a message: the whole row is looked at.
        queries = [canonical_json(row) for row in self.rows if row["role"] == "assistant"]
        queries += [line for line in self.rules.splitlines() if "Searched: " in line or line.startswith("Done: ")]
        return sum(name.lower() in text.lower() for text in queries)


@cache
def wordings() -> Wordings:
    """Return the wordings that the reader knows, of the fictional worlds and their almanacs; cached."""
    return Wordings(relations())


def conclusion(plan: ParsedQuestion, ways: list[ChainProgress], off: int) -> str:
    """Return the chains' answer: a value or "unknown", yes or no, years apart plus `off`, or a name; unknown years are 0."""
    if not plan.comparison:
        return ways[0].value or "unknown"
    one, other = ways
    if plan.comparison == "same":
        return "yes" if one.complete and other.complete and one.value == other.value else "no"
    years = [int(way.value) if way.complete and way.value.isdigit() else 0 for way in ways]
    if plan.comparison == "gap":
        return str(abs(Fraction(years[0] - years[1])) + off)
    first = years[0] <= years[1]
    return (one if first == (plan.comparison == "first") else other).name
