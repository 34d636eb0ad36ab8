"""Checkpoints are written so that a kill cannot break them, and a run goes on from them exactly.

A checkpoint `step-00000012/` holds `weights.safetensors` (what is trained: all weights, or the adapter), `optimiser.pt`
and `rng.pt` (read with `weights_only=True`), and `state.json`: the step, the trainer's own state, the sha256 of the other
files and of itself. Further modules (a critic) have their own `NAME.safetensors` and `NAME.pt` beside them.
`best-00000010/` holds weights, in the type that the model computes in, and `state.json` alone. Equal weights are one file.
"""

import contextlib
import filecmp
import json
import math
import os
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from agent_envs.base.errors import AgentEnvsError, UsageError
from agent_envs.base.serialization import digest, sha256_file
from trainers.training.optimise import Optimiser

PART = ".part"


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `path` once all is on disk; AgentEnvsError if that fails, and the old one stays.

    Raises:
        AgentEnvsError: it cannot be written (a full disk); what was there stays.
    """
    part, old = path.with_name(f"{path.name}{PART}"), path.with_name(f"{path.name}.old{PART}")
    try:
        for left in (part, old):
            remove_folder(left)
        part.mkdir(parents=True)
        yield part
        for file in sorted(part.rglob("*")):
            _sync(file)
        _sync(part)
        if path.exists():
            path.rename(old)
        part.rename(path)
        _sync(path.parent)
        remove_folder(old)
    except (OSError, RuntimeError, SafetensorError) as error:  # torch and safetensors have their own for a full disk
        with contextlib.suppress(OSError):
            remove_folder(part)
        raise AgentEnvsError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}") from error


def remove_folder(path: Path) -> None:
    """Rename a folder, then delete it, so that a kill leaves none half-deleted under its name; nothing where there is none."""
    if path.exists():
        part = path if path.name.endswith(PART) else path.rename(path.with_name(f"{path.name}{PART}"))
        shutil.rmtree(part)


def _sync(path: Path) -> None:
    """Put a file or a folder's list of names on disk; nothing for a folder on Windows, which cannot open it."""
    if path.is_dir() and sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


