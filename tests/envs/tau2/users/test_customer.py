"""The customer by rules: its scenario in its own words, what it does on its phone, and how it says yes and goodbye."""

import gymnasium as gym
import pytest

from agent_envs.envs.tau2.turn_taking import AGENT_STOP
from agent_envs.envs.tau2.users.customer import act
from agent_envs.rollout.policy import Request

PROMPT = """You play a customer.

<scenario>
Instructions:
\tDomain: retail
\tReason for call:
\t\tYou ask the agent to cancel order #W1; your plans have changed.
\t\tYou also want to know how much money comes back to you.
\tKnown info:
\t\tYou are Nico Baker. Your zip code is 55888.
\tUnknown info:
\t\tYou do not remember your e-mail address.
\tTask instructions:
\t\tSay yes when the agent has told you what it will do.
</scenario>"""


def answer(*said, tools=(), own="Hello."):
    """What it says after its first words and these messages."""
    first = [{"role": "system", "content": PROMPT}, {"role": "assistant", "content": own}]
    schemas = [{"function": {"name": name}} for name in tools]
    return act(Request("k", 1, [*first, *said], schemas))


def test_it_tells_what_it_wants_and_who_it_is_in_the_first_person_and_no_directions():
    assert act(Request("k", 0, [{"role": "system", "content": PROMPT}])) == (
        "Hello. I ask you to cancel order #W1; my plans have changed. I also want to know how much money comes back to me. "
        "I am Nico Baker. my zip code is 55888."
    )


@pytest.mark.parametrize("domain", ["Retail", "Airline", "Telecom"])
def test_of_generated_tasks_it_tells_no_directions_either(domain):
    env = gym.make(f"agent_envs/Tau2{domain}-v0", side="user")
    for task in range(9):
        _, info = env.reset(seed=0, options={"task": task, "split": "test"})
        said = act(Request("k", 0, info["messages"]))
        assert len(said) > 40 and "Task instructions" not in said and "the agent" not in said.lower()


def test_it_says_yes_and_goodbye():
    assert answer({"role": "user", "content": "I will cancel order #W1. Is that right?"}) == "Yes, please."
    assert answer({"role": "user", "content": "Done. Is there anything else?"}) == f"No, thank you. {AGENT_STOP}"


def test_it_does_what_it_is_asked_to_with_the_tools_that_it_has_and_tells_what_it_saw():
    asked = {"role": "user", "content": "Please turn airplane mode off."}
    call = answer(asked, tools=["toggle_airplane_mode"])
    assert '"name": "toggle_airplane_mode"' in call
    assert answer(asked) == "Yes, please."
    result = {"role": "tool", "content": "Airplane Mode is now OFF."}
    assert answer(result, own=call) == "Airplane Mode is now OFF."
