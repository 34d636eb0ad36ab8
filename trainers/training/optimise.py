"""The optimiser is AdamW with a schedule, and gradients and counts are summed over processes.

A trainer calls backward once a micro-batch on losses that already have the denominators of the whole step, so gradients
add up, over micro-batches and then over processes, to those of one large batch. The model is never wrapped in DDP: that
would average, and would wait for ever for a process that has fewer micro-batches than the others.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch

from agent_envs.base.errors import AgentEnvsError
from trainers.settings import OptimSettings

GOING_BACK = "lower the learning rate in the run's settings.json, delete checkpoints that went wrong, and resume"
_BUCKET = 2**25  # numbers summed over processes at a time: 128 MB in float32


class Optimiser:
    """AdamW over the parameters of a model that train, with warm-up, a schedule and clipping.

    Attributes:
        adamw: the torch optimiser.
        steps: updates made so far.
    """

    def __init__(self, model: torch.nn.Module, settings: OptimSettings, total_steps: int) -> None:
        """Weight decay acts on matrices only, not on biases and norms.

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
        self.adamw = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas)

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        rate = self.settings.learning_rate * rate_factor(self.settings, self.steps, self.total_steps)
        if self._cooling is None:
            return rate
        start, count = self._cooling
        return rate * max(0.0, 1.0 - (self.steps - start) / max(1, count))

    def cool_down(self, steps: int) -> None:
        """From the next step on let the rate fall to 0 in a line, over so many steps."""
        self._cooling = self.steps, steps

    def step(self, accelerator: Any = None) -> float:
        """Sum gradients over processes, clip, update, clear the gradients; return their norm before clipping.

        Raises:
            AgentEnvsError: the gradient is not finite; the weights are left as they were.
        """
        sum_gradients(self.model, accelerator)
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters, self.settings.max_grad_norm or math.inf))
        if not math.isfinite(norm):
            raise AgentEnvsError(
                f"update {self.steps + 1}: the norm of the gradient is {norm}, training has diverged; {GOING_BACK}"
            )
        for group in self.adamw.param_groups:
            group["lr"] = self.learning_rate
        self.adamw.step()
        if not all(bool(parameter.isfinite().all()) for parameter in self.parameters):
            raise AgentEnvsError(f"update {self.steps + 1}: weights are not finite any more; {GOING_BACK}")
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
    """Return what the learning rate of a step (from 0) is multiplied by: up to 1 over the warm-up, then the schedule."""
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    if settings.schedule == "constant":
        return 1.0
    after = max(1, total_steps - settings.warmup_steps)
    progress = min(1.0, (step - settings.warmup_steps) / after)
    return 1.0 - progress if settings.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * progress))


def sum_gradients(model: torch.nn.Module, accelerator: Any = None) -> None:
    """Make every process's gradients the sum over all processes; one without micro-batches counts as zeros."""
    if accelerator is None or accelerator.num_processes == 1:
        return
    for bucket in _buckets(model):
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = accelerator.reduce(torch.cat([gradient.reshape(-1) for gradient in gradients]), reduction="sum")
        for parameter, part in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            parameter.grad = part.view_as(parameter)


def _buckets(model: torch.nn.Module) -> Iterator[list[torch.nn.Parameter]]:
    """Yield the trained parameters in order, in lists of one type and bounded size."""
    bucket: list[torch.nn.Parameter] = []
    size = 0
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        if bucket and (size + parameter.numel() > _BUCKET or bucket[0].dtype != parameter.dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += parameter.numel()
    if bucket:
        yield bucket


def global_sums(accelerator: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Return the sum of a tensor over processes: token counts and other denominators of a step, sums of metrics."""
    if accelerator is None or accelerator.num_processes == 1:
        return tensor
    summed: torch.Tensor = accelerator.reduce(tensor, reduction="sum")
    return summed


def same_weights(model: torch.nn.Module, accelerator: Any) -> None:
    """Give every process the weights of the first (fresh adapters start at random)."""
    if accelerator is None or accelerator.num_processes == 1:
        return
    from accelerate.utils import broadcast

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(broadcast(parameter.data))
