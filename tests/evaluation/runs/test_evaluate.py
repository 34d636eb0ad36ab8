"""From a suite to numbers: rates that can be checked by hand, and runs that go on."""

import json
import math
from dataclasses import replace

import pytest

from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.messages import ToolCall, ToolResult
from agent_envs.base.protocol import Answer, Call, Malformed, Say
from agent_envs.core.trajectory import Header, Trajectory, Turn
from agent_envs.evaluation.runs.costs import parse_feedback, with_feedback
from agent_envs.evaluation.runs.evaluate import FAULTS_IN_A_ROW, evaluate, result_from, resume
from agent_envs.evaluation.runs.live import meet_servers
from agent_envs.evaluation.runs.measures import FAILURES, numbers_of, unplayed_numbers
from agent_envs.evaluation.runs.run_folder import RunPrices, Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, plan_of
from agent_envs.evaluation.suites.suite import Average, Entry, Suite
from agent_envs.rollout.episode_runner import EpisodeResult
from agent_envs.rollout.policy import CompanionPolicy, NullPolicy, Reply

SMALL = {"world": {"passages": 60, "questions_per_world": 2}}
HEX = "0" * 64
NOWHERE = "openai:m@http://127.0.0.1:9/v1"


def small(**more):
    return adhoc_suite(Choice(**{"env_id": "SearchQA", "arguments": SMALL, "limit": 8, **more}))


class Counting(NullPolicy):
    """Says nothing, counts its turns, and fails for the keys it is told."""

    def __init__(self, faulty=()):
        self.turns = 0
        self.faulty = frozenset(faulty)

    def act(self, requests):
        self.turns += len(requests)
        if requests[0].episode_key in self.faulty:
            raise EnvFault("no model", retryable=False)
        return [Reply("", usage={"input": 3}) for _ in requests]


def entry_of(*tasks):
    return Entry(label="e", env_id="x/E-v0", arguments={}, spec_digest=HEX, split="dev",
                 tasks=tuple((task, HEX, cluster) for task, cluster in tasks))  # fmt: skip


def turn(index, reward=0.0, action="", parsed=None, **more):
    return Turn(index, "o", action, parsed, (), reward=reward, **more)


def played(task, rewards, success, status="terminated", turns=None, usage=None):
    turns = turns or tuple(turn(at, value, parsed=Answer("x")) for at, value in enumerate(rewards, 1))
    trajectory = Trajectory(Header("e", "", task, "dev", "", 0, "k"), (), turns, None, success)
    return EpisodeResult(trajectory, status, "it is out" if status == "fault" else "", usage or {})


def summary_of(rows, trials=1, **settings):
    """rows: (task, cluster, trial, result or None for an episode that was not played)."""
    entry = entry_of(*{(task, cluster): None for task, cluster, _, _ in rows})
    suite = Suite(id="s", version="1.0", trials=trials, entries=(entry,))
    numbers = [
        numbers_of(entry, cluster, trial, result) if result else unplayed_numbers(entry, task, cluster, trial)
        for task, cluster, trial, result in rows
    ]
    return result_from(suite, Settings("someone", **settings), numbers, RunPrices())


def test_numbers_by_hand():
    found = summary_of(
        [
            ("a", "w1", 0, played("a", [0.0, 1.0], True)),
            ("a", "w1", 1, played("a", [0.0, 0.0, 0.5], False)),
            ("b", "w2", 0, played("b", [0.25], False)),
            ("b", "w2", 1, played("b", [1.0], True)),
            ("c", "w3", 0, played("c", [0.0], False)),
            ("c", "w3", 1, played("c", [0.0, 0.0], False, "truncated")),
        ],
        trials=2,
    )
    (summary,) = found.summaries
    assert found.complete and found.score == summary.success
    assert summary.success.value == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert (summary.success.tasks, summary.success.trials, summary.success.clusters) == (3, 6, 3)
    assert 0 <= summary.success.low < summary.success.value < summary.success.high <= 1
    assert summary.pass_hat[1].value == summary.pass_at[1].value == pytest.approx(1 / 3)
    assert summary.pass_hat[2].value == 0 and summary.pass_at[2].value == pytest.approx(2 / 3)
    assert summary.mean_return == pytest.approx((1.0 + 0.5 + 0.25 + 1.0 + 0 + 0) / 6)
    low, high = summary.return_interval
    assert low < summary.mean_return < high
    assert summary.mean_turns == pytest.approx((2 + 3 + 1 + 1 + 1 + 2) / 6) and summary.valid_actions == 1
    assert summary.outcomes == {"out of turns": 1, "solved": 2, "wrong answer": 3}


