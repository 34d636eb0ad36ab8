"""A model in training is put into evaluation mode for a while, and its last MLP is computed only where it is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Switch dropout and gradient checkpointing off, and afterwards every module back to what it was."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def last_mlp(decoder: torch.nn.Module, layers: int) -> torch.nn.Module | None:
    """Return the feed-forward part of a decoder's last layer; None where there is nothing of that name."""
    stacks = [part for part in decoder.children() if isinstance(part, torch.nn.ModuleList) and len(part) == layers]
    found = getattr(stacks[0][-1], "mlp", None) if len(stacks) == 1 else None
    return found if isinstance(found, torch.nn.Module) else None


@contextmanager
def only_at(mlp: torch.nn.Module | None, places: torch.Tensor) -> Iterator[None]:
    """Let a feed-forward part work on some places of (rows, tokens, width) alone, and give 0 at the others.

    What the last layer gives at a token is read by the head alone, so where the head reads nothing this changes nothing.

    Args:
        mlp: acts on each token by itself; None changes nothing.
        places: among the rows * tokens, each once.
    """
    if mlp is None:
        yield
        return
    shapes: list[torch.Size] = []

    def narrow(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        if len(inputs) != 1 or inputs[0].ndim != 3:  # not called as feed-forward parts are: it works on all
            return inputs
        shapes.append(inputs[0].shape)
        return (inputs[0].flatten(0, 1).index_select(0, places).unsqueeze(0),)

    def widen(module: torch.nn.Module, inputs: object, output: Any) -> Any:
        if not shapes:
            return output
        rows, tokens, width = shapes.pop()
        states = output[0] if isinstance(output, tuple) else output  # experts may tell of their routing, too
        whole = (
            states.new_zeros(rows * tokens, width).index_copy(0, places, states.squeeze(0)).view(rows, tokens, width)
        )
        return (whole, *output[1:]) if isinstance(output, tuple) else whole

    hooks = (mlp.register_forward_pre_hook(narrow), mlp.register_forward_hook(widen))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
