"""Feedback in evaluation: what is played and under which label, what it costs, one limit for all, and what is packed."""

from tests.needs import require

require("[envs]")

import json
import re
import sys

import pytest

from agent_envs import UsageError
from agent_envs.core.env import shown_messages
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.report.compare import compare_entries
from agent_envs.evaluation.report.report import report_on
from agent_envs.evaluation.runs.costs import parse_feedback, with_feedback
from agent_envs.evaluation.runs.evaluate import evaluate, result_of_run, resume
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.submission.episode_rows import messages_digest
from agent_envs.evaluation.submission.models import Submission
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, entry_env
from agent_envs.evaluation.suites.suite import Feedback, load_suite, read_suite, suite_text
from agent_envs.evaluation.verification.shards import read_episode_rows
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.episode_runner import record_turn
from agent_envs.services.chat import ScriptedChat
from agent_envs.services.chat.prices import PriceTable, load_prices
from agent_envs.services.recording import Recording, read_answers
from agent_envs.services.run_services import Services
from agent_envs.wrappers.feedback_prompts import read_templates
from benchmarks.agents import Instant
from tests.evaluation.submission.packing import SMALL
from tests.needs import needs
from tests.services.chat.conftest import serve
from tests.services.chat.wire import AnthropicWire, Said

__all__ = ["serve"]
MODEL = "anthropic:claude-sonnet-4"


def suite_of(names, limit=3, epsilon=0.5, templates="", **options):
    feedback = parse_feedback(names, epsilon, templates, options)
    return adhoc_suite(Choice("SearchQA", SMALL, limit=limit, feedback=feedback))


def adviser():
    return AnthropicWire(lambda body: Said("Search for the other name first."))


# The wire counts 100 tokens in (64 of them from a cache, 6 into it) and 20 out: 30, 64, 6 and 20 at 3, 0.3, 3.75 and 15.
CALL_USD = (30 * 3 + 64 * 0.3 + 6 * 3.75 + 20 * 15) / 1e6


def test_several_are_entries_of_one_run_and_compared():
    suite = suite_of("none,scripted:good,scripted:weak", epsilon=0.1)
    assert [entry.label for entry in suite.entries] == [
        "feedback=none",
        "feedback=scripted:good epsilon=0.1",
        "feedback=scripted:weak epsilon=0.1",
    ]
    assert not suite.scored and suite.entries[0].feedback is None
    assert suite.entries[1].feedback == Feedback(model="scripted:good", epsilon=0.1)
    keys = [key for key, *_ in suite.episodes()]
    assert len(set(keys)) == 9


def test_a_run_with_and_without(tmp_path):
    suite = suite_of("none,scripted:good")
    found = evaluate(suite, Settings("heuristic"), folder=tmp_path / "run")
    assert found.complete and [item.cost_usd for item in found.summaries] == [0.0, 0.0]
    contrasts, _ = compare_entries(open_run(tmp_path / "run"))
    assert [item.second for item in contrasts] == ["feedback=scripted:good epsilon=0.5"]
    assert contrasts[0].paired.difference == 0.0  # the heuristic takes no advice
    rows = list(open_run(tmp_path / "run").rows())
    authors = {row.entry.label: {m.author for m in row.result.trajectory.prompt} for row in rows}
    assert authors == {suite.entries[0].label: {"environment"}, suite.entries[1].label: {"environment", "feedback"}}


def test_an_entry_without_feedback_is_written_as_ever():
    core = load_suite("core")
    assert all("feedback" not in row for row in core.to_json()["entries"])
    with_it = suite_of("scripted:weak")
    row = with_it.to_json()["entries"][0]
    assert row["feedback"] == {"model": "scripted:weak", "epsilon": 0.5, "templates": "", "texts": {}, "options": {}}
    again = read_suite(suite_text(with_it), "here")
    assert again == with_it and again.digest() == with_it.digest() != suite_of("").digest()


