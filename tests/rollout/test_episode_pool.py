"""A pool plays its episodes as an environment each would, however calls are mixed; nothing that fails moves an episode."""

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import gymnasium as gym
import pytest

from agent_envs import EnvFault, EpisodePool, Message, Snapshot, UsageError, run_episode, spec_json
from agent_envs.base.serialization import state_type
from agent_envs.core.env import Outcome
from agent_envs.core.trajectory import Trajectory
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.rollout.ray_hosts import PoolHost, StepTurn
from agent_envs.wrappers import Memory, TurnLimit
from tests.integrations import toys  # noqa: F401 - registers its ids
from tests.needs import needs
from tests.toy import ID

GUESSES = ("<compare>50</compare>", "<luck>x</luck>", "nothing", "<compare>20</compare>", "<compare>70</compare>")


def seen(turn):
    return turn.text, turn.reward, turn.terminated, turn.truncated, dict(turn.info)


def played(env, row, actions):
    """What an environment of its own shows of an episode."""
    options = {name: row[name] for name in ("task", "split") if name in row}
    text, info = env.reset(seed=row["seed"], options=options)
    rows = [(text, 0.0, False, False, info)]
    for action in actions:
        rows.append(env.step(action))
        if rows[-1][2] or rows[-1][3]:
            break
    return rows


def mixed(pool, plan, order):
    """Play (row, actions) by key through a pool, one turn of a random part of the open episodes a call; what was shown."""
    rows = {turn.key: [seen(turn)] for turn in pool.begin_many([{**row, "key": key} for key, (row, _) in plan.items()])}
    while True:
        open_keys = [key for key, (_, actions) in plan.items()
                     if len(rows[key]) <= len(actions) and not (rows[key][-1][2] or rows[key][-1][3])]  # fmt: skip
        if not open_keys:
            return rows
        part = order.sample(open_keys, order.randint(1, len(open_keys)))
        for turn in pool.act_many([(key, plan[key][1][len(rows[key]) - 1]) for key in part]):
            rows[turn.key].append(seen(turn))


@needs("[envs]")
@pytest.mark.parametrize("name", ["SearchQA", "Tau2Retail", "BabyAI", "SortExpA", "ToolReasoning", "LegalSearch"])
def test_mixed_calls_show_what_an_environment_each_shows(name):
    env, plan, alone = gym.make(f"agent_envs/{name}-v0"), {}, {}
    for number in range(4):
        row = {"task": number, "split": "test", "seed": number}
        policy = CompanionPolicy("solver" if number % 2 else "random")
        actions = [turn.action for turn in run_episode(env, policy, **row).trajectory.turns][:12]
        plan[f"key {number}"] = row, actions
        alone[f"key {number}"] = played(env, row, actions)
    pool = EpisodePool(name)
    shown = mixed(pool, plan, random.Random(name))
    assert json.dumps(shown, default=repr) == json.dumps(alone, default=repr)
    assert pool.waits is (name == "ToolReasoning")
    turns = sum(len(rows) - 1 for rows in alone.values())
    assert pool.counts | {"open": 0, "over": 0} == {
        "open": 0, "over": 0, "in_call": 0, "turns": turns, "faults": 0, "idle": 0, "waiting": 0,
    }  # fmt: skip


def test_a_stack_of_wrappers_by_its_spec():
    env = Memory(TurnLimit(gym.make(ID), turns=3), turns=1)
    row = {"task": 1, "split": "test", "seed": 3}
    pool = EpisodePool(spec_json(env))
    shown = mixed(pool, {"a": (row, GUESSES), "b": (row, GUESSES[:2])}, random.Random(0))
    alone = played(env, row, GUESSES)
    assert json.dumps(shown["a"], default=repr) == json.dumps(alone, default=repr) and len(alone) == 4
    assert pool.counts["over"] == 1 and pool.counts["open"] == 1


def test_many_threads_share_a_pool():
    pool = EpisodePool(ID)
    env = gym.make(ID)
    plans = [
        {f"{thread}/{number}": ({"task": number, "split": "dev", "seed": thread}, GUESSES) for number in range(6)}
        for thread in range(8)
    ]
    with ThreadPoolExecutor(8) as threads:
        for plan, rows in zip(plans, threads.map(lambda plan: mixed(pool, plan, random.Random(0)), plans), strict=True):
            for key, shown in rows.items():
                alone = played(env, *plan[key])
                assert json.dumps(shown, default=repr) == json.dumps(alone, default=repr)
    assert len(pool) == 48


