"""vLLM gets the environment variables that it needs of its process, and what it changes in that process is undone."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from transformers.utils import logging

# In-process, since vLLM's own processes start and end slowly on a CPU; threads as torch has them; a small cache.
_ON_CPU = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
# vLLM reports its use over the network unless it is told not to.
_ANYWHERE = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}


def set_variables(on_gpu: bool) -> None:
    """Set the environment variables that vLLM reads, those that are not set yet."""
    for name, value in (_ANYWHERE if on_gpu else {**_ANYWHERE, **_ON_CPU}).items():
        os.environ.setdefault(name, value)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Put back what vLLM changes: it seeds the global generators, draws from them, and blocks `torch.set_num_threads`."""
    python, numpy, threads = random.getstate(), np.random.get_state(), torch.set_num_threads
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_num_threads = threads


@contextmanager
def silent_saving() -> Iterator[None]:
    """Keep transformers from drawing a progress bar for every save."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
