"""The code blocks of docs/web.md run offline with the printed results, and its names and limits match the code."""

import re
import subprocess
import sys

from agent_envs.tools.web import WEB_FORMS
from agent_envs.tools.web.page import MAX_LINKS, MAX_TEXT_CHARACTERS
from agent_envs.tools.web.providers import PROVIDERS
from agent_envs.tools.web.url_policy import PORTS
from tests import ROOT

PAGE = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")


def test_blocks_run_and_print_what_they_say():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    assert len(blocks) == 2
    for block in blocks:
        ran = subprocess.run([sys.executable, "-W", "error", "-c", block], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        said = re.findall(r"print\(.*\)  # (.*)", block)
        assert not said or ran.stdout.splitlines() == said


def test_names_and_numbers():
    assert all(f"`{form}`" in PAGE for form in WEB_FORMS)
    assert all(provider.variable in PAGE and provider.path in PAGE for provider in PROVIDERS.values())
    assert ", ".join(map(str, PORTS)) in PAGE
    assert f"{MAX_TEXT_CHARACTERS:,} characters of text" in PAGE and f"{MAX_LINKS} links" in PAGE
