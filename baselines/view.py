"""`EpisodeView` is an episode as a procedure reads it, from the messages alone; it also writes searches and answers.

The environments state their forms in their own prompts: tags, native tool calls, `####` or a box. Agents here use the form
that the prompt names, so that one procedure plays every family that has a search, or a calculation, and an answer.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import ToolCallProtocol
from agent_envs.base.serialization import canonical_json
from agent_envs.rollout.policy import Request
from baselines.prompts import prompt

SEARCHES = ("search", "semantic", "keyword")
_LIMIT = re.compile(r"\b(\d{1,6}) (searches|turns)")
_ANSWERS = (
    re.compile(r"<answer>(.*?)(?:</answer>|\Z)", re.S),
    re.compile(r"####\s*(\S[^\n]*)"),
    re.compile(r"answer is:?\s*(.+?)\.?\s*(?:\n|\Z)", re.I),
)
_BOX = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
NO_LIMIT = 10**6


@dataclass(frozen=True)
class EpisodeView:
    """An episode as its messages show it.

    Attributes:
        messages: all of them, fresh dicts.
        instructions: the first messages, up to the first turn of the policy.
        question: what is asked, without the environment's instructions.
        actions: the texts of the policy's own turns.
        evidence: what came back after them, as it was shown.
        tools: the schemas of native tools; empty for tags.
        verbs: the tags that may be written, `answer` left out.
        forced: the turn must begin with an answer.
    """

    messages: tuple[dict[str, Any], ...]
    instructions: str
    question: str
    actions: tuple[str, ...]
    evidence: tuple[str, ...]
    tools: tuple[dict[str, Any], ...]
    verbs: tuple[str, ...]
    stop: tuple[str, ...]
    forced: bool

    @staticmethod
    def of(request: Request) -> "EpisodeView":
        """Parse a request: the prompt, its question behind the last "Question: ", own actions, evidence, tools and tags."""
        messages = tuple(request.messages_since(0))
        first = next((n for n, row in enumerate(messages) if row["role"] == "assistant"), len(messages))
        head = [str(row["content"]) for row in messages[:first] if row["role"] != "tool"]
        prompt = next((text for text in reversed(head) if "Question: " in text), head[-1] if head else "")
        return EpisodeView(
            messages,
            "\n\n".join(head),
            prompt.rpartition("Question: ")[2].partition("\n\nBegin your reply with ")[0].strip(),
            tuple(str(row["content"]) for row in messages if row["role"] == "assistant"),
            tuple(str(row["content"]).strip() for row in messages[first:] if row["role"] != "assistant"),
            tuple(request.tools),
            tuple(text[2:-1] for text in request.stop if text.startswith("</") and text != "</answer>"),
            tuple(request.stop),
            bool(request.prefill),
        )

    def limit(self, what: str) -> int:
        """Return the first limit of `searches` or `turns` that the prompt grants; NO_LIMIT where it names none."""
        return next((int(number) for number, name in _LIMIT.findall(self.instructions) if name == what), NO_LIMIT)

    @property
    def search_verb(self) -> str:
        """The verb of a search by meaning, or by words where there is no other; "" where nothing can be searched."""
        verbs = {tool["function"]["name"] for tool in self.tools} or set(self.verbs)
        order = ("semantic", "search", "keyword")
        return next((verb for verb in order if verb in verbs), "")

    @property
    def searches(self) -> int:
        """The number of the policy's turns that were searches."""
        return sum(any(f"<{verb}>" in text or f'"{verb}"' in text for verb in SEARCHES) for text in self.actions)

    @property
    def must_answer(self) -> bool:
        """Whether this turn is the last, or there is nothing left to search with."""
        last = len(self.actions) + 1 >= self.limit("turns")
        return self.forced or last or self.searches >= self.limit("searches") or not self.search_verb

    def search(self, query: str, thought: str = "") -> str:
        """Return the action that searches for a query with the view's verb, behind the thought in <think> if there is one."""
        return (
            f"<think>{thought}</think>\n{self.call(self.search_verb, query)}"
            if thought
            else self.call(self.search_verb, query)
        )

    def call(self, verb: str, text: str) -> str:
        """Return a call of `verb` with one text: a native call, as its first parameter, if `tools` have it; else in tags."""
        schema = next((tool["function"] for tool in self.tools if tool["function"]["name"] == verb), None)
        if schema is None:
            return f"<{verb}>{text}</{verb}>"
        names = list(schema["parameters"].get("properties", {})) or ["query"]
        return ToolCallProtocol.render([ToolCall("call_0", verb, canonical_json({names[0]: text}))])

    @property
    def form(self) -> str:
        """The sentence that says how an answer is to be written."""
        return prompt("forms", self._form)

    @property
    def _form(self) -> str:
        """Return the form of the answer that the instructions name: `law`, `boxed`, `number` or `text`."""
        if "[sources:" in self.instructions:
            return "law"
        if "\\boxed{" in self.instructions:
            return "boxed"
        return "number" if "####" in self.instructions else "text"

    def answer(self, reply: str) -> str:
        """Return a reply's final answer as an action: `####`, boxed or in tags; an unsure law answer is "I don't know"."""
        answer = final_answer(reply)
        if self._form == "number":
            return f"#### {answer}"
        if self._form == "boxed":
            answer = f"\\boxed{{{answer}}}"
        elif self._form == "law" and "know" in answer and "[sources" not in answer:
            answer = "I don't know"
        return f"<answer>{answer}</answer>"

    @property
    def documents(self) -> str:
        """All results of searches, in order."""
        return joined(self.evidence)


def final_answer(reply: str) -> str:
    """Return the answer that a reply ends in: in tags or a box, behind `####` or "the answer is", or its last line; or ""."""
    for pattern in _ANSWERS[:2]:
        if hits := pattern.findall(reply):
            reply = hits[-1].strip()
            break
    if boxes := _BOX.findall(reply):
        return str(boxes[-1]).strip()
    if hits := _ANSWERS[2].findall(reply):
        return str(hits[-1]).strip()
    lines = [line.strip() for line in reply.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def joined(texts: Sequence[str]) -> str:
    """Join texts by blank lines; "(nothing)" without any."""
    return "\n\n".join(text for text in texts if text) or "(nothing)"
