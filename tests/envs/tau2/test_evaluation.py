"""The five components, what the reward makes of them, and both ways of each switch."""

import json
import re
from dataclasses import replace

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.errors import EnvFault
from agent_envs.base.messages import ToolCall
from agent_envs.base.serialization import decode_state, encode_state
from agent_envs.envs.tau2.builtin import builtin_domain
from agent_envs.envs.tau2.dialogue import Line
from agent_envs.envs.tau2.evaluation import Judging, evaluate, expectation_judge, matches, transcript
from agent_envs.envs.tau2.task_generator.source import generated_domain
from agent_envs.envs.tau2.task_schema import COMPONENTS, ExpectedAction, read_task
from agent_envs.envs.tau2.tasks import RowSource
from agent_envs.grading.dressed_numbers import are_told, numbers_in
from agent_envs.services.chat import ScriptedChat
from agent_envs.services.judges import Verdict
from agent_envs.services.recording import CallSite
from benchmarks.tau2_null_policy import NullPolicyScore, null_policy_score
from tests.envs.tau2.gold import Conversation, breakdown, env_reward, gold_conversation
from tests.envs.tau2.telecom_world import FIXED, domain
from tests.rows import each_row

ADA = {"env_type": "user", "func_name": "set_user_info", "arguments": {"name": "Ada Byron", "phone_number": "555-1001"}}
ROAMING = {"action_id": "a", "name": "enable_roaming", "arguments": {"customer_id": "C1", "line_id": "L1"}}
ROAMS = {"env_type": "user", "func_name": "assert_mobile_data_status", "arguments": {"expected_status": True}}
SITE = CallSite("episode", "b1", 4)


def task_of(*basis, **criteria):
    row = {"id": "t", "user_scenario": {"instructions": "Call."}, "initial_state": {"initialization_actions": [ADA]}}
    return read_task({**row, "evaluation_criteria": {"reward_basis": list(basis), **criteria}}, "telecom")


class Scripted:
    """A judge that finds what it is told to find, and remembers what it was asked."""

    name = "scripted"

    def __init__(self, *verdicts):
        self.verdicts, self.asked = list(verdicts), []

    def __call__(self, question, answer, golds, site):
        self.asked.append((question, answer, golds, site))
        return Verdict(self.verdicts.pop(0), self.name)


# The reward


def test_a_conversation_without_criteria_passes_if_it_was_ended():
    task = replace(task_of("DB"), criteria=None)
    for ended, reward in (("agent_stop", 1.0), ("user_stop", 1.0), ("max_steps", 0.0), ("", 0.0)):
        score = evaluate(FIXED, task, (), ended)
        assert (score.reward, score.reward_without_nl, breakdown(score)) == (reward, reward, {})
        assert any("no criteria" in note for note in score.notes)


@pytest.mark.parametrize("ended", ["max_steps", "max_agent_turns", "too_many_errors", "agent_error", "user_error", ""])
def test_a_conversation_cut_short_earns_nothing_and_is_diagnosed_all_the_same(ended):
    task = task_of("DB", "COMMUNICATE", actions=[ROAMING], communicate_info=["done"])
    lines = gold_conversation(FIXED, task).lines
    cut = evaluate(FIXED, task, lines, ended)
    assert (cut.reward, cut.reward_without_nl) == (0.0, 0.0) and "cut short" in cut.notes[0]
    whole = evaluate(FIXED, task, lines, "agent_stop")
    assert whole.reward == 1.0 and whole.notes == ()
    assert cut.components == whole.components == dict.fromkeys(COMPONENTS, 1.0)
    assert cut.checks == whole.checks


def test_only_the_basis_counts_and_all_of_it():
    criteria = {"actions": [ROAMING], "env_assertions": [{**ROAMS, "assert_value": False}], "communicate_info": ["42"]}
    lines = gold_conversation(FIXED, task_of("DB", actions=[ROAMING])).lines
    parts = {"DB": 1.0, "ACTION": 1.0, "ENV_ASSERTION": 0.0, "COMMUNICATE": 0.0}
    for basis in (("DB",), ("DB", "ACTION"), ("ACTION", "ENV_ASSERTION"), ("DB", "COMMUNICATE"), tuple(parts), ()):
        score = evaluate(FIXED, task_of(*basis, **criteria), lines, "user_stop")
        assert breakdown(score) == {name: parts[name] for name in basis}
        assert score.reward == score.reward_without_nl == float(all(parts[name] for name in basis))
        assert env_reward(score) == float("ENV_ASSERTION" not in basis)
        assert score.components == {**parts, "NL_ASSERTION": 1.0}


