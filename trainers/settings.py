"""Trainers share these settings: model, optimiser, environment, sampling, evaluation, log, warm start; each checks its own."""

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_envs.base.errors import UsageError


def json_object(text: str, name: str) -> dict[str, Any]:
    """Return the JSON object that a setting of this name holds; UsageError, with the name, where it holds none."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name}={text!r} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f"{name}={text!r}: a JSON object is needed")
    return value


def at_least_one(settings: Any, prefix: str, *names: str) -> None:
    """Raise UsageError, with the name, for a setting below 1."""
    for name in names:
        if getattr(settings, name) < 1:
            raise UsageError(f"{prefix}{name}={getattr(settings, name)}: give a whole number >= 1")


def not_negative(settings: Any, *names: str, prefix: str = "", below: float = 1e6) -> None:
    """Raise UsageError, with the name, for a setting below 0, or not below `below`.

    Raises:
        UsageError: one is not; the message names it.
    """
    for name in names:
        if not 0 <= getattr(settings, name) < below:
            bound = "a finite number >= 0" if below == math.inf else f"a number >= 0, below {below:g}"
            raise UsageError(f"{prefix}{name}={getattr(settings, name)}: give {bound}")


@dataclass(frozen=True)
class ModelSettings:
    """The model, and the way it is trained.

    Attributes:
        name: of a model on the hub, its folder, `smollm2-135m` for one that comes by pip (docs/data.md), or `tiny:SIZE` for one
            made from nothing (tiny, 1m, 3m, 10m).
        dtype: of the forward pass: "float32", "bfloat16", or "auto" (bfloat16 on a GPU, float32 on a CPU).
        lora_rank: 0 trains all weights.
        lora_alpha: LoRA's scale times its rank.
        lora_targets: names of the adapted modules; empty for all linear layers but the head.
        gradient_checkpointing: compute activations again in the backward pass instead of keeping them.
        attention: transformers' name of the attention code.
        numerals: of tiny models: a token each ("words") or a digit ("digits"); "auto" decides by what held-out tasks bring.
        tokenizer_plays: of tiny models: on how many training tasks their tokenizer is fitted.
        routing_bias: of ids that end in ExpA: added to the logits of routing actions once the warm start is over, for good: a
            caller that knows how and does not (0 but for a test of counterfactuals).
    """

    name: str = ""
    dtype: str = "auto"
    lora_rank: int = 0
    lora_alpha: int = 32
    lora_targets: tuple[str, ...] = ()
    gradient_checkpointing: bool = False
    attention: str = "sdpa"
    numerals: Literal["auto", "words", "digits"] = "auto"
    tokenizer_plays: int = 2048
    routing_bias: float = 0.0

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, a tokenizer that is fitted on nothing, and routes that cannot be taken at all."""
        at_least_one(self, "model.", "tokenizer_plays")
        if not -50 <= self.routing_bias <= 0:
            raise UsageError(f"model.routing_bias={self.routing_bias}: a number from -50 to 0")