def test_a_shipped_suite_with_feedback_is_another_suite():
    core = load_suite("core")
    told = with_feedback(core, parse_feedback("scripted:good", 0.5, "", {}))
    assert told.id == "core-feedback" and told.digest() != core.digest()
    assert all(entry.label.endswith("feedback=scripted:good epsilon=0.5") for entry in told.entries)
    assert {key for key, *_ in told.episodes()}.isdisjoint({key for key, *_ in core.episodes()})
    assert with_feedback(core, (None,)) is core
    with pytest.raises(UsageError, match="--suite takes one --feedback"):
        with_feedback(core, parse_feedback("none,scripted:good", 0.5, "", {}))


@pytest.mark.parametrize(
    ("names", "more", "message"),
    [
        ("scripted:good,scripted:good", {}, "each one once"),
        ("scripted:good", {"options": {"max_tokens": 3}}, "are for a chat model"),
        ("scripted:good", {"templates": "x"}, "are for a chat model"),
        ("anthropic:m", {"options": {"api_key_env": "HOME"}}, "--feedback anthropic:m: .*options name no key"),
        ("openai:" + "m" * 300, {}, "at most 200 characters"),
        ("nobody", {}, "feedback='nobody'; give one of scripted:good"),
    ],
)
def test_what_cannot_be_asked_for(names, more, message):
    with pytest.raises(UsageError, match=message):
        entry_env(
            adhoc_suite(
                Choice(
                    "SearchQA",
                    limit=1,
                    feedback=parse_feedback(names, 0.5, *({"templates": "", "options": {}} | more).values()),
                )
            ).entries[0]
        )


def test_templates_travel_in_the_suite_and_ours_by_their_digest(tmp_path):
    for mode in ("explore", "exploit"):
        (tmp_path / f"{mode}.md").write_text(f"{mode} $instructions\n$conversation")
    suite = suite_of("openai:m@http://localhost:1", templates=str(tmp_path))
    entry = suite.entries[0]
    assert str(tmp_path) not in suite_text(suite) and f"templates={entry.feedback.templates}" in entry.label
    (tmp_path / "explore.md").unlink()
    assert entry_env(entry).templates == entry.feedback.templates == read_templates(entry.feedback.texts).digest
    ours = suite_of("openai:m@http://localhost:1").entries[0]
    assert ours.feedback.texts == {} and ours.feedback.templates == read_templates("").digest
    old = ours.model_copy(update={"feedback": ours.feedback.model_copy(update={"templates": "0" * 12})})
    with pytest.raises(UsageError, match="asked for with templates 000000000000, and these are"):
        entry_env(old)


@needs("[anthropic]")
def test_costs_are_told_for_an_episode_and_for_all(serve, tmp_path):
    """An episode of the agent has four turns, and feedback before each."""
    suite = suite_of(f"{MODEL}@{serve(adviser())}")
    found = evaluate(suite, Settings("instant"), policy=Instant(), folder=tmp_path / "run")
    (item,) = found.summaries
    assert item.usage["feedback_calls"] == 12 and item.usage["feedback_input"] == 1200 and item.usage["input"] == 1200
    assert item.feedback_cost_usd == pytest.approx(12 * CALL_USD) and item.cost_usd is None  # the agent's is not known
    again, _ = result_of_run(open_run(tmp_path / "run"))
    assert again.summaries[0].feedback_cost_usd == item.feedback_cost_usd
    text = report_on(open_run(tmp_path / "run")).markdown()
    assert "## Feedback: calls and tokens an episode" in text and f"{4 * CALL_USD:.6f}" in text
    assert json.loads((tmp_path / "run" / "results.json").read_text())["feedback_cost_usd"] == item.feedback_cost_usd
    index = write_view(tmp_path / "run", tmp_path / "pages")
    assert "Feedback: calls and tokens" in index.read_text() and f"{MODEL}@http://127.0.0.1" in index.read_text()
    pages = "".join(path.read_text() for path in index.parent.rglob("*.html"))
    assert "Feedback: Search for the other name first." in pages


