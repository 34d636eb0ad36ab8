"""Tasks that cannot be earned under an environment's arguments, and gold that is shown, are told and stay with a run."""

import json

import gymnasium as gym
import pytest

from agent_envs import UsageError, register_companions
from agent_envs.evaluation.report.report import report_on
from agent_envs.evaluation.runs.evaluate import evaluate, resume
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite, ceiling_note, notes_on
from tests.toy import Guess

ID = "ceilings/Half-v0"


class Half(Guess):
    """Guess, of which some tasks need what the environment may lack."""

    def __init__(self, *, lamp=False, key=False, **arguments):
        super().__init__(**arguments)
        self.lamp, self.key = lamp, key


def dark(env, split):
    core = env.unwrapped
    found = {} if core.lamp else {f"{split}-{place}": "lie in the dark" for place in range(3)}
    return found | ({} if core.key else {f"{split}-9": "are locked"})


gym.register(ID, Half)
register_companions(Half, out_of_reach=dark)


@pytest.mark.parametrize(
    ("arguments", "limit", "told"),
    [
        ({}, None, "3 of 10 tasks lie in the dark and 1 of 10 tasks are locked: the ceiling is 60.0 %"),
        ({"key": True}, 4, "3 of 4 tasks lie in the dark: the ceiling is 25.0 %"),
        ({"lamp": True, "key": True}, None, ""),
        ({"lamp": True}, 5, ""),
    ],
)
def test_tasks_out_of_reach_are_counted_among_those_that_are_played(arguments, limit, told):
    suite = adhoc_suite(Choice(ID, arguments, limit=limit))
    assert notes_on(suite).lines == ((f"{suite.entries[0].label}: {told}",) if told else ())


def test_an_environment_that_says_nothing_has_no_ceiling():
    assert ceiling_note(gym.make("agent_envs/SearchQA-v0"), "test", ["test-0"]) == ""


class Bare(Guess):
    """Guess, which may show its gold, and whose companions may fail."""

    def __init__(self, *, hint=False, broken=False, **arguments):
        super().__init__(**arguments)
        self.hint, self.broken = hint, broken


def hinted(env):
    if env.unwrapped.broken:
        raise RuntimeError("no\nhint")
    return "a hint tells the number" if env.unwrapped.hint else ""


gym.register("ceilings/Bare-v0", f"{__name__}:Bare")
register_companions(Bare, out_of_reach=lambda env, split: ["test-0"] if env.unwrapped.broken else {}, shows_gold=hinted)


def played(folder, **arguments):
    suite = adhoc_suite(Choice("ceilings/Bare-v0", arguments))
    return evaluate(suite, Settings("null"), folder=folder)


def test_what_is_known_before_stays_with_the_run(tmp_path):
    result = played(tmp_path / "run", hint=True)
    label = result.summaries[0].entry
    line = f"{label}: the gold is shown, a hint tells the number: a diagnosis, and no score of an agent"
    assert result.notes == (line,) == open_run(tmp_path / "run").config.notes.shows_gold
    assert result.to_json()["notes"] == [line] and resume(tmp_path / "run").to_json() == result.to_json()
    assert line in report_on(open_run(tmp_path / "run")).notes
    assert "notes" not in played(tmp_path / "plain").to_json()


def test_a_run_that_was_shown_the_gold_is_not_packed(tmp_path):
    """Neither where its environment says so now, nor where only the run remembers it."""
    played(tmp_path / "run", hint=True)
    with pytest.raises(UsageError, match="cannot be packed: .*: the gold is shown, a hint tells the number"):
        pack_run(tmp_path / "run", tmp_path / "out")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    del config["notes"]
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="cannot be packed: .*: the gold is shown"):
        pack_run(tmp_path / "run", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    played(tmp_path / "plain")
    pack_run(tmp_path / "plain", tmp_path / "out")


def test_a_run_remembers_the_gold_where_its_environment_is_unknown(tmp_path, monkeypatch):
    played(tmp_path / "run", hint=True)
    monkeypatch.delitem(gym.registry, "ceilings/Bare-v0")
    with pytest.raises(UsageError, match="cannot be packed: .*: the gold is shown"):
        pack_run(tmp_path / "run", tmp_path / "out")


def test_a_companion_that_fails_is_named_and_ends_nothing(tmp_path):
    result = played(tmp_path / "run", broken=True)
    gold, reach = result.notes
    assert gold.endswith("not known: the companion shows_gold of ceilings/Bare-v0 failed: RuntimeError: no hint")
    assert "the companion out_of_reach of ceilings/Bare-v0 failed: TypeError: it returned ['test-0']" in reach
    assert result.complete