Part = tuple[torch.nn.Module, Optimiser]
WEIGHTS_FILE, _OPTIMISER, _RNG, _STATE = "weights.safetensors", "optimiser.pt", "rng.pt", "state.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A sound checkpoint on disk.

    Attributes:
        path: its folder.
        step: of the trainer, when it was saved.
        state: the trainer's own, as JSON has it.
        metric: of a best checkpoint: what it was chosen by; NaN otherwise.
    """

    path: Path
    step: int
    state: dict[str, Any]
    metric: float = math.nan


class Checkpoints:
    """The checkpoints of one run. One process writes them; the others of a distributed run only load."""

    def __init__(
        self, folder: Path, keep: int = 2, best_within_steps: int = 0,
        dtype: torch.dtype = torch.float32, optimiser: bool = True,
    ) -> None:  # fmt: skip
        """Take the folder; nothing is read or written yet.

        Args:
            folder: theirs alone.
            keep: how many of the last stay.
            best_within_steps: only up to this step may a checkpoint be the best; 0 for all.
            dtype: of weights that nothing is trained on from: the best, and all where there is no optimiser.
            optimiser: False keeps weights alone, from which no run goes on.
        """
        if keep < 1:
            raise UsageError(f"keep={keep}: at least one checkpoint must stay to go on from")
        self.folder = folder
        self.keep = keep
        self.best_within_steps = best_within_steps
        self._dtype, self._optimiser = dtype, optimiser

    def save(
        self,
        step: int,
        model: torch.nn.Module,
        optimiser: Optimiser,
        state: dict[str, Any],
        parts: Mapping[str, Part] | None = None,
    ) -> Path:
        """Write a checkpoint whole, then remove those that are too old; return its folder.

        Args:
            step: of the trainer.
            model: whose trained weights are written.
            optimiser: of the model.
            state: the trainer's own, as plain JSON.
            parts: further modules with their optimisers, by name.

        Raises:
            AgentEnvsError: it cannot be written; the others stand.
        """
        path = self.folder / f"step-{step:08d}"
        with whole_folder(path) as part:
            if self._optimiser:
                _write_weights(model, part)
                torch.save(optimiser.state_dict(), part / _OPTIMISER)
                torch.save(_random_state(), part / _RNG)
                for name, (module, own) in (parts or {}).items():
                    _write_weights(module, part, _part_files(name)[0])
                    torch.save(own.state_dict(), part / _part_files(name)[1])
            elif self.best() is None:
                _write_weights(model, part, dtype=self._dtype)
            self._seal(part, {"step": step, "state": state})
        self._prune()
        return path

    def latest(self) -> Checkpoint | None:
        """Return the last sound checkpoint, None for none; damaged ones are skipped, with a line on standard error."""
        return next(self._sound_checkpoints("step-"), None)

    def load(self, model: torch.nn.Module, optimiser: Optimiser) -> Checkpoint | None:
        """Restore model, optimiser and generators from the last sound checkpoint; return it or None; UsageError if unfit.

        Returns:
            The checkpoint; None where there is none and the run starts at its beginning.

        Raises:
            UsageError: it is of another model, or none of those that are there is sound.
        """
        checkpoint = self.latest()
        if not self._optimiser and checkpoint is not None:
            raise UsageError(f"{checkpoint.path} has no optimiser (log.optimiser=False), so that the run cannot go on")
        damaged = [path for path in self._folders("step-") if checkpoint is None or path.name > checkpoint.path.name]
        if checkpoint is None and damaged:
            raise UsageError(f"{self.folder}: all checkpoints are damaged; begin a new run in another folder")
        for path in damaged:  # or they would be kept in place of sound ones
            with contextlib.suppress(FileNotFoundError):  # another process was first
                path.rename(path.with_name(f"{path.name}.damaged"))
        if checkpoint is not None:
            load_weights(model, checkpoint.path)
            optimiser.load_state_dict(torch.load(checkpoint.path / _OPTIMISER, map_location="cpu", weights_only=True))
            _set_random_state(torch.load(checkpoint.path / _RNG, map_location="cpu", weights_only=True))
        return checkpoint

    def load_part(self, name: str, module: torch.nn.Module, optimiser: Optimiser) -> None:
        """Restore a further module and its optimiser from the last sound checkpoint; UsageError if it has none or another.

        Raises:
            UsageError: there is none of that name, or it is of another shape.
        """
        checkpoint = self.latest()
        weights, own = _part_files(name)
        if checkpoint is None or not (checkpoint.path / weights).exists():
            place = checkpoint.path if checkpoint else self.folder
            raise UsageError(f"{place} holds no {name}: it is of another trainer's run")
        load_weights(module, checkpoint.path, weights)
        optimiser.load_state_dict(torch.load(checkpoint.path / own, map_location="cpu", weights_only=True))

    def keep_best(self, step: int, validation: float, model: torch.nn.Module) -> bool:
        """Keep a step's weights if its metric is above the best so far; False if not, for NaN, or beyond `best_within_steps`.

        Args:
            step: beyond `best_within_steps` nothing is kept.
            validation: measured on the validation split. The test split never chooses.
            model: whose weights are kept.
        """
        if math.isnan(validation) or 0 < self.best_within_steps < step:
            return False
        best = self.best()
        if best is not None and best.metric >= validation:
            return False
        with whole_folder(self.folder / f"best-{step:08d}") as part:
            _write_weights(model, part, dtype=self._dtype)
            self._seal(part, {"step": step, "state": {}, "metric": validation})
        self._prune()
        return True

    def best(self) -> Checkpoint | None:
        """Return the checkpoint with the best metric, of equals the earliest; None where there is none."""
        return max(self._sound_checkpoints("best-"), key=lambda saved: (saved.metric, -saved.step), default=None)

    def load_best(self, model: torch.nn.Module) -> Checkpoint | None:
        """Give a model the weights of the best checkpoint and return it; None, and nothing changes, where none is."""
        best = self.best()
        if best is not None:
            load_weights(model, best.path)
        return best

    def _seal(self, part: Path, content: dict[str, Any]) -> None:
        """Seal a folder whose weights that are the same as others of this run become links to them."""
        for file in part.glob("*.safetensors"):
            for other in self.folder.rglob(file.name):
                if other != file and filecmp.cmp(other, file, shallow=False):
                    link = part / f"link{PART}"
                    with contextlib.suppress(OSError):  # a file system without links
                        os.link(other, link)
                        link.replace(file)
                    break
        seal_folder(part, content)

    def _folders(self, prefix: str) -> list[Path]:
        """Return folders of checkpoints, the last first."""
        folders = [path for path in self.folder.glob(f"{prefix}*") if path.name.removeprefix(prefix).isdigit()]
        return sorted(folders, key=lambda path: path.name, reverse=True)

    def _sound_checkpoints(self, prefix: str) -> Iterator[Checkpoint]:
        """Yield the readable checkpoints, the last first; a damaged one is reported on stderr and skipped."""
        for path in self._folders(prefix):
            try:
                yield _read_checkpoint(path)
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                print(f"checkpoint {path} is damaged and skipped: {error}", file=sys.stderr)

    def _prune(self) -> None:
        """Remove all but the newest checkpoints and the best one, and what was left half-written."""
        best = self.best()
        old = [path for path in self._folders("best-") if best is not None and path != best.path]
        for path in [*self._folders("step-")[self.keep :], *old, *self.folder.glob(f"*{PART}")]:
            remove_folder(path)


def load_weights(model: torch.nn.Module, folder: Path, file: str = WEIGHTS_FILE) -> None:
    """Give a model the trained weights of a file; UsageError where names or shapes are those of another model.

    Raises:
        UsageError: it is of another model.
    """
    from safetensors.torch import load_file

    tensors = load_file(folder / file)
    parameters = _weights_of(model)
    odd = sorted(tensors.keys() ^ parameters.keys())
    odd += [name for name, weight in parameters.items() if name in tensors and tensors[name].shape != weight.shape]
    if odd:
        raise UsageError(f"{folder} is of another model: {odd[0]} differs, and {len(odd) - 1} more; use its settings")
    with torch.no_grad():
        for name, weight in parameters.items():
            weight.copy_(tensors[name])


def _weights_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters that train, each once (tied weights have one name)."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _write_weights(
    model: torch.nn.Module, folder: Path, file: str = WEIGHTS_FILE, dtype: torch.dtype | None = None
) -> None:
    """Write the model's weights as a file of safetensors, in their own type or another."""
    from safetensors.torch import save_file

    save_file(
        {name: weight.detach().contiguous().to(dtype) for name, weight in _weights_of(model).items()}, folder / file
    )


