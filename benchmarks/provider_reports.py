"""The reports of `provider_faults`: what a server does, which episode it is met in, and what is expected of it.

A script is a function from a request's body and its number, from 1, to a status and the JSON that is answered; GOLD in it
stands for the task's gold answer. Threads are named as their projects number them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Script = Callable[[Any, int], tuple[int, Any]]
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "input_tokens": 9, "output_tokens": 3}
SMALL = {"world": {"passages": 60, "questions_per_world": 2}}
NATIVE, LONG = {**SMALL, "protocol": "json"}, {**SMALL, "protocol": "json", "max_generations": 40}
BOXES = {"protocol": "json", "tools": ["search"]}
LAW = (
    "<keyword>fee</keyword>",
    "<keyword>licence</keyword>",
    "<keyword>term</keyword>",
    "<answer>12 [sources: x]</answer>",
)
REFUSED = {"calls": 1, "turns": 1, "faults": 0, "outcome": "refused"}
FAULT = {"calls": 15, "turns": 0, "faults": 1, "outcome": "fault"}
NO_ACTION = {"calls": 6, "turns": 6, "faults": 0, "outcome": "unreadable"}
STUCK = {"calls": 20, "turns": 20, "faults": 0, "outcome": "unreadable"}
SOLVED = {"success": True, "faults": 0}


@dataclass(frozen=True)
class Report:
    """One report.

    Attributes:
        name: of the row.
        thread: where it was told.
        does: what the server does.
        script: that does it.
        expected: fields of `Ending` with the values that are right.
        env: the id, with its `arguments`.
        provider: `openai` or `anthropic`, whose format is spoken.
        asks: the argument that names the judge or user behind `service`; `right_service` is the control's.
        control: a right server; None for one that gives the gold answer at once.
        resumes: whether the run is resumed once, with the servers as they are.
    """

    name: str
    thread: str
    does: str
    script: Script
    expected: dict[str, Any]
    env: str = "SearchQA"
    arguments: dict[str, Any] = field(default_factory=lambda: SMALL)
    provider: str = "openai"
    asks: str = "judge"
    service: Script | None = None
    right_service: Script | None = None
    control: Script | None = None
    resumes: bool = False


def reply(
    content: Any = "", finish: str | None = "stop", *, choice: Any = None, usage: Any = USAGE, **message: Any
) -> Any:
    """Return an answer of the chat-completions format; `choice` are further fields of its choice, the rest its message's."""
    row = {"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish, **(choice or {})}
    return {"choices": [row], **({"usage": usage} if usage else {})}


def blocks(*content: Any, stop: str = "end_turn") -> Any:
    """Return an answer of Anthropic's format."""
    return {"content": list(content), "stop_reason": stop, "usage": USAGE}


def always(answer: Any, status: int = 200) -> Script:
    """Return a script that answers the same."""
    return lambda body, number: (status, answer)


def then(first: Script, times: int, second: Script) -> Script:
    """Return a script that does one thing so many times, and then another."""
    return lambda body, number: (first if number <= times else second)(body, number)


def tool_call(name: str, arguments: str, **more: Any) -> Any:
    """Return a native call."""
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


SEARCH = tool_call("search", '{"query": "who"}')
ANSWER = tool_call("answer", '{"text": "GOLD"}')
RIGHT = always(reply("<answer>GOLD</answer>"))


def right_script(report: Report) -> Script:
    """Return a server that gives a report's gold answer at once, in the form of its environment and provider."""
    if report.provider == "anthropic":
        native = {"type": "tool_use", "id": "t", "name": "answer", "input": {"text": "GOLD"}}
        return always(
            blocks(native if "protocol" in report.arguments else {"type": "text", "text": "<answer>GOLD</answer>"})
        )
    if report.env == "Arithmetic":
        return always(reply("#### GOLD"))
    return RIGHT


def two_turns(first: Any, wants: Callable[[Any], bool], refusal: str, second: Any = None) -> Script:
    """Return a server that searches with one message, and answers where the conversation has what it `wants` back."""

    def script(body: Any, number: int) -> tuple[int, Any]:
        mine = [row for row in body["messages"] if row["role"] == "assistant"]
        if not mine:
            return 200, first
        if not all(map(wants, mine)):
            return 400, {"error": {"message": refusal, "type": "invalid_request_error"}}
        return 200, second or reply(None, "tool_calls", tool_calls=[ANSWER])

    return script


def script_of(lines: tuple[str, ...]) -> Script:
    """Return a server that says the lines in turn, by how many the conversation has."""

    def script(body: Any, number: int) -> tuple[int, Any]:
        turn = sum(row["role"] == "assistant" for row in body["messages"])
        return 200, reply(lines[min(turn, len(lines) - 1)])

    return script


def has(name: str, value: Any) -> Callable[[Any], bool]:
    """Return whether a message has a field with a value."""
    return lambda row: row.get(name) == value


SIGNED = {"google": {"thought_signature": "Ab+/=="}}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
USE = {"type": "tool_use", "id": "t1", "name": "search", "input": {"query": "who"}}
DETAILS = [{"type": "reasoning.encrypted", "data": "q=="}]
AZURE = {
    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    "code": "content_filter", "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation"},
}  # fmt: skip
OWN = "as documented"
XML = "<tool_call>\n<function=search>\n<parameter=query>\nwho\n</parameter>\n</function>\n</tool_call>"


