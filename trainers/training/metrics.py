"""Metrics of training go into a file and a line a step, and by flag to TensorBoard, trackio and Weights & Biases.

Names are TRL's: `reward`, `reward_std`, `frac_reward_zero_std`, `entropy`, `clip_ratio/*`, `completions/*`, `tools/*`,
`num_tokens`, `grad_norm`, `step_time`, `kl`, `learning_rate`, `loss`; those of evaluations begin with `eval/`. A metric
`x` with an interval has `x_low` and `x_high` beside it.
"""

import math
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from agent_envs.base.errors import MissingExtra, UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.terminal import show
from trainers.settings import LogSettings

METRICS_FILE = "metrics.jsonl"
LINE_METRICS = ("reward", "eval/success", "loss", "kl", "entropy", "completions/mean_length", "grad_norm", "step_time")

Sink = Callable[[int, dict[str, float]], None]


class Metrics(AbstractContextManager["Metrics"]):
    """The sinks of a run's metrics. In a distributed run only the first process has one that writes."""

    def __init__(
        self,
        folder: Path,
        settings: LogSettings | None = None,
        *,
        total_steps: int = 0,
        quiet: bool = False,
        enabled: bool = True,
    ) -> None:
        """Open what the settings name; a run that goes on appends.

        Args:
            folder: of the run; rows go to `metrics.jsonl` in it.
            settings: what is written beside the file.
            total_steps: for the lines; 0 if unknown.
            quiet: no lines.
            enabled: False writes and shows nothing.

        Raises:
            UsageError: trackio or wandb is asked for and not installed, or another process writes the file.
        """
        self._open = ExitStack()
        self._sinks: list[Sink] = []
        if not enabled:
            return
        settings = settings or LogSettings()
        services = [name for name in ("trackio", "wandb") if getattr(settings, name)]
        opened = [_service(name, getattr(settings, name), folder) for name in services]
        journal = Journal(folder / METRICS_FILE)
        self._add(lambda step, metrics: _append(journal, step, metrics), journal.close)
        for sink, closer in opened:
            self._add(sink, closer)
        if settings.tensorboard:
            self._add(*_tensorboard(folder / "tensorboard"))
        if not quiet:
            self._add(_lines(total_steps), lambda: None)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of a step. A step may be written several times: later values of a name replace earlier ones.

        Raises:
            AgentEnvsError: they cannot be written (a full disk).
        """
        plain = {name: float(value) for name, value in metrics.items()}
        for sink in self._sinks:
            sink(step, plain)

    def close(self) -> None:
        """Put everything on disk; a second call does nothing."""
        self._open.close()
        self._sinks.clear()

    def _add(self, sink: Sink, closer: Callable[[], None]) -> None:
        """Add a sink, which is closed with the others."""
        self._sinks.append(sink)
        self._open.callback(closer)

    def __exit__(self, *error: object) -> None:
        """Close all sinks."""
        self.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Return one row a step, in order, each with its `step`; of what was written twice (after a resume) the last counts.

    Values that were no finite numbers are left out.
    """
    rows: dict[int, dict[str, float]] = {}
    for row in read_journal(path):
        values = {name: value for name, value in row["metrics"].items() if value is not None}
        rows[row["step"]] = {**rows.get(row["step"], {}), **values}
    return [{"step": step, **rows[step]} for step in sorted(rows)]


def _append(journal: Journal, step: int, metrics: dict[str, float]) -> None:
    """Append a step's metrics to a journal; NaN and infinity become null."""
    finite = {name: value if math.isfinite(value) else None for name, value in metrics.items()}
    journal.append({"step": step, "metrics": finite})


def _tensorboard(folder: Path) -> tuple[Sink, Callable[[], None]]:
    """Open a TensorBoard sink that creates its writer at the first step, and its closer; MissingExtra without it."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtra("tensorboard", "train", "--log.tensorboard") from error
    writers: list[Any] = []

    def sink(step: int, metrics: dict[str, float]) -> None:
        """Write a step's metrics for TensorBoard; what a killed run wrote from the first such step on is hidden."""
        if not writers:  # what a killed run wrote of this step and later ones is hidden
            writers.append(SummaryWriter(str(folder), purge_step=step))
        for name, value in metrics.items():
            writers[0].add_scalar(name, value, step)

    def close() -> None:
        """Close the writer, if one was opened."""
        for writer in writers:
            writer.close()

    return sink, close


def _service(name: str, project: str, folder: Path) -> tuple[Sink, Callable[[], None]]:
    """Open a run of trackio or wandb, both with the same three calls; UsageError where it is not installed."""
    try:
        module: Any = import_module(name)
    except ImportError as error:
        raise UsageError(f"--log.{name} needs {name}: pip install {name}") from error
    module.init(project=project, name=folder.name)
    return lambda step, metrics: module.log(metrics, step=step), lambda: module.finish()


def _lines(total_steps: int) -> Sink:
    """Return a sink that prints one line a step to stderr."""

    def sink(step: int, metrics: dict[str, float]) -> None:
        """Print a step's chosen metrics as a line on stderr."""
        cells = [f"{name} {metrics[name]:.4g}" for name in LINE_METRICS if name in metrics]
        show(f"step {step}{f'/{total_steps}' if total_steps else ''}: {', '.join(cells)}", file=sys.stderr)

    return sink
