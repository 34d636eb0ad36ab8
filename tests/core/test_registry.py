"""The table of ids, vector environments, and specs that travel."""

import random
from itertools import cycle

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import agent_envs
from agent_envs import UsageError, env_ids, fork, make_vec, spec_json
from agent_envs.core.registry import NAMESPACE, TABLE, companion, full_id, register_all, row_of
from agent_envs.wrappers import Memory
from tests.fresh_process import printed
from tests.needs import needs
from tests.toy import ID, TRIES, Guess


def test_ids_are_full_unique_and_registered():
    ids = env_ids()
    assert ids and len(set(ids)) == len(ids)
    for env_id in ids:
        assert env_id.startswith(f"{NAMESPACE}/") and env_id in gym.registry
        assert gym.spec(env_id).entry_point == row_of(env_id).entry
    ids.clear()
    assert env_ids()


def test_registering_again_changes_nothing(recwarn):
    before = {env_id: gym.registry[env_id] for env_id in env_ids()}
    register_all()
    assert all(gym.registry[env_id] is spec for env_id, spec in before.items()) and not recwarn


def test_a_row_is_found_by_any_form_of_its_name():
    for row in TABLE:
        for name in (row.id, row.name, f"{row.name}-v{row.version}"):
            assert row_of(name) is row
        assert row.entry.split(":")[0].startswith(f"agent_envs.envs.{row.family}.") and row.summary
    with pytest.raises(UsageError, match=r"Nothing.*agent_envs/SearchQA-v0"):
        row_of("Nothing")


def test_the_registry_imports_no_family():
    code = "import sys, agent_envs; print([m for m in sys.modules if m.startswith('agent_envs.envs.search_qa')])"
    assert printed(code) == "[]\n"


# Ids whose first answer ends the episode. A family need not promise that: in a guessing game it is a try.
ANSWERED_ONCE = {
    ID,
    *(row.id for row in TABLE if row.family in ("search_qa", "expa", "legal_search", "tool_reasoning")),
}


def lasting(env, rng):
    """Return a random legal action after which the episode goes on; with expanded actions a text: `end` is legal after it."""
    if hasattr(env.unwrapped, "expanded_actions"):
        return "nothing"
    sample = companion(env, "sampler")
    return next(action for action in (sample(env, rng) for _ in range(100)) if not any(fork(env).step(action)[2:4]))


@pytest.mark.parametrize("env_id, mode", list(zip([*env_ids(), ID, TRIES], cycle(("sync", "async")), strict=False)))
def test_vector_environments(env_id, mode):
    name = f"tests.toy:{env_id}" if env_id in (ID, TRIES) else env_id
    envs = make_vec(name, 2, mode)
    try:
        observations, info = envs.reset(seed=[0, 1])
        alone = [gym.make(env_id) for _ in range(2)]
        starts = [env.reset(seed=seed) for seed, env in enumerate(alone)]
        assert list(observations) == [observation for observation, _ in starts]
        assert list(info["task_id"]) == [single["task_id"] for _, single in starts]
        core = alone[0].unwrapped
        final = 0 if hasattr(core, "expanded_actions") else "987654321".join(core.answer_tags)
        rng = random.Random("vector")
        for turn in (1, 2):
            actions = [lasting(env, rng) for env in alone]
            if turn == 2:
                actions[0] = final
            steps = [env.step(action) for env, action in zip(alone, actions, strict=True)]
            observations, rewards, terminated, truncated, info = envs.step(actions)
            stepped = zip(observations, rewards, terminated, truncated, info["turn"], strict=True)
            assert list(stepped) == [(*step[:4], turn) for step in steps]
        if any(step[2] or step[3] for step in steps):
            assert list(info["success"]) == [step[4].get("success", False) for step in steps]
        ends = not isinstance(final, str) or env_id in ANSWERED_ONCE
        assert not ends or (list(terminated) == [True, False] and list(info["success"]) == [False, False])
        envs.reset(seed=3)
        observations, rewards, *_ = envs.step(("one", "two"))  # as a tuple, and whatever it says
        assert len(observations) == len(rewards) == 2 and all(isinstance(text, str) for text in observations)
    finally:
        envs.close()