def _heals(name: str, thread: str, does: str, answer: Any, status: int = 200) -> Report:
    """Return a row of a failure that comes once: the answer after it is paid."""
    return Report(
        f"{name}, once",
        thread,
        f"{does}; once, then right",
        then(always(answer, status), 1, RIGHT),
        {**SOLVED, "calls": 2},
    )


_FAILURES = [
    ("finish error", "bifrost#5425", "200, finish_reason error, empty content", reply("", "error")),
    ("error in the choice", "OmniRoute#8210", "200, an error object in the choice", reply("", choice={"error": {"code": 502}})),
    ("error in the message", OWN, "200, an error object in the message", reply("", error={"code": 502})),
    ("error beside choices", "speakeasy#3129", "200, an error object beside a text", {**reply("x"), "error": {"code": 500}}),
    ("network error", "pi#8511", "200, native_finish_reason network_error, no usage",
     reply("", choice={"native_finish_reason": "network_error"}, usage=None)),
    ("half a text, network error", "pi#8511", "the same behind half an answer",
     reply("<answer>Mo", choice={"native_finish_reason": "network_error"})),
    ("no resources", "DeepSeek, " + OWN, "finish_reason insufficient_system_resource",
     reply("", "insufficient_system_resource")),
    ("no choices", "OmniRoute#3424", "200 without choices", {"usage": USAGE}),
    ("empty, uncounted", OWN, "empty content, no usage", reply("", usage=None)),
    ("overloaded in a 200", "inspect_ai#2272", "200, error overloaded", {"error": {"message": "Overloaded"}}),
]  # fmt: skip

