"""Of inspect_ai 0.3.285: what the adapter touches, and an `eval` of one model that speaks from a script."""

import asyncio
from types import SimpleNamespace

from inspect_ai import model as _models


class Task:
    def __init__(self, dataset=None, setup=None, solver=None, cleanup=None, scorer=None, name=None):
        self.dataset, self.solver, self.scorer, self.name = dataset, solver, scorer, name


def eval(tasks, model=None, display=None, log_dir=None, log_format=None, log_samples=None):
    _models._current.append(model)
    (sample,) = tasks.dataset
    kept = {}
    store = SimpleNamespace(get=kept.get, set=kept.__setitem__)
    state = SimpleNamespace(metadata=sample.metadata, messages=[], store=store, output=None)
    done = asyncio.run(tasks.solver(state, None))
    score = asyncio.run(tasks.scorer(done, None))
    return [
        SimpleNamespace(status="success", samples=[SimpleNamespace(messages=done.messages, scores={"earned": score})])
    ]
