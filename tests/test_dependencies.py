"""The core install names nine packages; the part of httpx that is used by name comes with every httpx that is allowed."""

import re
import tomllib
from importlib.metadata import requires

from tests import ROOT


def test_a_core_install_has_nine_direct_dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(project["dependencies"]) <= 9
    assert any(line.startswith("httpx") and "<1" in line for line in project["dependencies"])


def test_httpx_brings_the_httpcore_that_our_deadlines_stand_on():
    needed = [line for line in requires("httpx") or [] if re.match(r"httpcore\b", line) and "extra" not in line]
    assert needed == ["httpcore==1.*"]
