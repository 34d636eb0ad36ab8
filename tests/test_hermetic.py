"""Tests see no data and no cache of the machine that they run on, unless they are marked `data`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

JUNK = "/nowhere/junk"


def test_a_test_sees_neither_real_data_nor_a_cache_of_the_machine():
    assert "AGENT_ENVS_DATA" not in os.environ
    cache = Path(os.environ["AGENT_ENVS_CACHE"])
    assert cache.is_dir() and cache.name.startswith("agent-envs-tests-") and str(cache) != JUNK


@pytest.mark.data
def test_a_test_of_data_sees_the_folder():
    assert os.environ["AGENT_ENVS_DATA"] and Path(os.environ["AGENT_ENVS_CACHE"]).name.startswith("agent-envs-tests-")


def test_what_the_environment_names_is_hidden_from_all_tests_but_those_of_data():
    """A session of its own, with both variables set: each of the two tests above passes."""
    environment = {**os.environ, "AGENT_ENVS_DATA": JUNK, "AGENT_ENVS_CACHE": JUNK}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "sees"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed, 1 deselected" in ran.stdout, ran.stdout
