"""The install behind the two commands: what it says before, on the way, and in one line where it fails."""

import importlib.util
import shutil
import sys
import threading
from collections import namedtuple

import pytest

from tests import ROOT

SPEC = importlib.util.spec_from_file_location("install", ROOT / ".ci" / "install.py")
install = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(install)
OFFLINE = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /simple/torch/\n"
RECOVERED = OFFLINE.replace("total=0", "total=4")
NONE = "ERROR: No matching distribution found for {}"


def run(monkeypatch, tmp_path, pip: str, *more: str) -> int:
    """Run it with a venv whose pip prints a text; it fails unless the text is empty."""
    folder = tmp_path / "a folder"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    end = (
        f"cat <<'END'\n{pip}\nEND\nexit 1"
        if pip
        else "echo Collecting one; echo '  Downloading big-1-any.whl (500.0 MB)'"
    )
    python.write_text(f'#!/bin/sh\ncase "$*" in *" pip "*) {end};; esac\n', encoding="utf-8")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "argv", ["install.py", str(folder), "--torch", "torch==2.13.0", *more])
    monkeypatch.setattr(sys, "executable", shutil.which("true"))  # no venv is made: the one above stands there
    return install.main()


def test_it_says_how_large_and_long_it_is_and_how_far(monkeypatch, tmp_path, capfd):
    assert run(monkeypatch, tmp_path, "") == 0
    printed = capfd.readouterr().out
    assert "2.4 GB" in printed and "2 to 10 minutes" in printed and "the same command goes on" in printed
    assert "Downloading big-1-any.whl (500.0 MB)" in printed and printed.rstrip().endswith("installed")


def test_a_silent_download_shows_signs_of_life(capfd):
    class Waits(threading.Event):
        def wait(self, timeout):
            return self.is_set() or self.set()

    install.show_signs_of_life({"now": "Downloading big"}, install.time.monotonic(), Waits())
    assert capfd.readouterr().out == "   0 s  Downloading big\n"


@pytest.mark.parametrize(
    ("pip", "fix"),
    [
        (OFFLINE + NONE.format("torch==2.13.0"), "the index of packages cannot be reached: .*PIP_INDEX_URL"),
        ("ReadTimeoutError: Read timed out.", "cannot be reached"),
        (OFFLINE + "Downloading x.whl\n" + NONE.format("torch==2.13.0"), r"torch==2.13.0 does not fit"),
        (RECOVERED + NONE.format("torch==2.13.0"), r"torch==2.13.0 does not fit"),
        (NONE.format("torch==2.13.0"), r"torch==2.13.0 does not fit .*TORCH=.*TORCH_INDEX"),
        (
            "ERROR: torch-2.13.0-cp39.whl is not a supported wheel on this platform.",
            "does not fit this Python and machine",
        ),
        ("OSError: [Errno 28] No space left on device", "the disk is full: the environment takes 2.4 GB"),
    ],
)
def test_a_failure_ends_in_one_line_with_the_fix(monkeypatch, tmp_path, capfd, pip, fix):
    assert run(monkeypatch, tmp_path, pip) == 1
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("make: the environment was not installed: ")
    assert install.re.search(fix, last), last


def test_what_cannot_work_is_said_before_anything_is_installed(monkeypatch, tmp_path, capfd):
    with monkeypatch.context() as patched:
        patched.setattr(sys, "version_info", (3, 10, 1))
        assert run(monkeypatch, tmp_path, "") == 1
    assert "3.11 is the oldest: make PYTHON=" in capfd.readouterr().err
    monkeypatch.setattr(install.shutil, "disk_usage", lambda path: namedtuple("Usage", "free")(10**9))
    (tmp_path / "a folder/lib/python3/site-packages/torch").mkdir(parents=True)
    assert run(monkeypatch, tmp_path, "") == 0  # it goes on from what is there
    shutil.rmtree(tmp_path / "a folder")
    monkeypatch.setattr(sys, "argv", ["install.py", str(tmp_path / "no" / "folder"), "--torch", "torch"])
    assert install.main() == 1
    assert "less than 4 GB are free here" in capfd.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(install.subprocess, "run", lambda *_, **__: namedtuple("Ran", "returncode")(1))
    assert run(monkeypatch, tmp_path, "") == 1
    assert "apt-get install python3-venv" in capfd.readouterr().err
