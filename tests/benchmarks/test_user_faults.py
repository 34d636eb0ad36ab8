"""The report over result files: counts, shares and intervals, both layouts, and files that strangers made."""

import json
import math
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from benchmarks.user_faults.__main__ import main
from benchmarks.user_faults.findings import Judged, interval
from benchmarks.user_faults.result_files import findings
from tests.benchmarks.user_fault_cases import RETAIL, TELECOM

HI = "Hello, I want to cancel order #W0001, I do not need the lamp any more."
CALL = {"id": "c1", "name": "get_order_details", "arguments": {"order_id": "#W0001"}}
GOOD = [
    {"role": "assistant", "content": "Hi! How can I help you today?", "tool_calls": None, "turn_idx": 0, "cost": 0.0},
    {"role": "user", "content": HI},
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "requestor": "assistant"}]},
    {"role": "tool", "id": "c1", "content": "{}", "requestor": "assistant", "error": False},
    {"role": "assistant", "content": "It has been cancelled. Anything else?"},
    {"role": "user", "content": "No, thank you. ###STOP###"},
]
INVENTS = [*GOOD[:5], {"role": "user", "content": "Then also order #W9999, zip 99999."}]
STOPS = [GOOD[0], {"role": "user", "content": f"{HI} ###STOP###"}]


def simulation(messages, reward, task="lamp", trial=0, ended="user_stop"):
    reward_info = None if reward is None else {"reward": reward, "nl_assertions": None}
    return {
        "id": "x", "task_id": task, "trial": trial, "termination_reason": ended, "reward_info": reward_info,
        "messages": messages, "seed": 1, "duration": 1.5,
    }  # fmt: skip


def results(*simulations, tasks=(RETAIL,), domain="retail"):
    info = {
        "environment_info": {"domain_name": domain, "policy": "..."},
        "agent_info": {"llm": "a"},
        "user_info": {"llm": "u"},
    }
    return {"timestamp": "2026", "info": info, "tasks": list(tasks), "simulations": list(simulations)}


def stored(tmp_path, value, name="r.json"):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


MIXED = [
    simulation(GOOD, 1.0),
    simulation(GOOD, 0.0, trial=1),
    simulation(INVENTS, 0.0, trial=2, ended="max_steps"),
    simulation(STOPS, 0.0, trial=3),
    simulation(INVENTS, 1.0, trial=4),
    simulation(GOOD, None, trial=5, ended="infrastructure_error"),
]


def test_failures_are_told_apart_by_whose_they_may_be(tmp_path):
    found = findings(stored(tmp_path, results(*MIXED)))
    told = found.as_json()
    assert (told["simulations"], told["failures"], told["unscored"], told["unread"]) == (6, 3, 1, 0)
    assert (told["failures_with_user_fault"], told["simulations_with_user_fault"]) == (2, 3)
    assert told["share"] == 2 / 3 and told["interval"] == list(interval(found.failed))
    assert (
        told["kinds"]["invented"] == [2, 1]
        and told["kinds"]["stopped_early"] == [1, 1]
        and told["kinds"]["looped"] == [0, 0]
    )
    assert (told["domain"], told["agent"], told["user"]) == ("retail", "a", "u")
    first = told["examples"][0]
    assert (first["task"], first["trial"], first["passed"], first["message"]) == ("lamp", 2, False, 5)
    assert "W9999" in first["said"] and "W9999" in first["what"]


def test_a_folder_is_read_as_the_one_file_is(tmp_path):
    head = results()
    stored(tmp_path, {"info": head["info"], "tasks": head["tasks"], "simulations": []}, "run/results.json")
    for place, one in enumerate(MIXED):
        stored(tmp_path, one, f"run/simulations/{place}.json")
    together = findings(stored(tmp_path, results(*MIXED))).as_json()
    assert findings(tmp_path / "run").as_json() == {**together, "file": str(tmp_path / "run")}


def test_answers_of_several_tools_and_users_tools_are_read(tmp_path):
    calls = [{"id": f"u{n}", "name": "check_status_bar", "arguments": {}, "requestor": "user"} for n in range(2)]
    replies = [
        {"role": "tool", "id": f"u{n}", "content": "Status Bar: none", "requestor": "user", "error": False}
        for n in range(2)
    ]
    messages = [
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": "My phone has no service, please make it work again."},
        {"role": "assistant", "content": "What does the status bar show?"},
        {"role": "user", "content": None, "tool_calls": calls},
        {"role": "tool", "id": "m", "tool_messages": replies},
        {"role": "user", "content": "The status bar shows nothing."},
    ]
    rows = results(simulation(messages, 0.0, "dead-phone"), tasks=(TELECOM,), domain="telecom-workflow")
    assert findings(stored(tmp_path, rows)).as_json()["simulations_with_user_fault"] == 0
    blind = [*messages[:3], messages[5]]
    rows = results(simulation(blind, 0.0, "dead-phone"), tasks=(TELECOM,), domain="telecom")
    assert findings(stored(tmp_path, rows)).as_json()["kinds"]["ungrounded"] == [1, 1]


