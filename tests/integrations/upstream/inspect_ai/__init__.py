"""Of inspect_ai 0.3.285: what the adapter touches, and an `eval` of one model that speaks from a script."""

import asyncio
from types import SimpleNamespace

from inspect_ai import model as _models


class Task:
    def __init__(self, dataset=None, setup=None, solver=None, cleanup=None, scorer=None, name=None):
        self.dataset, self.solver, self.scorer, self.name = dataset, solver, scorer, name


def eval(
    tasks,
    model=None,
    display=None,
    log_dir=None,
    log_format=None,
    message_limit=None,
    time_limit=None,
    log_samples=None,
):
    _models._current.append(model)
    _models._limits.append(message_limit or 10**9)
    (sample,) = tasks.dataset
    kept = {}
    store = SimpleNamespace(get=kept.get, set=kept.__setitem__)
    state = SimpleNamespace(metadata=sample.metadata, messages=[], store=store, output=None)
    reached = None
    try:
        asyncio.run(asyncio.wait_for(tasks.solver(state, None), time_limit))
    except _models._Limited:
        reached = SimpleNamespace(type="message")
    except TimeoutError:
        reached = SimpleNamespace(type="time")
    score = asyncio.run(tasks.scorer(state, None))
    sample = SimpleNamespace(messages=state.messages, scores={"earned": score}, limit=reached)
    return [SimpleNamespace(status="success", samples=[sample])]
