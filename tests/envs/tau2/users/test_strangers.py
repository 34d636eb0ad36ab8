"""The simulated user handles odd messages, models that only call tools, malformed stored state and oversized scripts."""

import json

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import snapshot
from agent_envs.base.errors import EnvFault, UsageError
from agent_envs.base.serialization import canonical_json, digest
from agent_envs.core.snapshot import Snapshot
from agent_envs.envs.tau2.scoring import state_changes
from agent_envs.envs.tau2.tasks import tau2_task
from agent_envs.envs.tau2.user_script import MOST, read_script
from agent_envs.envs.tau2.users.understanding import understood
from agent_envs.services.chat import ScriptedChat
from tests.rows import each_row

TELECOM = "agent_envs/Tau2Telecom-v0"
WANT = {"say": "I want it."}
MINDS = {
    "want": (-1, 99, "0", True, None),
    "agreed": ([99],),
    "unhelpful": ("1", None),
    "asked": ([], [99], ["x"], 1, None),
    "told": ([7], "x"),
    "queue": (["x"], None),
    "steps": (["x"], 0),
    "checked": (None, 5),
}


def begun(name=TELECOM, **arguments):
    env = gym.make(name, **arguments)
    env.reset(seed=0, options={"task": 1, "split": "train"})
    return env


def test_words_of_regret_may_stand_before_a_refusal():
    assert understood("I am really afraid I simply cannot do that.").refuses
    assert not understood("i afraid " * 2000).refuses


@pytest.mark.parametrize("call", ["no_such_tool", "check_status_bar"])
def test_a_model_that_only_calls_tools_is_a_fault_and_no_error_of_the_task(call):
    env = gym.make(
        TELECOM, user=ScriptedChat(lambda request: f'<tool_call>{{"name":"{call}","arguments":{{}}}}</tool_call>')
    )
    with pytest.raises(EnvFault, match="over before the first turn") as caught:
        env.reset(seed=0, options={"task": 1, "split": "train"})
    assert caught.value.retryable


def stored(env, change):
    outer = json.loads(snapshot(env).to_bytes())
    dialogue = next(part for part in parts(outer["body"]) if part.get("$type") == "Dialogue")
    dialogue["memory"] = change(dialogue["memory"])
    outer["sha256"] = digest(outer["body"])
    return canonical_json(outer).encode("utf-8")


def parts(value):
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts(inner)


def marked(value):
    return {"$tuple": value} if isinstance(value, list) else value


@each_row(("member", "value"), [(name, value) for name, values in MINDS.items() for value in values if value != []])
def test_a_mind_that_is_none_is_refused_in_words(member, value):
    env = begun()
    data = stored(env, lambda mind: {**mind, member: marked(value)})
    # A wrong type is refused where the bytes are read, a wrong value where the user would act on it.
    with pytest.raises(
        UsageError, match=f"stored state of the simulated user|stored state is malformed: Mind.{member} is"
    ):
        agent_envs.restore(env, Snapshot.from_bytes(data))
        env.step("What is your name?")


@pytest.mark.parametrize("memory", ["x", 5, {"a": 1}, {"$type": "Step", "tool": "x"}])
def test_what_is_no_mind_at_all_is_refused_too(memory):
    env = begun()
    agent_envs.restore(env, Snapshot.from_bytes(stored(env, lambda mind: memory)))
    with pytest.raises(UsageError, match="stored state of the simulated user"):
        env.step("What is your name?")
    replayed = begun("agent_envs/Tau2Retail-v0", tasks="builtin", user="replay")
    agent_envs.restore(replayed, Snapshot.from_bytes(stored(replayed, lambda place: -1 if memory == 5 else memory)))
    with pytest.raises(UsageError, match="stored state of the replayed side"):
        replayed.step("What is your name?")


def test_a_sound_mind_goes_on_as_it_was():
    env, twin = begun(), begun()
    agent_envs.restore(twin, Snapshot.from_bytes(stored(env, lambda mind: mind)))
    for words in ("What is your name and your number?", "Please check your status bar.", "All done! Anything else?"):
        assert env.step(words)[:4] == twin.step(words)[:4]


def test_scripts_have_an_end():
    fact = {"topic": "name", "say": "x"}
    assert len(read_script({"wants": [{**WANT, "facts": [fact] * MOST}] * MOST}).wants) == MOST
    for row in (
        {"wants": [WANT] * (MOST + 1)},
        {"wants": [WANT], "facts": [fact] * (MOST + 1)},
        {"wants": [{**WANT, "facts": [fact] * (MOST + 1)}]},
        {"wants": [{**WANT, "signs": ["x"] * (MOST + 1)}]},
        {"wants": [{**WANT, "declines": ["x"] * (MOST + 1)}]},
    ):
        with pytest.raises(UsageError, match="stand together"):
            read_script(row)


def test_hanging_up_on_a_question_earns_nothing_that_is_dense():
    env = gym.make("agent_envs/Tau2Retail-v0", difficulty="easy", reward="dense")
    core = env.unwrapped
    tasks = (core.source.get("train", number) for number in range(40))
    task = next(task for task in tasks if not state_changes(core.rules.domain, tau2_task(task, "retail")))
    told, earned = " ".join(task.hidden["communicate_info"]), []
    for words in ("All done! Have a nice day, bye.", f"It is {told}. Have a nice day, bye."):
        env.reset(seed=0, options={"task": task, "split": "train"})
        total, ended = 0.0, False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(words)
            total, ended = total + float(reward), terminated or truncated
        earned.append(total)
    assert earned == [0.0, 1.0]
