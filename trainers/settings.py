"""Settings that trainers share."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class ModelSettings:
    """Which model is trained and how.

    Attributes:
        name: of a model on the hub, or its folder.
        dtype: of the forward pass: "float32", "bfloat16", or "auto" (bfloat16 on a GPU, float32 on a CPU).
        lora_rank: 0 trains all weights.
        lora_alpha: LoRA's scale times its rank.
        lora_targets: names of the adapted modules; empty for all linear layers but the head.
        gradient_checkpointing: compute activations again in the backward pass instead of keeping them.
        attention: transformers' name of the attention code.
    """

    name: str = ""
    dtype: str = "auto"
    lora_rank: int = 0
    lora_alpha: int = 32
    lora_targets: tuple[str, ...] = ()
    gradient_checkpointing: bool = False
    attention: str = "sdpa"


@dataclass(frozen=True)
class OptimSettings:
    """AdamW and its schedule.

    Attributes:
        learning_rate: after the warm-up.
        betas: of AdamW.
        weight_decay: of matrices.
        warmup_steps: linear from 0.
        schedule: after the warm-up; linear and cosine end at 0.
        max_grad_norm: gradients are scaled down to this norm; 0 for no clipping.
    """

    learning_rate: float = 1e-6
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    warmup_steps: int = 0
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    max_grad_norm: float = 1.0


@dataclass(frozen=True)
class EnvironmentSettings:
    """What is played.

    Attributes:
        id: of the environment; `SearchQA` is short for `agent_envs/SearchQA-v0`.
        arguments: of the environment, as a JSON object.
        train_split: tasks to learn on.
        eval_split: tasks that choose: the best checkpoint, and what is printed on the way.
        test_split: tasks that measure, before and after, and nothing else.
    """

    id: str = "SearchQA"
    arguments: str = "{}"
    train_split: str = "train"
    eval_split: str = "dev"
    test_split: str = "test"


@dataclass(frozen=True)
class SamplingSettings:
    """How episodes are sampled.

    Attributes:
        engine: "hf" (transformers, exact logprobs, the trained model itself) or "vllm".
        temperature: in training.
        eval_temperature: in evaluation; 0 takes the likeliest token.
        top_k: 0 for all tokens.
        top_p: 1 for all tokens.
        max_new_tokens: a turn.
        max_context: tokens of a conversation; a policy that has used them up says nothing more.
        batch: rows that the engine takes at a time, and episodes that are played at a time.
        template: the chat template: "auto" (the tokenizer's), "chatml", "qwen", "llama", or a jinja text.
    """

    engine: Literal["hf", "vllm"] = "hf"
    temperature: float = 1.0
    eval_temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    max_new_tokens: int = 512
    max_context: int = 4096
    batch: int = 64
    template: str = "auto"


@dataclass(frozen=True)
class EvalSettings:
    """When and on what the policy is measured.

    Attributes:
        every: steps between evaluations on the evaluation split; 0 for none.
        tasks: of the evaluation split.
        test_tasks: of the test split, before the first step and after the last.
        keep_best: end with the weights of the best evaluation (never of the best test).
        best_within_steps: only evaluations up to this step compete; 0 for all.
    """

    every: int = 10
    tasks: int = 128
    test_tasks: int = 256
    keep_best: bool = False
    best_within_steps: int = 0


@dataclass(frozen=True)
class LogSettings:
    """What is written beside metrics.jsonl and the curves.

    Attributes:
        tensorboard: event files under OUT/tensorboard.
        trackio: name of a trackio project; empty for none.
        wandb: name of a Weights & Biases project; empty for none.
        checkpoint_every: steps between checkpoints; 0 for the last step alone.
        keep_checkpoints: how many of them stay.
        episodes: keep every training episode with its tokens in OUT/episodes.jsonl.
    """

    tensorboard: bool = False
    trackio: str = ""
    wandb: str = ""
    checkpoint_every: int = 10
    keep_checkpoints: int = 2
    episodes: bool = False


@dataclass(frozen=True)
class WarmStartSettings:
    """Imitation before reinforcement: demonstrations of the environment's solver, made imperfect on purpose.

    Attributes:
        demonstrations: episodes to imitate; 0 for no warm start.
        flaws: the chances of `trainers.demonstrations.Flaws`, as a JSON object, or "search", "tools" or "none".
        steps: gradient steps.
        rows_per_step: demonstrations a step.
        token_budget: tokens of a micro-batch.
        train_on: "actions" alone, or "all" tokens of an episode (what is shown is then learnt as well).
        optim: of the warm start; reinforcement begins with a fresh optimiser.
    """

    demonstrations: int = 0
    flaws: str = "none"
    steps: int = 200
    rows_per_step: int = 64
    token_budget: int = 16384
    train_on: Literal["actions", "all"] = "actions"
    optim: OptimSettings = field(default_factory=OptimSettings)