def test_what_was_not_played_counts_in_the_denominator_and_nowhere_else():
    found = summary_of(
        [
            ("a", "w1", 0, played("a", [1.0], True)),
            ("b", "w2", 0, played("b", [], False, "fault")),
            ("c", "w3", 0, played("c", [0.5, 0.0], False)),
            ("d", "w4", 0, None),
        ]
    )
    (summary,) = found.summaries
    assert (summary.episodes, summary.faults, summary.unplayed, found.complete) == (4, 1, 1, False)
    assert summary.success.value == pytest.approx(1 / 4) and summary.success.trials == 4
    assert summary.mean_return == pytest.approx(0.75) and summary.mean_turns == pytest.approx(1.5)
    assert summary.fault_causes == {"it is out": 1} and len(summary.warnings()) == 2
    nothing = summary_of([("a", "w1", 0, played("a", [], False, "fault")), ("b", "w2", 0, None)]).summaries[0]
    assert (nothing.success.value, nothing.faults, nothing.mean_return, nothing.mean_turns) == (0.0, 1, 0.0, 0.0)


def test_three_survivors_of_a_hundred_are_three_per_cent():
    rows = [(f"t{i}", f"t{i}", 0, played(f"t{i}", [1.0], True) if i < 3 else None) for i in range(100)]
    assert summary_of(rows).summaries[0].success.value == pytest.approx(0.03)


def test_an_episode_as_numbers():
    call = Call((ToolCall("call_0", "search", '{"query":"four"}'),))
    good = (ToolResult("call_0", "search", "text", ids=("p",)),)
    bad = (ToolResult("call_0", "search", "no", error=True),)
    turns = (
        turn(1, action="think <search>four</search>", parsed=call, results=good),
        turn(2, action="?", parsed=Malformed("nothing"), events=("malformed",)),
        turn(3, action="<search>four</search>", parsed=call, results=bad, events=("refused",)),
        turn(4, 0.5, action="<answer>x</answer>", parsed=Answer("x"), terminated=True),
    )
    entry = entry_of(("a", "w"))
    found = numbers_of(entry, "w", 1, played("a", [], False, turns=turns, usage={"input": 5}))
    assert (found.turns, found.valid, found.calls, found.total_reward) == (4, 2, 1, 0.5)
    assert found.prose == (27 - 4) + 1 + (21 - 4) + (18 - 1)
    assert (found.outcome, found.trial, found.cluster, found.usage) == ("wrong answer", 1, "w", {"input": 5})


def test_what_is_said_is_no_prose_but_reasoning_before_the_name_of_an_action_is():
    turns = (
        turn(1, action=" Hello. ", parsed=Say("Hello.")),
        turn(2, action="THINK: on\nACTION: go forward", parsed=Say("go forward")),
    )
    assert numbers_of(entry_of(("a", "w")), "w", 1, played("a", [], False, turns=turns)).prose == 28 - 10