def _part_files(name: str) -> tuple[str, str]:
    """Return the files of a further module, (weights, optimiser); UsageError for a name that is taken or no identifier.

    Raises:
        UsageError: the name is no identifier, or names a file that every checkpoint has.
    """
    if not name.isidentifier() or name in ("weights", "optimiser", "rng", "state"):
        raise UsageError(f"a further module named {name!r}: give an identifier, not weights, optimiser, rng or state")
    return f"{name}.safetensors", f"{name}.pt"


def seal_folder(folder: Path, content: dict[str, Any]) -> None:
    """Write `state.json` last: it vouches for the files that are there by then."""
    content = {**content, "files": {path.name: sha256_file(path) for path in sorted(folder.iterdir())}}
    text = json.dumps({**content, "sha256": digest(content)}, indent=1)
    (folder / _STATE).write_text(text + "\n", encoding="utf-8")


def read_sealed(folder: Path) -> dict[str, Any]:
    """Return a folder's `state.json` if its files match; ValueError if not; OSError, KeyError, TypeError if parts are missing.

    Raises:
        ValueError: they are not; OSError, KeyError and TypeError where something is missing.
    """
    content = json.loads((folder / _STATE).read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{_STATE} holds no object")
    if content.pop("sha256") != digest(content):
        raise ValueError(f"{_STATE} is not what was written")
    for name, sha in content["files"].items():
        if sha256_file(folder / name) != sha:
            raise ValueError(f"{name} is not what was written")
    return content


def _read_checkpoint(path: Path) -> Checkpoint:
    """Return a checkpoint whose files are sound; raises as `read_sealed`."""
    content = read_sealed(path)
    return Checkpoint(path, int(content["step"]), dict(content["state"]), float(content.get("metric", math.nan)))


def _random_state() -> dict[str, Any]:
    """Return the states of the random generators of torch, CUDA and Python."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"torch": torch.get_rng_state(), "cuda": cuda, "python": random.getstate()}


def _set_random_state(state: dict[str, Any]) -> None:
    """Restore the generators of torch, CUDA (where there is one) and Python."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
