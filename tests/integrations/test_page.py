"""The page's scripts glue an adapter to its trainer in one line, and no adapter is longer than a reader of glue bears."""

import re

from tests import ROOT
from tests.integrations.real import scripts
from tests.test_size import lines_of_code

ADAPTERS = ("trl", "trl_rollout", "skyrl", "openenv", "verifiers", "verl", "gem", "inspect_ai")


def test_each_script_has_one_line_of_glue_and_classic_reinforcement_learning_none():
    glue = {
        name: len(re.findall(r"agent_envs\.integrations\b(?!.*_target_)", text.split('"""')[0]))
        for name, text in scripts().items()
    }
    played = {"trl_turns", "trl_tools", "skyrl", "openenv", "verifiers", "verl", "gem", "inspect"}
    none = ("verifiers_hub", "openenv_hub", "sb3", "openenv_served", "trl_served", "verifiers_served")
    assert glue == dict.fromkeys(played, 1) | dict.fromkeys(none, 0)


def test_an_adapter_is_short():
    for name in ADAPTERS:
        lines = lines_of_code(ROOT / "agent_envs" / "integrations" / f"{name}.py")
        assert lines <= 60, f"{name}: {lines} lines of code"
