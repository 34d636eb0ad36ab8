"""The airline's rule-based agent: words it was not fitted to, the policy, and any words whatever."""

import copy
import json

import gymnasium as gym
from hypothesis import given
from hypothesis import strategies as st

import agent_envs  # noqa: F401
from agent_envs.base.messages import ToolCall
from agent_envs.base.protocol import Call, ToolCallProtocol
from agent_envs.envs.tau2.agent_view import SideView
from agent_envs.envs.tau2.dialogue import arguments_of
from agent_envs.envs.tau2.heuristics import act
from agent_envs.envs.tau2.heuristics.airline import PLANS
from agent_envs.envs.tau2.heuristics.desk import Desk
from agent_envs.envs.tau2.task_generator.airline_tasks import make_row
from agent_envs.envs.tau2.task_generator.source import generated_domain
from agent_envs.envs.tau2.toolkit import FRESH, call
from agent_envs.envs.tau2.turn_taking import Rules
from agent_envs.rollout.policy import Request
from tests.examples import examples, part
from tests.rows import each_row

DOMAIN = generated_domain("airline")
TOOLS = SideView(Rules(DOMAIN), "assistant", 100).tools
TABLES = DOMAIN.agent_database.tables


def play(difficulty, split, number):
    """Return the reward of the agent on a task, talking with the scripted user, and all lines."""
    env = gym.make("agent_envs/Tau2Airline-v0", difficulty=difficulty)
    _, info = env.reset(seed=0, options={"split": split, "task": number})
    messages, over = list(info["messages"]), False
    while not over:
        action = act(Request("key", 0, messages, TOOLS))
        _, reward, terminated, truncated, info = env.step(action)
        messages += [{"role": "assistant", "content": action}, *info["messages"]]
        over = terminated or truncated
    return reward, env.unwrapped.episode.state.lines


@each_row(
    ("text", "kind"),
    [
        ("Hi, could you cancel the booking GKL2M4 for me?", "cancel"),
        ("I need a refund for my flight next week.", "cancel"),
        ("Please put two extra suitcases on my reservation.", "bags"),
        ("How do I add another checked bag?", "bags"),
        ("I won't need the third bag, can you take a bag off my booking?", "fewer_bags"),
        ("Please remove one suitcase.", "fewer_bags"),
        ("We would like an upgrade to business class.", "cabin"),
        ("Can my wife and I sit in business on the way back?", "cabin"),
        ("I'd like to reschedule my flight to May 22.", "move"),
        ("Can I take an earlier plane?", "move"),
        ("The flight was delayed for five hours, I want compensation.", "compensation"),
        ("You cancelled my flight and I think I should get a voucher.", "compensation"),
        ("My daughter's last name is misspelled on the ticket.", "passenger"),
        ("My brother will fly instead of me, please change the passenger.", "passenger"),
        ("Can I add an extra person to the trip?", "more_people"),
        ("I forgot to buy travel insurance, add it please.", "insurance"),
        ("I want to book a trip to Denver.", "book"),
        ("I would like to fly from Seattle to Denver on May 20, without insurance.", "book"),
        ("How much did I pay for both trips in total?", "spent"),
        ("Good morning!", ""),
        ("Thanks, that is all.", ""),
    ],
)
def test_wishes_in_words_of_others(text, kind):
    assert wish(text).kind == kind


def wish(text):
    return Desk(Request("key", 0, [{"role": "user", "content": text}], TOOLS), PLANS)


def test_the_first_wish_of_a_message_counts():
    assert wish("I want to cancel my trip. There is one more thing. I want to add two bags.").kind == "cancel"
    assert wish("I have no preference about the bags. Please cancel it.").kind == "cancel"


def test_a_no_that_names_a_wish_is_news_of_it():
    proposal = {"role": "assistant", "content": "I can cancel it. Shall I go ahead (yes/no)?"}
    said = [
        {"role": "user", "content": "Cancel my trip."},
        proposal,
        {"role": "user", "content": "No, I want two bags on it."},
    ]
    assert Desk(Request("key", 0, said, TOOLS), PLANS).kind == "bags"
    said[-1]["content"] = "No, thanks."
    assert Desk(Request("key", 0, said, TOOLS), PLANS).kind == "cancel"


