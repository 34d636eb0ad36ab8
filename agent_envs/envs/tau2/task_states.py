"""A conversation is scored with three database states: at its start, as its calls left it, and as the task expects it.

All are what an episode changed in the databases; the databases themselves are shared and never written. Starts and expected
states are remembered, because they depend on nothing but the domain and the task.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from agent_envs.base.errors import ReplayMismatch, UsageError
from agent_envs.base.messages import ToolCall
from agent_envs.envs.tau2.database import View, same
from agent_envs.envs.tau2.dialogue import Line, ToolReply, arguments_of
from agent_envs.envs.tau2.task_schema import FunctionCall, Tau2Task
from agent_envs.envs.tau2.telecom import for_expected_actions
from agent_envs.envs.tau2.toolkit import FRESH, Domain, DomainState, FunctionOutcome, World, call, run_function
from agent_envs.tools.forms import json_or_text


def initial_world(domain: Domain, task: Tau2Task) -> DomainState:
    """Return the world at the start of a task: its data, its initial actions and its history's calls, in this order.

    Raises UsageError: the task names a record or a function that the domain does not have.
    """
    return started_world(domain, task.initial_data, task.initial_actions, task.history)


@lru_cache(maxsize=4096)
def started_world(
    domain: Domain, data: str, actions: tuple[FunctionCall, ...], history: tuple[Line, ...]
) -> DomainState:
    """Return `initial_world` by its parts, cached; UsageError where the data fits no table."""
    state = _with_data(domain, FRESH, json.loads(data)) if data else FRESH
    for action in actions:
        _, state = run(domain, state, action)
    return replayed_world(domain, state, history)


@lru_cache(maxsize=4096)
def expected_world(domain: Domain, task: Tau2Task) -> DomainState:
    """Return the world after the expected actions, cached; one that fails keeps what it had changed and is passed over.

    In the original the bill that `refuel_data` makes has another id here than in any conversation (`random_bill_id`).
    """
    state = initial_world(domain, task)
    if domain.compat.random_bill_id:
        state = replace(state, extras={**state.extras, "bill_seed": "expected"})
    return _act(for_expected_actions(domain), state, task)


@lru_cache(maxsize=4096)
def solved_world(domain: Domain, task: Tau2Task) -> DomainState:
    """Return the world in which the expected actions leave a conversation, each with what it brings about; cached.

    `expected_world` is what the official score compares; with the original's bugs no telecom conversation reaches it.
    """
    return _act(domain, initial_world(domain, task), task)


def _act(domain: Domain, state: DomainState, task: Tau2Task) -> DomainState:
    """Return the state after a task's expected actions; one that fails is passed over. Unchanged without criteria."""
    for action in (task.criteria.actions if task.criteria is not None else None) or ():
        _, state = call(domain, state, action.requestor, action.name, expected_arguments(action.arguments))
    return state


@lru_cache(maxsize=16384)
def expected_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a task's own call, cached, to read only."""
    arguments: dict[str, Any] = json.loads(text)
    return arguments


def run(domain: Domain, state: DomainState, function: FunctionCall) -> tuple[FunctionOutcome, DomainState]:
    """Run an initial action or an assertion."""
    return run_function(domain, state, function.side, function.name, expected_arguments(function.arguments))


def replayed_world(domain: Domain, start: DomainState, lines: tuple[Line, ...], solo: bool = False) -> DomainState:
    """Return the world after a conversation's writing calls, executed anew; ReplayMismatch where an answer is another.

    Raises ReplayMismatch: a call and its answer do not belong together, or the answer is another one now.
    """
    state = start
    for tool_call, reply in _answers_by_call(lines):
        tool = domain.find_tool(reply.requestor, tool_call.name, solo)
        if tool is None or not tool.writes:
            continue
        outcome, state = call(domain, state, reply.requestor, tool_call.name, arguments_of(tool_call), solo)
        # Python's own error texts are not the original's, so that of such errors only the flag is held.
        if outcome.error != reply.error or (outcome.kind != "other" and not _are_alike(outcome.content, reply.content)):
            raise ReplayMismatch(
                f"tau2 {domain.name}: {tool_call.name}({tool_call.arguments}) gave {reply.content!r} in the conversation, "
                f"and gives {outcome.content!r} now"
            )
    return state


def same_world(domain: Domain, one: DomainState, other: DomainState) -> bool:
    """Return whether the original would give the databases of both one hash, by looking at changed records alone."""
    if not same(domain.agent_database, one.agent, other.agent):
        return False
    return domain.user_database is None or same(domain.user_database, one.user, other.user)


def _answers_by_call(lines: tuple[Line, ...]) -> Iterator[tuple[ToolCall, ToolReply]]:
    """Yield each call with its answer, which the next line holds; ReplayMismatch where calls and answers do not fit."""
    calls: tuple[ToolCall, ...] = ()
    for line in (*lines, Line("assistant")):
        replies = line.results if line.sender == "environment" else ()
        if [one.id for one in calls] != [reply.call_id for reply in replies]:
            raise ReplayMismatch(
                f"the calls {[one.id for one in calls]} are answered by {[reply.call_id for reply in replies]}"
            )
        yield from zip(calls, replies, strict=True)
        calls = line.calls


def _are_alike(one: str, other: str) -> bool:
    """Return whether two replies are the same text or the same JSON."""
    return one == other or json_or_text(one) == json_or_text(other)


def _with_data(domain: Domain, state: DomainState, data: Mapping[str, Any]) -> DomainState:
    """Return a state with a task's records merged in; UsageError for tables or records that a task cannot begin with."""
    world = World(domain, state)
    for view, tables in ((world.agent, data["agent_data"]), (world.user, data["user_data"])):
        for table, rows in (tables or {}).items():
            if view is None or table not in view.database.tables or table in view.database.listed:
                raise UsageError(f"tau2 {domain.name}: a task cannot begin with other records in {table!r}")
            records = {"": rows} if table in view.database.single else rows
            if not (isinstance(records, dict) and all(isinstance(record, dict) for record in records.values())):
                raise UsageError(f"tau2 {domain.name}: the records of {table!r} that a task begins with are no objects")
            for key, record in records.items():
                _merge(view, table, key, record)
    return world.commit(state)


def _merge(view: View, table: str, key: str, record: Mapping[str, Any]) -> None:
    """Add a record, or merge it into the one that is there, in the view."""
    if view.get(table, key) is None:
        view.add(table, key, record)
    else:
        _update(view.edit(table, key), record)


def _update(record: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Merge changes into a record, in place, object by object; lists and plain values are replaced."""
    for name, value in changes.items():
        if isinstance(value, dict) and isinstance(record.get(name), dict):
            _update(record[name], value)
        else:
            record[name] = value
