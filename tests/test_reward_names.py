"""Every reward that an environment takes is promised: a variant in the registry, a golden replay, and a line in the page."""

import re
from dataclasses import replace

import gymnasium as gym
import pytest

from agent_envs import UsageError
from agent_envs.base.serialization import canonical_json
from agent_envs.core.registry import TABLE
from agent_envs.core.trajectory import Trajectory
from tests.golden import load, recording, variants
from tests.needs import needs
from tests.rows import each_row
from tests.test_docs import page_of


def taken(row):
    """Return the rewards that an id takes, as its refusal of another one lists them."""
    if "reward" not in gym.make(row.id).unwrapped.arguments:
        return ()
    with pytest.raises(UsageError) as error:
        gym.make(row.id, reward="no such reward")
    listed = re.search(r"(?:give one of|the rewards are) (.+)$", str(error.value))
    assert listed, f"{row.id}: the refusal of an unknown reward lists none; agent_envs.base.arguments.choice does"
    return tuple(listed[1].split(", "))


def lacking(row, reward, recorded, page):
    """Return what is missing of a reward of an id, with what to do."""
    text = page.partition("\n## Reward\n")[2].partition("\n## Episode end\n")[0]
    text += page.partition("\n- `reward`: ")[2].partition("\n- `")[0]
    rows = [variant for variant in variants(row, outside=False) if variant.get("reward") == reward]
    missing = [] if rows else [f"no variant: name it under variants of {row.name} in agent_envs/core/registry.py"]
    if not rows or any(canonical_json(variant) not in recorded for variant in rows):
        missing.append(f"no golden replay: then {recording(row.id)}")
    if f"`{reward}`" not in text:
        missing.append("no line in the class docstring, under Reward or Arguments: write one, then make docs")
    return [f"{row.id}: reward {reward!r} has {line}" for line in missing]


@needs("[envs]")
@each_row("row", [row for row in TABLE])
def test_every_reward_is_promised(row):
    missing = [line for name in taken(row) for line in lacking(row, name, load(row.id), page_of(row.name))]
    assert not missing, "\n".join(missing)
    named = {*row.variants.get("reward", ()), *row.outside.get("reward", ())}
    assert set(taken(row)) == named, f"{row.id} takes {taken(row)}, and its row names {named}"


@needs("[envs]")
@each_row("row", [row for row in TABLE])
def test_a_term_that_does_not_apply_pays_nothing_and_stored_rows_tell_which(row):
    for arguments in variants(row, outside=False):
        if not arguments or "reward" in arguments:
            core = gym.make(row.id, **arguments).unwrapped
            for stored in load(row.id)[canonical_json(arguments)]["trajectories"]:
                play = Trajectory.from_json({**stored, "header": {**stored["header"], "spec_digest": ""}})
                play = replace(play, task=core.source.get(play.header.split, play.header.task_id))
                for end, terms in enumerate(core.reward_spec.terms_by_turn(play), 1):
                    until = replace(play, turns=play.turns[:end])
                    for term in core.reward_spec.terms:
                        assert (terms[term.name] is None) is not term.applies(until), (arguments, end, term.name)
                    assert sum(value or 0.0 for value in terms.values()) == pytest.approx(until.last.reward)


def test_a_new_reward_is_told_all_that_it_lacks():
    row = TABLE[0]
    told = lacking(row, "em_short", load(row.id), page_of(row.name))
    assert [line.partition(": reward 'em_short' has no ")[2].partition(":")[0] for line in told] == [
        "variant", "golden replay", "line in the class docstring, under Reward or Arguments",
    ]  # fmt: skip
    assert "make golden ID=SearchQA" in told[1] and "make docs" in told[2]
    assert not lacking(row, "em", load(row.id), page_of(row.name))
