"""One budget before chat models: it is asked before each attempt and paid after it, over models, threads and kills."""

import copy
import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import gymnasium as gym
import pytest

from agent_envs import BudgetSpent, EnvFault, UsageError, spec_json
from agent_envs.evaluation.runs.evaluate import evaluate, resume
from agent_envs.evaluation.runs.run_folder import Settings
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.rollout.chat_policy import ChatPolicy
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.run_many import run_many
from agent_envs.services.chat import ChatReply, ChatRequest, OpenAIChat, ScriptedChat, ask, chat_port
from agent_envs.services.chat.prices import Price, cost_of
from agent_envs.services.chat.spending import Budget, Metered, RunBudgets, SpendingLimits, read_spent
from agent_envs.services.recording import CallSite
from agent_envs.wrappers import VerbalFeedback
from tests.servers import FaultServer
from tests.services.chat.wire import OpenAIWire, Said
from tests.wrappers.advised import ID
from tests.wrappers.test_feedback import Says

ASKED = ChatRequest(({"role": "user", "content": "?"},))
DEAR = Price(input=1_000.0, output=1_300.0)  # of the wire's 100 tokens in and 20 out: 12.6 cents a call
CALL_USD = 0.126
PRICES = json.dumps(
    {"schema": "agent-envs/prices@1", "date": "2026-01-01", "source": "a test", "models": {"m": DEAR.model_dump()}}
)


class Billing(OpenAIWire):
    """Answers as `kinds` say, a word an answer, the last one for ever; each answer of status 200 is billed."""

    def __init__(self, *kinds):
        super().__init__(lambda body: Said("<answer>Riga</answer>"))
        self.kinds = kinds

    def answer(self, value, said):
        answer = super().answer(value, said)
        kind = self.kinds[min(len(self.bodies), len(self.kinds)) - 1]
        if kind == "empty":
            answer["choices"] = []
        if kind == "text":
            answer["usage"]["prompt_tokens"] = "900"
        if kind == "silent":
            del answer["usage"]
        return answer


def dollars(budget):
    return sum(cost_of(budget.prices[name], used) for name, used in budget.counts.items())


def priced(url, usd=0.50, **more):
    model = OpenAIChat("m", url)
    return model, Budget(SpendingLimits(usd=usd), {model.name: DEAR}, **more)


def test_each_attempt_is_paid_and_none_begins_beyond_the_limit():
    """Five attempts inside two calls came to 1.26 dollars where the limit was asked before a call."""
    with FaultServer(Billing("empty"), {}) as server:
        model, budget = priced(server.url)
        port = chat_port(model, wait=lambda seconds: None).charged(budget)
        with pytest.raises(BudgetSpent, match=r"0\.5040 of 0\.5000 USD are spent") as end:
            ask(port, ASKED, CallSite("k"))
        assert len(server.requests) == 4 and dollars(budget) == pytest.approx(4 * CALL_USD)
        assert (end.value.usage["input"], end.value.usage["output"]) == (400, 80)
        with pytest.raises(BudgetSpent):
            ask(port, ASKED, CallSite("k2"))
        assert len(server.requests) == 4


def test_an_evaluation_pays_for_attempts_and_tells_them_of_the_episode(tmp_path):
    wire = Billing("good", "empty")
    with FaultServer(wire, {}) as server:
        name = f"openai:m@{server.url}"
        path = tmp_path / "prices.json"
        path.write_text(PRICES)
        suite = adhoc_suite(Choice("SearchQA", limit=3))
        policy = ChatPolicy(OpenAIChat("m", server.url), name=name, wait=lambda seconds: None)
        settings = Settings(name, max_cost_usd=0.50, prices=str(path))
        found = evaluate(suite, settings, policy=policy, folder=tmp_path / "run")
        assert not found.complete and len(wire.bodies) == 4
        assert found.summaries[0].outcomes == {"wrong answer": 1, "budget": 1, "missing": 1}
        assert found.summaries[0].cost_usd == pytest.approx(4 * CALL_USD)
        again = evaluate(suite, settings, policy=policy, folder=tmp_path / "run")
        assert again.summaries[0].outcomes == {"wrong answer": 1, "budget": 1, "missing": 1} and len(wire.bodies) == 4


