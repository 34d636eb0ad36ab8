"""AdamW with a schedule takes one gradient step over rows, whatever the loss, and processes sum their numbers.

A trainer calls backward once a micro-batch on losses that already have the denominators of the whole step, so gradients
add up, over micro-batches and then over processes, to those of one large batch. The model is never wrapped in DDP: that
would average, and would wait for ever for a process that has fewer micro-batches than the others.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from accelerate.utils import gather_object

from agent_envs.base.errors import AgentEnvsError, BudgetSpent, UsageError
from trainers.batching import MicroBatch, TrainRow, in_groups, micro_batches
from trainers.losses import token_mean
from trainers.settings import OptimSettings
from trainers.training.forward import laid_out

RECOVERY = "lower the learning rate in the run's settings.json, delete checkpoints that went wrong, and resume"
_BUCKET = 2**25  # numbers summed over processes at a time: 128 MB in float32
COUNTS = ("drift", "faults", "edited")  # summed over processes
T = TypeVar("T")
TokenLosses = Callable[[MicroBatch], tuple[torch.Tensor, dict[str, torch.Tensor]]]
Mean = Callable[[torch.Tensor, torch.Tensor, int, int], torch.Tensor]


class Optimiser:
    """AdamW over the parameters of a model that train, with warm-up, a schedule and clipping.

    Attributes:
        adamw: the torch optimiser.
        steps: updates made so far.
    """

    def __init__(self, model: torch.nn.Module, settings: OptimSettings, total_steps: int) -> None:
        """Set AdamW up; weight decay acts on matrices only, not on biases and norms.

        Args:
            model: whose parameters with `requires_grad` are trained.
            settings: learning rate, betas, decay, warm-up, schedule, clipping.
            total_steps: where the linear and cosine schedules end at 0.
        """
        self.model = model
        self.settings = settings
        self.total_steps = total_steps
        self.steps = 0
        self._cooling: tuple[int, int] | None = None
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        groups = [
            {"params": [p for p in self.parameters if p.ndim >= 2], "weight_decay": settings.weight_decay},
            {"params": [p for p in self.parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        fused = all(parameter.is_cuda for parameter in self.parameters) or None  # on a CPU it would round otherwise
        self.adamw = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, fused=fused)

    @property
    def learning_rate(self) -> float:
        """The rate of the next step, falling to 0 while it cools down."""
        rate = self.settings.learning_rate * rate_factor(self.settings, self.steps, self.total_steps)
        if self._cooling is None:
            return rate
        start, count = self._cooling
        return rate * max(0.0, 1.0 - (self.steps - start) / max(1, count))

    def cool_down(self, steps: int) -> None:
        """Let the rate fall linearly to 0 over this many steps, from the next one on."""
        self._cooling = self.steps, steps

    def step(self, accelerator: Any = None) -> float:
        """Sum gradients over processes, clip, update, clear; return the norm before clipping; AgentEnvsError if not finite.

        Raises:
            AgentEnvsError: the gradient is not finite; the weights are left as they were.
        """
        sum_gradients(self.model, accelerator)
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm or math.inf))
        if not math.isfinite(norm):
            raise AgentEnvsError(
                f"update {self.steps + 1}: the norm of the gradient is {norm}, training has diverged; {RECOVERY}"
            )
        for group in self.adamw.param_groups:
            group["lr"] = self.learning_rate
        self.adamw.step()
        if not bool(torch.stack([parameter.isfinite().all() for parameter in self.parameters]).all()):
            raise AgentEnvsError(f"update {self.steps + 1}: weights are not finite any more; {RECOVERY}")
        self.adamw.zero_grad(set_to_none=True)
        self.steps += 1
        return norm

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next step depends on: tensors, numbers, lists and dicts only."""
        return {"adamw": self.adamw.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        self.adamw.load_state_dict(state["adamw"])
        self.steps = int(state["steps"])


def rate_factor(settings: OptimSettings, step: int, total_steps: int) -> float:
    """Return the factor of the learning rate at a step (from 0): up to 1 over the warm-up, then the schedule."""
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return 1.0
    after = max(1, total_steps - settings.warmup_steps)
    progress = min(1.0, (step - settings.warmup_steps) / after)
    return 1.0 - progress if settings.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


def sum_gradients(model: torch.nn.Module, accelerator: Any = None) -> None:
    """Make every process's gradients the sum over all processes, absent ones as zeros; nothing for a single process."""
    if accelerator is None or accelerator.num_processes == 1:
        return
    for bucket in _buckets(model):
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = accelerator.reduce(torch.cat([gradient.reshape(-1) for gradient in gradients]), reduction="sum")
        for parameter, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            parameter.grad = part.view_as(parameter)


def _buckets(model: torch.nn.Module) -> Iterator[list[torch.nn.Parameter]]:
    """Return the trained parameters in order, in lists of one type and bounded size."""

    def fits(bucket: list[torch.nn.Parameter], parameter: torch.nn.Parameter) -> bool:
        """Return whether a bucket has room for one more parameter, and is of its type."""
        size = sum(each.numel() for each in (*bucket, parameter))
        return size <= _BUCKET and bucket[0].dtype == parameter.dtype

    return in_groups((parameter for parameter in model.parameters() if parameter.requires_grad), fits)


def same_weights(model: torch.nn.Module, accelerator: Any) -> None:
    """Give every process the weights of the first (fresh adapters start at random); nothing for a single one."""
    if accelerator is None or accelerator.num_processes == 1:
        return
    from accelerate.utils import broadcast

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(broadcast(parameter.data))


class Ratio(float):
    """A total over a count that differs between processes; as a number, 0 where nothing was counted."""

    total: float
    count: float

    def __new__(cls, total: float, count: float) -> "Ratio":
        """Make the quotient, and keep total and count."""
        ratio = super().__new__(cls, total / count if count else 0.0)
        ratio.total, ratio.count = total, count
        return ratio

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        """Pickle total and count, so that other processes get both."""
        return self.total, self.count


def extreme(name: str) -> Callable[..., Any] | None:
    """Return `min` or `max` where a metric's last part has that word, as TRL's do; None for others and for tools."""
    words = name.rsplit("/", 1)[-1].split("_")
    if name.startswith("tools/"):
        return None
    return min if "min" in words else max if "max" in words else None


def add_up(totals: MutableMapping[str, float], metrics: Mapping[str, Any], weight: float) -> None:
    """Add a micro-batch's means, times its weight, to totals; of smallest and largest values the extreme one stays."""
    for name, value in metrics.items():
        pick, number = extreme(name), float(value)
        if pick:
            totals[name] = pick(totals.get(name, number), number)
        else:
            totals[name] = totals.get(name, 0.0) + number * weight


def averages(totals: Mapping[str, float], weight: float) -> dict[str, float]:
    """Divide the sums of `add_up` by the whole weight; extremes stay."""
    return {name: value if extreme(name) else value / weight for name, value in totals.items()}


def mean_by_name(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each number over the rows that have it, or its extreme where its name says so."""
    return _by_name(rows, lambda name, values: sum(values) / len(values))


def sums_of_processes(totals: Mapping[str, float]) -> dict[str, float]:
    """Return the totals of all processes by name, or their extreme; a process may lack some."""
    return _by_name(gather_object([dict(totals)]), lambda name, values: sum(values))


def means_of_processes(stats: Mapping[str, float]) -> dict[str, float]:
    """Return a step's numbers over all processes, which have equal shares; what a process lacks is 0 there."""
    processes = gather_object([dict(stats)])
    return _by_name(processes, partial(_mean, processes=len(processes)))


def _mean(name: str, values: list[float], processes: int) -> float:
    """Merge a metric of several processes: a ratio by its sums, a count as a sum, else as a mean."""
    ratios = [value for value in values if isinstance(value, Ratio)]
    if ratios:
        return Ratio(sum(ratio.total for ratio in ratios), sum(ratio.count for ratio in ratios))
    return sum(values) if name in COUNTS else sum(values) / processes


def _by_name(rows: Sequence[Mapping[str, float]], rule: Callable[[str, list[float]], float]) -> dict[str, float]:
    """Reduce each number of the rows that have it to its extreme, where its name says so, or by `rule`."""
    numbers: dict[str, float] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        pick = extreme(name)
        numbers[name] = pick(values) if pick else rule(name, values)
    return numbers


class Processes:
    """One of the processes that train together; alone, it is all of them.

    Attributes:
        accelerator: accelerate's: device, mixed precision, processes.
        device: of the model.
    """

    def __init__(self, accelerator: Any) -> None:
        """Take accelerate's accelerator, which knows the processes."""
        self.accelerator, self.device = accelerator, accelerator.device

    def check_shares(self, tasks: int, *standards: str) -> None:
        """Raise UsageError for tasks not shared evenly, and, of several processes, for `batch_std` or `batch` standards."""
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
        own = torch.tensor(values, dtype=torch.float64, device=self.device)
        return self.accelerator.reduce(own, reduction="sum").tolist()

    def mean(self, values: Sequence[float]) -> float:
        """Return the mean over the numbers of all processes, of which there is at least one."""
        total, count = self.sums([sum(values), len(values)])
        return total / count


@contextlib.contextmanager
def one_budget() -> Iterator[None]:
    """Stop every process where one of them may spend nothing more: all of them enter this and leave it.

    Raises:
        BudgetSpent: in all of them, with the words of the first that was stopped.
    """
    message = ""
    try:
        yield
    except BudgetSpent as end:
        message = str(end)
    if why := next(filter(None, gather_object([message])), ""):
        raise BudgetSpent(why)


def gradient_step(
    rows: Sequence[TrainRow],
    parts: Any,
    token_losses: TokenLosses,
    mean: Mean = lambda by_token, trained, tokens, _: token_mean(by_token, trained, tokens),
    *,
    token_budget: int,
    optimiser: Optimiser | None = None,
    flat_rows: bool = True,
) -> dict[str, float]:
    """Take one gradient step on rows and return its metrics; without a trained token nothing moves.

    Args:
        rows: what to train on; without a trained token nothing moves.
        parts: of the run: model, optimiser, tokenizer, processes.
        token_losses: the loss of each token of a micro-batch (batch, tokens), and means over its trained ones by name; mixed
            precision around the model is its matter.
        mean: of token losses (batch, tokens), which of them are trained (batch, tokens), and the trained tokens and the rows
            of the whole step: what is differentiated; by default every trained token weighs the same.
        token_budget: tokens of a micro-batch, as `micro_batches` counts them.
        optimiser: of what the losses train; None for the run's model.
        flat_rows: False where every loss is an advantage times something: rows whose advantages are all 0 have no gradient, so
            that they are not computed. They stay in the denominators of the loss, and are not in its metrics.
    """
    optimiser = optimiser or parts.optimiser
    counts = [sum(row.sequence.trained) for row in rows]
    active = [(row, count) for row, count in zip(rows, counts, strict=True) if flat_rows or any(row.advantages)]
    tokens, count, weight = map(int, parts.processes.sums([sum(counts), len(rows), sum(own for _, own in active)]))
    step_metrics = {"learning_rate": optimiser.learning_rate}
    if tokens == 0:
        return step_metrics
    tensors: list[dict[str, torch.Tensor]] = []
    for micro in micro_batches_of([row for row, _ in active], parts, token_budget):
        by_token, metrics = token_losses(micro)
        loss = mean(by_token, micro.trained, tokens, count)
        parts.accelerator.backward(loss)
        tensors.append({"loss": loss.detach().double() * weight, "weight": micro.trained.sum(), **metrics})
    totals: dict[str, float] = {"loss": 0.0}
    for numbers in _numbers(tensors):
        totals["loss"] += numbers.pop("loss")
        add_up(totals, numbers, numbers.pop("weight"))
    if not active:  # momentum and decay go on as under a gradient of 0
        for parameter in optimiser.parameters:
            parameter.grad = torch.zeros_like(parameter)
    whole = averages(sums_of_processes(totals), max(1, weight))
    return step_metrics | whole | {"grad_norm": optimiser.step(parts.accelerator)}


def _numbers(rows: Sequence[Mapping[str, torch.Tensor]]) -> list[dict[str, float]]:
    """Return scalar tensors as numbers, by one copy from the device for all of them."""
    values = [value.double() for row in rows for value in row.values()]
    numbers = iter(torch.stack(values).tolist() if values else ())
    return [{name: next(numbers) for name in row} for row in rows]


def micro_batches_of(rows: Sequence[TrainRow], parts: Any, token_budget: int) -> Iterator[MicroBatch]:
    """Yield rows as micro-batches on the device of a run's model, laid out as it takes them."""
    for micro in micro_batches(rows, token_budget, parts.chat.pad_id, laid_out=laid_out(parts.model)):
        yield micro.to(parts.device)
