"""Fails imports of packages that a test did not ask for, in its process and in those that it starts (tests/needs.py).

A package that an earlier test imported is taken out of `sys.modules` with its submodules, and so are our own modules that
import it at their head, which leave the packages that hold them, too: a test that did not ask fails wherever it stands in the
order. Packages of others that need it still get the same module.
Every process of a test reads this file, so it imports next to nothing.
"""

import os
import sys

GUARD = "AGENT_ENVS_TESTS_GUARD"  # the variable that holds the orders for processes of a test
OURS = ("agent_envs", "baselines", "benchmarks", "docs", "examples", "leaderboard", "tests", "trainers", "__main__")


class Unasked(BaseException):
    """A package was imported that the test did not ask for; no `except Exception` of ours takes it for a missing package."""


class AgainAsItWas:
    """A loader that hands a module back that was taken out of `sys.modules`."""

    def __init__(self, module):
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec):
        """Return the module."""
        return self.module

    def exec_module(self, module):
        """Run nothing; the module was run once."""
        module.__spec__ = self.spec


class ImportGuard:
    """A finder of modules that fails imports of what is denied by our own code. A look (`find_spec`) is no import.

    Args:
        failure: the exception that such an import raises.
        needing: the packages that modules of ours import at their head, of a process that plays more than one test.
    """

    def __init__(self, failure=Unasked, needing=()):
        self.failure, self.needing = failure, dict(needing)
        self.denied, self.away, self.modules = {}, {}, 0

    def deny(self, packages):
        """Deny these packages and no others.

        Args:
            packages: what would have to be asked for, by the package's name.
        """
        if packages == self.denied and len(sys.modules) == self.modules:
            return
        for name, module in self.away.items():
            sys.modules[name] = module
            holder, _, attribute = name.rpartition(".")
            if name in self.needing and holder in sys.modules:  # which is away where its own import failed
                setattr(sys.modules[holder], attribute, module)
        self.denied = dict(packages)
        ours = {name for name, imported in self.needing.items() if not imported.isdisjoint(self.denied)}
        self.away = {
            name: module
            for name, module in sys.modules.items()
            if module and (name in ours or name.partition(".")[0] in self.denied)
        }
        for name, module in self.away.items():
            del sys.modules[name]
            holder, _, attribute = name.rpartition(".")
            if name in ours and getattr(sys.modules.get(holder), attribute, None) is module:
                delattr(sys.modules[holder], attribute)
        self.modules = len(sys.modules)

    def find_spec(self, name, path=None, target=None):
        """Find what was taken away, for a package of others; raise where code of ours imports what is denied."""
        if (name not in self.denied and name not in self.away) or not _is_import():
            return None
        importer = _importer()
        if importer.partition(".")[0] in OURS or importer.startswith("test_"):
            package = name.partition(".")[0]
            if package not in self.denied:
                package = min(self.needing[name] & self.denied.keys())
            what = f"{name}, and {package} with it," if name in self.needing else name
            raise self.failure(
                f"{what} is imported by {importer}, and this test did not ask for it: "
                f"needs({self.denied[package]!r}), or require()"
            )
        return type(sys.__spec__)(name, AgainAsItWas(self.away[name])) if name in self.away else None


class GuardOfProcess(ImportGuard):
    """The guard of a test's process; one that serves several tests is handed each one's environment.

    Orders read `name=extra;name=extra|name name`: what is denied, and what is to be missing.
    """

    orders = ""

    def find_spec(self, name, path=None, target=None):
        """Follow the orders that stand in the environment now."""
        if (orders := os.environ.get(GUARD, "|")) != self.orders:
            self.orders = orders
            self.deny(dict(pair.split("=") for pair in orders.partition("|")[0].split(";") if pair))
        return super().find_spec(name, path, target)


def guard_this_process():
    """Deny a process what its test did not ask for, and hide what is to be missing."""
    missing = os.environ[GUARD].partition("|")[2].split()
    sys.modules.update(dict.fromkeys(missing))  # None: an import fails, a look finds nothing
    sys.meta_path.insert(0, GuardOfProcess())


def _is_import():
    frame = sys._getframe(2)
    while frame and frame.f_code.co_name in ("_find_spec", "find_spec"):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "_find_and_load_unlocked"


def _importer():
    """Return the module that imports; a program (`python -m it`) by the name of its module."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name == "__main__":
            name = getattr(frame.f_globals.get("__spec__"), "name", name)
        if name != __name__ and not name.startswith(("importlib", "_frozen_importlib")):  # as long as nobody imports it
            return name
        frame = frame.f_back
    return ""
