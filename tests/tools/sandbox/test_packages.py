import pytest

from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.tools.sandbox import SandboxSpec, open_sandbox, record_of
from agent_envs.tools.sandbox.mounts import bwrap_command, bwrap_version
from agent_envs.tools.sandbox.port import MORE_PACKAGES
from tests.needs import needs

SPEC = SandboxSpec(backend="bwrap", preload=False)


@needs("bwrap", "[sandbox]", "[math-verify]")
def test_further_packages_are_there_for_those_who_ask():
    spec = SandboxSpec(backend="bwrap", packages=("math-verify",))
    version = bwrap_version(spec.packages)
    names = [part.split()[0] for part in version.split(", ")]
    assert names[5:] == ["math-verify", "latex2sympy2-extended", "antlr4-python3-runtime"]
    with open_sandbox(spec) as session:
        assert session.spec.version == version
        assert session.run("import sys\n'math_verify' in sys.modules").value == "True"
        assert (
            session.run("import math_verify\nmath_verify.__file__").value
            == "'/python/packages/math_verify/__init__.py'"
        )
        inside = "/python/packages/math_verify-0.9.0.dist-info"
        assert session.run(f"import os\nos.listdir('{inside}')").value == "['METADATA']"
    with open_sandbox(SPEC) as session:
        assert session.run("import math_verify").error == "ModuleNotFoundError: No module named 'math_verify'"


def test_unknown_packages_are_refused():
    for backend, packages in (("bwrap", ("requests",)), ("monty", ("math-verify",)), ("bwrap", ["math-verify"])):
        with pytest.raises(UsageError, match="can have (math-verify|no further packages)"):
            record_of(SandboxSpec(backend=backend, packages=packages))


@needs("bwrap", "[sandbox]")
def test_a_package_that_is_not_installed_is_told_with_its_extra(monkeypatch):
    monkeypatch.setitem(MORE_PACKAGES, "nothing", {"nothing_at_all": "nothing-at-all"})
    with pytest.raises(MissingExtra, match=r"needs nothing-at-all: pip install \"agent-envs\[nothing\]\""):
        bwrap_version(("nothing",))
    with pytest.raises(MissingExtra, match=r"agent-envs\[nothing\]"):
        bwrap_command(("nothing",))
