"""Logprobs and entropies are computed for the trained tokens alone, without ever holding the logits of a whole batch."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from agent_envs.base.errors import UsageError
from trainers.batching import MicroBatch
from trainers.training.packing import LAID_OUT, pack, packable, packed_states

HEAD_FILE = "expanded_head.json"  # in a model's folder: what the rows of its further head are


class ExtraHead(torch.nn.Module, ABC):
    """Output rows beside a language head, with scores and files of their own.

    Shared code knows no more of one than this class. An algorithm's own parts make one and register it on the model.

    Attributes:
        rows: of all that they may choose.
    """

    rows: Sequence[Any]

    @abstractmethod
    def score(
        self, states: torch.Tensor, language: "LinearHead", targets: torch.Tensor, table: torch.Tensor
    ) -> "TokenScores":
        """Return logprobs, entropies and logprobs over the vocabulary alone, each (n,), of targets.

        Args:
            states: last hidden states of the positions before, (n, width).
            language: the language head, with the temperature that targets were sampled at, and what becomes of entropies.
            targets: what was chosen, (n,).
            table: what was legal, bool (n, rows).
        """

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the head into a model's folder, beside the files of the model itself; HEAD_FILE is one of its files."""


def head_of(model: torch.nn.Module) -> ExtraHead | None:
    """Return the further head of a model, through all that is around it; None where it has none."""
    return next((module for module in model.modules() if isinstance(module, ExtraHead)), None)


def extra_head(model: torch.nn.Module) -> Any:
    """Return the further head of a model that needs one; UsageError where it has none.

    Raises:
        UsageError: it has none.
    """
    if (head := head_of(model)) is None:
        raise UsageError(f"{type(model).__name__} has no expanded head: attach_head() gives it one")
    return head


def head_is_in(folder: Path) -> bool:
    """Return whether a model's folder holds a further head."""
    return (folder / HEAD_FILE).is_file()


LOGITS_AT_ONCE = 2**26  # 256 MB in float32
LOGITS_KEPT = 2**23  # 32 MB: keeping so few for the backward pass is cheaper than computing them twice

_LINEAR_HEADS: weakref.WeakSet[Any] = weakref.WeakSet()  # models that were tried and found plain


class TokenScores(NamedTuple):
    """The scores of trained tokens; each (batch, tokens), exactly 0 elsewhere.

    Attributes:
        logprobs: of what was chosen, over all that was legal.
        entropies: of these distributions, in nats.
        vocabulary_logprobs: of tokens, over the vocabulary alone; 0 where an expanded action was chosen.
    """

    logprobs: torch.Tensor
    entropies: torch.Tensor
    vocabulary_logprobs: torch.Tensor