@state_type
@dataclass(frozen=True)
class Noted:
    """A parsed action of any value."""

    value: object
    note: str = field(default="", compare=False)


def test_what_is_shared_has_one_type_and_value_all_the_way_down(monkeypatch):
    """What is equal and still another thing (True and 1, 0.0 and -0.0, notes that do not count) stays what it is."""
    parts = [
        Noted(1, "a"),
        Noted(True, "b"),
        Noted(1.0, "c"),
        (1,),
        (True,),
        ((0.0,),),
        ((-0.0,),),
        [1],
        {"a": [True]},
        Noted(1, "a"),
    ]
    monkeypatch.setattr(
        toys.Guess, "_advance",
        lambda env, episode, action: Outcome(episode.state, parts[int(action)], (Message("user", "ok", "environment"),)),
    )  # fmt: skip
    pool = EpisodePool(ID)
    keys = [turn.key for turn in pool.begin_many([{"seed": 0} for _ in parts])]
    pool.act_many([(key, str(number)) for number, key in enumerate(keys)])
    parsed = [pool.moment(key).episode.turns[-1].parsed for key in keys]
    assert list(map(repr, parsed)) == list(map(repr, parts))
    assert parsed[-1] is parsed[0]


def test_what_waits_steps_in_threads(monkeypatch):
    names = set()
    before = toys.Slow.step

    def step(env, action):
        names.add(threading.current_thread().name)
        return before(env, action)

    monkeypatch.setattr(toys.Slow, "step", step)
    for waits in (False, True):
        monkeypatch.setattr(toys.Slow, "waits", waits)
        pool, names = EpisodePool("toy/Slow-v0", threads=3), set()
        turns = pool.begin_many([{"seed": number} for number in range(6)])
        assert all(not turn.fault for turn in pool.act_many([(turn.key, GUESSES[0]) for turn in turns]))
        assert len(names) == (3 if waits else 1) and pool.waits is waits and pool.counts["waiting"] == 0


def test_a_fault_leaves_its_episode_and_the_others_are_stepped(monkeypatch):
    pool = EpisodePool(ID)
    turns = pool.begin_many([{"key": key, "task": 0, "seed": 0, "split": "dev"} for key in "abc"])
    before, failing = toys.Guess._advance, {"b"}

    def advance(env, episode, action):
        if action == "fail" and failing:
            raise EnvFault("the service is away")
        return before(env, episode, GUESSES[0] if action == "fail" else action)

    monkeypatch.setattr(toys.Guess, "_advance", advance)
    moment = pool.moment("b")
    turns = pool.act_many([("a", GUESSES[0]), ("b", "fail"), ("c", GUESSES[1])])
    assert [turn.fault for turn in turns] == ["", "the service is away", ""] and turns[1].reward == 0.0
    assert pool.moment("b") == moment and pool.counts["faults"] == 1 and pool.moment("a") != moment
    failing.clear()
    (again,) = pool.act_many([("b", "fail")])
    assert not again.fault and again.info["turn"] == 1


def test_a_call_with_a_mistake_moves_nothing():
    pool = EpisodePool(ID)
    pool.begin_many([{"key": key, "task": 0, "seed": 0, "split": "dev"} for key in ("a", "b", "done")])
    pool.act_many([("done", "<answer>1</answer>")])
    before = {key: pool.moment(key) for key in ("a", "b", "done")}
    wrong = [
        (lambda: pool.act_many([("a", GUESSES[0]), ("x", GUESSES[0])]), "key='x'; there is no such episode"),
        (lambda: pool.act_many([("a", GUESSES[0]), ("a", GUESSES[0])]), "twice in one call"),
        (lambda: pool.act_many([("a", GUESSES[0]), ("b", None)]), "an action is a str"),
        (lambda: pool.act_many([("a", GUESSES[0]), ("done", "x")]), "the episode is over"),
        (lambda: pool.begin_many([{"key": "c"}, {"key": "a"}]), "key='a'; it is taken"),
        (lambda: pool.begin_many([{"key": "c"}, {"task": 99, "split": "dev"}]), "no task 99"),
        (lambda: pool.begin_many([{"key": "c"}, {"seed": -1}]), "seed=-1"),
        (lambda: pool.begin_many([{"key": 5}]), "key=5; give a text"),
        (lambda: pool.begin_many([{"key": ["x"]}]), "key=.*; give a text"),
        (lambda: pool.begin_many([None]), "rows: None"),
        (lambda: pool.act_many([("a", "x", "y")]), "actions: .*; give pairs"),
        (lambda: pool.act_many([5]), "actions: 5; give pairs"),
        (lambda: pool.act_many(["ab"]), "actions: 'ab'; give pairs"),
        (lambda: pool.take("a", "1"), "since='1'"),
        (lambda: EpisodePool(5), "spec=5"),
        (lambda: EpisodePool("{}"), "spec='{}'; give the JSON of spec_json"),
        (lambda: EpisodePool("{"), "spec='{'"),
        (lambda: EpisodePool(ID, id=ID), "no id beside"),
        (lambda: EpisodePool(":Sort"), ":Sort: give a module"),
        (lambda: pool.fork("a", 0), "n=0"),
        (lambda: pool.take("a", 7), "since=7"),
        (lambda: pool.drop("x"), "key='x'"),
        (lambda: EpisodePool(ID, idle_seconds=0), "idle_seconds=0"),
        (lambda: EpisodePool("Nothing"), "no environment 'Nothing'"),
    ]
    for call, message in wrong:
        with pytest.raises(UsageError, match=message) as error:
            call()
        assert "\n" not in str(error.value)
    assert {key: pool.moment(key) for key in before} == before and len(pool) == 3 and pool.counts["in_call"] == 0


