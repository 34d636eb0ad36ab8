"""Every id has a heuristic without gold that is worth more than random play and no more than the solver."""

import random
from collections import Counter

import gymnasium as gym
import pytest

import agent_envs
from agent_envs.base.protocol import Answer
from agent_envs.core.registry import TABLE, companion, row_of
from agent_envs.envs.expa.actions import LANGUAGE
from agent_envs.rollout.policy import CompanionPolicy, Reply, Request
from agent_envs.wrappers.turns import ForcedAnswer
from tests.examples import part

TASKS = 12
NEW = [row for row in TABLE if row.family in ("expa", "text_games", "tool_reasoning")]
TEXT_FACES = [row for row in NEW if not row.twin]


def played(name, agent, tasks=TASKS, **arguments):
    env = gym.make(f"agent_envs/{name}-v0", **arguments)
    for task in range(tasks):
        yield agent_envs.run_episode(env, CompanionPolicy(agent), seed=task, task=task, split="test").trajectory


def worth(name, agent, **arguments):
    """Return successes and the mean return of an agent."""
    rows = list(played(name, agent, **arguments))
    return sum(bool(row.success) for row in rows), sum(row.total_reward for row in rows) / len(rows)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_every_id_has_a_heuristic(row):
    assert companion(gym.make(row.id), "heuristic") is not None


@pytest.mark.parametrize("row", part(NEW, [*TEXT_FACES, row_of("SortExpA")]), ids=lambda row: row.name)
def test_a_heuristic_lies_between_random_play_and_the_solver(row):
    floor, heuristic, solver = (worth(row.name, agent) for agent in ("random", "heuristic", "solver"))
    assert floor[0] < heuristic[0] <= solver[0] == TASKS and floor[1] < heuristic[1] <= solver[1]
    # Crafter's default goal is easy.
    assert heuristic[1] < solver[1] or row.name == "Crafter"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ToolReasoning", {"protocol": "json"}),
        ("CalcBenchExpA", {"decimal_point": False}),  # the number of "=" is another
        ("Order", {"compare_percent": 100}),
        ("OrderExpA", {"compare_percent": 100}),
        ("Crafter", {"goal": "place_table"}),
    ],
)
def test_a_heuristic_knows_the_other_forms_of_an_id(name, arguments):
    assert worth(name, "heuristic", **arguments)[0] > 0


@pytest.mark.parametrize("name", ["Arithmetic", "Sort", "ToolReasoning"])
def test_without_a_turn_to_spare_a_heuristic_answers(name):
    env = ForcedAnswer(gym.make(f"agent_envs/{name}-v0"), free_turns=0)
    result = agent_envs.run_episode(env, CompanionPolicy("heuristic"), seed=0, task=0, split="test")
    (turn,) = result.trajectory.turns
    assert isinstance(turn.parsed, Answer)


class Relay:
    """Random legal play for some actions, and then the heuristic: calls are open that it did not begin.

    One refusal tells it that this calculator has no decimal point.
    """

    name, batch, needs_env = "relay", 1, True

    def __init__(self, first, handed, env=None):
        self.first, self.handed, self.taken, self.env, self.refused = first, handed, 0, env, 0

    def begin(self, env):
        return Relay(self.first, self.handed, env)

    def act(self, requests):
        self.taken += 1
        if self.taken == self.first + 1:
            self.handed.append(self.env.unwrapped.episode.state.active != LANGUAGE)
        kind = "random" if self.taken <= self.first else "heuristic"
        (reply,) = CompanionPolicy(kind, self.env).act(requests)
        self.refused += isinstance(reply.action, int) and reply.action not in self.env.unwrapped.legal_actions()
        assert self.refused < 2
        return [Reply(reply.action)]


@pytest.mark.parametrize("name", ["CalcBenchExpA", "CountdownExpA", "SortExpA", "OrderExpA"])
def test_a_heuristic_finishes_calls_that_another_began(name):
    """Random play hands over open calls; from there the heuristic comes to an end of its own, and not to the limit."""
    env = gym.make(f"agent_envs/{name}-v0", max_actions=64)
    handed, ends = [], Counter()
    for seed in range(200):
        result = agent_envs.run_episode(env, Relay(1 + seed % 7, handed), seed=seed, task=seed, split="test")
        ends[result.status] += 1
    assert sum(handed) >= 10 and ends == {"terminated": 200}


ODD = (
    "", "9" * 5_000, "\ud800\0", "<tool_call>{", '<tool_call>{"name": "x", "arguments": {}}</tool_call>', "\n[refused]\n",
    " calculate 12+", " calculate 1=", " compare foo", " swap H", " compare ABCDEFGH and", "=> A, A, A\n",
    "=> H, G\n", ": A < B\n",
    "The items A, A ", "The items B, C ", "in descending order, and what is known about their numbers", "Which is larger",
    "has the value ... and is made of the numbers , ,", "has the value ٣ and is made of the numbers ١, ٢,", "What is ٣+٤?",
    f"has the value 5 and is made of the numbers {', '.join(map(str, range(1, 18)))},",
    f"What is {'1+' * 600}1", "How many times does digit",
    "Your goal is to do well.\n", "Your goal is to go to the red ball.\n", "You carry a red ball", "a red ball 9 steps forward",
    f"- a tree {'9' * 5_000} steps left", "- baba: 99999 steps left\n- baba is win", "9 wood", "look up, at a tree",
)  # fmt: skip


@pytest.mark.parametrize("row", [row for row in NEW if row.family != "tool_reasoning"], ids=lambda row: row.name)
def test_a_heuristic_acts_on_conversations_that_no_environment_makes(row):
    env = gym.make(row.id)
    agent, chance = companion(env, "heuristic"), random.Random(f"odd {row.name}")
    begins = [env.reset(seed=seed)[0] for seed in range(3)]
    for number in range(150):
        texts = ["".join(chance.choices(ODD, k=chance.randint(1, 3))) for _ in range(chance.randint(0, 4))]
        rows = [
            {"role": chance.choice(("system", "user", "assistant", "tool", "odd")), "content": text} for text in texts
        ]
        if number % 2:
            whole = chance.choice(begins)
            rows.insert(0, {"role": "user", "content": whole[: chance.choice((len(whole), len(whole) // 2))]})
        prefill, tools = chance.choice(("", "<answer>")), chance.choice(((), [{"function": {"name": "another"}}]))
        action = agent(Request("odd", len(rows), messages=rows, prefill=prefill, tools=tools, seed=number))
        assert isinstance(action, str | int)