def test_an_evaluation_can_be_stored():
    score = evaluate(FIXED, task_of("DB", "NL_ASSERTION", actions=[ROAMING], nl_assertions=["Kind."]), (), "user_stop")
    assert decode_state(json.loads(json.dumps(encode_state(score)))) == score


# DB and ENV_ASSERTION


def test_databases_are_compared_on_both_sides():
    task = task_of("DB", actions=[ROAMING])
    talk = gold_conversation(FIXED, task)
    talk.call("assistant", "get_customer_by_id", '{"customer_id":"C2"}')
    assert evaluate(FIXED, task, talk.lines, "user_stop").checks["DB"] == (True,)
    talk.call("user", "toggle_data")
    assert evaluate(FIXED, task, talk.lines, "user_stop").checks["DB"] == (False,)
    assert evaluate(FIXED, task, (), "user_stop").checks["DB"] == (False,)


def test_a_task_that_expects_nothing_of_the_databases_accepts_them_all():
    talk = Conversation(FIXED, task_of("DB"))
    talk.call("user", "toggle_data")
    assert evaluate(FIXED, task_of("DB"), talk.lines, "user_stop").reward == 1.0
    assert evaluate(FIXED, task_of("DB", actions=[]), talk.lines, "user_stop").reward == 0.0
    assert evaluate(FIXED, task_of("DB", env_assertions=[]), talk.lines, "user_stop").reward == 0.0


@pytest.mark.parametrize("apart", [True, False])
def test_expected_actions_without_synchronisation(apart):
    of = domain(gold_without_sync=apart, random_bill_id=False)
    task = task_of("DB", actions=[ROAMING])
    assert evaluate(of, task, gold_conversation(of, task).lines, "user_stop").reward == float(not apart)


def test_assertions_hold_one_by_one_and_one_that_raises_does_not_hold():
    refuelled = {
        "env_type": "assistant", "func_name": "assert_data_refueling_amount",
        "arguments": {"customer_id": "C1", "line_id": "L1", "expected_amount": 2.0},
    }  # fmt: skip
    lost = {**refuelled, "arguments": {**refuelled["arguments"], "customer_id": "C9"}}
    task = task_of("ENV_ASSERTION", env_assertions=[ROAMS, refuelled, lost, {**lost, "assert_value": False}])
    talk = Conversation(FIXED, task)
    assert evaluate(FIXED, task, talk.lines, "user_stop").checks["ENV_ASSERTION"] == (True, False, False, False)
    talk.call("assistant", "refuel_data", '{"customer_id":"C1","gb_amount":2.0,"line_id":"L1"}')
    talk.call("user", "toggle_data")
    score = evaluate(FIXED, task, talk.lines, "user_stop")
    assert score.checks["ENV_ASSERTION"] == (False, True, False, False) and score.reward == 0.0


def test_solo_conversations():
    task = task_of("DB", actions=[{"action_id": "a", "requestor": "user", "name": "toggle_data", "arguments": {}}])
    talk = gold_conversation(FIXED, task, solo=True)
    assert talk.lines[0].sender == "assistant"
    assert evaluate(FIXED, task, talk.lines, "agent_stop", solo=True).reward == 1.0
    assert evaluate(FIXED, task, talk.lines, "agent_stop").reward == 0.0


