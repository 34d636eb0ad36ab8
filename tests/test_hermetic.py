"""Tests see no data, no cache and no setting of the machine that they run on, unless they ask for it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.examples import part

JUNK = "/nowhere/junk"
# What shells set for other programs; each has broken a test of somebody's.
HOSTILE = {
    "HF_HUB_OFFLINE": "1", "HF_HOME": JUNK, "HF_ENDPOINT": "http://127.0.0.1:9", "TRANSFORMERS_OFFLINE": "1",
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"),
    "no_proxy": "", "OPENAI_API_KEY": "theirs", "OPENAI_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "theirs",
    "PYTHONHASHSEED": "7", "PYTHONPATH": JUNK, "PYTHONWARNINGS": "error", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii",
    "LANG": "tr_TR.ISO-8859-9", "LC_ALL": "C", "TZ": "Pacific/Kiritimati", "XDG_CACHE_HOME": JUNK, "XDG_CONFIG_HOME": JUNK,
    "AGENT_ENVS_CACHE": JUNK, "AGENT_ENVS_DATA": JUNK, "COLUMNS": "20", "FORCE_COLOR": "1", "GIT_DIR": JUNK, "RANK": "1",
    "CUDA_VISIBLE_DEVICES": "7", "MAKEFLAGS": "-k", "CI": "1",
    "SSL_CERT_FILE": JUNK, "REQUESTS_CA_BUNDLE": JUNK, "SSLKEYLOGFILE": "/nowhere/keys", "TORCHINDUCTOR_CACHE_DIR": JUNK,
}  # fmt: skip
PLAYED = ("tests/datasets/test_download.py", "tests/cli/test_doctor.py", "tests/base/test_terminal.py")


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
    assert "2 passed, 4 deselected" in ran.stdout, ran.stdout


def test_no_setting_of_the_callers_shell_moves_a_test():
    """Each of these variables stood where a test, or a process of one, could read it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1", *PLAYED]
    command += ["-m", "not heavy and not data", "-k", part("test", "not corpus and not mixtures and not hub_faults")]
    ran = subprocess.run(command, cwd=ROOT, env=os.environ | HOSTILE, capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and re.search(r"\d{2,} passed", ran.stdout), ran.stdout + ran.stderr


def test_asserts_that_python_drops_are_no_tests():
    command = [sys.executable, "-O", "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "--co"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode != 0 and "python -O drops the asserts" in ran.stdout + ran.stderr


def test_tests_of_a_group_are_played_by_one_worker(tmp_path):
    """A venv is built once by those that share it; a pytest that pytest-xdist does not know gave them to all workers."""
    module = (
        "import pytest\n@pytest.mark.xdist_group('g')\n@pytest.mark.parametrize('n', range(6))\ndef test_it(n): pass\n"
    )
    (tmp_path / "test_group.py").write_text(module, encoding="utf-8")
    options = ["-v", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    workers = re.findall(r"\[(gw\d)\].* PASSED", ran.stdout)
    assert len(workers) == 6 and len(set(workers)) == 1, ran.stdout
