"""Feedback that is paid for: a limit stops a run at a clear point, and nothing is paid for twice."""

import json
import sys

import pytest

from agent_envs.base.errors import BudgetSpent, UsageError
from agent_envs.services.chat.model import ChatReply, ChatRequest, ScriptedChat
from agent_envs.services.chat.spending import Budget, SpendingLimits
from tests.examples import sample
from tests.servers import FaultServer
from tests.services.chat.wire import OpenAIWire, Said
from tests.trainers.earl_parts.expanded.players import player_for
from tests.trainers.forked import two_ranks
from tests.trainers.players import player
from trainers import veg
from trainers.command_line import parse, read_settings
from trainers.costs import Costs
from trainers.environments import environment_spec
from trainers.grpo import train
from trainers.run import open_run
from trainers.sampling import plan_groups, play_groups
from trainers.training.metrics import read_metrics
from trainers.veg import VEGSettings

ORDER = {"size": 2, "max_generations": 3}
SMALL = [
    "--env.id", "Order", "--env.arguments", json.dumps(ORDER), "--model.name", "tiny:tiny", "--epsilon", "0.5",
    "--model.tokenizer-plays", "64", "--log.no-curves",
    "--sampling.max-new-tokens", "8", "--sampling.batch", "16", "--sampling.eval-temperature", "1", "--steps", "3",
    "--tasks-per-step", "2", "--group-size", "4", "--optim.learning-rate", "0.0005", "--evaluation.every", "2",
    "--evaluation.tasks", "4", "--evaluation.test-tasks", "4",
]  # fmt: skip
PRICES = {"schema": "agent-envs/prices@1", "date": "2026-06-30", "source": "mine",
          "models": {"paid": {"input": 10.0, "output": 100.0}}}  # fmt: skip
TIMED = ("step_time", "cpu_seconds")


@pytest.fixture(scope="module")
def server():
    """A model whose advice depends on the conversation, so that an answer in a wrong place would show."""
    wire = OpenAIWire(lambda body: Said(f"Think of {len(json.dumps(body['messages'])) % 7} first."))
    with FaultServer(wire, {}) as running:
        running.wire = wire
        yield running


def run(*words):
    settings, out = parse(VEGSettings, list(words), program="veg")
    with open_run(settings.with_feedback(), out, settings.spending()) as opened:
        return train(settings, opened, veg.results)


def begun(server, out, *words):
    return run(*SMALL, "--feedback", f"openai:paid@{server.url}", "--out", str(out), *words)


def curve(out):
    rows = read_metrics(out / "metrics.jsonl")
    return [{name: value for name, value in row.items() if not name.startswith(TIMED)} for row in rows]


def untimed(result):
    return {name: value for name, value in result.items() if name != "cpu_seconds"}


