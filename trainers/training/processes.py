"""The processes of a run share out its episodes and rows, and sum their numbers."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from accelerate.utils import gather_object

from agent_envs.base.errors import BudgetSpent, UsageError
from trainers.training.optimise import global_sums
from trainers.training.pooling import sums_of_processes

T = TypeVar("T")


class Processes:
    """One of the processes that train together; alone, it is all of them.

    Attributes:
        accelerator: accelerate's: device, mixed precision, processes.
        device: of the model.
    """

    def __init__(self, accelerator: Any) -> None:
        """Take what accelerate knows of them."""
        self.accelerator, self.device = accelerator, accelerator.device

    def check_shares(self, tasks: int, *standards: str) -> None:
        """Refuse, with a UsageError, what several processes would not compute as one does; `standards` divide rewards."""
        count = self.accelerator.num_processes
        if tasks % count:
            raise UsageError(f"{tasks} tasks or rows a step do not share evenly among {count} processes")
        if count > 1 and {"batch_std", "batch"} & set(standards):
            raise UsageError(
                "scale=batch_std and turn_baseline=batch take the std of a whole step: they work in one process"
            )

    def share(self, items: Sequence[T], together: int = 1) -> list[T]:
        """Return this process's part of a step's rows, or of its episodes, of which so many in a row stay together."""
        mine, all_of_us = self.accelerator.process_index, self.accelerator.num_processes
        return [item for place, item in enumerate(items) if place // together % all_of_us == mine]

    def sums(self, values: Sequence[float]) -> list[float]:
        """Return numbers summed over processes."""
        return global_sums(self.accelerator, torch.tensor(values, dtype=torch.float64, device=self.device)).tolist()

    def mean(self, values: Sequence[float]) -> float:
        """Return the mean over the numbers of all processes, of which there is at least one."""
        total, count = self.sums([sum(values), len(values)])
        return total / count

    def sums_by_name(self, values: Mapping[str, float]) -> dict[str, float]:
        """Return numbers summed over processes by name, of smallest and largest ones the extreme; some may be lacking."""
        return sums_of_processes(values)


@contextlib.contextmanager
def one_budget() -> Iterator[None]:
    """Stop every process where one of them may spend nothing more: all of them enter this and leave it.

    Raises:
        BudgetSpent: in all of them, with the words of the first that was stopped.
    """
    told = ""
    try:
        yield
    except BudgetSpent as end:
        told = str(end)
    if why := next(filter(None, gather_object([told])), ""):
        raise BudgetSpent(why)
