"""`Tau2Task` is the typed view of a published task, and `core_task` makes an environment's task of a row.

A row is what the original's tasks.json holds. `read_task` checks it and gives plain immutable values; arguments of calls are
canonical JSON texts, so that 2 and 2.0 stay apart and a task can be a key.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from agent_envs.base.errors import UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import canonical_json
from agent_envs.core.trajectory import Task
from agent_envs.envs.tau2.database import frozen, thawed
from agent_envs.envs.tau2.dialogue import Line, ToolReply
from agent_envs.envs.tau2.record_schema import Anything, Default, Each, Maybe, SchemaError, shaped
from agent_envs.envs.tau2.toolkit import Side
from agent_envs.envs.tau2.user_script import UserScript, read_script

COMPONENTS = ("DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE", "NL_ASSERTION")
MOST_TYPED = 2048  # typed views that are kept, because a conversation asks for its task's at every turn
_TYPED: dict[tuple[str, str], "Tau2Task"] = {}
_SIDE = ("assistant", "user")
_ARGUMENTS = Each(Anything())
_ACTION = {
    "action_id": str, "requestor": Default(_SIDE, "assistant"), "name": str, "arguments": _ARGUMENTS,
    "compare_args": Maybe([str]),
}  # fmt: skip
_FUNCTION = {"env_type": _SIDE, "func_name": str, "arguments": _ARGUMENTS}
_CRITERIA = {
    "actions": Maybe([_ACTION]),
    "env_assertions": Maybe([{**_FUNCTION, "assert_value": Default(bool, True)}]),
    "communicate_info": Maybe([str]),
    "nl_assertions": Maybe([str]),
    "reward_basis": Default([COMPONENTS], ["DB", "COMMUNICATE"]),
}
_CALL = {"id": Default(str, ""), "name": str, "arguments": _ARGUMENTS}
MESSAGE = {
    "role": ("assistant", "user", "tool"), "content": Maybe(str), "tool_calls": Maybe([_CALL]), "id": Maybe(str),
    "requestor": Default(_SIDE, "assistant"), "error": Default(bool, False),
}  # fmt: skip
_START = {
    "initialization_data": Maybe({"agent_data": Maybe(_ARGUMENTS), "user_data": Maybe(_ARGUMENTS)}),
    "initialization_actions": Maybe([_FUNCTION]),
    "message_history": Maybe([MESSAGE]),
}  # fmt: skip
_ROW = {
    "id": str,
    "user_scenario": {"persona": Maybe(str), "instructions": Anything()},
    "ticket": Maybe(str),
    "initial_state": Maybe(_START),
    "evaluation_criteria": Maybe(_CRITERIA),
    "user_script": Maybe(_ARGUMENTS),
}  # fmt: skip
_INSTRUCTIONS = {
    "domain": str, "reason_for_call": str, "known_info": Maybe(str), "unknown_info": Maybe(str),
    "task_instructions": str,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Instructions:
    """The user's wants and knowledge; None where the row has no such part."""

    domain: str
    reason_for_call: str
    known_info: str | None
    unknown_info: str | None
    task_instructions: str

    def text(self) -> str:
        """Return the instructions as the original shows them; parts that are None are left out."""
        parts = [
            ("Reason for call", self.reason_for_call), ("Known info", self.known_info),
            ("Unknown info", self.unknown_info), ("Task instructions", self.task_instructions),
        ]  # fmt: skip
        sections = [f"{name}:\n{indent(text, chr(9))}" for name, text in parts if text is not None]
        return "\n".join([f"Domain: {self.domain}", *sections])


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """An initial action or an assertion: a function of one side, and what it should return (assertions alone)."""

    side: Side
    name: str
    arguments: str
    expected: bool = True


@dataclass(frozen=True, slots=True)
class ExpectedAction:
    """A call that the task expects. `compared` names the arguments that count: None means those of the call made."""

    id: str
    requestor: Side
    name: str
    arguments: str
    compared: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Criteria:
    """The scoring criteria of a conversation. `actions` and `env_assertions` are None where the row has none at all."""

    actions: tuple[ExpectedAction, ...] | None
    env_assertions: tuple[FunctionCall, ...] | None
    communicate_info: tuple[str, ...]
    nl_assertions: tuple[str, ...]
    basis: tuple[str, ...]

    @property
    def needs_judge(self) -> bool:
        """Whether the reward rests on assertions in words, which only a judge can decide."""
        return "NL_ASSERTION" in self.basis and bool(self.nl_assertions)


@dataclass(frozen=True, slots=True)
class Tau2Task:
    """The typed view of a task.

    Attributes:
        id: unique in its domain.
        domain: "retail", "airline" or "telecom".
        scenario: what a simulated user is told: persona and instructions, as the original writes them.
        persona: who the user is, or "".
        instructions: what the user wants, in parts; a text where the row has no parts.
        ticket: what the agent gets instead of a user in solo mode; "" where there is none.
        initial_data: canonical JSON of records that replace the databases' own at the start, or "".
        initial_actions: functions that are run at the start.
        history: a conversation that has already taken place.
        criteria: what it is scored by, or None.
        script: what a scripted user knows and wants, where the row holds it; published rows do not.
    """

    id: str
    domain: str
    scenario: str
    persona: str
    instructions: Instructions | str
    ticket: str
    initial_data: str
    initial_actions: tuple[FunctionCall, ...]
    history: tuple[Line, ...]
    criteria: Criteria | None
    script: UserScript | None = None


