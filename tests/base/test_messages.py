"""Messages and what carries them: dicts for templates, scripted models, passages, judges, companions."""

import copy
import random

import gymnasium as gym
import pytest

from agent_envs import EnvFault, Message, ToolCall, UsageError, register_companions
from agent_envs.base.documents import MemoryCorpus, Passage
from agent_envs.base.messages import text_of
from agent_envs.core.registry import companion
from agent_envs.services.chat import ChatReply, ChatRequest, ScriptedChat
from tests.toy import ID, Guess, solver


def test_a_message_is_a_plain_dict_without_its_author():
    assert Message("user", "hi", "tool").as_dict() == {"role": "user", "content": "hi"}
    call = ToolCall("call_0", "f", '{"a":1}')
    assert Message("assistant", "", "policy", (call,)).as_dict() == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_0", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
    }
    assert Message("tool", "1", "tool", tool_call_id="call_0").as_dict()["tool_call_id"] == "call_0"


def test_dicts_are_fresh_to_the_bottom():
    message = Message("assistant", "", "policy", (ToolCall("c", "f", "{}"),))
    wanted = copy.deepcopy(message.as_dict())
    message.as_dict()["tool_calls"][0]["function"]["name"] = "spoiled"
    assert message.as_dict() == wanted


def test_the_text_of_messages():
    one, two = Message("user", "a", "environment"), Message("user", "b\n", "environment")
    assert (text_of(()), text_of((one,)), text_of((two,)), text_of((one, two))) == ("", "a", "b\n", "a\n\nb\n")


def request(*roles):
    return ChatRequest([{"role": role, "content": "x"} for role in roles])


def test_a_scripted_model_is_read_by_the_conversation():
    model = ScriptedChat(["one", "two"], name="user")
    assert model.complete(request("user")) == ChatReply("one")
    assert model.complete(request("user", "assistant", "user")).text == "two"
    assert model.complete(request("user")).text == "one"
    with pytest.raises(EnvFault, match="user has 2 lines") as caught:
        model.complete(request("assistant", "assistant"))
    assert not caught.value.retryable
    assert ScriptedChat(lambda asked: str(len(asked.messages))).complete(request("user", "user")).text == "2"


def passages(*texts):
    return [Passage(f"p{row}", "title", text) for row, text in enumerate(texts)]


def test_a_corpus_is_found_by_row_and_id():
    corpus = MemoryCorpus(passages("a", "b"))
    assert len(corpus) == 2 and corpus[corpus.row("p1")].text == "b"
    with pytest.raises(KeyError):
        corpus.row("p2")
    with pytest.raises(ValueError, match="unique"):
        MemoryCorpus(passages("a") * 2)
    assert copy.deepcopy(corpus) is corpus


def test_a_corpus_digest_is_of_content_order_and_borders():
    corpora = [
        passages(), passages("a"), passages("a", "b"), [*reversed(passages("a", "b"))], passages("\ud800"),
        [Passage("p0", "titlea", "")], [Passage("p0", "", "titlea")], [Passage("p", "0title", "a")],
    ]  # fmt: skip
    assert len({MemoryCorpus(corpus).digest for corpus in corpora}) == len(corpora)
    assert MemoryCorpus(passages("a")).digest == MemoryCorpus(iter(passages("a"))).digest


class Heir(Guess):
    """Inherits its companions."""


def test_companions_are_those_of_the_nearest_ancestor():
    env = gym.make(ID)
    assert companion(env, "solver") is solver and companion(Heir(), "solver") is solver
    assert companion(gym.make("CartPole-v1"), "solver") is None
    register_companions(Heir, solver=lambda env: "x", sampler="tests.toy:sampler")
    assert companion(Heir(), "solver")(None) == "x" and companion(env, "solver") is solver
    env.reset(seed=0)
    assert companion(Heir(), "sampler")(env, random.Random(0)) == companion(env, "sampler")(env, random.Random(0))
    with pytest.raises(UsageError, match=r"'oracle' is none of solver, sampler, heuristic"):
        register_companions(Heir, oracle=solver)
