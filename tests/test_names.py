"""Names are for the thing and docstrings begin with the field's words: what is left of the other kind may only fall."""

import ast
from collections import Counter

import pytest

from tests import ROOT
from tests.names import names, participles, roundabout

STORED = "a field of a stored state, which snapshots hold by this name"
WRITTEN = "`TurnEnv.written` is public: the protocol of actions that are no native calls"
# file: the names in it that are public or stored, and why they stay; at most twenty.
ALLOWED = {
    "agent_envs/core/turn_form.py": ("written", WRITTEN),
    "agent_envs/envs/expa/expanded_env.py": ("written", STORED),
    "agent_envs/envs/expa/generated.py": ("given", STORED),
    "agent_envs/envs/expa/text_env.py": ("written", WRITTEN),
    "agent_envs/envs/legal_search/env.py": ("written", WRITTEN),
    "agent_envs/envs/search_qa/env.py": ("written", WRITTEN),
    "agent_envs/envs/tau2/users/device_words.py": ("told", STORED),
    "agent_envs/envs/tau2/users/mind.py": ("asked told owed seen", STORED),
    "agent_envs/envs/text_games/babyai/mission.py": ("held", STORED),
    "agent_envs/envs/text_games/game.py": ("written", WRITTEN),
    "agent_envs/envs/tool_reasoning/content.py": ("found", STORED),
    "agent_envs/envs/tool_reasoning/env.py": ("written", WRITTEN),
    "benchmarks/grpo_world.py": ("shown", "a key of benchmarks/results/grpo_step.json"),
}
# package: (participles as names, first lines that begin with a sentence) that are left
HELD = {
    "agent_envs": (0, 0), "trainers": (0, 0), "leaderboard": (0, 0), "baselines": (0, 0), "benchmarks": (0, 0),
}  # fmt: skip


def allowed(package: str, place: str) -> bool:
    file, _, name = place.rpartition(" ")
    return name in ALLOWED.get(f"{package}/{file.rpartition(':')[0]}", ("",))[0].split()


@pytest.mark.parametrize("package", HELD)
def test_names_are_for_the_thing(package):
    places = [place for place in participles(ROOT / package) if not allowed(package, place)]
    held = HELD[package][0]
    assert len(places) <= held, (
        f"{len(places)} names such as `found` and `told`, of {held}: name the thing\n" + "\n".join(places)
    )
    assert len(places) == held, f"{package}: lower the number that is held to {len(places)}"


@pytest.mark.parametrize("package", HELD)
def test_first_lines_say_the_thing(package):
    places, held = roundabout(ROOT / package), HELD[package][1]
    assert len(places) <= held, f"{len(places)} of {held}: begin with the term, not a sentence\n" + "\n".join(places)
    assert len(places) == held, f"{package}: lower the number that is held to {len(places)}"


def test_allowed_names_are_few_and_there():
    assert sum(len(words.split()) for words, _ in ALLOWED.values()) <= 20
    for file, (words, _) in ALLOWED.items():
        there = {name for name, _ in names(ast.parse((ROOT / file).read_text(encoding="utf-8")))}
        assert there >= set(words.split()), f"{file} no longer has all of {words}"


def test_what_counts():
    tree = ast.parse(
        "def told(seen, *, given=1):\n  found = [kept for kept in seen]\n  self.made_x = found.known\n"
        "class _Heard:\n  held: int\n  x: int\ndef put(y, made):\n  made(y)\n"
    )
    counts = Counter(name for name, _ in names(tree))
    assert counts == Counter(
        ["told", "seen", "given", "found", "kept", "made_x", "_Heard", "held", "x", "put", "y", "made"]
    )