def test_a_script_in_the_task_is_used(tmp_path):
    script = {"wants": [{"say": HI}, {"say": "I want to return the purple umbrella of my other order."}]}
    rows = results(simulation(GOOD, 0.0), tasks=({**RETAIL, "user_script": script},))
    (example,) = findings(stored(tmp_path, rows)).as_json()["examples"]
    assert example["kind"] == "stopped_early" and "umbrella" in example["what"]


def test_what_cannot_be_read_is_counted_and_the_rest_reported(tmp_path):
    broken = [
        {}, None, 3, {"task_id": "lamp"}, simulation([{"role": "king", "content": "x"}], 0.0), simulation(GOOD, 0.0, "nobody"),
        simulation([{"role": "assistant", "tool_calls": [{"name": 3}]}], 0.0), simulation("text", 0.0),
        simulation([GOOD[1]] * 6000, 0.0), simulation(GOOD, "bad"),
    ]  # fmt: skip
    found = findings(stored(tmp_path, results(*MIXED, *broken)))
    assert len(found.judged) == len(MIXED) and len(found.unread) == len(broken)
    assert all(len(reason) <= 300 for reason in found.unread)


HOSTILE = [
    "", "no json", "[]", "null", "3", "{}", '{"tasks": 3}', '{"tasks": []}', "[" * 200_000, '{"tasks": [], "info": []}',
    json.dumps({**results(), "simulations": 3}), json.dumps(results(domain="mock")), json.dumps(results(domain="x" * 10**6)),
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_result_file_is_refused_in_one_line(text, tmp_path, capsys):
    path = stored(tmp_path, text)
    with pytest.raises(UsageError):
        findings(path)
    assert main([str(path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_only_regular_files_are_read(tmp_path, capsys):
    fifo = tmp_path / "fifo.json"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path / "missing.json", tmp_path):
        assert main([str(path)]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_command_prints_text_or_json_and_hides_escapes(tmp_path, capsys):
    wild = [*GOOD[:5], {"role": "user", "content": "\x1b[2J Order #W9999 \u202eplease"}]
    path = stored(tmp_path, results(*MIXED, simulation(wild, 0.0, trial=9)))
    assert main([str(path), str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("4 failures, 3 of them with a fault of the user = 75.0 %") == 2 and "\x1b" not in shown
    assert "\u202e" not in shown and "invented (task lamp, trial 2" in shown
    assert main([str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["failures"] == 4
    path = stored(tmp_path, results(*MIXED, None))
    assert main([str(path)]) == 3 and "1 unread: simulations[6]" in capsys.readouterr().out


def test_it_runs_as_a_module(tmp_path):
    path = stored(tmp_path, results(*MIXED))
    command = [sys.executable, "-m", "benchmarks.user_faults", str(path), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and ran.stderr == "" and json.loads(ran.stdout)[0]["failures_with_user_fault"] == 2


def judged(task, faulty):
    return Judged(task, 0, False, ("a fault",) if faulty else ())


def test_the_interval_is_wilsons_over_tasks():
    assert interval([]) == (0.0, 1.0)
    low, high = interval([judged(str(n), n < 3) for n in range(10)])
    assert math.isclose(low, 0.1078, abs_tol=1e-4) and math.isclose(high, 0.6032, abs_tol=1e-4)  # 3 of 10, by the book
    many = [judged(str(n), n < 3) for n in range(10) for _ in range(5)]
    assert interval(many) == pytest.approx((low, high))  # trials of a task are no new tasks


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), min_size=1, max_size=40))
def test_the_interval_holds_the_share(rows):
    low, high = interval([judged(*row) for row in rows])
    assert 0 <= low <= sum(faulty for _, faulty in rows) / len(rows) <= high <= 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["role", "content", "tool_calls", "id", "name", "arguments", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=4), json_values, json_values)
@settings(max_examples=100)
def test_any_simulation_is_read_or_counted(tmp_path_factory, messages, reward, task):
    rows = [simulation(messages, reward), {**simulation(GOOD, 1.0), "task_id": task}, messages]
    path = stored(tmp_path_factory.mktemp("any"), results(*rows, tasks=(RETAIL, task)))
    found = findings(path)
    assert len(found.judged) + len(found.unread) == 3
    json.dumps(found.as_json())
