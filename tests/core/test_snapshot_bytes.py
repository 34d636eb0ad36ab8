"""Snapshots as bytes: canonical, portable, and refused when damaged."""

import copy
import gc
import json
import pickle

import gymnasium as gym
import pytest

from agent_envs import Snapshot, UsageError, fork, snapshot
from agent_envs.base import serialization
from agent_envs.base.serialization import canonical_json, digest
from agent_envs.core import snapshot as snapshots
from tests.core.test_snapshot import play, stack
from tests.fresh_process import printed
from tests.toy import ID


def test_bytes_are_read_in_a_fresh_process(tmp_path):
    env = stack()
    env.reset(seed=9, options={"episode_key": "key \ud800 é"})
    play(env, ["<luck>é</luck>", "nothing"])
    (tmp_path / "moment").write_bytes(snapshot(env).to_bytes())
    code = (
        "import sys, pathlib; from tests.core.test_snapshot import *; e = stack();"
        "restore(e, Snapshot.from_bytes(pathlib.Path(sys.argv[1]).read_bytes()));"
        "print(ascii(play(e, ['<luck>z</luck>', '<answer>4</answer>'])), e.reset()[1]['task_id'])"
    )
    seen = play(env, ["<luck>z</luck>", "<answer>4</answer>"])
    assert printed(code, tmp_path / "moment") == f"{ascii(seen)} {env.reset()[1]['task_id']}\n"


def test_bytes_are_canonical():
    env = stack()
    env.reset(seed=9)
    play(env, ["<luck>é</luck>"])
    data = snapshot(env).to_bytes()
    assert Snapshot.from_bytes(data).to_bytes() == data
    assert Snapshot.from_bytes(data) == snapshot(env)


def test_damaged_bytes_are_refused():
    env = gym.make(ID)
    env.reset(seed=0)
    env.step("<compare>3</compare>")
    data = snapshot(env).to_bytes()
    for position in range(0, len(data), 13):
        for bit in (1, 32):
            spoiled = bytearray(data)
            spoiled[position] ^= bit
            with pytest.raises(UsageError, match="snapshot"):
                Snapshot.from_bytes(bytes(spoiled))
    for broken in (b"", b"null", b"[]", b"{}", b"\xff\xfe", data[:-1], b"[" * 100_000, b'"x"', b"1" * 5000):
        with pytest.raises(UsageError, match="snapshot"):
            Snapshot.from_bytes(broken)


def test_a_sound_text_of_something_else_is_refused():

    pairs = [{"$pairs": [["spec_digest", ""], ["episode", item]]} for item in (None, {}, {"turns": {"$tuple": [1]}})]
    for body in (
        {},
        [],
        3,
        {"$type": "Nothing"},
        {"spec_digest": [1]},
        {"generator": 1, "more": 2},
        {"$pairs": []},
        *pairs,
    ):
        for layout in (1, 2, 3, []):
            text = canonical_json({"format": f"agent-envs/snapshot@{layout}", "sha256": digest(body), "body": body})
            with pytest.raises(UsageError, match="snapshot"):
                Snapshot.from_bytes(text.encode())


def test_a_turns_digest_stands_for_no_turn_and_another_layout_has_another_seal():
    env = gym.make(ID)
    env.reset(seed=0)
    env.step("a lone surrogate \ud800 and é")
    data = snapshot(env).to_bytes()
    assert Snapshot.from_bytes(data) == snapshot(env) and Snapshot.from_bytes(data).to_bytes() == data
    outer = json.loads(data.decode("utf-8", "surrogatepass"))
    turns = outer["body"]["$pairs"][1][1]["turns"]
    (turn,) = turns["$tuple"]
    old = {**outer, "format": snapshots.OLD_FORMAT}
    sound = {**old, "sha256": digest(outer["body"])}
    assert Snapshot.from_bytes(canonical_json(sound).encode("utf-8", "surrogatepass")) == snapshot(env)
    forged = [old, {**sound, "format": snapshots.FORMAT}]
    for instead in (digest(turn), [digest(turn)], None, 1, {**turn, "reward": 1.0}):
        turns["$tuple"] = [instead]
        body = json.loads(json.dumps(outer["body"]))
        # With the seal of the turn itself; and where the turn is none, with seals that fit.
        forged.append({**outer, "body": body})
        if not isinstance(instead, dict):
            forged.append({**outer, "body": body, "sha256": snapshots._seal(body)})
            forged.append({**old, "body": body, "sha256": digest(body)})
    for text in forged:
        with pytest.raises(UsageError, match="snapshot"):
            Snapshot.from_bytes(canonical_json(text).encode("utf-8", "surrogatepass"))


def test_a_turn_is_hashed_once_however_long_the_episode(monkeypatch):
    env = gym.make(ID)
    env.reset(seed=0)
    play(env, ["<luck>a text of a turn</luck>"] * 2)
    snapshot(env).to_bytes()
    play(env, ["nothing"])
    hashed = []
    for module in (snapshots, serialization.hashlib):
        whole = module.sha256
        monkeypatch.setattr(module, "sha256", lambda data, whole=whole: hashed.append(bytes(data)) or whole(data))
    data = snapshot(env).to_bytes()
    assert data.count(b"a text of a turn") > 1 and not any(b"a text of a turn" in text for text in hashed)
    assert sum(b'"$type":"Turn"' in text for text in hashed) == 1


def test_each_turn_is_encoded_once_and_forgotten_with_its_episode(monkeypatch):
    encoded = []
    whole = serialization.encode_state
    monkeypatch.setattr(serialization, "encode_state", lambda item: encoded.append(type(item).__name__) or whole(item))
    kept = len(serialization._STORED_TEXTS)
    env = stack()
    env.reset(seed=9)
    play(env, ["<luck>é</luck>", "nothing"])
    first = snapshot(env).to_bytes()
    # An inner part of a turn goes the same way, so that the turns alone are counted.
    assert encoded.count("Turn") == 2 and encoded.count("Task") == 1
    encoded.clear()
    twin = fork(env, "other")
    play(twin, ["<luck>z</luck>"])
    moment = snapshot(twin)
    data = moment.to_bytes()
    assert encoded.count("Turn") == 1 and encoded.count("Task") == 0
    assert snapshot(env).to_bytes() == first and Snapshot.from_bytes(data).to_bytes() == data
    turn = moment.episode.turns[0]
    for again in (copy.copy(turn), copy.deepcopy(turn), pickle.loads(pickle.dumps(turn))):
        assert again == turn and hash(again) == hash(turn) and repr(again) == repr(turn)
    assert len(serialization._STORED_TEXTS) > kept
    del env, twin, moment, turn, again
    gc.collect()
    assert len(serialization._STORED_TEXTS) <= kept + 1  # a source may keep its tasks