def test_outcomes():
    entry = entry_of(("a", "w"))

    def outcome(status, success=False, turns=None):
        return numbers_of(entry, "w", 0, played("a", [1.0], success, status, turns)).outcome

    lost = tuple(turn(at, parsed=Malformed("nothing"), events=("malformed",)) for at in (1, 2))
    assert outcome("terminated", True) == "solved" and outcome("truncated", True) == "solved"
    assert outcome("terminated") == "wrong answer" and outcome("truncated") == "out of turns"
    assert outcome("truncated", turns=lost) == "unreadable"
    assert outcome("terminated", turns=(turn(1, parsed=Call(())),)) == "not achieved"
    assert outcome("fault") == "fault" and outcome("budget") == "budget"
    assert unplayed_numbers(entry, "a", "w", 0).outcome == "missing"
    assert not numbers_of(entry, "w", 0, played("a", [1.0], True, "fault")).success  # a fault is never a success
    full = (turn(1, 1.0, parsed=Answer("x"), finish_reason="context_full 9/8", outcome="full"),)
    assert outcome("truncated", turns=full) == "context full"
    at_least = entry.model_copy(update={"success": "return>=1"})
    refused = (turn(1, 1.0, parsed=Answer("x"), finish_reason="content_filter", outcome="refused"),)
    assert outcome("truncated", turns=refused) == "refused"
    for ended in (full, refused):
        assert not numbers_of(at_least, "w", 0, played("a", [], False, "truncated", ended)).success
    named = {
        "solved",
        "wrong answer",
        "out of turns",
        "unreadable",
        "not achieved",
        "fault",
        "budget",
        "missing",
        "context full",
        "refused",
    }
    assert set(FAILURES) == named


def test_few_valid_actions_are_told():
    lost = (turn(1, parsed=Malformed("nothing"), events=("malformed",)), turn(2, parsed=Answer("x")))
    (summary,) = summary_of([("a", "w", 0, played("a", [], False, turns=lost))]).summaries
    assert summary.valid_actions == 0.5
    assert any("50.0 % of the turns were valid" in line for line in summary.warnings())


def test_clusters_widen_the_interval():
    def width(clusters):
        rows = [(f"t{i}", f"w{i % clusters}", 0, played(f"t{i}", [1.0], i % 4 < 2)) for i in range(40)]
        rate = summary_of(rows).summaries[0].success
        return rate.high - rate.low

    assert width(4) > width(40)


def test_json_is_plain_and_strict():
    row = summary_of([("a", "w", 0, played("a", [1.0], True))]).to_json()
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    low, high = row["interval"]
    assert row["success"] == 1.0 and 0 <= low < high == 1.0
    assert row["return_interval"] == [None, None] and row["tasks"] == 1 and row["suite"] == "s@1.0"


def test_faults_are_counted_and_played_again(tmp_path):
    suite = small()
    plan = plan_of(suite)
    out = Counting(faulty=[plan[2].key, plan[5].key])
    first = evaluate(suite, Settings("null"), policy=out, folder=tmp_path / "r")
    assert (first.summaries[0].faults, first.summaries[0].success.trials, first.complete) == (2, 8, False)
    assert out.turns == 6 * 6 + 2
    well = Counting()
    second = evaluate(suite, Settings("null"), policy=well, folder=tmp_path / "r")
    assert second.complete and well.turns == 2 * 6
    assert second.summaries[0].retried == 2 and second.summaries[0].usage == {"input": 3 * 8 * 6}
    third = Counting()
    again = evaluate(suite, Settings("null"), policy=third, folder=tmp_path / "r")
    assert third.turns == 0 and untimed(again) == untimed(second)
    alone = evaluate(suite, Settings("null"), policy=Counting())
    assert untimed(alone) == [replace(item, retried=0) for item in untimed(second)]


def untimed(result):
    return [replace(item, seconds=0.0, agent_seconds=0.0) for item in result.summaries]


def test_progress_sees_every_episode_once():
    suite = small(limit=5, trials=2)
    ticks = []
    settings = Settings("solver", concurrency=2)
    found = evaluate(suite, settings, progress=lambda *tick: ticks.append(tick))
    assert [tick[0] for tick in ticks] == list(range(1, 11)) and {tick[1] for tick in ticks} == {10}
    assert ticks[-1] == (10, 10, 10, "")
    assert found.summaries[0].success.value == 1.0


@pytest.mark.parametrize("agent", ["random", "heuristic"])
def test_concurrency_changes_nothing(agent):
    suite = small(limit=40)
    one, many = (evaluate(suite, Settings(agent, concurrency=count)) for count in (1, 64))
    assert untimed(one) == untimed(many)