@needs("[anthropic]")
def test_one_limit_holds_over_agent_and_feedback_and_a_larger_one_goes_on(serve, tmp_path):
    """Four turns an episode; each is 100 tokens in and 10 out of the agent at 1 and 2 dollars, and a call for feedback."""
    server = adviser()
    suite = suite_of(f"{MODEL}@{serve(server)}", limit=3)
    table = {"instant": {"input": 1.0, "output": 2.0}, "claude-sonnet-4": load_prices().models["claude-sonnet-4"]}
    price = PriceTable(format="agent-envs/prices@1", date="2026-01-01", source="a test", models=table)
    (tmp_path / "prices.json").write_text(price.model_dump_json())
    turn = CALL_USD + 120e-6

    def play(most):
        settings = Settings("instant", max_cost_usd=most, prices=str(tmp_path / "prices.json"))
        found = evaluate(suite, settings, policy=Instant(), folder=tmp_path / "run")
        return found.complete, found.summaries[0]

    complete, item = play(2.5 * turn)
    assert not complete and item.outcomes == {"budget": 1, "missing": 2} and len(server.bodies) == 3
    assert item.feedback_cost_usd == pytest.approx(3 * CALL_USD) and item.cost_usd == pytest.approx(
        3 * CALL_USD + 240e-6
    )
    assert play(2.5 * turn)[1].outcomes == item.outcomes and len(server.bodies) == 3  # what is recorded is spent
    complete, item = play(1.0)
    assert complete and item.usage["feedback_calls"] == len(server.bodies) == 12
    assert len(list(read_answers(tmp_path / "run" / "externals.jsonl"))) == 12
    assert item.feedback_cost_usd == pytest.approx(12 * CALL_USD)
    assert item.cost_usd == pytest.approx(12 * turn + 240e-6)  # the agent was asked again, and feedback was not
    assert result_of_run(open_run(tmp_path / "run"))[0].summaries[0].cost_usd == item.cost_usd


@needs("[anthropic]")
def test_a_built_in_agent_needs_no_price_where_feedback_has_one(serve, tmp_path):
    suite = suite_of(f"{MODEL}@{serve(adviser())}", limit=2)
    found = evaluate(suite, Settings("random", max_cost_usd=1.0), folder=tmp_path / "run")
    assert found.complete and 0 < found.summaries[0].cost_usd == found.summaries[0].feedback_cost_usd
    assert resume(tmp_path / "run").summaries[0].cost_usd == found.summaries[0].cost_usd


def test_a_limit_needs_the_price_of_the_feedback(serve):
    """And names it, with its option, whoever the agent is."""
    name = f"openai:llama@{serve(adviser())}"
    unpriced = re.escape(
        f"--max-cost: no price is known for the feedback that --feedback {name} asks for; give a table"
    )
    for names in (name, f"{MODEL}@{serve(adviser())},{name}", f"none,{name}"):
        for agent in ("random", "tests.evaluation.runs.test_costs:Local", MODEL):
            with pytest.raises(UsageError, match=unpriced):
                evaluate(suite_of(names, limit=1), Settings(agent, max_cost_usd=1.0))


class Local(Instant):
    """A model of one's own, which costs nothing a token and counts its tokens, as a trained agent does."""


@needs("[anthropic]")
def test_an_agent_that_is_no_chat_model_needs_no_price_beside_priced_feedback(serve, tmp_path):
    server = adviser()
    suite = suite_of(f"{MODEL}@{serve(server)}", limit=3)
    agent = "tests.evaluation.runs.test_costs:Local"

    def play(most):
        found = evaluate(suite, Settings(agent, max_cost_usd=most), folder=tmp_path / "run")
        return found.complete, found.summaries[0]

    complete, item = play(4.5 * CALL_USD)
    assert not complete and len(server.bodies) == 5 and item.outcomes["budget"] == 1
    complete, item = play(1.0)
    assert complete and item.feedback_cost_usd == pytest.approx(12 * CALL_USD) and len(server.bodies) == 12
    assert resume(tmp_path / "run").summaries[0].feedback_cost_usd == item.feedback_cost_usd
    for most in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match=f"--max-cost {most}: give US dollars > 0"):
            evaluate(suite, Settings(agent, max_cost_usd=most))


@pytest.mark.parametrize("agent", ["openai:llama@http://localhost:1", "tests.evaluation.runs.test_costs:chatting"])
def test_an_agent_that_is_a_chat_model_needs_its_price_beside_that_of_feedback(serve, agent):
    suite = suite_of(f"{MODEL}@{serve(adviser())}", limit=1)
    with pytest.raises(UsageError, match=f"--max-cost: no price is known for agent '{agent}'"):
        evaluate(suite, Settings(agent, max_cost_usd=1.0))
    with pytest.raises(UsageError, match="no price is known for agent 'random'"):
        evaluate(suite_of("scripted:good", limit=1), Settings("random", max_cost_usd=1.0))