def token_logprobs(
    model: torch.nn.Module, micro: MicroBatch, temperature: float = 1.0, **entropies: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logprobs and entropies of `token_scores`, which says what else is given by name."""
    scores = token_scores(model, micro, temperature, **entropies)
    return scores.logprobs, scores.entropies


def token_scores(
    model: torch.nn.Module,
    micro: MicroBatch,
    temperature: float = 1.0,
    *,
    with_entropy: bool = True,
    entropy_grad: bool = False,
) -> TokenScores:
    """Return logprobs, entropies (nats) and vocabulary logprobs of trained tokens; UsageError for an unfit head.

    The decoder runs once over all tokens; the head only where a trained token is predicted, in chunks whose logits are
    computed again in the backward pass. Padding is on the right, so causal attention needs no mask. Mixed precision is
    the caller's: `with accelerator.autocast(): ...`; the softmax is at least float32 whatever the model's type.

    Args:
        model: a causal language model of transformers, bare or inside peft, accelerate, DDP or torch.compile.
        micro: on the model's device.
        temperature: that the tokens were sampled at.
        with_entropy: False leaves the entropies 0.
        entropy_grad: let gradients through the entropies (an entropy bonus); they are detached otherwise.

    Raises:
        UsageError: the model's head does more than a linear layer.
    """
    if temperature <= 0:
        raise UsageError(f"temperature={temperature}: tokens of a greedy policy have the logprobs of temperature 1")
    states, predicted = trained_states(model, micro), micro.trained[:, 1:]
    targets = micro.targets[:, 1:][predicted]  # (trained,)
    head = LinearHead(bare_model(model).get_output_embeddings(), temperature, with_entropy, entropy_grad)
    if micro.legal.shape[-1]:
        head.extra = extra_head(model)
    scores = head.in_chunks(states, targets, micro.legal[:, 1:][predicted])
    return TokenScores(*(_scatter(values, micro.trained) for values in scores))


def trained_states(model: torch.nn.Module, micro: MicroBatch) -> torch.Tensor:
    """Return the decoder's states that predict the trained tokens, (trained, width), row after row; packed where it can be.

    A critic reads the same states: the one that predicts a token is that of the moment before it.

    Raises:
        UsageError: the model's head does more than a linear layer.
    """
    bare = bare_model(model)
    check_head(bare)
    predicted = micro.trained[:, 1:]  # (batch, tokens - 1)
    decoder = _decoder(bare)
    if packable(bare, decoder):
        packing = pack(micro.ids, micro.attention, micro.trained)
        return packed_states(bare, decoder, packing)[packing.places[:, :-1][predicted]]
    hidden: torch.Tensor = decoder(input_ids=micro.ids, use_cache=False).last_hidden_state  # (batch, tokens, width)
    return hidden[:, :-1][predicted]


def laid_out(model: torch.nn.Module) -> float:
    """Return the cost of a padding or shared token, for `micro_batches`: 0.2 where rows are packed, else 1."""
    bare = bare_model(model)
    return LAID_OUT if packable(bare, _decoder(bare)) else 1.0


def bare_model(model: torch.nn.Module) -> Any:
    """Return the model inside what accelerate, DDP, torch.compile and peft put around it; UsageError for prompt tuning."""
    from accelerate.utils import extract_model_from_parallel

    bare: Any = extract_model_from_parallel(model, keep_torch_compile=False)
    if hasattr(bare, "peft_config"):
        if any(getattr(config, "is_prompt_learning", False) for config in bare.peft_config.values()):
            raise UsageError("prompt tuning puts tokens of its own before the text; train with LoRA or full weights")
        bare = bare.get_base_model()
    return bare


def _decoder(bare: Any) -> Any:
    """Return the decoder below a model's head; UsageError where there is none of its own."""
    decoder = bare.get_decoder()
    if decoder is None or decoder is bare:
        raise UsageError(f"{type(bare).__name__} has no decoder under its head; use a causal language model")
    return decoder


def check_head(bare: Any) -> None:
    """Raise UsageError for a model that does more between decoder and logits than one linear layer; tried once a model.

    Names in configurations (soft caps, multipliers) differ from model to model, so the model is tried: it must hand its
    decoder's states to the head as they are, and give back as they are logits that a hook puts in the head's place.
    """
    if bare in _LINEAR_HEADS:
        return
    linear = bare.get_output_embeddings()
    if linear is None:
        raise UsageError(f"{type(bare).__name__} has no head that predicts tokens; use a causal language model")
    tensors: dict[str, torch.Tensor] = {}

    def decoded(module: Any, inputs: Any, output: Any) -> None:
        """Note the states that come out of the decoder (a hook)."""
        tensors["states"] = output.last_hidden_state

    def headed(module: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> torch.Tensor:
        """Note the head's input, and put a ramp of logits in place of its output (a hook)."""
        tensors["input"] = inputs[0]
        ramp = torch.linspace(-100.0, 100.0, output.numel(), dtype=output.dtype, device=output.device)
        tensors["logits"] = ramp.view_as(output)
        return tensors["logits"]

    hooks = (_decoder(bare).register_forward_hook(decoded), linear.register_forward_hook(headed))
    try:
        with torch.no_grad():
            ids = torch.zeros((1, 2), dtype=torch.long, device=bare.device)
            logits = bare(input_ids=ids, use_cache=False).logits
    finally:
        for hook in hooks:
            hook.remove()
    plain = torch.equal(logits.float(), tensors["logits"].float()) and torch.equal(tensors["input"], tensors["states"])
    if not plain:
        raise UsageError(
            f"{type(bare).__name__} does more than a linear layer after its decoder (a soft cap or a scale): "
            "its logprobs would be wrong here; use another model"
        )
    _LINEAR_HEADS.add(bare)


def _scatter(values: torch.Tensor, trained: torch.Tensor) -> torch.Tensor:
    """Put (trained,) values at their places in zeros of (batch, tokens)."""
    first = torch.zeros_like(trained[:, :1])
    places = torch.cat([first, trained[:, 1:]], dim=1)
    return torch.zeros(trained.shape, dtype=values.dtype, device=values.device).masked_scatter(places, values)


class LinearHead:
    """The linear head and the softmax over it, a chunk of positions at a time; with expanded actions, theirs beside it."""

    def __init__(self, linear: Any, temperature: float, with_entropy: bool = False, entropy_grad: bool = False) -> None:
        """Take the head, the temperature that targets were sampled at, > 0, and what becomes of entropies.

        Without `with_entropy` entropies are 0; without `entropy_grad` they are detached.
        """
        self.linear, self.temperature = linear, temperature
        self.with_entropy, self.entropy_grad = with_entropy, entropy_grad
        self.extra: ExtraHead | None = None

    def in_chunks(self, states: torch.Tensor, targets: torch.Tensor, legal: torch.Tensor) -> list[torch.Tensor]:
        """Return the scores of (trained,) targets from (trained, width) states, in chunks; many are computed again backward."""
        vocabulary = self.linear.weight.shape[0]
        keep_logits = states.shape[0] * vocabulary <= LOGITS_KEPT or not torch.is_grad_enabled()
        size = max(1, LOGITS_AT_ONCE // vocabulary)
        results = []
        for part in zip(*(torch.split(each, size) for each in (states, targets, legal)), strict=True):
            results.append(self.chunk(*part) if keep_logits else checkpoint(self.chunk, *part, use_reentrant=False))
        return [torch.cat(parts) for parts in zip(*results, strict=True)]

    def chunk(self, states: torch.Tensor, targets: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the scores of one chunk (see `TokenScores`), by the expanded head if any; entropies are 0 if not asked for."""
        if self.extra is not None:
            table = functional.pad(legal, (0, len(self.extra.rows) - legal.shape[1]))
            return self.extra.score(states, self, targets, table)
        logits = self.linear(states)  # (chunk, vocabulary)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self.temperature != 1.0:
            logits = logits / self.temperature
        log_probabilities = functional.log_softmax(logits, dim=-1)  # (chunk, vocabulary)
        logprobs = log_probabilities.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (chunk,)
        if not self.with_entropy:
            return logprobs, torch.zeros_like(logprobs), logprobs
        with torch.set_grad_enabled(self.entropy_grad and torch.is_grad_enabled()):
            return logprobs, -(log_probabilities.exp() * log_probabilities).sum(dim=-1), logprobs
