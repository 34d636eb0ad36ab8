"""A model may have a further head: output rows beside its language head, which say of themselves what they score and save.

Shared code knows no more of one than this class. An algorithm's own parts make one and register it on the model.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

HEAD_FILE = "expanded_head.json"  # in a model's folder: what the rows of its further head are


class FurtherHead(torch.nn.Module, ABC):
    """Output rows beside a language head.

    Attributes:
        rows: of all that they may choose.
    """

    rows: Sequence[Any]

    @abstractmethod
    def score(
        self,
        states: torch.Tensor,
        language: torch.nn.Module,
        targets: torch.Tensor,
        table: torch.Tensor,
        *,
        temperature: float = 1.0,
        with_entropy: bool = True,
        entropy_grad: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return logprobs, entropies and logprobs over the vocabulary alone, each (n,), of targets.

        Args:
            states: last hidden states of the positions before, (n, width).
            language: the language head.
            targets: what was chosen, (n,).
            table: what was legal, bool (n, rows).
            temperature: that the targets were sampled at; > 0.
            with_entropy: False leaves the entropies 0.
            entropy_grad: let gradients through the entropies; they are detached otherwise.
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the head into a model's folder, beside the files of the model itself; HEAD_FILE is one of its files."""


def head_of(model: torch.nn.Module) -> FurtherHead | None:
    """Return the further head of a model, through all that is around it; None where it has none."""
    return next((module for module in model.modules() if isinstance(module, FurtherHead)), None)


def head_is_in(folder: Path) -> bool:
    """Return whether a model's folder holds a further head."""
    return (folder / HEAD_FILE).is_file()