def test_turn_limits_force_an_answer_and_matter():
    found = evaluate(small(limit=16, turn_limits=(0, 1, 5)), Settings("heuristic"))
    none, one, five = found.summaries
    assert (none.mean_turns, one.mean_turns) == (1.0, 2.0) and five.mean_turns <= 6
    assert none.mean_calls == 0 and one.mean_calls == 1 and found.score is None
    assert "out of turns" not in none.outcomes and (none.turn_limit, five.turn_limit) == (0, 5)
    solver = evaluate(small(limit=16, turn_limits=(0, 5)), Settings("solver")).summaries
    assert solver[1].success.value == 1.0


def test_a_sweep_tells_its_values_apart():
    found = evaluate(small(limit=48, arguments={}, sweep=("retriever", ("oracle", "empty"))), Settings("heuristic"))
    oracle, empty = found.summaries
    assert oracle.success.value > empty.success.value and empty.entry == "retriever=empty"
    row = found.to_json()
    assert [item["entry"] for item in row["entries"]] == [oracle.entry, empty.entry] and "success" not in row


def test_a_folder_holds_one_configuration(tmp_path):
    folder = tmp_path / "r"
    evaluate(small(limit=2), Settings("null"), folder=folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    cases = [
        (small(limit=3), Settings("null"), r"entries\[0\].tasks \(2 -> 3 of them\)"),
        (small(limit=2, trials=2), Settings("null"), r"trials \(1 -> 2\)"),
        (small(limit=2, arguments={**SMALL, "top_k": 1}), Settings("null"), r"arguments.top_k \(None -> 1\)"),
        (small(limit=2), Settings("random"), r"agent \('null' -> 'random'\)"),
        (small(limit=2), Settings("null", smoke=True), r"smoke \(False -> True\)"),
    ]
    for suite, settings, what in cases:
        with pytest.raises(UsageError, match=rf"{what}.*choose another --out"):
            evaluate(suite, settings, folder=folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    evaluate(small(limit=2), Settings("null", concurrency=4), folder=folder)  # how it is played may change


def test_resume_needs_nothing_else(tmp_path):
    suite = small(limit=8)
    whole = evaluate(suite, Settings("random", concurrency=2), folder=tmp_path / "whole")
    folder = tmp_path / "part"
    evaluate(suite, Settings("random", concurrency=2), folder=folder)
    journal = folder / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:4]) + lines[4][:40])
    (folder / "results.json").unlink()
    assert sum(item.complete for item in open_run(folder).numbers()) == 3
    assert untimed(resume(folder)) == untimed(whole) and (folder / "results.json").exists()
    assert journal.read_bytes().startswith(b"".join(lines[:4]))


def edited(folder, name, old, new):
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