@pytest.mark.parametrize("spec", [ID, spec_json(TurnLimit(gym.make(ID), turns=1))], ids=["its end", "a limit"])
def test_forks_and_copies_of_what_has_ended_are_over(spec):
    pool, other = EpisodePool(spec), EpisodePool(spec)
    pool.begin_many([{"key": "done", "task": 0, "seed": 0, "split": "dev"}])
    pool.act_many([("done", GUESSES[0] if "TurnLimit" in spec else "<answer>1</answer>")])
    pool.fork("done", 2)
    pool.fork("done", 1, "other")
    other.put("done", pool.take("done"))
    assert (pool.counts["over"], pool.counts["open"], pool.counts["turns"]) == (4, 0, 1)
    assert (other.counts["over"], other.counts["open"], other.counts["turns"]) == (1, 0, 0)


def test_a_key_is_in_one_call_at_a_time():
    pool = EpisodePool("toy/Slow-v0")
    (turn,) = pool.begin_many([{"seed": 0}])
    with ThreadPoolExecutor(8) as threads:
        ends = [threads.submit(pool.act_many, [(turn.key, GUESSES[0])]) for _ in range(8)]
    errors = [end.exception() for end in ends]
    assert sum(error is None for error in errors) == len(pool.moment(turn.key).episode.turns) >= 1
    assert all("under way" in str(error) for error in errors if error is not None)


def test_forks_go_on_apart():
    pool = EpisodePool(ID)
    pool.begin_many([{"key": "a", "task": 0, "seed": 0, "split": "dev"}])
    pool.act_many([("a", GUESSES[1])])
    same, apart = pool.fork("a", 2), pool.fork("a", 2, branch="b")
    luck = {turn.key: turn.text for turn in pool.act_many([(key, "<luck>x</luck>") for key in ("a", *same, *apart)])}
    assert len(luck) == 5 and {luck[key] for key in same} == {luck["a"]}
    heads = [pool.moment(key).episode.header.branch for key in (*same, *apart)]
    assert heads == ["", "", "b0", "b1"]


def test_parts_of_an_episode_join_and_nothing_else_does():
    pool, elsewhere = EpisodePool(ID), EpisodePool(ID)
    pool.begin_many([{"key": key, "task": 0, "seed": seed, "split": "dev"} for seed, key in enumerate("ab")])
    parts, whole = {"a": [pool.take("a")], "b": [pool.take("b")]}, b""
    for number in range(6):
        pool.act_many([("a", GUESSES[number % 3]), ("b", GUESSES[number % 2])])
        if number % 2:
            for key, written in parts.items():
                written.append(pool.take(key, since=number - 1))
    whole = pool.take("a")
    assert len(parts["a"][-1]) < len(whole)
    assert Snapshot.from_bytes(*parts["a"]).to_bytes() == whole == Snapshot.from_bytes(whole).to_bytes()
    assert Snapshot.from_bytes(*parts["a"][:-1], whole).to_bytes() == whole, "what was written twice counts once"
    elsewhere.put("moved", *parts["a"])
    assert seen(elsewhere.act_many([("moved", GUESSES[0])])[0]) == seen(pool.act_many([("a", GUESSES[0])])[0])
    damaged = parts["a"][1].replace(b"compare", b"compARe", 1)
    for wrong in (
        parts["a"][2:], [*parts["a"][:2], parts["a"][3]], [parts["b"][0], *parts["b"][1:3], parts["a"][3]],
        [parts["a"][0], damaged, *parts["a"][2:]], [], [b"{}"], [whole[:-1]], [b'{"body":5}', whole],
    ):  # fmt: skip
        with pytest.raises(UsageError):
            elsewhere.put("wrong", *wrong)
    with pytest.raises(UsageError, match="another environment"):
        EpisodePool("Sort").put("a", whole)
    assert "wrong" not in elsewhere and len(elsewhere) == 1


