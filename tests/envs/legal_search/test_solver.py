"""Built-in agents: the solver's ceiling, the honest baselines below it, abstaining and chance further down."""

import pytest

from agent_envs.envs.legal_search.env import LegalSearch
from agent_envs.envs.legal_search.extraction import Shown, asked_unit, guess, worked_out
from agent_envs.envs.legal_search.heuristic import NaiveRAG
from agent_envs.envs.legal_search.outcomes import ended_of
from agent_envs.envs.legal_search.tools import ANSWER, rendered
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy, Reply
from agent_envs.wrappers import ForcedAnswer, TurnLimit
from tests.envs.legal_search.small import make

TASKS = 60


class Abstaining:
    """Says that it does not know, at once."""

    name, batch = "abstaining", 1

    def act(self, requests):
        return [Reply(rendered(ANSWER, "tags", answer="I don't know", sources=[])) for _ in requests]


def played(policy, count=TASKS, wrap=lambda env: env, **arguments):
    """Play an agent, built in or given, on the first dev tasks."""
    env = wrap(LegalSearch(**{"semantic": "bm25", **arguments}))
    policy = CompanionPolicy(policy) if isinstance(policy, str) else policy
    return [run_episode(env, policy, seed=i, task=i, split="dev") for i in range(count)]


def mean(results):
    return sum(result.trajectory.total_reward for result in results) / len(results)


def share(results):
    return sum(result.success for result in results) / len(results)


SETTINGS = [
    {}, {"protocol": "json"}, {"reward": "art_e"}, {"semantic": "random"}, {"keyword": "empty"}, {"max_searches": 0},
    {"max_generations": 5}, {"max_generations": 1}, {"top_k": 1, "snippet_chars": 40, "page_chars": 200},
    {"world": {"reads": [4]}}, {"world": {"unanswerable": 1.0}}, {"tasks": "agreements"},
]  # fmt: skip


@pytest.mark.parametrize("arguments", SETTINGS, ids=str)
def test_the_solver_succeeds_on_every_task(arguments):
    results = played("solver", **arguments)
    assert all(result.success and result.status == "terminated" for result in results)
    assert not any(
        turn.events for result in results for turn in result.trajectory.turns if arguments.get("max_searches") != 0
    )
    for result in results:
        answerable = result.trajectory.task.hidden.answerable
        assert ended_of(result.trajectory).outcome == ("cited" if answerable else "abstained")


def test_the_solver_reads_all_that_must_be_read():
    for result in played("solver"):
        read = {
            name
            for turn in result.trajectory.turns
            for one in turn.results
            if one.name == "read_section"
            for name in one.ids
        }
        assert set(result.trajectory.task.hidden.gold_sections) <= read


def test_agents_are_ranked_and_abstaining_lies_between_guessing_and_solving():
    """Always abstaining is worse in expectation than the solver, and better than guessing."""
    solver, searcher, naive, silent, chance = (
        played(agent) for agent in ("solver", "heuristic", NaiveRAG(), Abstaining(), "random")
    )
    assert share(solver) == 1.0 > 0.4 >= share(searcher) > 0 and share(naive) <= 0.4
    assert mean(solver) > mean(silent) > mean(chance) and mean(silent) > mean(naive)
    assert mean(solver) > mean(searcher) > mean(naive) > mean(chance)
    assert 0 < share(silent) < 0.2 and share(chance) < 0.05


@pytest.mark.parametrize("protocol", ["tags", "json"])
@pytest.mark.parametrize("turns", [0, 1, 2, 4])
def test_agents_play_under_forced_answers(turns, protocol):
    for agent in ("solver", "heuristic", NaiveRAG()):
        results = played(agent, 12, lambda env: ForcedAnswer(env, turns), protocol=protocol)
        for result in results:
            assert len(result.trajectory.turns) <= turns + 1 and result.status == "terminated"
            assert ended_of(result.trajectory).outcome in ("cited", "uncited", "wrong", "abstained")
        if agent == "solver":
            assert share(results) == 1.0
    assert all(len(result.trajectory.turns) <= 3 for result in played("solver", 12, lambda env: TurnLimit(env, 3)))


def test_naive_rag_searches_once_and_answers_at_once_where_it_must():
    results = played(NaiveRAG(), 12)
    assert all(len(result.trajectory.turns) == 2 for result in results)
    forced = played(NaiveRAG(), 12, lambda env: ForcedAnswer(env, 0))
    assert all(len(result.trajectory.turns) == 1 for result in forced)
    assert any(ended_of(result.trajectory).outcome != "abstained" for result in forced)


def test_the_searcher_never_breaks_the_format():
    for protocol in ("tags", "json"):
        outcomes = {ended_of(result.trajectory).outcome for result in played("heuristic", 40, protocol=protocol)}
        assert "format_error" not in outcomes and "out_of_turns" not in outcomes


def test_the_searcher_works_on_the_small_library():
    result = run_episode(make(), CompanionPolicy("heuristic"), seed=0, task="appeal")
    assert ended_of(result.trajectory).outcome in ("wrong", "abstained")  # "How long" names no unit


MAIN = Shown("1-1", "A > B > § 1-1. Fees", "EnvUnderTest to § 1-2, a fee is paid within 30 days. [Amended by § 9-1.]")
RELIEF = Shown("1-2", "A > B > § 1-2. Relief", "For an insular holder, the period named in § 1-1 is reduced by 4 days.")
ACT = Shown("9-1", "Z > § 9-1. Act", 'In § 1-1, "40 days" is substituted for "30 days", from 1 July 2011 on.')
TAKEN = Shown("1-3", "A > B > § 1-3. Pleas", "A plea is lodged within the period named in § 1-1, increased by 5 days.")


@pytest.mark.parametrize(
    ("question", "read", "answer"),
    [
        ("Within how many days is it paid?", [MAIN], "30"),
        ("Within how many days is it paid?", [MAIN, RELIEF, ACT], "30"),
        ("Take an islander. Within how many days does this person pay?", [MAIN, RELIEF], "26"),
        ("It was dealt with on 2 July 2011. Within how many days?", [MAIN, ACT], "40"),
        ("It was dealt with on 30 June 2011. Within how many days?", [MAIN, ACT], "30"),
        ("How many days are there for a plea?", [TAKEN, MAIN], "35"),
        ("How many days are there for a plea?", [TAKEN], None),
        ("How many dollars is it?", [MAIN], None),
    ],
)
def test_amounts_are_worked_out_from_what_was_read(question, read, answer):
    found = worked_out(question, read)
    assert (found.answer if found else None) == answer
    assert found is None or read[0].id in found.sources


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ('complete the blank: "within ____ after the date"', "It ends within 30 days after the date of it.", "30 days"),
        ('what does the term "Vessel" mean?', '"Vessel" means any boat; "Boat" means any ship.', "any boat"),
        ("How many dollars is the fine?", "The fine is $1,200 and is paid in 30 days.", "1,200"),
        ("What percentage comes back?", "Of the fee, 25 percent is repaid.", "25"),
        ("What is the last day?", "It ends on 5 May 2021.", "5 May 2021"),
        ("Who keeps it?", "The keeper keeps it for 3 days.", None),
    ],
)
def test_guesses(question, text, answer):
    found = guess(question, [Shown("x", "place", text)])
    assert (found.answer if found else None) == answer


def test_the_unit_that_is_asked_for():
    assert asked_unit("Within how many days?") == "day" and asked_unit("How much, in dollars?") == "dollar"
    assert asked_unit("What percentage is it?") == "percent" and asked_unit("Who pays within 3 days?") == ""
