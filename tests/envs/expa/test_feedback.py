"""Scripted feedback of ExpA's tasks on both faces: who follows good hints solves more, who follows bad ones less."""

import random
import re

import gymnasium as gym
import pytest

from agent_envs.base.messages import Message
from agent_envs.envs.expa.calculator.derivations import Calculation, derivation
from agent_envs.envs.expa.feedback import give_feedback
from tests.examples import part
from tests.hinted import along, counts, half_able

TASKS = range(part(40, 10))
FOUND = part({
    "Sort": [40, 20, 4], "Order": [40, 28, 2], "Arithmetic": [40, 26, 0], "Countdown": [40, 26, 0],
    "Count": [40, 34, 0], "GSM8KScaled": [40, 11, 0], "CalcBench": [40, 23, 0], "SortExpA": [40, 20, 4],
    "OrderExpA": [40, 31, 2], "ArithmeticExpA": [40, 27, 0], "CountdownExpA": [40, 31, 0], "CountExpA": [40, 36, 0],
    "GSM8KScaledExpA": [40, 18, 0], "CalcBenchExpA": [40, 28, 0],
}, {
    "Sort": [10, 6, 2], "Order": [10, 8, 1], "Arithmetic": [10, 3, 0], "Countdown": [10, 6, 0], "Count": [10, 8, 0],
    "GSM8KScaled": [10, 3, 0], "CalcBench": [10, 3, 0], "SortExpA": [10, 5, 2], "OrderExpA": [10, 6, 1],
    "ArithmeticExpA": [10, 7, 0], "CountdownExpA": [10, 7, 0], "CountExpA": [10, 8, 0], "GSM8KScaledExpA": [10, 3, 0],
    "CalcBenchExpA": [10, 7, 0],
})  # fmt: skip


def meant(moment):
    """Return what a hint tells to do: a tool with its operands, or the last words; None where it tells nothing."""
    hint = moment.hint
    pair = re.search(r"(Compare|Swap) (\w) and (\w)\.$", hint)
    if pair:
        return pair[1].lower(), (pair[2], pair[3])
    calculated = re.search(r"Calculate (\S+) with", hint)
    if calculated:
        return "calculator", (*calculated[1], "=")
    return words(moment, hint)


def words(moment, hint):
    sign = re.search(r"(\w) is (less|greater) than (\w)", hint)
    counted = re.search(r"Count (\S+) in (.+) and write", hint)
    given = re.search(r"(?:Answer|The expression) (\S+) (?:at once|has)", hint)
    if "Finish now" in hint:
        return "write", "<answer>finished</answer>"
    if sign:
        return "write", f"<answer>{sign[1]} {'<' if sign[2] == 'less' else '>'} {sign[3]}</answer>"
    if counted:
        return "write", f"\n#### {counted[2].split().count(counted[1])}"
    if given:
        return "write", f"\n#### {given[1]}"
    if "is the answer" in hint:
        shown = "".join(message.content for message in moment.messages if message.author == "tool")
        return "write", "\n#### " + re.findall(r"(?:<result> |=)(\S+)", shown)[-1]
    return None


def as_text(moment):
    """Follow a hint in text."""
    act = meant(moment)
    if act is None:
        return half_able(moment)
    tool, what = act
    if tool == "write":
        return what
    return f"<{tool}>{''.join(what).removesuffix('=') if tool == 'calculator' else ', '.join(what)}</{tool}>"


def as_actions(moment):
    """Follow a hint with expanded actions."""
    core, act = moment.env.unwrapped, meant(moment)
    if act is None:
        return half_able(moment, 0.9 if "calculator" in moment.prompt else 0.8)
    tool, what = act
    active, keyed = core.episode.state.active, core.episode.state.latent.keyed
    if active != "language":
        on_the_way = tool == active and tuple(what)[: len(keyed)] == keyed
        wanted = core.id_of(what[len(keyed)]) if on_the_way else -1
        legal = core.legal_actions()
        return wanted if wanted in legal else legal[-1]
    if tool != "write":
        return core.id_of(tool)
    return 0 if what == "<answer>finished</answer>" or what in core.history else what


@pytest.mark.parametrize("name", FOUND)
def test_good_hints_help_and_misleading_ones_hurt(name):
    env = gym.make(f"agent_envs/{name}-v0")
    follower = as_actions if name.endswith("ExpA") else as_text
    assert list(counts(env, TASKS, follower).values()) == FOUND[name]


def test_sorting_is_led_comparison_by_comparison_and_swap_by_swap():
    told = along(gym.make("agent_envs/Sort-v0", size=3), 3)
    assert told == [
        "It is not known yet which of A and B is larger. Compare A and B.",
        "It is not known yet which of A and C is larger. Compare A and C.",
        "The wanted order is known, and A and C stand wrong. Swap A and C.",
        "The wanted order is known, and B and A stand wrong. Swap B and A.",
        "The items stand in the wanted order. Finish now.",
    ]
    assert along(gym.make("agent_envs/Sort-v0", size=3), 3, "misleading")[::4] == [
        "The items stand in the wanted order already. Finish now.",
        "The items C and B stand wrong. Swap C and B.",
    ]


def test_what_follows_from_comparisons_is_not_compared():
    prompt = Message(
        "user", "The items A, B, C stand in this order. Bring them into descending order of", "environment"
    )
    told = [Message("tool", f"<result> {text} </result>", "tool") for text in ("A < B", "B < C", "C, B, A")]
    assert said([prompt, *told[:2]]) == "The wanted order is known, and A and C stand wrong. Swap A and C."
    assert said([prompt, *told]) == "The items stand in the wanted order. Finish now."
    ours = Message("assistant", "<result> C, B, A </result> so: A < B and: B < C", "policy")
    assert said([prompt, ours]).endswith("Compare A and B."), "the policy's own words prove nothing"


def said(messages):
    return give_feedback(messages, "exploit", "good", random.Random(0))


def test_a_word_problem_is_led_step_by_step():
    told = along(gym.make("agent_envs/GSM8KScaled-v0"), 3)
    steps = ["88264*35604", "3142551456-91541", "53*235730", "3142459915-12493690"]
    assert told == [
        *(f"The next thing to know is a value. Calculate {step} with the calculator." for step in steps),
        "The value of 3142459915-12493690 is the answer. Write it alone in the last line, after ####.",
    ]


@pytest.mark.parametrize(
    "question, found",
    [
        ("What is (54 - 16) * five?", Calculation("value", ("(54-16)*5",))),
        ("What is the value of 3 plus 4, divided by the value of 7?", Calculation("value", ("(3+4)/(7)",))),
        ("What is the moon?", Calculation("value")),
        ("How many eggs does Ann have if 12 hens lay 3 eggs each?", Calculation("")),
        ("How many times does the digit 1 occur in the number one hundred one when it is written in digits?",
         Calculation("count", (), "1", tuple("101"))),
    ],
)  # fmt: skip
def test_what_there_is_to_calculate(question, found):
    assert derivation(question) == found
