"""Rules of all tests: they are hermetic, but for what they ask for (`tests.needs`), and no setting of a shell is seen."""

import contextlib
import gc
import importlib
import inspect
import os
import re
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import ROOT, environment, needs
from tests.examples import FULL, part

# Machines are shared: no test fails for the time that an example took, or that its making did. A suite plays the same examples
# at each run, so that it fails for what a change did; the third profile, --hypothesis-profile explore, draws new ones.
settings.register_profile("explore", max_examples=FULL, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", settings.get_profile("explore"), derandomize=True)
settings.register_profile("part", settings.get_profile("thorough"), max_examples=FULL // 4)
settings.load_profile("part")  # make test-heavy names the other one


def pytest_configure(config: pytest.Config) -> None:
    """Clear the environment, hide what tests have to ask for, and give the session a cache folder of its own."""
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist inherit what is set here
        environment.clear()
    needs.begin_session()
    config.pluginmanager.register(Hiding())
    config.add_cleanup(lambda: needs.links.cache_info().currsize and needs.links().cleanup())
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="agent-envs-tests-")
        os.environ["AGENT_ENVS_CACHE"] = folder.name
        config.add_cleanup(folder.cleanup)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Keep what lives to the end, a million objects, out of the garbage collector: each full round went over all of it.

    It is off while tests are collected, what there is then (modules, and the tests themselves) is frozen, and rounds after
    that are rarer: caches of worlds and what tests import grow on.
    """
    gc.disable()
    try:
        import_own_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000, *gc.get_threshold()[1:])
        gc.enable()


def import_own_share(config: pytest.Config) -> None:
    """Import one stretch of the test modules before all others, where several workers are about to collect the whole suite.

    In a fresh clone each worker would rewrite the asserts of every module, all of them at once: ten seconds of a core each. So
    each finds the stretches of the others done.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or [os.path.abspath(name) for name in config.args] != [str(ROOT / "tests")]:
        return
    files = sorted(file for file in (ROOT / "tests").rglob("test_*.py") if (file.parent / "__init__.py").exists())
    for file in stretch(files, int(worker["workerid"].removeprefix("gw")), worker["workercount"]):
        # What cannot be imported, or skips itself, does so again when it is collected, and is told then.
        with contextlib.suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
            importlib.import_module(needs.begin_module(file))


def stretch(files: list[Path], number: int, count: int) -> list[Path]:
    """Return one of `count` stretches of files that have about as many bytes each."""
    sizes = [file.stat().st_size for file in files]
    before = accumulate(sizes, initial=0)
    return [file for file, start in zip(files, before, strict=False) if start * count // sum(sizes) == number]


class Hiding:
    """A plugin, as a folder whose conftest is yet to be read knows no hook of ours."""

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """Hide from a module, and a folder's conftest, what they did not ask for, whatever the modules before imported."""
        if isinstance(collector, pytest.Module | pytest.Directory):
            needs.begin_module(collector.path)
        return (yield)


@cache
def parts_of(path: Path) -> str:
    """Return a pattern of what a module's tests name where they play a part of their cases: tests.examples, constants of it."""
    text = path.read_text(encoding="utf-8")
    if not re.search(r"^from tests\.examples import .*\b(part|sample)\b", text, flags=re.MULTILINE):
        return ""
    return "|".join(["part", "sample", *re.findall(r"^(\w+) = .*\b(?:part|sample)\(", text, flags=re.MULTILINE)])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what plays a part of its cases where it plays all, and hold that a module names the marks of its tests.

    make test-data and make test-heavy look for modules by these words.
    """
    for item in items if part(True, False) else ():
        if (names := parts_of(item.path)) and re.search(rf"\b({names})\b", inspect.getsource(item.function)):
            item.add_marker("thorough")
    for mark in ("data", "heavy"):
        for path in {item.path for item in items if item.get_closest_marker(mark)}:
            if not re.search(rf"mark\.{mark}\b", path.read_text(encoding="utf-8")):
                raise pytest.UsageError(f"{path}: a test has the mark {mark!r}, which its module does not name")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give a test what it asked for, and hide the rest from it."""
    needs.begin(item)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the file that takes the ids of skipped tests: CI plays them once it has brought what they need."""
    parser.addoption("--skipped-to", metavar="FILE", help="write the ids of tests that skip for a need to a file")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped, a line for each need."""
    skipped = terminalreporter.stats.get("skipped", [])
    for line in needs.summary(report.longrepr[2] for report in skipped):
        terminalreporter.write_line(line)
    file = terminalreporter.config.getoption("--skipped-to")
    if file:
        ids = [f"{report.nodeid}\n" for report in skipped if report.longrepr[2].startswith("Skipped: needs ")]
        Path(file).write_text("".join(ids), encoding="utf-8")