TAMPERED = {
    "the agent": ("config.json", '"agent":"random"', '"agent":"null"', "identity|policy"),
    "an option": ("config.json", '"agent_options":{}', '"agent_options":{"a":1}', "agent_options.a|unknown option a"),
    "the package": ("config.json", '"package":"', '"package":"9.', "package"),
    "a smoke mark": ("config.json", '"smoke":false', '"smoke":true', "smoke"),
    "trials": ("suite.json", '"trials":1', '"trials":2', "suite.json was changed since the run began"),
    "an unknown key": ("config.json", '"pack":', '"peck":', "config.json: pack"),
    "the suite's digest": ("config.json", '"suite_digest":"', '"suite_digest":"z', "suite_digest"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_resume_refuses_what_was_changed_and_names_it(name, tmp_path):
    file, old, new, what = TAMPERED[name]
    folder = tmp_path / "r"
    evaluate(small(limit=2), Settings("random"), folder=folder)
    edited(folder, file, old, new)
    with pytest.raises(UsageError, match=what):
        resume(folder)


def test_resume_refuses_an_agent_whose_code_changed(tmp_path, monkeypatch):
    module = tmp_path / "some_agent.py"
    module.write_text("from agent_envs.rollout.policy import NullPolicy\nclass Agent(NullPolicy): pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    evaluate(small(limit=2), Settings("some_agent:Agent"), folder=tmp_path / "r")
    assert resume(tmp_path / "r").complete
    module.write_text(module.read_text() + "\n# thinks harder now\n")
    with pytest.raises(UsageError, match="cannot go on: the file of .* was changed since it began"):
        resume(tmp_path / "r")


@pytest.mark.parametrize("folder", ["nowhere", "empty"])
def test_a_folder_without_a_run(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="is no folder of a run"):
        resume(tmp_path / folder)


def test_a_privileged_run_is_marked_in_its_journal(tmp_path):
    evaluate(small(limit=1), Settings("solver"), policy=CompanionPolicy("solver"), folder=tmp_path / "r")
    head = json.loads((tmp_path / "r" / "journal.jsonl").read_text().splitlines()[0])["row"]
    assert head["privileged"] is True and head["identity"]["agent"] == "solver"
    assert not math.isnan(head["identity"]["smoke"])


def test_a_run_stops_where_one_fault_repeats_and_goes_on_later(tmp_path):
    suite = small(limit=20)
    keys = [item.key for item in plan_of(suite)]
    ticks = []
    first = evaluate(
        suite,
        Settings("counting"),
        policy=Counting(keys[2:]),
        folder=tmp_path,
        progress=lambda *tick: ticks.append(tick),
    )
    assert len(ticks) == 2 + FAULTS_IN_A_ROW and ticks[1][3] == "" and ticks[-1][3] == "8 faults, the last: no model"
    faults, unplayed = first.summaries[0].faults, first.summaries[0].unplayed
    # What was being played when the run stopped is finished and kept.
    assert FAULTS_IN_A_ROW <= faults <= FAULTS_IN_A_ROW + 2 and faults + unplayed == 18 and not first.complete
    assert first.gave_up
    again = Counting()
    assert evaluate(suite, Settings("counting"), policy=again, folder=tmp_path).complete and again.turns >= 18


def test_faults_that_differ_or_do_not_follow_one_another_stop_nothing():
    suite = small(limit=20)
    keys = [item.key for item in plan_of(suite)]
    assert evaluate(suite, Settings("counting"), policy=Counting(keys[::2])).summaries[0].faults == 10

    class Various(Counting):
        def act(self, requests):
            raise EnvFault("abcdefghijklmnopqrstuvwxyz"[keys.index(requests[0].episode_key)], retryable=False)

    result = evaluate(suite, Settings("counting"), policy=Various())
    summary = result.summaries[0]
    assert (summary.faults, summary.verdict, result.gave_up) == (20, "no result", False)
    assert strict_json(summary.to_json())["success"] is None


def test_a_suite_of_which_nothing_was_measured_has_no_score():
    entry = small(limit=2).entries[0]
    several = {"entries": (entry, entry.model_copy(update={"label": "again"})), "scored": True}
    whole = {"averages": (Average(name="both", source="none", weights={entry.label: 1.0, "again": 1.0}),)}
    suite = Suite(**{**dict(small(limit=2)), **several, **whole})
    keys = [item.key for item in plan_of(suite)]
    nothing = evaluate(suite, Settings("counting"), policy=Counting(keys))
    told = strict_json(nothing.to_json())
    assert (nothing.score, nothing.averages) == (None, {})
    assert (told["success"], told["interval"]) == (None, [None, None]) and "averages" not in told
    half = evaluate(suite, Settings("counting"), policy=Counting(keys[:2]))
    assert half.score.value == half.averages["both"].value and strict_json(half.to_json())["success"] is not None


def strict_json(row):
    return json.loads(json.dumps(row, allow_nan=False))


def test_nothing_is_begun_where_a_chat_model_does_not_answer(tmp_path):
    with pytest.raises(EnvFault, match=r"openai:m@http://127.0.0.1:9/v1: .*does the server run") as caught:
        evaluate(small(), Settings(NOWHERE), folder=tmp_path / "run")
    assert not caught.value.retryable and not (tmp_path / "run").exists()
    advised = with_feedback(small(), parse_feedback(NOWHERE, None, "", {}))
    with pytest.raises(EnvFault, match="does the server run"):
        evaluate(advised, Settings("null"))
    user = Suite(
        **{**dict(small()), "entries": (small().entries[0].model_copy(update={"arguments": {"user": NOWHERE}}),)}
    )
    with pytest.raises(EnvFault, match="does the server run"):
        meet_servers(user, NullPolicy(), RunPrices(), None)