def read_task(row: Mapping[str, Any], domain: str) -> Tau2Task:
    """Return the typed view of a published row, other members left out; UsageError, with the place, where it is no task.

    Raises UsageError: the row is no task; the message names the place.
    """
    try:
        task = shaped(dict(row), _ROW, f"tau2 {domain} task {row.get('id', '')}")
        instructions = task["user_scenario"]["instructions"]
        if not isinstance(instructions, str):
            where = f"tau2 {domain} task {task['id']} instructions"
            instructions = Instructions(**shaped(instructions, _INSTRUCTIONS, where))
    except SchemaError as error:
        raise UsageError(str(error)) from None
    persona = task["user_scenario"]["persona"] or ""
    start = task["initial_state"] or dict.fromkeys(_START)
    data = start["initialization_data"]
    return Tau2Task(
        id=task["id"],
        domain=domain,
        scenario=scenario_text(persona, instructions),
        persona=persona,
        instructions=instructions,
        ticket=task["ticket"] or "",
        initial_data="" if data is None else canonical_json(thawed(data)),
        initial_actions=tuple(_function(action) for action in start["initialization_actions"] or ()),
        history=spoken(start["message_history"] or ()),
        criteria=_criteria(task["evaluation_criteria"]),
        script=None if task["user_script"] is None else read_script(task["user_script"]),
    )


def tau2_task(task: Task, domain: str) -> Tau2Task:
    """Return the typed view of an environment's task, criteria included, cached; UsageError where the row is no task.

    Raises UsageError: the row or its criteria are none; the message names the place.
    """
    key = (domain, task.digest)
    view = _TYPED.get(key)
    if view is None:
        view = read_task({**task.data, "evaluation_criteria": task.hidden}, domain)
        if len(_TYPED) >= MOST_TYPED:
            _TYPED.clear()
        _TYPED[key] = view
    return view


def core_task(row: Mapping[str, Any], split: str, source: str = "") -> Task:
    """Return a row as an environment's task with its `source`; the criteria are hidden, telecom's personas one cluster.

    Variants of one telecom task for different personas are one cluster.
    """
    public = {name: value for name, value in row.items() if name != "evaluation_criteria"} | {"source": source}
    return Task(
        id=row["id"],
        split=split,
        question=row.get("ticket") or "",
        cluster=row["id"].partition("[PERSONA:")[0],
        data=frozen(public),
        hidden=frozen(row.get("evaluation_criteria")),
    )


def scenario_text(persona: str, instructions: Instructions | str) -> str:
    """Return a simulated user's scenario, as the original writes it."""
    text = instructions if isinstance(instructions, str) else instructions.text()
    lines = [f"Persona:\n{indent(persona, chr(9))}"] if persona else []
    return "\n".join([*lines, f"Instructions:\n{indent(text, chr(9))}"])


def _json(arguments: Any) -> str:
    """Return arguments as canonical JSON."""
    return canonical_json(thawed(arguments))


def _function(row: Mapping[str, Any]) -> FunctionCall:
    """Parse a row as a call of a function; without `assert_value` it must return True."""
    return FunctionCall(row["env_type"], row["func_name"], _json(row["arguments"]), row.get("assert_value", True))


def _criteria(row: Mapping[str, Any] | None) -> Criteria | None:
    """Return the typed criteria of a row; None where the row has none."""
    if row is None:
        return None
    actions, assertions = row["actions"], row["env_assertions"]
    return Criteria(
        actions=None if actions is None else tuple(map(_action, actions)),
        env_assertions=None if assertions is None else tuple(map(_function, assertions)),
        communicate_info=row["communicate_info"] or (),
        nl_assertions=row["nl_assertions"] or (),
        basis=row["reward_basis"],
    )


def _action(row: Mapping[str, Any]) -> ExpectedAction:
    """Parse a row as an expected action."""
    return ExpectedAction(
        row["action_id"], row["requestor"], row["name"], _json(row["arguments"]), row["compare_args"]
    )  # fmt: skip


def spoken(rows: Sequence[Mapping[str, Any]]) -> tuple[Line, ...]:
    """Return published messages as lines; consecutive tool messages become one line, a reply without its call has no name."""
    lines: list[Line] = []
    names: dict[str, str] = {}
    for row in rows:
        if row["role"] == "tool":
            call_id = row["id"] or ""
            reply = ToolReply(call_id, names.get(call_id, ""), row["content"] or "", row["error"], row["requestor"])
            earlier = lines.pop().results if lines and lines[-1].sender == "environment" else ()
            lines.append(Line("environment", results=(*earlier, reply)))
            continue
        calls = tuple(ToolCall(call["id"], call["name"], _json(call["arguments"])) for call in row["tool_calls"] or ())
        names |= {call.id: call.name for call in calls}
        lines.append(Line(row["role"], row["content"] or "", calls))
    return tuple(lines)
