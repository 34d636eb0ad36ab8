"""The cost of a run is computed from token usage, and the run stops when its spending limit is reached."""

import json
import threading

import pytest

from agent_envs import BudgetSpent, EnvFault, Reply, UsageError
from agent_envs.evaluation.runs.evaluate import BudgetedPolicy, evaluate, result_of_run, resume
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.policy import CompanionPolicy, PolicyTraits
from agent_envs.services.chat.prices import Price, PriceTable, cost_of, load_prices
from agent_envs.services.chat.spending import Budget, SpendingLimits
from benchmarks.agents import Instant


def test_costs_by_hand():
    price = Price(input=2.0, output=8.0, cached=0.5, cache_write=2.5)
    usage = {
        "input": 1_000_000,
        "output": 500_000,
        "cached": 400_000,
        "cache_write": 100_000,
        "reasoning": 7,
        "calls": 1,
    }
    assert cost_of(price, usage) == pytest.approx(0.5 * 2 + 0.5 * 8 + 0.4 * 0.5 + 0.1 * 2.5)
    assert cost_of(Price(input=2.0, output=8.0), usage) == pytest.approx(2 + 4)
    assert cost_of(price, {}) == 0


def test_the_shipped_table():
    table = load_prices()
    assert len(table.date) == 10 and "--prices" in table.source
    assert table.price("openai:gpt-4.1@https://api.openai.com/v1") == table.models["gpt-4.1"]
    assert table.price("anthropic:claude-sonnet-4-5-20250929") == table.models["claude-sonnet-4-5"]
    assert table.price("openai:gpt-4.1-2025-04-14") == table.models["gpt-4.1"]
    for agent in ("random", "openai:llama@http://localhost:8000", "mine:Agent", ""):
        assert table.price(agent) is None
    for price in table.models.values():
        assert 0 < price.input < price.output and (price.cached is None or price.cached < price.input)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"schema": "agent-envs/prices@1", "date": "2026", "source": "", "models": {}}']
)
def test_a_file_that_is_no_table(text, tmp_path):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(UsageError, match="no table of prices"):
        load_prices(tmp_path / "p.json")
    with pytest.raises(UsageError, match="no such file"):
        load_prices(str(tmp_path / "q.json"))