def talking(user_words, turns=14):
    """Return the agent's turns against a user who says given words over and over, with the real tools."""
    system = {"role": "system", "content": "You serve customers."}
    messages, said = [system, {"role": "user", "content": user_words[0]}], []
    world = FRESH
    for place in range(turns):
        text = act(Request("key", place, messages, TOOLS))
        said.append(text)
        messages.append({"role": "assistant", "content": text})
        parsed = ToolCallProtocol().parse(text)
        calls: tuple[ToolCall, ...] = parsed.calls if isinstance(parsed, Call) else ()
        for one in calls:
            outcome, world = call(DOMAIN, world, "assistant", one.name, arguments_of(one))
            messages.append({"role": "tool", "content": outcome.content, "tool_call_id": one.id})
        if not calls:
            messages.append({"role": "user", "content": user_words[min(len(said), len(user_words) - 1)]})
    return said, world


USER = next(iter(TABLES["users"].values()))


@examples(60)
@given(st.text(max_size=200), st.text(max_size=200), st.booleans())
def test_any_words_get_a_turn(first, then, known):
    opening = f"{first} {USER['user_id'] if known else ''}"
    said, _ = talking([opening, then], turns=6)
    assert all(text.strip() for text in said)


@examples(40)
@given(st.lists(st.sampled_from(
    "cancel book move upgrade business bags two insurance passenger compensation May 20 2024-05-31 from Seattle to Denver "
    "cheapest gift card certificate yes no at most 10 dollars reservation flight HAT001 back me born 1990-01-01 HAT999".split()
), max_size=25))  # fmt: skip
def test_words_of_the_trade_in_any_order_get_a_turn(parts):
    said, _ = talking([f"I am {USER['user_id']}. " + " ".join(parts), "Yes. " + " ".join(reversed(parts))])
    assert all(text.strip() for text in said)


def test_nothing_is_written_without_a_yes():
    key = USER["reservations"][0]
    said, world = talking(
        [f"I am {USER['user_id']}, cancel {key}, I am ill, and add 2 bags to it", "Hm, I have to think."]
    )
    assert world.agent == FRESH.agent and len(set(said)) > 1


def test_turns_are_a_function_of_the_messages():
    messages = [{"role": "system", "content": "x"}, {"role": "user", "content": "Hello, my id is mira_holm_1234"}]
    before = copy.deepcopy(messages)
    one, two = (act(Request(key, 0, messages, TOOLS, seed=seed)) for key, seed in (("a", 1), ("b", 2)))
    assert one == two == act(Request("c", 0, json.loads(json.dumps(messages)), TOOLS))
    assert messages == before


def test_it_serves_easy_tasks_and_not_all_hard_ones():
    rate = {}
    for difficulty in ("easy", "medium", "hard"):
        rewards = [play(difficulty, "dev", number)[0] for number in range(part(40, 20))]
        rate[difficulty] = sum(rewards) / len(rewards)
    assert 0.7 <= rate["easy"] <= 0.95
    assert 0.05 <= rate["hard"] <= 0.5
    assert rate["hard"] < rate["medium"] < rate["easy"]


def test_it_writes_nothing_that_the_policy_forbids_where_it_is_asked_for_that():
    refused = 0
    for number in range(part(60, 20)):
        row = make_row("train", number, "hard")
        writes = {json.dumps(one["arguments"], sort_keys=True) for one in row["evaluation_criteria"]["actions"]}
        _, lines = play("hard", "train", number)
        cancelled = [one for line in lines for one in line.calls if one.name == "cancel_reservation"]
        assert all(json.dumps(arguments_of(one), sort_keys=True) in writes for one in cancelled), row["id"]
        refused += any("I am sorry, but" in line.text for line in lines if line.sender == "assistant")
    assert refused > part(30, 10)
