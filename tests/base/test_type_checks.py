"""Stored state and trajectories are refused, with the type and the field, where a value does not fit its annotation."""

import json
import random
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import pytest

import agent_envs
from agent_envs import Snapshot, UsageError, snapshot
from agent_envs.base.serialization import canonical_json, digest
from agent_envs.base.type_checks import attribute_fits, misfit
from agent_envs.core.trajectory import Trajectory
from agent_envs.wrappers import Memory, TurnLimit
from tests.rows import each_row

ODD = [
    None, True, -1, 10**400, 1e308, "", "x", "\ud800", [], {}, [1], {"$tuple": []}, {"$tuple": 5}, {"$int": "9" * 5000},
    {"$int": None}, {"$pairs": [[1, 2]]}, {"$pairs": {"a": 1}}, {"$type": "Turn"}, {"$type": []}, {"$type": "Header"},
    {"$type": "Message", "role": "user"}, {"$tuple": [1, "a", None]}, 5.5, "PCG64", json.loads('{"a":' * 900 + "1" + "}" * 900),
]  # fmt: skip


@dataclass(frozen=True)
class Item:
    name: str
    amount: float = 0.0
    kind: Literal["a", "b"] = "a"
    parts: tuple["Item", ...] = ()
    pair: tuple[str, int] | None = None
    table: dict[str, int | None] | None = None
    loose: Any = None
    fancy: list[int] | str = ""


@each_row(
    ("name", "good", "bad"),
    [
        ("name", ["", "x"], [None, 1, ()]),
        ("amount", [1, 2.5, True, 10**300], [None, "1", 10**400, float("nan"), float("inf")]),
        ("kind", ["a", "b", "another"], [1, None, {}, ()]),
        ("parts", [(), (Item("x"),)], [("x",), Item("x"), None, "ab"]),
        ("pair", [None, ("x", 1)], [("x",), ("x", 1, 2), (1, "x"), ("x", None)]),
        ("table", [None, {}, {"a": 1, "b": None}], [{"a": "x"}, (), "a"]),
        ("loose", [None, 1, {}, ((),)], []),
        ("fancy", ["", 1, None], []),  # a form that state has not
    ],
)
def test_each_form(name, good, bad):
    for value in good:
        assert not misfit(Item, {name: value})
    for value in bad:
        assert misfit(Item, {name: value}).startswith(f"Item.{name} is ")
    assert misfit(Item, {"name": 3, "other": 5}) == "Item.name is str, and holds a int"


def test_what_cannot_be_resolved_passes():
    @dataclass
    class Lost:
        there: "Nowhere"  # noqa: F821

    assert not misfit(Lost, {"there": 1})
    assert attribute_fits(TurnLimit, "state", (1, True)) and not attribute_fits(TurnLimit, "state", ("x", True))
    assert attribute_fits(Memory, "state", ((), ())) and not attribute_fits(Memory, "state", ((1,), ()))


def moment():
    env = Memory(TurnLimit(gym.make("agent_envs/SearchQA-v0"), turns=6), turns=1)
    env.reset(seed=1)
    for action in ("<search>a river</search>", "hm"):
        env.step(action)
    return env


def paths(value, path=()):
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from paths(value[key], (*path, key))


def spoiled(value, rng):
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice([1, 1, 2])):
        place = rng.choice([path for path in paths(value) if path])
        inner = value
        for key in place[:-1]:
            inner = inner[key]
        if isinstance(inner, dict) and rng.random() < 0.2:
            del inner[place[-1]]
        else:
            inner[place[-1]] = json.loads(json.dumps(rng.choice(ODD)))
    return value


def sealed(body):
    try:
        text = canonical_json({"format": "agent-envs/snapshot@1", "sha256": digest(body), "body": body})
    except (RecursionError, ValueError):
        return b"{}"
    return text.encode("utf-8", "surrogatepass")


def test_tampered_snapshots_are_refused_or_restored():
    env = moment()
    body = json.loads(snapshot(env).to_bytes())["body"]
    rng, refused = random.Random("tampered snapshots"), 0
    for _ in range(600):
        twin = agent_envs.fork(env)
        try:
            agent_envs.restore(twin, Snapshot.from_bytes(sealed(spoiled(body, rng))))
        except UsageError:
            refused += 1
    assert 300 < refused < 600


def test_a_refused_snapshot_leaves_the_environment_as_it_was():
    env = moment()
    body = json.loads(snapshot(env).to_bytes())["body"]
    before = snapshot(env)
    fields = dict(body["$pairs"])
    generator = {**fields, "generator": {"bit_generator": "PCG64", "state": None}}
    layers = json.loads(json.dumps(fields["layers"]))
    layers["$tuple"][1]["$tuple"][1] = {"$tuple": ["three", False]}
    for wrong in (generator, {**fields, "layers": layers}):
        with pytest.raises(UsageError, match=r"PCG64|TurnLimit"):
            agent_envs.restore(env, Snapshot.from_bytes(sealed(wrong)))
        assert snapshot(env) == before


def test_tampered_trajectories_are_refused_or_read():
    row = moment().unwrapped.episode.trajectory().to_json()
    rng, refused = random.Random("tampered rows"), 0
    for _ in range(600):
        try:
            found = Trajectory.from_json(spoiled(row, rng))
        except UsageError:
            refused += 1
        else:
            assert isinstance(found.total_reward, float) and all(turn.node for turn in found.turns)
    assert 300 < refused < 600
    wrong = json.loads(json.dumps(row))
    wrong["turns"]["$tuple"][0]["reward"] = "1"
    with pytest.raises(UsageError, match=r"Turn\.reward is float, and holds a str"):
        Trajectory.from_json(wrong)