def test_a_budget_is_shared_by_threads():
    budget = Budget(SpendingLimits(usd=1.0), {"m": Price(input=1.0, output=0.0)})
    threads = [threading.Thread(target=lambda: [budget.pay("m", {"input": 10}) for _ in range(1000)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.counts == {"m": {"input": 80_000}}
    budget.begin("m")
    budget.pay("m", {"input": 1_000_000})
    with pytest.raises(BudgetSpent, match=r"m: 1\.0800 of 1\.0000 USD are spent"):
        budget.begin("m")


def test_a_limited_agent_is_the_agent():
    limited = BudgetedPolicy(CompanionPolicy("solver"), Budget(SpendingLimits(usd=1.0)))
    assert (limited.name, limited.batch, limited.traits) == ("solver", 1, PolicyTraits(needs_env=True, privileged=True))


def table(tmp_path, agent="instant"):
    row = PriceTable(date="2026-01-01", source="a test", format="agent-envs/prices@1",
                     models={agent: Price(input=100.0, output=1000.0)})  # fmt: skip
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(row.model_dump(mode="json")))
    return path


def test_a_run_stops_at_its_limit_and_says_what_was_not_played(tmp_path):
    """100 tokens in and 10 out a turn: 2 cents; 4 turns an episode: 8 cents."""
    suite = adhoc_suite(Choice("SearchQA", limit=10))
    settings = Settings("instant", max_cost_usd=0.30, prices=str(table(tmp_path)))
    found = evaluate(suite, settings, policy=Instant(), folder=tmp_path / "run")
    (summary,) = found.summaries
    assert not found.complete and summary.outcomes == {"budget": 1, "missing": 6, "wrong answer": 3}
    assert summary.episodes == 10 and summary.unplayed == 7 and summary.success.trials == 10
    assert summary.cost_usd == pytest.approx(0.30)  # 3 whole episodes and 3 turns of the fourth
    assert any("7 of 10 planned episodes were not played" in line for line in summary.warnings())
    again = evaluate(suite, settings, policy=Instant(), folder=tmp_path / "run")
    assert again.summaries[0].outcomes == {"budget": 1, "missing": 6, "wrong answer": 3}  # nothing is left to spend
    more = Settings("instant", max_cost_usd=2.0, prices=settings.prices)
    whole = evaluate(suite, more, policy=Instant(), folder=tmp_path / "run")
    assert whole.complete and whole.summaries[0].outcomes == {"wrong answer": 10}
    assert whole.summaries[0].cost_usd == pytest.approx(0.86)  # with the three turns that were cut short
    report, _ = result_of_run(open_run(tmp_path / "run"))
    assert report.summaries[0].cost_usd == pytest.approx(0.86)


def test_a_limit_without_a_price_is_refused(tmp_path):
    suite = adhoc_suite(Choice("SearchQA", limit=1))
    with pytest.raises(UsageError, match="no price is known for agent 'instant'"):
        evaluate(suite, Settings("instant", max_cost_usd=1.0), policy=Instant())
    with pytest.raises(UsageError, match="give US dollars > 0"):
        evaluate(suite, Settings("instant", max_cost_usd=0.0, prices=str(table(tmp_path))), policy=Instant())


def test_a_cost_that_is_not_known_is_not_zero(tmp_path):
    suite = adhoc_suite(Choice("SearchQA", limit=2))
    found = evaluate(suite, Settings("instant"), policy=Instant(), folder=tmp_path / "r")
    assert found.summaries[0].cost_usd is None and found.summaries[0].usage == {"input": 800, "output": 80}

    class Free(Instant):
        def act(self, requests):
            return [Reply("")]

    assert evaluate(suite, Settings("free"), policy=Free()).summaries[0].cost_usd == 0.0

    class Silent(Instant):
        """Its service says of no reply how many tokens it took."""

        def act(self, requests):
            return [Reply("", usage={"calls": 1, "uncounted": 1})]

    priced = Settings("instant", prices=str(table(tmp_path)))
    assert evaluate(suite, priced, policy=Silent()).summaries[0].cost_usd is None
    with pytest.raises(UsageError, match="agent 'instant'"):
        resume(tmp_path / "r")  # the name alone does not make this agent again


def test_a_price_stays_with_its_run(tmp_path):
    suite = adhoc_suite(Choice("SearchQA", limit=2))
    path = table(tmp_path, "benchmarks.agents:Instant")
    settings = Settings("benchmarks.agents:Instant", prices=str(path))
    found = evaluate(suite, settings, folder=tmp_path / "r")
    assert found.summaries[0].cost_usd == pytest.approx(0.16)
    path.unlink()
    assert resume(tmp_path / "r").summaries[0].cost_usd == pytest.approx(0.16)


def test_replies_that_count_nothing_cannot_be_limited(tmp_path):
    class Silent(Instant):
        def act(self, requests):
            return [Reply("", usage={"calls": 1})]

    suite = adhoc_suite(Choice("SearchQA", limit=2))
    with pytest.raises(UsageError, match="instant: a reply counts no tokens"):
        evaluate(suite, Settings("instant", max_cost_usd=1.0, prices=str(table(tmp_path))), policy=Silent())


def test_what_a_fault_cost_is_paid(tmp_path):
    class Broken(Instant):
        def act(self, requests):
            fault = EnvFault("an answer of no use")
            fault.usage = {"input": 100, "output": 10}
            raise fault

    suite = adhoc_suite(Choice("SearchQA", limit=1))
    settings = Settings("instant", max_cost_usd=1.0, prices=str(table(tmp_path)))
    found = evaluate(suite, settings, policy=Broken(), folder=tmp_path / "r")
    assert found.summaries[0].faults == 1 and found.summaries[0].cost_usd == pytest.approx(3 * 0.02)
