"""The pure-decision view: numbers that say what is known, masks that agree, forks that part."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import agent_envs
from agent_envs.base.errors import UsageError
from agent_envs.envs.expa import DiscreteActions


def make(task=0, **arguments):
    env = DiscreteActions(gym.make("agent_envs/SortExpA-v0", **arguments))
    vector, _ = env.reset(seed=0, options={"task": task, "split": "test"})
    return env, vector


def parts(env, vector):
    """Return the observation's parts by name, as the docstring orders them."""
    m = env.items
    sizes = {"relations": m * m, "places": m * m, "present": m, "first": m, "active": 3, "descending": 1, "left": 1}
    ends = np.cumsum(list(sizes.values()))
    assert ends[-1] == len(vector) == env.observation_space.shape[0]
    found = dict(zip(sizes, np.split(vector, ends[:-1]), strict=True))
    return {**found, "relations": found["relations"].reshape(m, m), "places": found["places"].reshape(m, m)}


def test_the_observation_tells_what_is_known_and_no_more():
    env, vector = make(size=3, max_actions=20)
    start = parts(env, vector)
    assert not start["relations"].any() and (start["places"] == np.eye(3)).all() and start["left"] == 1
    assert start["active"].tolist() == [1, 0, 0] and start["present"].tolist() == [1, 1, 1]
    values = env.unwrapped.episode.task.hidden
    for action in (1, 3, 4):
        vector, _, _, _, info = env.step(action)
        if action == 3:
            assert parts(env, vector)["first"].tolist() == [1, 0, 0]
            assert parts(env, vector)["active"].tolist() == [0, 1, 0]
    seen = parts(env, vector)
    sign = 1 if values[0] < values[1] else -1
    assert seen["relations"][0, 1] == sign == -seen["relations"][1, 0] and np.abs(seen["relations"]).sum() == 2
    assert seen["left"] == pytest.approx(1 - 3 / 20)
    for action in (2, 3, 4):
        vector, *_ = env.step(action)
    assert parts(env, vector)["places"][:2, :2].tolist() == [[0, 1], [1, 0]]


def test_conclusions_are_drawn():
    for task in range(20):
        env, vector = make(task=task, size=3)
        values = env.unwrapped.episode.task.hidden
        if values != (0, 1, 2):
            continue
        for action in (1, 3, 4, 1, 4, 5):
            vector, *_ = env.step(action)
        assert parts(env, vector)["relations"].tolist() == [[0, 1, 1], [-1, 0, 1], [-1, -1, 0]]
        return
    raise AssertionError("none of the tasks is in order")


def test_masks_are_those_of_info_and_the_hidden_numbers_do_not_show():
    seen = {}
    rng = np.random.default_rng(0)
    for task in range(40):
        env, vector = make(task=task)
        over = False
        data = env.unwrapped.episode.task.data
        assert seen.setdefault((data.size, data.descending), vector.tobytes()) == vector.tobytes()
        while not over:
            action = rng.choice(np.flatnonzero(env.action_masks()))
            vector, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            assert env.observation_space.contains(vector) and not info["events"]
            if not over:
                assert (info["action_mask"] == env.action_masks()).all()
    assert len(seen) == 4


def test_forks_and_snapshots_reach_through_it():
    env, _ = make(size=4)
    env.step(1)
    twin = agent_envs.fork(env, branch="b")
    moment = agent_envs.snapshot(env)
    there = [twin.step(action)[0] for action in (3, 4)]
    assert len(env.unwrapped.episode.turns) == 1 and env.action_masks()[3] and twin.action_masks()[0]
    assert all((one == env.step(action)[0]).all() for one, action in zip(there, (3, 4), strict=True))
    agent_envs.restore(env, agent_envs.Snapshot.from_bytes(moment.to_bytes()))
    assert len(env.unwrapped.episode.turns) == 1


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_gymnasium_accepts_it_and_its_spec_travels():
    env, _ = make(size=3)
    check_env(env, skip_render_check=True)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(agent_envs.spec_json(env)))
    assert isinstance(again, DiscreteActions) and again.action_space == env.action_space


def test_tasks_that_are_answered_in_words_are_refused():
    """At construction: one of 20 resets would have failed in the middle of somebody's training."""
    message = "some tasks of agent_envs/OrderExpA-v0 are answered in words; make it with compare_percent=0"
    with pytest.raises(UsageError, match=message):
        DiscreteActions(gym.make("agent_envs/OrderExpA-v0"))
    with pytest.raises(UsageError, match="answered in words"):
        gym.make("agent_envs/OrderDiscrete-v0", compare_percent=5)
    assert DiscreteActions(gym.make("agent_envs/OrderExpA-v0", size=3)).items == 3
    plain = gym.make("agent_envs/OrderExpA-v0", compare_percent=0).unwrapped.source
    assert {plain.get("train", index).data.kind for index in range(400)} == {"order"}


@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
@pytest.mark.parametrize("env_id", agent_envs.env_ids("discrete"))
def test_a_discrete_id_keeps_the_contract_of_classic_reinforcement_learning(env_id):
    """Gymnasium's checker, spaces, masks, equal seeds, forks, pickles, specs, vectors; on resets of the default split."""
    env, other = gym.make(env_id), gym.make(f"agent_envs:{env_id}")
    assert env.spec.id == env.unwrapped.env_id == env_id and env_id not in agent_envs.env_ids()
    check_env(env, skip_render_check=True)
    rng, failures = np.random.default_rng(0), []
    for seed in range(60 if "BabyAI" in env_id else 300):  # of Order's tasks one in twenty was refused
        vector, info = env.reset(seed=seed)
        again, _ = other.reset(seed=seed)
        mask = env.get_wrapper_attr("action_masks")()  # as MaskablePPO asks for it
        assert env.observation_space.contains(vector) and vector.tobytes() == again.tobytes() and mask.any()
        action = int(rng.choice(np.flatnonzero(mask)))
        copies = [other, agent_envs.fork(env), pickle.loads(pickle.dumps(env))] if seed < 20 else [other]
        vector, reward, *_ = env.step(action)
        failures += [seed for copy in copies if str(copy.step(action)[:2]) != str((vector, reward))]
    assert not failures
    made = gym.make(gym.envs.registration.EnvSpec.from_json(agent_envs.spec_json(env)))
    assert made.spec == env.spec and made.observation_space == env.observation_space
    envs = gym.make_vec(env_id, 2, "sync")
    assert envs.reset(seed=0)[0].shape == (2, *env.observation_space.shape)
    envs.close()


def test_discrete_ids_take_arguments_and_their_kind_is_named():
    names = ("SortDiscrete", "OrderDiscrete", "BabyAIDiscrete")
    assert agent_envs.env_ids("discrete") == [f"agent_envs/{name}-v0" for name in names]
    small = gym.make("agent_envs/SortDiscrete-v0", size=3)
    assert small.observation_space.shape == make(size=3)[0].observation_space.shape
    with pytest.raises(UsageError, match="env_ids: kind='numeric'; give one of turns, discrete"):
        agent_envs.env_ids("numeric")


def test_what_has_no_numbers_is_refused():
    with pytest.raises(UsageError, match=r"Sort-v0 has no expanded actions; use its twin with ExpA"):
        DiscreteActions(gym.make("agent_envs/Sort-v0"))
    with pytest.raises(UsageError, match=r"CountdownExpA-v0 has no numeric observation"):
        DiscreteActions(gym.make("agent_envs/CountdownExpA-v0"))
