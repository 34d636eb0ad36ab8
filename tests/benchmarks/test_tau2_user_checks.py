"""Closings that come too early and claims about the phone are caught; honest users are left in peace."""

from dataclasses import replace

import pytest

from agent_envs.envs.tau2.actions import read_action
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.task_schema import read_task
from agent_envs.envs.tau2.task_states import initial_world
from agent_envs.envs.tau2.turn_taking import Rules, opened, spoke
from agent_envs.envs.tau2.user_script import UserScript, Want
from benchmarks.tau2_user_checks import KINDS, find_faults
from tests.benchmarks import tau2_user_cases as written
from tests.benchmarks.tau2_user_cases import AIRLINE, RETAIL, SHORT, TELECOM, cases
from tests.rows import each_row

CAUGHT, HONEST = cases(written.CAUGHT), cases(written.HONEST)
TASKS = {"RETAIL": RETAIL, "TELECOM": TELECOM, "AIRLINE": AIRLINE}
LAMP = UserScript((), (
    Want("I want to cancel order #W0001 with the lamp, because I do not need it any more."),
    Want("I also want to return the backpack of order #W0003 and get the money back."),
    Want("Then please send me a voucher for the trouble.", only_if_refused=True),
))  # fmt: skip


def faults(row, *said, script=None):
    """Play lines such as "A: words" or "U: tool()" through the machine; return what is found in them."""
    domain = builtin_domain(row["user_scenario"]["instructions"]["domain"])
    task, rules = read_task(row, domain.name), Rules(domain)
    dialogue = opened(rules, initial_world(domain, task), task.history)
    for line in said:
        side, _, text = line.partition(": ")
        assert side == {"user": "U", "assistant": "A"}[dialogue.turn], line
        names = [tool["function"]["name"] for tool in rules.tools_of(dialogue.turn)]
        parsed = read_action(text, names)
        dialogue = spoke(rules, dialogue, getattr(parsed, "text", ""), getattr(parsed, "calls", ()))
    return find_faults(replace(task, script=script), dialogue.lines, dialogue.ended, domain), dialogue.lines


@each_row(("kind", "what", "row", "said"), CAUGHT)
def test_a_fault_is_caught_where_it_is(kind, what, row, said):
    (fault,), lines = faults(TASKS[row], *said)
    assert fault[0] == kind and what.lower() in fault[2].lower() and lines[fault[1]].sender == "user"


def test_every_kind_is_among_the_caught():
    assert {kind for kind, *_ in CAUGHT} == set(KINDS)


@each_row("case", range(len(HONEST)))
def test_an_honest_user_is_left_in_peace(case):
    row, said = HONEST[case]
    assert faults(TASKS[row], *said)[0] == []


def test_with_a_script_wants_that_were_never_told_are_missed():
    said = [SHORT["HI"], SHORT["ASK"], "U: 10115", SHORT["SHALL"], "U: Yes.", SHORT["DONE"], SHORT["BYE"]]
    (fault,), _ = faults(RETAIL, *said, script=LAMP)
    assert fault[0] == "stopped_early" and "backpack of order #W0003" in fault[2]
    more = "U: Yes: I want to return the backpack of order #W0003, too, and the money back."
    assert faults(RETAIL, *said[:-1], more, "A: Done. Anything else?", SHORT["BYE"], script=LAMP)[0] == []


@pytest.mark.parametrize(
    "text", ["1" * 30_000, "###STOP###", "I have " * 5_000, "do not " * 5_000, "\ud800 \x00 12345"]
)
def test_any_words_are_borne(text):
    task = replace(read_task(TELECOM, "telecom"), script=LAMP)
    for side in ("user", "assistant"):
        lines = (Line("assistant", "Hello?"), Line(side, text), Line("user", text))
        assert all(kind in KINDS for kind, _, _ in find_faults(task, lines, "user_stop", builtin_domain("telecom")))