def test_what_nobody_names_is_dropped(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("agent_envs.rollout.episode_pool.time.monotonic", lambda: clock[0])
    pool = EpisodePool(ID, idle_seconds=10)
    pool.begin_many([{"key": key, "seed": 0} for key in "abc"])
    clock[0] = 8.0
    pool.act_many([("a", GUESSES[0])])
    clock[0] = 12.0
    with pytest.raises(UsageError, match="idle too long"):
        pool.act_many([("b", GUESSES[0])])
    assert "a" in pool and len(pool) == 1 and pool.counts["idle"] == 2
    pool.close()
    assert len(pool) == 0


def test_what_equal_turns_show_is_held_once():
    pool = EpisodePool(ID)
    pool.begin_many([{"key": key, "task": 0, "seed": seed, "split": "dev"} for seed, key in enumerate("ab")])
    for _ in range(2):
        pool.act_many([(key, "".join(GUESSES[0])) for key in "ab"])
    a, b = (pool.moment(key).episode for key in "ab")
    assert a.prompt is b.prompt and a.key != b.key and a.turns[0].origin is a.turns[1].origin != b.turns[0].origin
    for one, other in zip(a.turns, b.turns, strict=True):
        for name in ("action", "parsed", "observation", "results"):
            assert getattr(one, name) is getattr(other, name)
    pool.act_many([(key, "x" * 9_000) for key in "ab"])
    a, b = (pool.moment(key).episode.turns[-1] for key in "ab")
    assert a.action == b.action and a.action is not b.action, "long texts are not kept for others"


def test_the_record_of_an_episode_is_there_until_it_is_dropped():
    pool = EpisodePool(ID)
    pool.begin_many([{"key": "a", "task": 0, "seed": 0, "split": "dev"}])
    pool.act_many([("a", "<answer>1</answer>")])
    episode = pool.moment("a").episode
    record = Trajectory(episode.header, episode.prompt, episode.turns, episode.task, episode.success)
    assert record.turns[-1].terminated and [turn.action for turn in record.turns] == ["<answer>1</answer>"]
    pool.drop("a")
    assert "a" not in pool


def test_an_actor_takes_the_turns_of_a_call_as_a_pool_would():
    spec, pool = spec_json(gym.make(ID)), EpisodePool(ID)
    host, rows = PoolHost(), [{"task": 0, "split": "train", "seed": seed, "key": str(seed)} for seed in range(3)]
    begun = host.play([StepTurn(row["key"], spec, row=row, saved=0) for row in rows])
    assert [answer for answer, _, _ in begun] == pool.begin_many(rows)
    turns = [StepTurn(row["key"], spec, action=(GUESSES[0], False)) for row in rows]
    strange = [StepTurn("new", spec, action=(GUESSES[0], False)), StepTurn("0", spec, action=(GUESSES[3], False))]
    moments = host.play([*turns, *strange])  # one that is not there, one twice
    assert [moment[0] for moment in moments[:3]] == pool.act_many([(row["key"], GUESSES[0]) for row in rows])
    assert moments[3:] == [None, None] and host.play(turns) == [None] * 3  # taken before
    header = begun[0][1].episode.header
    fork = StepTurn("fork", spec, 1, [begun[0][2]], [(GUESSES[0], False)], (GUESSES[3], False), header)
    ((answer, moment, _),) = host.play([fork], ended=["0", "lost"])
    assert seen(answer) == seen(pool.act_many([("0", GUESSES[3])])[0])
    assert (len(moment.episode.turns), moment.episode.header) == (1, None)
    assert host.play([StepTurn("0", spec, 1, action=(GUESSES[3], False))]) == [None]
