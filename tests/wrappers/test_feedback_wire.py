"""Feedback over Anthropic's real wire format: caching, 429 and 529, limits, concurrency, and replays without a key."""

from tests.needs import require

require("[anthropic]")

import json
import threading

import gymnasium as gym
import pytest

from agent_envs import EnvFault, UsageError, replay, run_episode, spec_json
from agent_envs.rollout.episode_runner import Planned
from agent_envs.rollout.run_many import RunLog, run_many
from agent_envs.services.chat import AnthropicChat, OpenAIChat
from agent_envs.services.chat.prices import cost_of, load_prices
from agent_envs.services.recording import Recording, read_answers
from agent_envs.services.run_services import Services
from agent_envs.wrappers import VerbalFeedback
from agent_envs.wrappers.feedback_models import ChatFeedback, feedback_usage
from agent_envs.wrappers.feedback_prompts import read_templates
from tests.servers import FaultServer
from tests.services.chat.wire import AnthropicWire, OpenAIWire, Said
from tests.wrappers.advised import COMPARE, ID
from tests.wrappers.test_feedback import Says

MODEL = "anthropic:claude-sonnet-4-20250514"


class CachingWire(AnthropicWire):
    """Counts tokens as characters over four, and reads a marked prefix from its cache the second time."""

    def __init__(self, key=""):
        super().__init__(lambda body: Said("Look closer. Then decide."), key)
        self._cache = set()

    def answer(self, value, said):
        answer = super().answer(value, said)
        prefix = json.dumps(value["system"])
        assert value["system"][-1]["cache_control"] == {"type": "ephemeral"}
        known = prefix in self._cache
        self._cache.add(prefix)
        size = len(value["system"][0]["text"]) // 4
        answer["usage"] |= {
            "input_tokens": len(json.dumps(value["messages"])) // 4,
            "output_tokens": 40,
            "cache_read_input_tokens": size if known else 0,
            "cache_creation_input_tokens": 0 if known else size,
        }
        return answer


def plan(url, count, turns=3, **arguments):
    env = VerbalFeedback(gym.make(ID, turns=turns), feedback=f"{MODEL}@{url}", **arguments)
    return [Planned(f"k{number}", spec_json(env), 0, "train", 0, number) for number in range(count)]


def test_what_is_sent_and_what_the_cache_saves(serve, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    wire = CachingWire(key="sk-test")
    env = VerbalFeedback(gym.make(ID, turns=6), feedback=f"{MODEL}@{serve(wire)}", epsilon=0.0)
    found = run_episode(env, Says(), seed=0)
    assert [m.content for m in found.trajectory.prompt][-1] == "Feedback: Look closer. Then decide."
    body, headers = wire.bodies[1], wire.headers[1]
    assert set(body) == {"model", "max_tokens", "messages", "system"} and body["max_tokens"] == 1024
    assert headers["x-api-key"] == "sk-test" and headers["anthropic-version"] == "2026-10-21"
    assert [block["type"] for block in body["system"]] == ["text"] and "INSTRUCTIONS" in body["system"][0]["text"]
    (message,) = body["messages"]
    assert message["role"] == "user" and '"from":"tool"' in message["content"][0]["text"]
    used = feedback_usage(found.usage)
    prefix = len(wire.bodies[0]["system"][0]["text"]) // 4
    assert (used["calls"], used["output"], used["cache_write"], used["cached"]) == (6, 240, prefix, 5 * prefix)
    price = load_prices().price(MODEL)
    full = {"input": used["input"], "output": used["output"]}
    saved = cost_of(price, full) - cost_of(price, used)
    assert saved == pytest.approx((5 * 0.9 - 0.25) * prefix * 3e-6)


def test_a_full_service_is_asked_again_after_the_time_that_it_named():
    wire = CachingWire()
    with FaultServer(wire, {0: "rate_limit", 1: "overloaded"}, retry_after="7") as server:
        waits = []
        env = VerbalFeedback(gym.make(ID), feedback=AnthropicChat("claude-sonnet-4", url=server.url))
        env.model = ChatFeedback(env.model._model, read_templates(""), wait=waits.append)
        observation, _ = env.reset(seed=0)
        assert "Feedback: Look closer." in observation and len(server.requests) == 3
        assert 7 <= waits[0] <= 8 and 0 <= waits[1] <= 9 and env.usage["feedback_calls"] == 1


def test_a_service_that_stays_full_is_a_fault_and_no_silence():
    with FaultServer(CachingWire(), lambda number: "rate_limit") as server:
        env = VerbalFeedback(gym.make(ID), feedback=AnthropicChat("m", url=server.url))
        env.model = ChatFeedback(env.model._model, read_templates(""), wait=lambda seconds: None)
        with pytest.raises(EnvFault, match=r"answered 429.*attempt 5 of 5") as caught:
            env.reset(seed=0)
        assert caught.value.retryable and len(server.requests) == 5


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (AnthropicChat, {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}}),
        (OpenAIChat, {"type": "insufficient_quota", "code": "insufficient_quota", "details": {}}),
        (AnthropicChat, {"type": "rate_limit_error", "message": "x"}),
    ],
)
def test_an_account_whose_money_is_spent_is_not_asked_again(serve, make, error):
    asked = []

    def answer(path, headers, body):
        asked.append(body)
        return 429, {"retry-after": "0"}, json.dumps({"type": "error", "error": error}).encode()

    env = VerbalFeedback(gym.make(ID), feedback=make("m", url=serve(answer)))
    env.model = ChatFeedback(env.model._model, read_templates(""), wait=lambda seconds: None)
    with pytest.raises(EnvFault) as caught:
        env.reset(seed=0)
    lasting = "details" in error
    assert (caught.value.retryable, len(asked)) == (not lasting, 1 if lasting else 5)


