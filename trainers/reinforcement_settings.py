"""Settings that every trainer has which plays and learns are one base class, with their checks."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent_envs.base.errors import UsageError
from trainers.settings import (
    EnvironmentSettings,
    EvalSettings,
    LogSettings,
    ModelSettings,
    OptimSettings,
    SamplingSettings,
    WarmStartSettings,
    at_least_one,
    check_seed,
    not_negative,
)

S = TypeVar("S")


@dataclass(frozen=True)
class ReinforcementSettings:
    """What every trainer has that plays and learns; each adds its own, and says in `ORDER` where `--help` has them all.

    Attributes:
        seed: of everything: weights, tasks, samples.
        out: folder of the run.
        steps: of playing and training.
        eps_low: clip below 1.
        eps_high: clip above 1.
        dual_clip: c of dual-clip PPO; 0 for none.
        beta: weight of the KL to the model that the run began with; 0 keeps no such model.
        entropy: weight of the entropy bonus.
        epochs: over each batch of episodes.
        minibatches: gradient steps an epoch.
        token_budget: tokens of a micro-batch; what its rows begin with alike counts once, and a fifth for each further row.
    """

    preset: str = ""
    seed: int = 0
    out: str = ""
    env: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    warm_start: WarmStartSettings = field(default_factory=WarmStartSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    evaluation: EvalSettings = field(default_factory=EvalSettings)
    log: LogSettings = field(default_factory=LogSettings)
    steps: int = 100
    eps_low: float = 0.2
    eps_high: float = 0.2
    dual_clip: float = 0.0
    beta: float = 0.0
    entropy: float = 0.0
    epochs: int = 1
    minibatches: int = 1
    token_budget: int = 4096

    def __post_init__(self) -> None:
        """Refuse what no trainer takes, with a UsageError."""
        check_seed(self.seed)
        at_least_one(self, "", "steps", "epochs", "minibatches", "token_budget")
        not_negative(self, "eps_low", "eps_high", "dual_clip", "beta", "entropy")
        if self.beta and self.model.lora_rank and self.warm_start.demonstrations:
            raise UsageError("beta with LoRA compares with the base model, which had no warm start: leave one out")


def in_order(kind: type[S]) -> type[S]:
    """Make a frozen dataclass of a trainer's settings, whose fields follow its `ORDER`, inherited ones among its own."""
    made = dataclass(frozen=True)(kind)
    fields: dict[str, Any] = made.__dataclass_fields__  # type: ignore[attr-defined]
    order = made.ORDER.split()  # type: ignore[attr-defined]
    for name in [*order, *(name for name in list(fields) if name not in order)]:
        fields[name] = fields.pop(name)
    return made