REPORTS = [
    Report("filter, null", "openai-agents#4159", "content_filter, content null",
           always(reply(None, "content_filter")), REFUSED),
    Report("filter, empty", "litellm#24287", 'content_filter, content ""', always(reply("", "content_filter")), REFUSED),
    Report("filter, half a text", "openai-agents#4234", "content_filter within an answer",
           always(reply("<answer>Mo", "content_filter")), REFUSED),
    Report("filter in capitals", "Gemini, " + OWN, "finish_reason SAFETY", always(reply(None, "SAFETY")), REFUSED),
    Report("refusal", "promptfoo#5859", "a refusal field, content null", always(reply(None, refusal="I will not.")), REFUSED),
    Report("refusal part", "raptor#106", "a refusal among the content's parts",
           always(reply([{"type": "refusal", "refusal": "No."}])), REFUSED),
    Report("Claude refuses", "hermes#46013", "stop_reason refusal, content []", always(blocks(stop="refusal")), REFUSED,
           provider="anthropic"),
    Report("Claude refuses in words", "hermes#43108", "stop_reason refusal behind a text",
           always(blocks({"type": "text", "text": "<answer>Mo"}, stop="refusal")), REFUSED, provider="anthropic"),
    Report("Azure's filter", "promptfoo#5859", "HTTP 400, code content_filter", always({"error": AZURE}, 400), REFUSED),
    Report("OpenRouter's moderation", OWN, "HTTP 403, the input was flagged",
           always({"error": {"code": 403, "message": "Your input was flagged by OpenAI"}}, 403), REFUSED),
    Report("DashScope's inspection", OWN, "HTTP 400, data_inspection_failed",
           always({"error": {"code": "data_inspection_failed", "message": "Input may contain inappropriate content."}}, 400),
           REFUSED),
    Report("DeepSeek's filter", OWN, "HTTP 400, Content Exists Risk",
           always({"error": {"message": "Content Exists Risk"}}, 400), REFUSED),
    Report("a network's wall", OWN, "HTTP 403, no word of the prompt", always({"error": "your request was blocked"}, 403),
           {"turns": 0, "faults": 1}),
    *(Report(name, thread, does, always(answer), FAULT) for name, thread, does, answer in _FAILURES),
    *(_heals(name, thread, does, answer) for name, thread, does, answer in _FAILURES[:3]),
    _heals("server error", "bifrost#5425", "HTTP 500", {}, 500),
    Report("529 twice", "mini-swe-agent#184", "HTTP 529 twice, then right", then(always({}, 529), 2, RIGHT), SOLVED),
    Report("cut answer", "gbrain#2113", "<answer>The answer might, finish_reason length",
           always(reply("<answer>The answer might", "length")), NO_ACTION),
    Report("cut gold", "MiqroForge#1100", "<answer>GOLD, finish_reason length",
           always(reply("<answer>GOLD", "length")), NO_ACTION),
    Report("cut number", "MiqroForge#1100", "#### GOLD, finish_reason length", always(reply("#### GOLD", "length")),
           {"success": False, "outcome": "unreadable"}, "Arithmetic", {}),
    Report("all tokens thought", "omlx#3772", "reasoning_content alone, length",
           always(reply(None, "length", reasoning_content="Let me")), NO_ACTION),
    Report("reasoning without content", "vLLM#50624", "reasoning, and no content key",
           always({"choices": [{"message": {"reasoning": "Hm"}, "finish_reason": "length"}], "usage": USAGE}), NO_ACTION),
    Report("cut call", "gbrain#2113", "a native call cut in its arguments, again and again",
           always(reply(None, "length", tool_calls=[tool_call("search", '{"query": "wh')])), STUCK, arguments=LONG),
    Report("old function_call", OWN, "function_call in place of tool_calls, again and again",
           always(reply("", "function_call", function_call=SEARCH["function"])), STUCK, arguments=LONG),
    Report("glued arguments", "vLLM#32638", "two JSON objects in one arguments field, again and again",
           always(reply(None, "tool_calls", tool_calls=[tool_call("search", '{"query": "a"}{"query": "b"}')])), STUCK,
           arguments=LONG),
    Report("unfinished thought", "verifiers#213", "<think>maybe \\boxed{GOLD}", always(reply("<think>maybe \\boxed{GOLD}")),
           {"success": False}, "ToolReasoning", BOXES),
    Report("DeepSeek V4 thinks", "paper-chat#16", "400 unless reasoning_content comes back",
           two_turns(reply("", "tool_calls", tool_calls=[SEARCH], reasoning_content="First\n é"),
                     has("reasoning_content", "First\n é"), "reasoning_content must be passed back"), SOLVED, arguments=NATIVE),
    Report("Gemini 3 signs", "AstrBot#9217", "400 unless a call's signature comes back",
           two_turns(reply(None, "tool_calls", tool_calls=[{**SEARCH, "extra_content": SIGNED}]),
                     lambda row: row["tool_calls"][0].get("extra_content") == SIGNED, "missing thought_signature"),
           SOLVED, arguments=NATIVE),
    Report("Claude thinks", "openai-agents#1704", "400 unless the thinking block comes back first",
           two_turns(blocks(THOUGHT, USE, stop="tool_use"), lambda row: row["content"][0] == THOUGHT,
                     "Expected `thinking`, found `tool_use`",
                     blocks({"type": "tool_use", "id": "t2", "name": "answer", "input": {"text": "GOLD"}}, stop="tool_use")),
           SOLVED, arguments=NATIVE, provider="anthropic"),
    Report("OpenRouter's details", "vLLM#38488", "400 unless reasoning_details come back",
           two_turns(reply("", "tool_calls", tool_calls=[SEARCH], reasoning_details=DETAILS), has("reasoning_details", DETAILS),
                     "reasoning_details missing"), SOLVED, arguments=NATIVE),
    Report("vLLM's reasoning", "vLLM#42664", "400 unless the earlier reasoning comes back",
           two_turns(reply("", "tool_calls", tool_calls=[SEARCH], reasoning="A thought."), has("reasoning", "A thought."),
                     "lost"), SOLVED, arguments=NATIVE),
    Report("a field that is refused", OWN, "400 where reasoning comes back",
           two_turns(reply("", "tool_calls", tool_calls=[SEARCH], reasoning="A thought."), lambda row: "reasoning" not in row,
                     "property 'reasoning' is unsupported"), SOLVED, arguments=NATIVE),
    Report("a judge that is down", "inspect_ai#4078", "LegalSearch's judge answers 500 for ever; the run is resumed",
           script_of(LAW), {"calls": 4, "resumed": 0, "faults": 1}, "LegalSearch", {}, service=always({}, 500),
           right_service=always(reply("YES")), control=script_of(LAW), resumes=True),
    Report("a judge that fails ten times", "strands-env#208", "LegalSearch's judge answers 500 ten times", script_of(LAW),
           {"calls": 4, "success": True}, "LegalSearch", {}, service=then(always({}, 500), 10, always(reply("YES"))),
           right_service=always(reply("YES")), control=script_of(LAW)),
    Report("run-on", "sglang#29933", "the next question behind the answer",
           always(reply("#### GOLD\n\nQuestion: next?\nAnswer: #### 5")), SOLVED, "Arithmetic", {}),
    Report("end of turn in the text", "helm#4337", "#### GOLD<|im_end|>", always(reply("#### GOLD<|im_end|>")), SOLVED,
           "Arithmetic", {}),
    Report("a comma behind", "omlx#3484", "#### GOLD, altogether", always(reply("#### GOLD, altogether")), SOLVED,
           "Arithmetic", {}),
    Report("fbox", "slime#2150", "\\fbox{GOLD}", always(reply("\\fbox{GOLD}")), SOLVED, "ToolReasoning", BOXES),
    Report("box without braces", "Math-Verify, " + OWN, "\\boxed GOLD", always(reply("\\boxed GOLD.")), SOLVED, "ToolReasoning",
           BOXES),
    Report("the format in a thought", "Search-R1#79", "a thought that quotes the format before the answer",
           always(reply("<think>The format is <answer>...</answer>.</think><answer>GOLD</answer>")), SOLVED),
    Report("calls in XML", "Qwen3-Coder, " + OWN, "a search as <function=...>", script_of((XML, "<answer>GOLD</answer>")),
           SOLVED, arguments=NATIVE),
    Report("null beside calls", "promptfoo#8162", "content null beside a call",
           two_turns(reply(None, "tool_calls", tool_calls=[SEARCH]), lambda row: True, ""), SOLVED, arguments=NATIVE),
    Report("equal ids", "cai#182", "two calls with one id", two_turns(
        reply(None, "tool_calls", tool_calls=[SEARCH, SEARCH]), lambda row: len({one["id"] for one in row["tool_calls"]}) == 2,
        "duplicate ids"), SOLVED, arguments=NATIVE),
    Report("no finish reason", "llama-cpp-python, " + OWN, "finish_reason null",
           always(reply("<answer>GOLD</answer>", None)), SOLVED),
    Report("no usage", OWN, "no usage at all", always(reply("<answer>GOLD</answer>", usage=None)), SOLVED),
]  # fmt: skip