def test_vector_arguments_reach_the_environment():
    envs = make_vec(f"tests.toy:{ID}", 2, turns=1)
    envs.reset(seed=0)
    assert list(envs.step(["x", "x"])[3]) == [True, True]
    envs.close()


def test_a_spec_makes_the_same_environment_again():
    env = Memory(gym.make(ID, turns=4, words=["up", "down"], max_episode_steps=3), turns=2)
    again = gym.make(EnvSpec.from_json(spec_json(env)))
    assert spec_json(again) == spec_json(env)
    assert again.unwrapped.arguments == env.unwrapped.arguments
    assert again.unwrapped.spec_digest == env.unwrapped.spec_digest
    assert env.reset(seed=3) == again.reset(seed=3)


@pytest.mark.parametrize("clue", [object(), [object()], {"a": len}], ids=["object", "list", "dict"])
def test_an_argument_that_cannot_travel_is_named(clue):
    env = gym.make(ID, clue=clue)
    with pytest.raises(UsageError, match=r"toy/Guess-v0: clue cannot travel"):
        spec_json(env)


def test_plain_arguments_of_any_shape_travel():
    for clue in ({"object": "a word"}, ["x", {"object": 1}], '{"object":'):
        again = gym.make(EnvSpec.from_json(spec_json(gym.make(ID, clue=clue))))
        assert again.unwrapped.arguments["clue"] == clue


class Plain(gym.Wrapper):
    """A wrapper that does not record its arguments."""


class Carrying(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """A wrapper with an argument that is an object."""

    def __init__(self, env, thing):
        gym.utils.RecordConstructorArgs.__init__(self, thing=thing)
        gym.Wrapper.__init__(self, env)


def test_a_wrapper_that_cannot_travel_is_named():
    with pytest.raises(UsageError, match=r"Carrying\(thing\) cannot travel"):
        spec_json(Carrying(gym.make(ID), thing=object()))
    with pytest.raises(UsageError, match=r"Plain"):
        spec_json(Plain(gym.make(ID)))
    assert spec_json(Carrying(gym.make(ID), thing=3))


def test_an_environment_that_was_not_made_by_gymnasium_is_refused():
    with pytest.raises(UsageError, match=r"gymnasium\.make"):
        spec_json(Guess())
    with pytest.raises(UsageError, match=r"gymnasium\.make"):
        spec_json(Memory(Guess(), turns=1))


@needs("[envs]")
def test_ids_work_through_the_module_prefix():
    for env_id in env_ids():
        assert gym.make(f"agent_envs:{env_id}").unwrapped.env_id == env_id
    assert agent_envs.__version__


def test_the_table_names_every_kind_of_baba():
    from agent_envs.envs.text_games.baba_is_ai.levels import KINDS

    assert row_of("BabaIsAI").variants["kind"] == ("mixed", *KINDS)


def test_an_id_is_known_in_any_case_and_a_misspelt_one_is_told_the_nearest():
    assert full_id("searchqa") == full_id("AGENT_ENVS/searchqa-V0") == "agent_envs/SearchQA-v0"
    for wrong, near in (("SerchQA", "SearchQA"), ("tau2-airline", "Tau2Airline"), ("agent_envs/Babyai-v1", "BabyAI")):
        with pytest.raises(UsageError, match=f"no environment '{wrong}'; did you mean {near}\\?; the ids are "):
            full_id(wrong)
    with pytest.raises(UsageError, match="no environment 'zzz'; the ids are "):
        full_id("zzz")


@pytest.mark.parametrize(
    "name, text", [("BabyAIDiscrete", "BabyAI"), ("SortDiscrete", "Sort"), ("OrderDiscrete", "Order")]
)
def test_ids_in_numbers_are_refused_with_the_name_of_the_same_tasks_as_text(name, text):
    for form in (f"agent_envs/{name}-v0", f"{name}-v0", name.lower(), f"agent_envs:agent_envs/{name}-v0"):
        with pytest.raises(UsageError, match=f"its actions are numbers; an agent that writes plays {text}$"):
            full_id(form)
    assert gym.make(f"agent_envs/{name}-v0").reset(seed=0)