def test_a_history_is_part_of_the_conversation_and_of_the_expectation():
    earlier = Conversation(FIXED, task_of("DB"))
    earlier.call("user", "toggle_data")
    earlier.say("It is 1,000 dollars.")
    task = replace(task_of("DB", "COMMUNICATE", actions=[ROAMING], communicate_info=["1000"]), history=earlier.lines)
    talk = gold_conversation(FIXED, task)
    assert talk.lines[:3] == earlier.lines and len(talk.lines) == 6
    assert evaluate(FIXED, task, talk.lines, "user_stop").reward == 1.0
    assert evaluate(FIXED, task, talk.lines[:3], "user_stop").checks == {
        "DB": (False,), "ENV_ASSERTION": (), "ACTION": (False,), "COMMUNICATE": (True,), "NL_ASSERTION": (),
    }  # fmt: skip


# ACTION


def action(arguments, compared=None):
    return ExpectedAction("a", "assistant", "f", json.dumps(arguments), compared)


@each_row(
    ("expected", "made", "found"),
    [
        (action({"a": 1, "b": [2]}), {"a": 1, "b": [2]}, True),
        (action({"a": 1, "b": [2]}), {"b": [2]}, True),
        (action({"a": 1}), {"a": 1.0}, True),
        (action({"a": 1}), {"a": "1"}, False),
        (action({"a": 1}), {"a": 1, "c": None}, False),
        (action({"a": 1}), {"c": 1}, False),
        (action({"a": 1}, ()), {"a": 2}, True),
        (action({"a": 1}, ()), {}, True),
        (action({"a": 1, "b": 2}, ("a",)), {"a": 1, "b": 3, "c": 4}, True),
        (action({"a": 1, "b": 2}, ("a",)), {"b": 2}, False),
        (action({"b": 2}, ("a",)), {"b": 3}, True),
        (action({}), {}, True),
        (action({}), {"a": 1}, False),
    ],
)
def test_calls_match_expected_actions(expected, made, found):
    for bug in (True, False):
        assert matches(expected, ToolCall("x", "f", json.dumps(made)), bug) is found
        assert not matches(expected, ToolCall("x", "g", json.dumps(made)), bug)


@pytest.mark.parametrize("bug", [True, False])
def test_zero_argument_match(bug):
    of = domain(zero_argument_match=bug)
    task = task_of("ACTION", actions=[ROAMING, {**ROAMING, "action_id": "b", "arguments": {"line_id": "L2"}}])
    talk = Conversation(of, task)
    talk.call("assistant", "enable_roaming")
    assert evaluate(of, task, talk.lines, "user_stop").checks["ACTION"] == (bug, bug)
    talk.call("user", "enable_roaming", '{"line_id":"L2"}')
    assert evaluate(of, task, talk.lines, "user_stop").checks["ACTION"] == (bug, True)


# COMMUNICATE


@pytest.mark.parametrize(
    ("info", "line", "by_value", "in_text"),
    [
        ("1234.5", Line("assistant", "It is $1,234.50."), True, True),
        ("1617", Line("assistant", "It is **$1,617.00**."), True, True),
        ("61", Line("assistant", "It is 1617."), False, True),
        ("8", Line("assistant", "Your total is 187"), False, True),
        ("61", Line("assistant", "61 is booked as #W61 for 2024-05-61"), True, True),
        ("61", Line("assistant", "#W61, card_61, 2024-05-61, 0.61, 61.5, 61%, 61st"), False, True),
        ("16.43", Line("assistant", "That is -16.43 dollars more."), True, True),
        ("61", Line("assistant", "12, 13, 14, 15, 16, 17, 18 or 61"), True, True),
        ("61", Line("assistant", "11, 12, 13, 14, 15, 16, 17, 18 or 61"), False, True),
        ("Blue CUP", Line("assistant", "the blue cup,"), True, True),
        ("Blue CUP", Line("assistant", "the blue cupboard"), False, True),
        ("1,234", Line("assistant", "It is 1,234."), True, False),
        ("10", Line("user", "It is 10."), False, False),
        ("10", Line("assistant", "It is ten."), False, False),
        ("10", Line("assistant", "It is 10.", (ToolCall("x", "no_such_tool", "{}"),)), False, False),
    ],
)
@pytest.mark.parametrize("bug", [False, True])
def test_what_was_communicated(info, line, by_value, in_text, bug):
    domain = replace(FIXED, compat=replace(FIXED.compat, text_within_text=bug))
    task = task_of("COMMUNICATE", communicate_info=[info, "hello"])
    talk = Conversation(domain, task)
    talk.say("Hello!")
    talk.call("assistant", "no_such_tool")
    answer = replace(talk.lines[-1], results=(replace(talk.lines[-1].results[0], call_id="x"),))
    lines = (*talk.lines, line, *((answer,) if line.calls else ()))
    assert evaluate(domain, task, lines, "user_stop").checks["COMMUNICATE"] == ((in_text if bug else by_value), True)