@pytest.mark.parametrize("kind", ["text", "silent"])
def test_a_reply_that_does_not_count_in_whole_numbers_is_refused_under_a_limit_alone(kind):
    with FaultServer(Billing(kind), {}) as server:
        model, budget = priced(server.url)
        with pytest.raises(
            UsageError, match=r"m@.*: a reply counts no tokens, or not all in whole numbers, .*uncounted"
        ):
            Metered(model, budget).complete(ASKED)
        free = Budget(prices=budget.prices)
        assert Metered(model, free).complete(ASKED).text == "<answer>Riga</answer>"
        assert free.counts[model.name]["uncounted"] == free.counts[model.name]["calls"] == 1


@pytest.mark.parametrize(
    "usage", [{"input": "900"}, {"input": 9, "output": -1}, {"input": 9, "output": True}, {"calls": 1}, {}]
)
def test_models_of_somebody_else_count_in_whole_numbers_too(usage):
    model = ScriptedChat(lambda request: ChatReply("x", usage=usage), "own")
    with pytest.raises(UsageError, match="own: a reply counts no tokens"):
        Metered(model, Budget(SpendingLimits(usd=1.0))).complete(ASKED)


def test_a_failed_attempt_that_counts_in_text_is_refused_and_one_that_counts_nothing_is_not():
    class Both(Billing):
        def answer(self, value, said):
            return {**super().answer(value, said), "choices": []}

    with FaultServer(Both("text"), {}) as server:
        with pytest.raises(UsageError, match="not all in whole numbers"):
            Metered(*priced(server.url)).complete(ASKED)
    with FaultServer(Both("silent"), {}) as server:
        model, budget = priced(server.url)
        with pytest.raises(EnvFault):
            Metered(model, budget).complete(ASKED)
        assert budget.counts[model.name]["calls"] == 1 and dollars(budget) == 0


def test_two_budgets_of_one_model_count_apart():
    model = ScriptedChat(lambda request: "x", "m")
    one, other = (Metered(model, Budget(SpendingLimits(calls=1))) for _ in range(2))
    assert one.complete(ASKED).text == other.complete(ASKED).text == "x"
    for metered in (one, other):
        with pytest.raises(BudgetSpent, match="m: all 1 calls of max_calls are made"):
            metered.complete(ASKED)


def test_a_limit_on_calls_is_exact_over_threads():
    budget, made = Budget(SpendingLimits(calls=100)), []
    model = Metered(ScriptedChat(lambda request: made.append(1) or "x", "m"), budget)

    def play(_):
        try:
            return model.complete(ASKED).text
        except BudgetSpent:
            return "spent"

    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(play, range(400)))
    assert (outcomes.count("x"), outcomes.count("spent"), len(made), budget.counts["m"]["calls"]) == (
        100,
        300,
        100,
        100,
    )


@pytest.mark.parametrize("concurrency", [1, 6])
def test_environments_of_a_run_share_the_limit_that_their_spec_names(concurrency):
    """Each worker thread makes an environment of its own from the spec; a second run counts from nothing."""
    with FaultServer(OpenAIWire(lambda body: Said("Look.")), {}) as server:
        env = VerbalFeedback(gym.make(ID), feedback=f"openai:m@{server.url}", max_calls=7)
        plan = [Planned(f"k{number}", spec_json(env), 0, "train", number) for number in range(12)]
        for runs in (1, 2):
            statuses = [result.status for _, result in run_many(plan, Says(), concurrency=concurrency)]
            assert "budget" in statuses and len(server.requests) == 7 * runs


