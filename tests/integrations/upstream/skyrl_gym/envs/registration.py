from importlib import import_module
from types import SimpleNamespace

registry = {}


def register(id, entry_point=None, kwargs=None):
    assert id not in registry
    registry[id] = SimpleNamespace(entry_point=entry_point, kwargs=kwargs or {})


def make(id, **kwargs):
    module, name = registry[id].entry_point.split(":")
    return getattr(import_module(module), name)(**{**registry[id].kwargs, **kwargs})
