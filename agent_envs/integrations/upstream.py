"""Adapters import their trainer at use, and build classes on its base classes when somebody asks their module for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from agent_envs.base.errors import MissingExtra


@contextmanager
def needs(package: str, extra: str) -> Iterator[None]:
    """Import a trainer under this; MissingExtra where it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(package, extra, f"agent_envs.integrations.{extra}") from error


def built_later(module: str, build: Callable[[], tuple[type, ...]]) -> Callable[[str], Any]:
    """Return a module's `__getattr__`, which builds its classes when one is asked for: by an entry point, a file, a pickle."""
    built = cache(lambda: {kind.__name__: kind for kind in build()})

    def get(name: str) -> Any:
        """Return a class of this module, built at first use; AttributeError for any other name."""
        if name.startswith("_") or name not in built():
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        kind = built()[name]
        kind.__module__, kind.__qualname__ = module, name
        return kind

    return get
