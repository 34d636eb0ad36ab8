from importlib import import_module
from types import SimpleNamespace

ENV_REGISTRY = {}


def register(env_id, entry_point, **kwargs):
    assert env_id not in ENV_REGISTRY
    ENV_REGISTRY[env_id] = SimpleNamespace(entry_point=entry_point, kwargs=kwargs)


def make(env_id, **kwargs):
    module, name = ENV_REGISTRY[env_id].entry_point.split(":")
    return getattr(import_module(module), name)(**{**ENV_REGISTRY[env_id].kwargs, **kwargs})


def make_vec(env_ids, wrappers=None, vec_kwargs=None, async_mode=False, seed=0, **kwargs):
    return SimpleNamespace(envs=[make(env_id, seed=seed + place) for place, env_id in enumerate(env_ids)])
