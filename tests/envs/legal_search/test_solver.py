"""Built-in agents: the solver's ceiling, the honest baselines below it, abstaining and chance further down."""

from dataclasses import replace
from functools import partial

import pytest

from agent_envs.envs.legal_search.env import LegalSearch
from agent_envs.envs.legal_search.heuristic import Missing, QuestionReader
from agent_envs.envs.legal_search.outcomes import ended_of
from agent_envs.envs.legal_search.tools import ANSWER, rendered
from agent_envs.envs.legal_search.transcript import Excerpt
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy, Reply
from agent_envs.wrappers import ForcedAnswer, TurnLimit
from benchmarks.naive_rag import NaiveRAG
from tests.envs.legal_search.small import make
from tests.examples import part

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
    {"max_generations": 7}, {"max_generations": 1}, {"top_k": 1, "snippet_chars": 40, "page_chars": 200},
    {"world": {"reads": [6]}}, {"world": {"unanswerable": 1.0}}, {"world": {"wording": "second"}},
]  # fmt: skip


@pytest.mark.parametrize("arguments", SETTINGS, ids=str)
def test_the_solver_succeeds_on_every_task(arguments):
    results = played("solver", part(TASKS, 9), **arguments)
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


def test_agents_are_ranked_and_turns_pay():
    """The searcher is far above one search, and below the solver; abstaining earns more than guessing."""
    solver, searcher, naive, silent, chance = (
        played(agent) for agent in ("solver", "heuristic", NaiveRAG(), Abstaining(), "random")
    )
    assert share(solver) == 1.0 >= share(searcher) >= 0.85 and share(naive) <= 0.35
    assert mean(solver) > mean(searcher) > mean(silent) > mean(chance) and mean(searcher) > mean(naive) > mean(chance)
    assert 0 < share(silent) < 0.2 and share(chance) < 0.05


def test_the_searcher_does_better_the_more_turns_are_free():
    at = {
        turns: share(played("heuristic", 120, partial(ForcedAnswer, free_turns=turns))) for turns in (0, 1, 2, 4, 8, 12)
    }
    assert at[0] <= 0.35 and at[12] >= 0.7
    assert at[1] <= at[2] < at[4] < at[8] < at[12], at


class Shuffled(LegalSearch):
    """Searches show the IDs of other sections than those that they found."""

    def hits(self, task, query, key, engine="semantic"):
        rows = list(self.source.library(task).corpus.passages)
        moved = {row.id: rows[(place * 977 + 331) % len(rows)].id for place, row in enumerate(rows)}
        found = super().hits(task, query, key, engine)
        return tuple(replace(hit, passage=replace(hit.passage, id=moved[hit.passage.id])) for hit in found)


def test_without_engines_or_with_other_ids_the_searcher_is_at_the_floor():
    empty = played("heuristic", 150, semantic="empty", keyword="empty")
    shuffled = [
        run_episode(Shuffled(semantic="bm25"), CompanionPolicy("heuristic"), seed=0, task=i, split="dev")
        for i in range(150)
    ]
    assert share(empty) <= 0.15 and share(shuffled) <= 0.15


@pytest.mark.parametrize("protocol", ["tags", "json"])
@pytest.mark.parametrize("turns", [0, 1, 4])
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
    assert {ended_of(result.trajectory).outcome for result in forced} <= {"cited", "uncited", "wrong", "abstained"}


def test_the_searcher_never_breaks_the_format():
    for protocol in ("tags", "json"):
        outcomes = {ended_of(result.trajectory).outcome for result in played("heuristic", 40, protocol=protocol)}
        assert "format_error" not in outcomes and "out_of_turns" not in outcomes


def test_the_searcher_works_on_the_small_library():
    result = run_episode(make(), CompanionPolicy("heuristic"), seed=0, task="appeal")
    assert ended_of(result.trajectory).outcome in ("wrong", "abstained")  # "How long" names no unit


MAIN = """(a) A fee is paid within 30 days after the demand.
(b) In the case of a small mill, as § 1-1 defines it, the period is increased by 4 days.
(c) Where the licence was granted before 1 July 2011, the period is reduced by 9 days.
(d) All increases together come to 3 days at most.
(e) Paragraph (a) is amended by § 9-1."""
PAGES = [
    Excerpt("1-2", "A > B > § 1-2. Payment of fees", MAIN),
    Excerpt("1-1", "A > B > § 1-1. Definitions", "A mill is small if it has fewer than 9 wheels."),
    Excerpt("9-1", "Z > § 9-1. Act",
            'In § 1-2(a), "40 days" is substituted for "30 days".\nIt applies on or after 1 July 2015.'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Within how many days does a miller pay the fee after a demand?", "30"),
        ("Within how many days does a miller with 8 wheels pay the fee after a demand?", "33"),
        ("Within how many days does a miller with 9 wheels pay the fee after a demand?", "30"),
        ("Within how many days does a miller licensed since 30 June 2011 pay the fee?", "21"),
        ("It arose on 2 July 2015. Within how many days does a miller pay the fee?", "40"),
        ("It arose on 30 June 2015. Within how many days does a miller pay the fee?", "30"),
    ],
)
def test_amounts_are_worked_out_from_what_was_read(question, answer):
    reading = QuestionReader(question, {page.id: page for page in PAGES})
    assert reading.answer() == answer and "1-2" in reading.used


def test_what_is_missing_is_named():
    question = "Within how many days does a miller with 8 wheels pay the fee?"
    with pytest.raises(Missing, match="1-1"):
        QuestionReader(question, {PAGES[0].id: PAGES[0]}).answer()
    assert QuestionReader(question, {PAGES[0].id: PAGES[0]}, final=True).answer() == "30"
    with pytest.raises(Missing):
        QuestionReader("Who feeds the cat?", {page.id: page for page in PAGES}).answer()