def test_who_tells_all_numbers_over_many_turns_tells_none():
    task, domain = task_of("COMMUNICATE", communicate_info=["61", "5000"]), builtin_domain("telecom", "fixed")
    talk = Conversation(domain, task)
    for number in range(50, 80, 5):
        talk.say(" ".join(map(str, (*range(number, number + 5), 5000))))
    assert evaluate(domain, task, talk.lines, "user_stop").checks["COMMUNICATE"] == (False, True)
    assert evaluate(domain, task, talk.lines[:4], "user_stop").checks["COMMUNICATE"] == (True, True)


@pytest.mark.parametrize("domain", ["retail", "airline", "telecom"])
def test_generated_tasks_are_told_by_value_and_official_ones_as_compat_says(domain):
    for compat in ("tau2-1.0.1", "fixed"):
        assert not generated_domain(domain, compat).compat.text_within_text
        assert builtin_domain(domain, compat).compat.text_within_text is (compat != "fixed")


ALL_NUMBERS = {
    "string": "".join(f"{number:03}" for number in range(1000)), "list": ", ".join(map(str, range(2000))), "none": "",
}  # fmt: skip


@pytest.mark.parametrize("words", ALL_NUMBERS)
def test_numbers_are_not_bought_by_telling_all_of_them(words):
    """The solver's deeds in airline tasks that ask for a number, with its numbers taken out and others appended."""
    env, played = gym.make("agent_envs/Tau2Airline-v0"), 0
    for task in range(12):
        env.reset(seed=0, options={"task": task, "split": "test"})
        if not env.unwrapped.episode.task.hidden["communicate_info"]:
            continue
        actions = [
            action if "<tool_call>" in action else re.sub(r"[0-9][0-9.]*", "", action) + ALL_NUMBERS[words]
            for action in agent_envs.solve(env)
        ]
        for action in actions:
            _, reward, over, _, info = env.step(action)
            if over:
                break
        assert reward == 0.0 and not info.get("success")
        played += 1
    assert played > 5


# NL_ASSERTION


def test_what_nobody_judged_is_never_passed():
    task = task_of("DB", "NL_ASSERTION", actions=[ROAMING], nl_assertions=["Kind.", "Brief."])
    score = evaluate(FIXED, task, gold_conversation(FIXED, task).lines, "user_stop")
    assert (score.reward, score.reward_without_nl) == (0.0, 1.0)
    assert breakdown(score) == {"DB": 1.0, "NL_ASSERTION": None} and score.undecided == ("NL_ASSERTION",)
    assert any("NL_ASSERTION" in note and "not judged" in note for note in score.notes)
    assert "NL_ASSERTION" not in score.checks
    idle = evaluate(FIXED, task, (), "user_stop")
    assert (idle.reward, idle.reward_without_nl, idle.undecided) == (0.0, 0.0, ("NL_ASSERTION",))


def test_without_assertions_in_words_nothing_needs_a_judge():
    task, judge = task_of("NL_ASSERTION", nl_assertions=[]), Scripted()
    score = evaluate(FIXED, task, (), "user_stop", judging=Judging(judge, SITE))
    assert (score.reward, breakdown(score), score.notes) == (1.0, {"NL_ASSERTION": 1.0}, ())
    assert not task.criteria.needs_judge


def test_expectations_outside_the_basis_and_of_conversations_cut_short_are_not_judged():
    judging = Judging(Scripted(), SITE)
    task = task_of("DB", nl_assertions=["Kind."])
    score = evaluate(FIXED, task, (), "user_stop", judging=judging)
    assert (score.reward, score.components["NL_ASSERTION"], score.undecided, score.notes) == (1.0, None, (), ())
    task = task_of("NL_ASSERTION", nl_assertions=["Kind."])
    assert evaluate(FIXED, task, (), "max_steps", judging=judging).components["NL_ASSERTION"] is None