@dataclass(frozen=True)
class OptimSettings:
    """AdamW and its schedule.

    Attributes:
        learning_rate: after the warm-up.
        betas: of AdamW.
        weight_decay: of matrices.
        warmup_steps: gradient steps over which the rate rises in equal parts.
        schedule: after the warm-up; linear and cosine end at 0.
        max_grad_norm: gradients are scaled down to this norm; 0 for no clipping.
    """

    learning_rate: float = 1e-6
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    warmup_steps: int = 0
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, numbers out of their range."""
        not_negative(self, "learning_rate", prefix="optim.", below=10)
        not_negative(self, "weight_decay", "max_grad_norm", "warmup_steps", prefix="optim.", below=math.inf)
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise UsageError(f"optim.betas={self.betas}: two numbers in [0, 1)")


@dataclass(frozen=True)
class EnvironmentSettings:
    """The environment, its wrappers and its splits.

    Attributes:
        id: of the environment: `SearchQA`, `agent_envs/SearchQA-v0`, or anyone's `module:namespace/Name-v0`.
        mixture: several environments, `id` among them, in place of one: a JSON object of weights by id, or of objects with a
            weight and arguments of an environment's own: {"A": 1, "B": {"weight": 2, "arguments": {...}}}. A step's groups are
            shared out by weight; each is measured on as many tasks, and results tell each and all pooled.
        arguments: of the environment, as a JSON object.
        wrappers: around the environment, innermost first, as a JSON list: [{"ForcedAnswer": {"free_turns": 4}}]; names are of
            `agent_envs.wrappers`, or module:Class. Results tell what the bare environment gives as well.
        test_arguments: what is different on the test split (other data, say), as a JSON object.
        tests: further tests of the trained model: such an object for each name, as a JSON object; a `split` in it is what
            is played instead of the test_split, and `wrappers` what is put around the environment.
        train_split: tasks to learn on.
        eval_split: tasks that choose: the best checkpoint, and what is printed on the way.
        test_split: tasks that measure, before and after, and nothing else.
    """

    id: str = "SearchQA"
    mixture: str = "{}"
    arguments: str = "{}"
    wrappers: str = "[]"
    test_arguments: str = "{}"
    tests: str = "{}"
    train_split: str = "train"
    eval_split: str = "dev"
    test_split: str = "test"


@dataclass(frozen=True)
class SamplingSettings:
    """The sampling of episodes: engine, temperatures, limits of tokens.

    Attributes:
        engine: "hf" (transformers, exact logprobs, the trained model itself) or "vllm".
        temperature: in training, which draws among all tokens: else ratios would not be those of the policy.
        eval_temperature: in evaluation; 0 takes the likeliest token.
        eval_top_p: in evaluation; 1 for all tokens.
        max_new_tokens: a turn; with expanded actions the whole episode, with what they append.
        max_context: tokens of a conversation; a policy that has used them up says nothing more.
        max_episode_tokens: of text, all that follows the prompt, observations too; 0 for no limit. It gives both faces of a
            task one budget: with expanded actions `max_new_tokens` is that already.
        batch: rows that the engine takes at a time.
        episodes: of text, played at a time; 0 for as many as `batch`. Two to four times as many leave rows that wait for slots.
        backend: "threads", or "ray": actors of Ray step the environments of text (docs/scale.md).
        actors: of the backend "ray".
        template: the chat template: "auto" (the tokenizer's), "chatml", "qwen", "llama", or a jinja text.
        memory_share: of the GPU's memory that vLLM takes.
        cache_gb: of keys and values that hf keeps of conversations, in 10**9 bytes; others are computed anew.
        cache_share: of the memory that is free, in place of cache_gb; 0 for cache_gb.
        graphs: let hf capture its decode passes as CUDA graphs; on a GPU alone. Never held against plain passes on one yet.
    """

    engine: Literal["hf", "vllm"] = "hf"
    temperature: float = 1.0
    eval_temperature: float = 0.0
    eval_top_p: float = 1.0
    max_new_tokens: int = 512
    max_context: int = 4096
    max_episode_tokens: int = 0
    batch: int = 64
    episodes: int = 0
    backend: Literal["threads", "ray"] = "threads"
    actors: int = 2
    template: str = "auto"
    memory_share: float = 0.4
    cache_gb: float = 6.0
    cache_share: float = 0.0
    graphs: bool = False

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, numbers out of their range."""
        at_least_one(self, "sampling.", "max_new_tokens", "max_context", "batch", "actors")
        if not 1e-3 <= self.temperature < math.inf or not 0 <= self.eval_temperature < math.inf:
            raise UsageError("sampling.temperature must be > 0 (1e-3 at least); sampling.eval_temperature may be 0")
        not_negative(self, "max_episode_tokens", "episodes", "cache_gb", prefix="sampling.", below=math.inf)
        not_negative(self, "cache_share", prefix="sampling.", below=1)
        if self.graphs and self.engine != "hf":
            raise UsageError("sampling.graphs is of sampling.engine=hf: vLLM captures graphs of its own")
        if not 0 < self.eval_top_p <= 1:
            raise UsageError(f"sampling.eval_top_p={self.eval_top_p}: above 0 and at most 1")


@dataclass(frozen=True)
class EvalSettings:
    """The evaluations of the policy.

    Attributes:
        every: steps between evaluations on the evaluation split; 0 for none.
        tasks: of the evaluation split.
        test_tasks: of the test split, before the first step and after the last.
        keep_best: end with the weights of the best evaluation (never of the best test).
        best_within_steps: with keep_best, only evaluations up to this step compete; 0 for all.
        bare: where wrappers stand around the environment, measure in the bare one as well; never where `Memory` is one of
            them: without it the same environment is another game.
    """

    every: int = 10
    tasks: int = 128
    test_tasks: int = 256
    keep_best: bool = False
    best_within_steps: int = 0
    bare: bool = True

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, settings that contradict each other or would be ignored."""
        counts = ("every", "tasks", "test_tasks", "best_within_steps")
        not_negative(self, *counts, prefix="evaluation.", below=math.inf)
        if self.keep_best and not (self.every and self.tasks):
            raise UsageError("evaluation.keep_best needs evaluations: set evaluation.every and evaluation.tasks")
        if self.best_within_steps and not self.keep_best:
            raise UsageError("evaluation.best_within_steps has no meaning without evaluation.keep_best")


@dataclass(frozen=True)
class LogSettings:
    """The logs and checkpoints beside metrics.jsonl.

    Attributes:
        tensorboard: event files under OUT/tensorboard.
        trackio: name of a trackio project; empty for none.
        wandb: name of a Weights & Biases project; empty for none.
        checkpoint_every: steps between checkpoints; 0 for the last step alone.
        keep_checkpoints: how many of them stay: 12 bytes a weight each. One more is there while it is written.
        optimiser: False keeps weights alone, in the type that the model computes in: the best, or the last. No run goes on
            from them.
        episodes: keep every training episode with its tokens in OUT/episodes-PROCESS.jsonl; of a step that was played twice,
            after a kill, the later rows count.
        curves: draw OUT/curves.png at the end; it takes as long as some steps of a tiny model.
    """

    tensorboard: bool = False
    trackio: str = ""
    wandb: str = ""
    checkpoint_every: int = 10
    keep_checkpoints: int = 1
    optimiser: bool = True
    episodes: bool = False
    curves: bool = True

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, numbers out of their range."""
        not_negative(self, "checkpoint_every", prefix="log.", below=math.inf)
        at_least_one(self, "log.", "keep_checkpoints")


@dataclass(frozen=True)
class SettlingSettings:
    """A warm start ends when its held-out success has settled, so that no seed is sent on half taught.

    Success is measured on tasks of the evaluation split, as evaluations play them, the same tasks and draws each time. It has
    settled when `patience` measures in a row were not above the best before them by `margin`. Before it is half of what the
    demonstrations themselves reach nothing settles: a model that cannot copy yet stands still for long.

    Attributes:
        every: steps between measures; 0: there are none, and the warm start takes all its steps.
        tasks: of each measure.
        patience: measures without progress that end it.
        margin: of success, from 0 to 1.
        cooldown: steps that follow, over which the rate falls to 0 in a line; they count in `warm_start.steps`, the most.
    """

    every: int = 0
    tasks: int = 128
    patience: int = 3
    margin: float = 0.02
    cooldown: int = 0

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, numbers out of their range."""
        at_least_one(self, "warm_start.settling.", "tasks", "patience")
        not_negative(self, "every", "cooldown", prefix="warm_start.settling.", below=math.inf)
        not_negative(self, "margin", prefix="warm_start.settling.", below=1)


@dataclass(frozen=True)
class WarmStartSettings:
    """Imitation before reinforcement: demonstrations of the environment's solver, made imperfect on purpose.

    Attributes:
        demonstrations: episodes to imitate; 0 for no warm start.
        flaws: the chances of `trainers.imitation.demonstrations.Flaws`, as a JSON object, or "search", "tools" or "none".
        stacks: where they are played, in equal shares: a JSON list of lists of wrappers, each as `env.wrappers`, [] for the
            bare environment, or {"wrappers": [...], "flaws": {...}}. A tiny model's tokenizer knows the words of all of them.
        steps: gradient steps; the most, where it may settle before.
        settling: when it ends before that.
        rows_per_step: demonstrations a step.
        token_budget: tokens of a micro-batch.
        optim: of the warm start; reinforcement begins with a fresh optimiser.
    """

    demonstrations: int = 0
    flaws: str = "none"
    stacks: str = "[[]]"
    steps: int = 200
    settling: SettlingSettings = field(default_factory=SettlingSettings)
    rows_per_step: int = 64
    token_budget: int = 4096
    optim: OptimSettings = field(default_factory=OptimSettings)

    def __post_init__(self) -> None:
        """Refuse, with a UsageError, numbers out of their range, and schedules that a settled warm start would cut off."""
        not_negative(self, "demonstrations", "steps", prefix="warm_start.", below=math.inf)
        if self.settling.every and self.optim.schedule != "constant":
            raise UsageError(
                f"warm_start.optim.schedule={self.optim.schedule!r}: with warm_start.settling the schedule is constant, and "
                "settling.cooldown ends it"
            )
        if self.settling.every and self.settling.cooldown > self.steps:
            raise UsageError("warm_start.settling.cooldown counts in warm_start.steps, which are fewer")
        at_least_one(self, "warm_start.", "rows_per_step", "token_budget")


@dataclass(frozen=True)
class RunSettings:
    """The settings of every trainer; each adds its own.

    Attributes:
        seed: of everything: weights, tasks, samples.
        out: folder of the run.
        token_budget: tokens of a micro-batch; what its rows begin with alike counts once, and a fifth for each further row.
    """

    preset: str = ""
    seed: int = 0
    out: str = ""
    env: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    optim: OptimSettings = field(default_factory=OptimSettings)
    evaluation: EvalSettings = field(default_factory=EvalSettings)
    log: LogSettings = field(default_factory=LogSettings)
    steps: int = 100
    token_budget: int = 4096

    def __post_init__(self) -> None:
        """Refuse what no trainer takes, with a UsageError."""
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"seed={self.seed}: give a whole number from 0 to 2**31 - 1")
        at_least_one(self, "", "steps", "token_budget")

    @property
    def updates(self) -> int:
        """The number of gradient steps that the schedule of the learning rate spans."""
        return self.steps


@dataclass(frozen=True)
class ReinforcementSettings(RunSettings):
    """The settings of every trainer that plays and learns.

    Attributes:
        steps: of playing and training.
        eps_low: clip below 1.
        eps_high: clip above 1.
        dual_clip: c of dual-clip PPO; 0 for none.
        beta: weight of the KL to the model that the run began with; 0 keeps no such model.
        entropy: weight of the entropy bonus.
        epochs: over each batch of episodes.
        minibatches: gradient steps an epoch.
    """

    warm_start: WarmStartSettings = field(default_factory=WarmStartSettings)
    eps_low: float = 0.2
    eps_high: float = 0.2
    dual_clip: float = 0.0
    beta: float = 0.0
    entropy: float = 0.0
    epochs: int = 1
    minibatches: int = 1

    def __post_init__(self) -> None:
        """Refuse what no trainer takes, with a UsageError."""
        super().__post_init__()
        at_least_one(self, "", "epochs", "minibatches")
        not_negative(self, "eps_low", "eps_high", "dual_clip", "beta", "entropy")
        if self.beta and self.model.lora_rank and self.warm_start.demonstrations:
            raise UsageError("beta with LoRA compares with the base model, which had no warm start: leave one out")

    @property
    def updates(self) -> int:
        """The number of gradient steps that the schedule of the learning rate spans."""
        return self.steps * self.epochs * self.minibatches
