"""A server of OpenEnv's is read by its schema and played by its client; `checked` plays real servers and real tasksets."""

import random
from types import SimpleNamespace

import httpx
import pytest

from agent_envs import EnvFault, UsageError
from agent_envs.checker.third_party import check_third_party
from agent_envs.integrations import openenv
from agent_envs.integrations.third_party import third_party_env

URL = "http://127.0.0.1:9"
TEXT, NUMBER, META = {"type": "string"}, {"type": "integer", "minimum": 1, "maximum": 6}, {"type": "object"}


class Client:
    """OpenEnv's client of a server that pays for the number that a reply names, or that a field holds."""

    number = None
    sent: list = []
    away = False

    def reset(self, seed):
        if self.away:
            raise ConnectionError("nobody listens")
        self.number = random.Random(seed).randint(1, 6)
        return self.result({"text": f"It begins with {self.number}.", "metadata": {"now": random.random()}}, None)

    def step(self, fields):
        if self.number is None:
            raise RuntimeError("Server error: reset first")
        self.sent.append(fields)
        reward = float(fields.get("column") == self.number or fields.get("message") == f"It is {self.number}!")
        return self.result({"text": "Thanks.", "metadata": {"now": random.random()}}, reward)

    def result(self, observation, reward):
        return SimpleNamespace(observation=observation, reward=reward, done=reward is not None)

    def close(self):
        self.number = None


@pytest.fixture
def served(monkeypatch):
    def serve(fields, **schema):
        action = {"properties": {**fields, "metadata": META}, "required": list(fields), **schema}
        answer = httpx.Response(200, json={"action": action}, request=httpx.Request("GET", URL))
        monkeypatch.setattr(httpx, "get", lambda url, timeout: answer)

    monkeypatch.setattr(openenv, "client", lambda url: Client())
    monkeypatch.setattr(Client, "sent", [])
    return serve


def statuses(env):
    done = check_third_party(env, episodes=6, hostile=30)
    return {check.name: check.status for check in done.checks if check.status != "passed"}


def test_a_server_of_text_passes_every_part(served):
    served({"message": TEXT, "strength": NUMBER, "mood": {"enum": ["mild"]}})
    assert statuses(third_party_env(f"openenv:{URL}", {"strength": 3}, solved=1.0)) == {}
    assert all(type(row["message"]) is str and (row["strength"], row["mood"]) == (3, "mild") for row in Client.sent)


def test_actions_without_text_are_drawn_from_their_schema(served):
    served({"column": NUMBER})
    found = statuses(third_party_env(f"openenv:{URL}", {}, solved=1.0))
    unasked = dict.fromkeys(("null agent", "copied observations", "no exception"), "cannot be asked")
    assert found == {"blind replay": "failed"} | unasked  # eight plays of six columns
    assert {row["column"] for row in Client.sent} == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("fields", [{"code": TEXT, "language": TEXT}, {"code": TEXT, "files": {"type": "array"}}, {}])
def test_an_action_that_nobody_can_fill_names_its_fields_and_the_fix(served, fields):
    served(fields)
    with pytest.raises(UsageError, match="--arg FIELD=VALUE") as error:
        third_party_env(f"openenv:{URL}", {})
    assert all(name in str(error.value) for name in fields)


def test_a_server_that_is_away_is_a_fault_and_no_finding(served, monkeypatch):
    monkeypatch.setattr(openenv, "client", lambda url: Client())
    with pytest.raises(EnvFault, match="no server of OpenEnv's answers"):
        third_party_env("openenv:nowhere", {})
    deep = httpx.Response(200, content=b"[" * 5_000, request=httpx.Request("GET", URL))
    monkeypatch.setattr(httpx, "get", lambda url, timeout: deep)
    with pytest.raises(EnvFault, match="no server of OpenEnv's answers"):
        third_party_env(f"openenv:{URL}", {})
    served({"message": TEXT})
    env = third_party_env(f"openenv:{URL}", {})
    monkeypatch.setattr(Client, "away", True)
    with pytest.raises(EnvFault, match="nobody listens"):
        check_third_party(env)
