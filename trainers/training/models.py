"""Models and tokenizers are loaded and saved: whole or with LoRA, a frozen reference, folders for transformers and vLLM.

Sampled tokens are scored again: by the frozen reference, or by the trainer's own model, which corrects an engine's.
"""

import contextlib
import copy
import importlib
import json
import os
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from agent_envs.base.errors import MissingExtra, UsageError
from trainers import losses
from trainers.batching import MicroBatch, TrainRow
from trainers.environments import members_of, stacks_of
from trainers.settings import ModelSettings, RunSettings, WarmStartSettings
from trainers.tokens import ChatTokenizer
from trainers.training.checkpoints import load_weights, whole_folder
from trainers.training.forward import TokenScores, bare_model, head_of, token_logprobs, token_scores
from trainers.training.optimise import micro_batches_of
from trainers.training.packaged import model_place

_OWN = ("TokenizersBackend", "PreTrainedTokenizerFast")  # a tokenizer of nobody's kind, in transformers 5 and 4
_NEVER = -1e4  # a logit; finite, so that entropies stay numbers
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TINY = "tiny:"


def compute_dtype(settings: ModelSettings) -> torch.dtype:
    """Return the type that the forward pass computes in; `auto` is bfloat16 on a GPU that has it, else float32.

    Raises:
        UsageError: the settings name another than float32, bfloat16 and auto.
    """
    if settings.dtype == "auto":
        return torch.bfloat16 if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else torch.float32
    if settings.dtype not in _DTYPES:
        raise UsageError(f"dtype={settings.dtype!r}: one of auto, {', '.join(_DTYPES)}")
    return _DTYPES[settings.dtype]


def make_accelerator(settings: ModelSettings) -> Any:
    """Return accelerate's Accelerator: a GPU where there is one, bfloat16 as mixed precision; UsageError if it is to shard.

    The model is moved to `accelerator.device` and not prepared: see `optimise` for how processes work together. A trainer
    ends with `accelerator.end_training()`.

    Raises:
        UsageError: accelerate was launched with FSDP or DeepSpeed, which would be ignored.
    """
    if any(os.environ.get(f"ACCELERATE_USE_{name}", "").lower() == "true" for name in ("FSDP", "DEEPSPEED")):
        raise UsageError(
            "models are not sharded here (docs/training.md has what to use): launch without FSDP and DeepSpeed"
        )
    if torch.distributed.is_available():
        # This module keeps the process group of its first import in default arguments. Imported later, by an optimiser,
        # it would keep the group's threads running into the interpreter's end, where they abort the process.
        importlib.import_module("torch.distributed.nn.functional")
    from accelerate import Accelerator
    from accelerate.utils import InitProcessGroupKwargs

    precision = "bf16" if compute_dtype(settings) == torch.bfloat16 else "no"
    # The others wait while the first process measures, for longer than torch's ten minutes.
    timeout = InitProcessGroupKwargs(timeout=timedelta(days=1))
    return Accelerator(cpu=not torch.cuda.is_available(), mixed_precision=precision, kwargs_handlers=[timeout])


def load_model(settings: ModelSettings, device: torch.device | str = "cpu", seed: int = 0) -> tuple[Any, Any]:
    """Return a model in training mode, on the device, and its tokenizer; UsageError for no model or no LoRA targets.

    Weights that train are float32, whatever the forward pass computes in; under LoRA the frozen ones have its type. A
    folder with a LoRA adapter is merged into its model first, so that a new adapter and a reference start from there.

    Args:
        settings: name or folder, types, LoRA, checkpointing.
        device: where the model goes.
        seed: of a new adapter's weights.

    Raises:
        UsageError: there is no such model, it is not installed, a GPU is too small for it, or LoRA does not find its targets.
    """
    if not settings.name:
        raise UsageError(
            "no model is named: give --model.name FOLDER, HUB/NAME or smollm2-135m, or a preset: --preset tiny-searchqa"
        )
    frozen, computed = settings.lora_rank > 0, compute_dtype(settings)
    name = model_place(settings.name)
    try:
        model = _load_pretrained(replace(settings, name=name), computed if frozen else torch.float32)
        tokenizer = _tokenizer(name)
    except OSError as error:
        first = str(error).strip().splitlines()[0]
        raise UsageError(f"{settings.name!r} is no folder with a model, nor one that the hub gives: {first}") from error
    leave_out(model, getattr(model.config, "unsaid_ids", ()))
    if frozen:
        model = _with_lora(model, settings, seed)
    if settings.gradient_checkpointing:
        _checkpoint_gradients(model, frozen)
    if torch.device(device).type == "cuda":
        check_room(model, torch.cuda.get_device_properties(device).total_memory)
    return model.to(device).train(), tokenizer