@pytest.fixture(scope="module")
def whole(server, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    prices = out.with_name("prices.json")
    prices.write_text(json.dumps(PRICES))
    before = len(server.requests)
    result = begun(server, out, "--prices", str(prices))
    return out, result, len(server.requests) - before, prices


def test_a_result_and_its_curve_tell_dollars(whole, server):
    out, result, asked, _ = whole
    (paid,) = result["paid"].values()
    assert paid["calls"] == asked > 60 and list(result["paid"]) == [f"openai:paid@{server.url}/v1"]
    assert paid["usd"] == pytest.approx((10 * paid["input"] + 100 * paid["output"]) / 1e6) and paid["input"] > 0
    rows = read_metrics(out / "metrics.jsonl")
    assert 0 < rows[0]["feedback_usd"] < rows[1]["feedback_usd"] < rows[2]["feedback_usd"] < paid["usd"]
    assert rows[0]["feedback_calls"] < rows[2]["feedback_calls"] < asked


@pytest.mark.parametrize("first", sample([10, 33], 1))
def test_a_run_stopped_again_and_again_ends_as_one_that_was_not(whole, server, tmp_path, first):
    """In the tests before and after, in steps and in evaluations: each call is paid for once, and the curve is the same."""
    out, result, asked, prices = whole
    place, limit, before = tmp_path / "cut", first, len(server.requests)
    words = [*SMALL, "--feedback", f"openai:paid@{server.url}", "--prices", str(prices), "--out", str(place)]
    steps = []
    while limit < asked:
        with pytest.raises(BudgetSpent, match=rf"(all {limit} calls|is reached).* in all {limit} calls .*--resume"):
            run(*words, "--max-calls", str(limit))
        assert len(server.requests) - before == limit
        saved = [int(path.name[5:]) for path in (place / "checkpoints").glob("step-*")]
        steps.append(max(saved, default=-1))
        words, limit = ["--resume", str(place)], limit + 23
    found = run(*words, "--max-calls", "0")
    assert len(server.requests) - before == asked
    assert {-1, 0, 1, 2, 3} >= set(steps) and len(set(steps)) >= 3 and steps == sorted(steps)
    assert untimed(found) == untimed(result) and curve(place) == curve(out)


def test_a_limit_holds_over_resumes_in_dollars(whole, server, tmp_path):
    _, result, asked, prices = whole
    (paid,) = result["paid"].values()
    most, before = paid["usd"] / 2, len(server.requests)
    words = [*SMALL, "--feedback", f"openai:paid@{server.url}", "--prices", str(prices), "--out", str(tmp_path / "cut")]
    with pytest.raises(BudgetSpent, match="USD are spent|is reached"):
        run(*words, "--max-cost", str(most))
    first = len(server.requests) - before
    assert asked * 0.4 < first < asked * 0.8
    with pytest.raises(BudgetSpent, match="USD are spent|is reached"):
        run("--resume", str(tmp_path / "cut"))
    assert len(server.requests) - before == first
    assert read_settings(VEGSettings, tmp_path / "cut").max_cost == most
    run("--resume", str(tmp_path / "cut"), "--max-cost", str(2 * paid["usd"]))
    assert len(server.requests) - before == asked
    assert read_settings(VEGSettings, tmp_path / "cut").max_cost == 2 * paid["usd"]


def test_a_killed_run_finds_what_it_was_answered_since_its_checkpoint(whole, server, tmp_path):
    out, result, asked, prices = whole
    words = [*SMALL, "--feedback", f"openai:paid@{server.url}", "--prices", str(prices), "--out", str(tmp_path / "cut")]
    settings, place = parse(VEGSettings, words, program="veg")
    before = len(server.requests)
    with pytest.raises(KeyboardInterrupt), open_run(settings.with_feedback(), place, settings.spending()) as opened:
        end_step = opened.end_step

        def interrupted(stats, groups=()):
            if opened.step == 2:
                raise KeyboardInterrupt
            end_step(stats, groups)

        opened.end_step = interrupted
        train(settings, opened)
    assert not (place / "checkpoints" / "step-00000002").exists()
    assert sorted(path.name for path in (place / "answers" / "0").iterdir()) == [f"{n:08d}.jsonl" for n in (0, 1, 2)]
    found = run("--resume", str(place))
    assert len(server.requests) - before == asked
    assert untimed(found) == untimed(result) and curve(place)[-1] == curve(out)[-1]
    assert curve(place)[0] == curve(out)[0] | {
        name: curve(place)[0][name] for name in ("feedback_calls", "feedback_usd")
    }
    assert (
        curve(place)[0]["feedback_calls"] > curve(out)[0]["feedback_calls"]
    )  # all that was spent, also what comes next
    assert [path.name for path in (place / "answers" / "0").iterdir()] == ["00000003.jsonl"]  # of no use any more


def test_the_command_line_ends_in_one_line(server, tmp_path, monkeypatch, capsys):
    words = ["--feedback", f"openai:m@{server.url}", "--max-calls", "40", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["veg", *SMALL, *words])
    with pytest.raises(SystemExit) as end:
        veg.main()
    (told,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("veg: stopped")]
    assert end.value.code == 2 and "no price known" in told and f"--resume {tmp_path / 'run'}" in told


@pytest.mark.heavy
def test_all_processes_stop_where_one_may_ask_no_more(server, tmp_path):
    place, url = tmp_path / "two", server.url
    words = [*SMALL, "--feedback", f"openai:two@{url}", "--out", place]
    assert two_ranks("trainers.veg", *words, "--max-calls", 30) == [2, 2]
    assert two_ranks("trainers.veg", "--resume", place, "--max-calls", 0) == [0, 0]
    (paid,) = json.loads((place / "result.json").read_text())["paid"].values()
    assert paid["calls"] == sum(b"two" in body[3][:200] for body in server.requests) > 60


@pytest.mark.parametrize("most", [1, 5, 20, 30])
def test_a_step_with_episodes_missing_is_not_learnt_from(server, most):
    policy, *_ = player("Order", ORDER)
    feedback = [("VerbalFeedback", {"feedback": f"openai:text{most}@{server.url}", "max_calls": most})]
    plan = plan_groups(environment_spec("Order", ORDER, feedback), "train", [0, 1, 2, 3], 4, "k")
    with pytest.raises(BudgetSpent, match="max_calls|is reached"):
        play_groups(plan, policy)


def test_expanded_actions_stop_as_well_and_find_their_answers(server, tmp_path):
    policy, *_ = player_for("OrderExpA")
    name = f"openai:expanded@{server.url}"

    def plan(most):
        spec = environment_spec("OrderExpA", {}, [("VerbalFeedback", {"feedback": name, "max_calls": most})])
        return plan_groups(spec, "train", [0, 1], 4, "k")

    costs = Costs({f"{name}/v1": None}, SpendingLimits(calls=5))
    costs.begin(tmp_path)
    policy.services = costs.services(0)
    with pytest.raises(BudgetSpent, match="all 5 calls"):
        play_groups(plan(5), policy)
    costs.close()
    costs = Costs({f"{name}/v1": None})
    costs.begin(tmp_path)
    policy.services = costs.services(0)
    before = len(server.requests)
    first = play_groups(plan(0), policy)
    paid = len(server.requests) - before
    again = play_groups(plan(0), policy)
    assert paid > 0 and len(server.requests) - before == paid
    assert costs.counts[f"{name}/v1"]["calls"] == 5 + paid
    assert [group.sequences for group in again] == [group.sequences for group in first]
    costs.close()


def test_lanes_pay_from_one_budget_without_any_costs(server):
    """As in a run of another algorithm whose environments have the wrapper: each lane has an environment of its own."""
    policy, *_ = player_for("OrderExpA")
    wrapper = ("VerbalFeedback", {"feedback": f"openai:lanes@{server.url}", "max_calls": 5})
    before = len(server.requests)
    with pytest.raises(BudgetSpent, match="all 5 calls"):
        play_groups(plan_groups(environment_spec("OrderExpA", {}, [wrapper]), "train", [0, 1], 4, "k"), policy)
    assert len(server.requests) - before == 5


def test_what_was_spent_is_kept_as_it_is_paid_and_goes_on_in_fewer_processes(tmp_path):
    def ask(costs, times):
        model = ScriptedChat(lambda request: ChatReply("Go.", usage={"input": 7, "calls": 1}), "openai:m")
        paying = costs.services(0).charged(model, Budget())
        try:
            for _ in range(times):
                paying.complete(ChatRequest(()))
        finally:
            costs.close()

    for process, times in ((0, 2), (1, 3), (2, 4)):
        costs = Costs({"openai:m": None})
        costs.begin(tmp_path, process, 3)
        ask(costs, times)
    two = [Costs({"openai:m": None}) for _ in range(2)]
    for process, costs in enumerate(two):
        costs.begin(tmp_path, process, 2)
    assert [costs.counts for costs in two] == [
        {"openai:m": {"calls": 6, "input": 42}},
        {"openai:m": {"calls": 3, "input": 21}},
    ]
    assert len(list((tmp_path / "spent").iterdir())) == 2
    one = Costs({"openai:m": None}, SpendingLimits(calls=10))
    one.begin(tmp_path)
    assert one.counts == {"openai:m": {"calls": 9, "input": 63}}
    with pytest.raises(BudgetSpent, match="all 10 calls"):
        ask(one, 2)
    one.services(4)
    one.services(5)
    one.forget(5)
    assert [path.name for path in (tmp_path / "answers" / "0").iterdir()] == ["00000005.jsonl"]
    one.close()


def test_nobody_is_paid_for_a_script(tmp_path):
    costs = VEGSettings().spending()
    costs.begin(tmp_path)
    assert costs.services(0).recording is None and costs.counts == {} and not list(tmp_path.iterdir())


def test_a_table_of_prices_that_is_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no such file"):
        VEGSettings(feedback="openai:m@http://localhost:1", prices=str(tmp_path / "none.json")).spending()