def chatting():
    """A class of somebody's that asks a service."""
    return ChatPolicy(ScriptedChat(lambda request: "Riga"), name="chatting")


@needs("[anthropic]")
def test_what_is_packed_shows_the_feedback_and_replays_without_it(serve, tmp_path, monkeypatch):
    name = f"{MODEL}@{serve(adviser())}"
    choice = Choice("Sort", {}, "test", None, 1, None, (), parse_feedback(name, 0.5, "", {}))
    suite = adhoc_suite(choice)
    suite = suite.model_copy(
        update={"entries": tuple(e.model_copy(update={"tasks": e.tasks[:3]}) for e in suite.entries)}
    )
    evaluate(suite, Settings("random"), folder=tmp_path / "run")
    pack_run(tmp_path / "run", tmp_path / "out")
    submission = Submission.model_validate_json((tmp_path / "out" / "submission.json").read_text())
    assert [(model.name, model.role) for model in submission.models] == [("claude-sonnet-4", "feedback")]
    assert set(submission.prices.models) == {"claude-sonnet-4"} and submission.prices.date
    packed = read_suite((tmp_path / "out" / "suite.json").read_text(), "packed")
    assert packed.entries[0].feedback.model == name and "feedback=" in packed.entries[0].label
    monkeypatch.setitem(sys.modules, "anthropic", None)  # a machine without the extra
    env = entry_env(packed.entries[0])
    env.unwrapped.services = Services(Recording(tmp_path / "run" / "externals.jsonl", "replay"))
    rows = [row for path in sorted((tmp_path / "out").glob("episodes/*/*.jsonl.gz")) for row in read_episode_rows(path)]
    assert len(rows) == 3
    for row in rows:
        _, info = env.reset(seed=row.seed, options={"task": row.task, "split": "test", "episode_key": row.key})
        assert messages_digest(shown_messages(env, info)) == row.prompt_sha256
        for turn in row.turns:
            assert messages_digest(record_turn(env, env.step(turn.action)).observation) == turn.observation_sha256


@needs("[anthropic]")
def test_a_conversation_in_two_lanes_shows_feedback_across_them(serve, tmp_path):
    told = parse_feedback(f"{MODEL}@{serve(adviser())}", 0.5, "", {})
    suite = adhoc_suite(Choice("Tau2Retail", {}, "test", 1, feedback=told))
    evaluate(suite, Settings("solver"), folder=tmp_path / "run")
    asked = len(list(read_answers(tmp_path / "run" / "externals.jsonl")))
    index = write_view(tmp_path / "run", tmp_path / "pages")
    pages = "".join(path.read_text() for path in index.parent.rglob("*.html"))
    assert "Scenario, which only the customer knows" in pages
    # The opening, where the first stands, is there as the policy was shown it, too.
    assert pages.count("Feedback: Search for the other name first.") == asked + 1 > 3


def test_turn_limits_with_and_without_are_lines_of_their_own(tmp_path):
    choice = Choice(
        "SearchQA", SMALL, "test", 2, turn_limits=(0, 1), feedback=parse_feedback("none,scripted:good", 0.1, "", {})
    )
    suite = adhoc_suite(choice)
    assert [entry.label for entry in suite.entries][:2] == [
        "free_turns=0 feedback=none",
        "free_turns=0 feedback=scripted:good epsilon=0.1",
    ]
    found = evaluate(suite, Settings("heuristic"), folder=tmp_path / "run")
    assert found.complete
    rows = report_on(open_run(tmp_path / "run")).limits
    assert [(row.series, row.free_turns) for row in rows] == [
        ("heuristic, feedback=none", 0), ("heuristic, feedback=none", 1),
        ("heuristic, feedback=scripted:good epsilon=0.1", 0), ("heuristic, feedback=scripted:good epsilon=0.1", 1),
    ]  # fmt: skip