def test_a_total_of_the_run_holds_beside_the_limits_of_environments():
    made = []
    model = ScriptedChat(lambda request: made.append(1) or "x", "m")
    total = Budget(SpendingLimits(calls=3))
    charged = RunBudgets({"m": total})
    one, other = (charged(model, Budget(SpendingLimits(calls=2))) for _ in range(2))
    free = charged(model, Budget())
    one.complete(ASKED)
    other.complete(ASKED)
    with pytest.raises(BudgetSpent, match="all 2 calls"):
        one.complete(ASKED)
    free.complete(ASKED)  # what the other refused was no call of the total's
    with pytest.raises(BudgetSpent, match="all 3 calls"):
        free.complete(ASKED)
    assert len(made) == total.counts["m"]["calls"] == 3


def test_a_metered_model_can_be_copied_and_pays_from_the_same_budget():
    metered = Metered(ScriptedChat(lambda request: "x", "m"), Budget(SpendingLimits(calls=1)))
    copy.copy(metered).complete(ASKED)
    with pytest.raises(BudgetSpent):
        copy.deepcopy(metered).complete(ASKED)


def test_a_file_keeps_what_is_spent_as_it_is_paid(tmp_path):
    path = tmp_path / "run" / "spent.json"
    model = ScriptedChat(lambda request: ChatReply("x", usage={"input": 100, "output": 20, "calls": 1}), "m")
    Metered(model, Budget(ledger=path)).complete(ASKED)
    assert read_spent(path) == {"m": {"calls": 1, "input": 100, "output": 20}}
    budget = Budget(
        SpendingLimits(usd=0.2), {"m": DEAR}, ledger=path, before={"m": {"input": 120, "output": 3}, "n": {"input": 1}}
    )
    assert budget.counts == {"m": {"calls": 1, "input": 120, "output": 20}, "n": {"input": 1}}
    Metered(model, budget).complete(ASKED)
    assert Budget(ledger=path).counts == budget.counts
    with pytest.raises(BudgetSpent):
        Metered(model, Budget(SpendingLimits(usd=0.2), {"m": DEAR}, ledger=path)).complete(ASKED)


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "x"}', '{"schema": "agent-envs/spent@1", "counts": {"m": 3}}'])
def test_a_file_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "spent.json").write_text(text)
    with pytest.raises(UsageError, match=r"spent\.json does not say what was spent"):
        Budget(ledger=tmp_path / "spent.json")


def test_what_an_evaluation_spent_before_a_kill_counts_after(tmp_path):
    """Killed in the middle of episodes that no journal has yet; the limit is that of seven calls."""
    wire, asked, killed = Billing("good"), threading.Event(), threading.Event()
    wire.script = lambda body: Said("<search>Riga</search>")

    def handler(path, headers, body):
        if len(wire.bodies) == 4 and not killed.is_set():
            asked.set()
            killed.wait(120)
            return wire.reply(500, {})  # to nobody, and however late: no call that counts here
        return wire(path, headers, body)

    with FaultServer(handler, {}) as server:
        prices = tmp_path / "prices.json"
        prices.write_text(PRICES)
        run = tmp_path / "run"
        command = [
            sys.executable, "-m", "agent_envs", "eval", "SearchQA", "--agent", f"openai:m@{server.url}", "-n", "3",
            "--max-cost", str(6.5 * CALL_USD), "--prices", str(prices), "--out", str(run),
        ]  # fmt: skip
        playing = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert asked.wait(60)
        os.kill(playing.pid, signal.SIGKILL)
        playing.wait()
        killed.set()
        counts = read_spent(run / "spent.json")[f"openai:m@{server.url}/v1"]
        assert counts["calls"] == 5 and counts["input"] == 400
        answered = len(wire.bodies)
        found = resume(run)
        assert not found.complete and len(wire.bodies) - answered == 3  # four before, three after