@pytest.mark.parametrize(("verdicts", "reward"), [((True, True), 1.0), ((True, False), 0.0), ((False, False), 0.0)])
def test_a_judge_is_asked_about_each_expectation(verdicts, reward):
    task = task_of("DB", "NL_ASSERTION", actions=[ROAMING], nl_assertions=["Kind.", "Brief."])
    lines, judge = gold_conversation(FIXED, task).lines, Scripted(*verdicts)
    score = evaluate(FIXED, task, lines, "user_stop", judging=Judging(judge, SITE))
    assert (score.reward, score.reward_without_nl, score.undecided) == (reward, 1.0, ())
    assert score.checks["NL_ASSERTION"] == verdicts
    shown = transcript(lines)
    sites = [CallSite("episode", "b1", 4), CallSite("episode", "b1", 6)]
    assert judge.asked == [("Kind.", shown, (), sites[0]), ("Brief.", shown, (), sites[1])]


def test_a_judge_reads_all_of_the_conversation():
    task = task_of("NL_ASSERTION", nl_assertions=["Says when it began."])
    talk = Conversation(FIXED, task)
    talk.say("x" * 50_000)
    talk.call("user", "toggle_data")
    talk.say("It began in May.")
    asked = []
    judge = expectation_judge(ScriptedChat(lambda request: asked.append(request.messages[0]["content"]) or "So.\nYES"))
    score = evaluate(FIXED, task, talk.lines, "user_stop", judging=Judging(judge, SITE))
    assert score.reward == 1.0 and judge.name.endswith("/expectation@1")
    assert "Says when it began." in asked[0] and asked[0].index("x" * 50_000) < asked[0].index("It began in May.")
    assert (
        "user calls toggle_data({})" in asked[0] and "toggle_data answers the user: Mobile Data is now OFF." in asked[0]
    )


def test_a_judge_that_fails_is_a_fault_and_no_reward():
    task = task_of("NL_ASSERTION", nl_assertions=["Kind."])
    judge = expectation_judge(ScriptedChat(["perhaps", "perhaps"]))
    with pytest.raises(EnvFault):
        evaluate(FIXED, task, (), "user_stop", judging=Judging(judge, SITE))


# The floor


class Three:
    """Rows of three tasks: one that asks for nothing, one that needs a judge as well, one that asks for something."""

    def task(self, task_id):
        criteria = {"reward_basis": ["DB", "NL_ASSERTION"], "actions": [ROAMING] if task_id == "c" else []}
        if task_id == "b":
            criteria["nl_assertions"] = ["Refuses."]
        row = {"id": task_id, "user_scenario": {"instructions": ""}, "initial_state": {"initialization_actions": [ADA]}}
        return {**row, "evaluation_criteria": criteria}


def test_the_null_floor():
    source = RowSource("three", Three().task, {"train": ("a", "b", "c")})
    floor = null_policy_score(FIXED, source, "train")
    assert floor == NullPolicyScore(passed=2, tasks=3, unjudged=1) and floor.rate == 2 / 3


def test_ids_in_a_message_are_no_amounts_and_forms_of_money_are_read():
    """Who lists items by their ids tells the total; a list of amounts tells none, with ids among them or not."""
    ids = " ".join(str(number) for number in range(1234567890, 1234567900))
    assert are_told(["54.04", "1234567891"], [f"Items {ids} cost $54.04."]) == (True, True)
    assert are_told(["17"], [f"{ids} {' '.join(map(str, range(10, 20)))}"]) == (False,)
    for text in ("USD1617", "Rs.1617", "1\u00a0617 USD", "costs 1\u202f617.00"):
        assert are_told(["1617"], [text]) == (True,)
    assert are_told(["1617"], ["W1617 XUSD1617 1 617"]) == (False,)
    assert len(numbers_in(" ".join(map(str, range(10**9, 10**9 + 90_000))), 8)) == 90_000