def check_room(model: torch.nn.Module, has: float) -> None:
    """Raise UsageError where weights, gradients and AdamW's moments alone are more bytes than a GPU has."""
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    needs = sum(weight.nbytes for weight in model.parameters()) + 12 * trained  # a gradient and two moments in float32
    if needs > has:
        raise UsageError(
            f"weights, gradients and AdamW take {needs / 1e9:.3g} GB, before any activation, and the GPU has {has / 1e9:.3g}: "
            "train an adapter (--model.lora-rank 64), or a smaller model"
        )


def _load_pretrained(settings: ModelSettings, dtype: torch.dtype) -> Any:
    """Load a model; a LoRA adapter's folder is merged into its base model."""
    from transformers import AutoModelForCausalLM

    adapter = (Path(settings.name) / "adapter_config.json").is_file()
    name = _peft().PeftConfig.from_pretrained(settings.name).base_model_name_or_path if adapter else settings.name
    model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=dtype, attn_implementation=settings.attention)
    if adapter:
        model = _peft().PeftModel.from_pretrained(model, settings.name).merge_and_unload()
    return model


def _tokenizer(name: str) -> Any:
    """Load the tokenizer of a model; this project's own keep their class, which Auto would replace."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    # Auto would take a tokenizer of one's own, beside a model of Qwen's kind, for Qwen's, and lose its words.
    own = get_tokenizer_config(name).get("tokenizer_class") in _OWN
    return (PreTrainedTokenizerFast if own else AutoTokenizer).from_pretrained(name)


def _peft() -> Any:
    """Return the module peft; MissingExtra where it is not installed."""
    try:
        import peft
    except ImportError as error:
        raise MissingExtra("peft", "train", "LoRA") from error
    return peft


def _with_lora(model: Any, settings: ModelSettings, seed: int) -> Any:
    """Add LoRA adapters, initialised by the seed apart from torch's global generator; UsageError for unknown targets."""
    peft = _peft()
    targets = list(settings.lora_targets) or "all-linear"
    config = peft.LoraConfig(
        r=settings.lora_rank, lora_alpha=settings.lora_alpha, target_modules=targets, task_type="CAUSAL_LM"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return peft.get_peft_model(model, config)
        except ValueError as error:
            raise UsageError(f"lora_targets={settings.lora_targets}: {error}") from error


def leave_out(model: torch.nn.Module, ids: Sequence[int]) -> None:
    """Let a model never say some tokens, in sampling and logprobs, and list them in its configuration; nothing for no ids.

    Its configuration says which, so that `load_model` leaves them out of the model that is saved. Others load the model whole.
    """
    if not ids:
        return
    bare = bare_model(model)
    head = bare.get_output_embeddings()
    unsaid = torch.zeros(head.weight.shape[0]).index_fill_(0, torch.tensor(ids), _NEVER).to(head.weight.device)
    if not hasattr(head, "unsaid"):
        head.register_forward_hook(lambda module, inputs, logits: logits + module.unsaid.to(logits.dtype))
    head.register_buffer("unsaid", unsaid, persistent=False)
    bare.config.unsaid_ids = list(ids)


def _checkpoint_gradients(model: Any, frozen: bool) -> None:
    """Turn on gradient checkpointing; a frozen base needs gradients at its inputs, too."""
    bare = bare_model(model)
    if frozen:
        bare.enable_input_require_grads()
    if hasattr(bare, "activation_checkpointing_enable"):
        bare.activation_checkpointing_enable()
    else:
        bare.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def _frozen_copy(model: torch.nn.Module, dtype: torch.dtype | None) -> torch.nn.Module:
    """Return a copy whose weights have a type, and are never there in another; buffers, such as angles, keep theirs."""
    weights = {
        id(weight): torch.nn.Parameter(weight.detach().to(dtype, copy=True), requires_grad=False)
        for weight in model.parameters()
    }
    return copy.deepcopy(model, weights).eval()


class ReferenceModel:
    """The policy as it was in the beginning: what a KL term compares with.

    With LoRA it is the model with its adapter off, and costs no memory; otherwise a frozen copy, in the type that is computed
    in. Make it before a checkpoint is loaded into the model.
    """

    def __init__(self, model: torch.nn.Module, dtype: torch.dtype | None = None) -> None:
        """Copy the model, with weights of a type if one is given, if it has no adapter that could be switched off."""
        self._adapted: Any = model if hasattr(model, "disable_adapter") else None
        self._copy = None if self._adapted is not None else _frozen_copy(model, dtype)

    def scores(self, micro: MicroBatch, temperature: float = 1.0) -> TokenScores:
        """Score the trained tokens by the reference, without a gradient, and without entropies."""
        with torch.no_grad(), self._model() as model:
            return token_scores(model, micro, temperature, with_entropy=False)

    @contextlib.contextmanager
    def _model(self) -> Iterator[Any]:
        """Yield the frozen model: its own copy, or the policy with adapters disabled, in evaluation mode meanwhile."""
        if self._adapted is None:
            yield self._copy
            return
        training = self._adapted.training
        self._adapted.eval()
        try:
            with self._adapted.disable_adapter():
                yield self._adapted
        finally:
            self._adapted.train(training)


def save_model(
    model: torch.nn.Module, tokenizer: Any, folder: Path, *, merge: bool = False, template: str = ""
) -> None:
    """Write a folder that transformers and vLLM load: safetensors, configuration, tokenizer with its chat template.

    Args:
        model: with LoRA, its adapter alone is written (it names its base model).
        tokenizer: of the model.
        folder: replaced whole if it is there.
        merge: write a whole model that has the adapter's change in its weights.
        template: the chat template that was trained with; empty for the tokenizer's own.
    """
    unwrapped: Any = model
    if merge and hasattr(model, "merge_and_unload"):
        unwrapped = copy.deepcopy(model).merge_and_unload()  # type: ignore[operator]
    words = copy.deepcopy(tokenizer)
    if template:
        words.chat_template = template
    with whole_folder(folder) as part:
        unwrapped.save_pretrained(part)
        if (head := head_of(model)) is not None:
            head.save(part)
        words.save_pretrained(part)
        _rename_class(part / "tokenizer_config.json")


def _rename_class(path: Path) -> None:
    """Store a generic tokenizer's class under the name that transformers 4 and 5 know; another class stays."""
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get("tokenizer_class") == _OWN[0]:
        config["tokenizer_class"] = _OWN[1]
        config["additional_special_tokens"] = config.pop("extra_special_tokens", [])
        path.write_text(json.dumps(config, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def build_model(settings: RunSettings, accelerator: Any) -> tuple[Any, ChatTokenizer, frozenset[int]]:
    """Return model, conversation tokenizer and, of a `tiny:SIZE` made here, tokens of prompt texts; UsageError if unfit.

    The third are the tokens of a tiny model that are whole texts of prompts, which its policy may be kept from saying.

    Raises:
        UsageError: no such model, or a tiny one is to have an adapter.
    """
    name, template = settings.model.name, settings.sampling.template
    if not name.startswith(TINY):
        model, tokenizer = load_model(settings.model, accelerator.device, settings.seed)
        return model, ChatTokenizer(tokenizer, template), frozenset()
    if settings.model.lora_rank or settings.model.gradient_checkpointing:
        raise UsageError(f"model.name={name!r}: tiny models are trained whole, without LoRA and checkpointing")
    from trainers.tiny.models import tiny_model

    forces = hasattr(settings, "counterfactual")  # EARL's forces tags, and its baselines share its tokenizer
    start = getattr(settings, "warm_start", WarmStartSettings())
    envs = [(member.name, member.env.arguments) for member in members_of(settings.env)]
    if (first := getattr(settings, "curriculum", None)) is not None and first.steps:
        envs.append((first.id, first.arguments))
    choices = (forces, settings.model.numerals, settings.model.tokenizer_plays, start.stacks)
    fitted = _fit_tokenizer(tuple(envs), *choices)
    tokenizer = deepcopy(fitted.tokenizer)
    tied = settings.sampling.engine != "vllm"  # its build for CPUs cannot reload a head that is the embedding
    model = tiny_model(tokenizer, name.removeprefix(TINY), seed=settings.seed, tied=tied)
    chat = ChatTokenizer(tokenizer, "chatml" if template == "auto" else template)
    return model.to(accelerator.device), chat, fitted.constant if tied and not forces else frozenset()


@lru_cache(maxsize=16)
def _fit_tokenizer(envs: tuple[tuple[str, str], ...], tags_apart: bool, numerals: str, plays: int, stacks: str) -> Any:
    """Build the tokenizer of environments, cached: training on them again need not play thousands of episodes again."""
    from trainers.tiny.fitting import environment_tokenizer

    (env_id, arguments), *others = [(name, json.loads(text)) for name, text in envs]
    options: dict[str, Any] = {"tags_apart": tags_apart, "numerals": numerals, "plays": plays}
    options["stacks"] = [stack.rows for stack in stacks_of(stacks, "warm_start.stacks")]
    return environment_tokenizer(env_id, **options, others=others, **arguments)


def reference_of(run: Any) -> ReferenceModel:
    """Return the model that a run began with, after any warm start: the present one, a copy of the start, or LoRA's base."""
    bare, start = run.parts.bare, run.start_of_training()
    dtype = torch.bfloat16 if run.parts.accelerator.mixed_precision == "bf16" else None
    if run.step == 0 or start is None or hasattr(bare, "disable_adapter"):
        return ReferenceModel(bare, dtype)
    first = copy.deepcopy(bare)
    load_weights(first, start)
    return ReferenceModel(first, dtype)


def with_reference(
    rows: Sequence[TrainRow], parts: Any, reference: ReferenceModel, token_budget: int, *, vocabulary: bool = False
) -> list[TrainRow]:
    """Return rows with their tokens' logprobs under a reference model; with `vocabulary` over the vocabulary alone."""
    scored_rows = list(rows)
    for micro in micro_batches_of(rows, parts, token_budget):
        with parts.accelerator.autocast():
            scores = reference.scores(micro, parts.temperature)
            logprobs = scores.vocabulary_logprobs if vocabulary else scores.logprobs
        for place, row in zip(micro.rows, logprobs.tolist(), strict=True):
            scored_rows[place] = replace(rows[place], reference_logprobs=tuple(row[: len(rows[place].sequence.ids)]))
    return scored_rows


def correct_rows(
    rows: Sequence[TrainRow], parts: Any, correction: losses.Correction, token_budget: int
) -> tuple[list[TrainRow], dict[str, float]]:
    """Return rows with the trainer's logprobs and engine-correction weights as advantages, and the worst metrics.

    A weight on a token's loss is a weight on its advantage, and is kept in its place: every policy loss is linear in it.
    Metrics are those of the worst micro-batch.
    """
    corrected_rows, worst = list(rows), dict[str, float]()
    for micro in micro_batches_of(rows, parts, token_budget):
        with torch.no_grad(), parts.accelerator.autocast():
            logprobs, _ = token_logprobs(parts.model, micro, parts.temperature, with_entropy=False)
        weights, metrics = losses.engine_weights(logprobs, micro.old_logprobs, micro.trained, correction)
        for place, own, weight in zip(micro.rows, logprobs, weights, strict=True):
            length = len(rows[place].sequence.ids)
            sequence = replace(rows[place].sequence, logprobs=tuple(own[:length].tolist()))
            corrected_rows[place] = replace(rows[place], sequence=sequence, advantages=tuple(weight[:length].tolist()))
        for name, value in metrics.items():
            metric = f"{name.removesuffix('/mean').removesuffix('/max')}/max"
            worst[metric] = max(worst.get(metric, 0.0), float(value))
    return corrected_rows, worst