def test_a_run_stops_at_its_limit_and_goes_on_from_what_it_has(serve, tmp_path):
    """Never a silent absence of feedback: an episode that could be given none is not played."""
    url = serve(wire := CachingWire())
    with Recording(tmp_path / "r.jsonl", "record") as recording:
        log = RunLog(tmp_path / "j.jsonl", recording=recording)
        found = {item.key: result for item, result in run_many(plan(url, 3, max_calls=4), Says(), journal=log)}
    assert {key: result.status for key, result in found.items()} == {"k0": "truncated", "k1": "budget"}
    assert "all 4 calls of max_calls are made" in found["k1"].fault and found["k1"].usage["feedback_calls"] == 1
    with Recording(tmp_path / "r.jsonl", "record") as recording:
        log = RunLog(tmp_path / "more.jsonl", recording=recording)
        found = [result for _, result in run_many(plan(url, 3), Says(), journal=log)]
    assert [result.status for result in found] == ["truncated"] * 3
    assert {result.usage["feedback_calls"] for result in found} == {3}
    assert len(wire.bodies) == 9 and len(list(read_answers(tmp_path / "r.jsonl"))) == 9


def test_a_limit_in_dollars_with_the_prices_of_the_package(serve):
    """About 600 tokens in and 40 out a call of Sonnet 4: between a tenth of a cent and a cent."""
    url = serve(wire := CachingWire())
    env = VerbalFeedback(gym.make(ID, turns=9), feedback=f"{MODEL}@{url}", max_cost=0.01)
    ((_, result),) = run_many([Planned("k", spec_json(env), 0, "train", 0)], Says())
    spent = cost_of(load_prices().price(MODEL), feedback_usage(result.usage))
    assert result.status == "budget" and 0.01 <= spent < 0.015 and len(wire.bodies) < 9
    assert "of 0.0100 USD are spent" in result.fault


def test_many_episodes_wait_for_feedback_at_once():
    """The server answers no one before eight have asked: what hides its latency is that they ask together."""
    together, wire = threading.Barrier(8), CachingWire()

    def slow(path, headers, body):
        together.wait(timeout=60)
        return wire(path, headers, body)

    with FaultServer(slow) as server:
        found = list(run_many(plan(server.url, 16, turns=2), Says(), concurrency=8))
    assert len(found) == 16 and {result.status for _, result in found} == {"truncated"}
    assert len(server.requests) == 32


def test_a_recorded_run_replays_without_a_key_or_a_server(tmp_path, monkeypatch):
    monkeypatch.setenv("VEG_KEY", "sk-secret-123")
    path, arguments = tmp_path / "r.jsonl", {"options": {"api_key_env": "VEG_KEY"}, "epsilon": 0.5}
    with FaultServer(CachingWire(key="sk-secret-123")) as server:
        work = plan(server.url, 4, turns=4, **arguments)
        with Recording(path, "record") as recording:
            log = RunLog(tmp_path / "j.jsonl", recording=recording)
            found = {item.key: result for item, result in run_many(work, Says(), concurrency=2, journal=log)}
        asked = len(server.requests)
    assert asked == 16 and "sk-secret" not in path.read_text() and "sk-secret" not in work[0].spec
    monkeypatch.delenv("VEG_KEY")
    env = VerbalFeedback(gym.make(ID, turns=4), feedback=f"{MODEL}@{server.url}", **arguments)
    with pytest.raises(UsageError, match="needs an API key: set the environment variable VEG_KEY"):
        env.reset(seed=0)
    env.unwrapped.services = Services(Recording(path, "replay"))
    for key, result in found.items():
        again = replay(env, result.trajectory)
        assert again.turns == result.trajectory.turns and again.prompt[-1].author == "feedback"
        assert env.usage["feedback_calls"] == 4 and again.header.episode_key == key


def test_another_providers_format_is_asked_with_plain_messages(serve):
    wire = OpenAIWire(lambda body: Said("<think>Long.</think>Try another source."))
    env = VerbalFeedback(gym.make(ID), feedback=f"openai:qwen@{serve(wire)}", options={"temperature": 0.7})
    observation, _ = env.reset(seed=0)
    assert observation.endswith("Feedback: Try another source.")
    (body,) = wire.bodies
    assert [message["role"] for message in body["messages"]] == ["system", "user"] and body["temperature"] == 0.7
    assert body["seed"] > 0 and '"temperature":0.7' in env.label
    env.step(COMPARE)
    assert wire.bodies[1]["seed"] != body["seed"]
