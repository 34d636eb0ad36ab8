"""The expanded action head adds output rows for expanded actions to a model's language head (arXiv 2510.07581, D.1).

The rows stand behind the vocabulary: of V tokens, action k >= 1 is id V + k - 1, and `end`, action 0, is the end-of-sequence
token. Their logits come after those of the language head; one softmax goes over what is legal. Nothing here is on the input
side: an action is read as the tokens of what it appends.

`legal`, here as in `TokenSequence`, are the numbers of the actions that are legal at a position. 0 among them means language
mode: the whole vocabulary is open as well. Without it no token is, and the language head is not even computed.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import extract_model_from_parallel
from torch.nn import functional

from agent_envs.base.errors import UsageError
from agent_envs.envs.expa import VocabularyRow
from trainers.training.forward import HEAD_FILE, ExtraHead, LinearHead, TokenScores, bare_model, check_head

_NAME, _KEYS = "expanded_head", ("expanded_head.weight", "expanded_head.bias")
_TENSORS = "expanded_head.safetensors"


class ExpandedHead(ExtraHead):
    """Output rows of expanded actions. `attach_head` makes one from a model's language head.

    Attributes:
        rows: of all actions, `end` first.
        vocabulary: V, the width of the language head.
        weight: of the actions but `end`, (actions - 1, width).
        bias: constants on their logits, (actions - 1,), which no gradient moves: 0 unless `suppress` was called.
    """

    bias: torch.Tensor

    def __init__(self, rows: Sequence[VocabularyRow], weight: torch.Tensor) -> None:
        """Take the rows of expanded actions, their ids from 1 on, and the weights of each but `end`.

        Raises:
            UsageError: the ids of the rows do not follow one another, or there is not one weight for each but `end`.
        """
        super().__init__()
        self.rows = tuple(rows)
        self.vocabulary = self.rows[1].token_id if len(self.rows) > 1 else 0
        numbers = [(row.action, row.token_id) for row in self.rows[1:]]
        if not numbers or numbers != [(place + 1, self.vocabulary + place) for place in range(len(numbers))]:
            raise UsageError(f"expanded actions and their ids must follow one another from 1 on, not be {numbers}")
        if weight.ndim != 2 or len(weight) != len(numbers):
            raise UsageError(f"{len(numbers)} expanded actions need as many rows, not {tuple(weight.shape)}")
        self.weight = torch.nn.Parameter(weight)
        self.register_buffer("bias", torch.zeros(len(numbers), device=weight.device))

    def expanded_logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits of the actions but `end`, (n, actions - 1), of last hidden states (n, width)."""
        return functional.linear(states, self.weight.to(states.dtype), self.bias.to(states.dtype))

    def suppress(self, actions: Sequence[int], bias: float) -> None:
        """Set the constant on the logits of some actions from here on; what they are worth must then be learnt against it."""
        self.bias[[action - 1 for action in actions]] = bias

    def logits(self, states: torch.Tensor, language_logits: torch.Tensor) -> torch.Tensor:
        """Return the logits of tokens and actions, (n, V + actions - 1), of last hidden states (n, width)."""
        return torch.cat([language_logits, self.expanded_logits(states).to(language_logits.dtype)], dim=-1)

    def table(self, legal: Sequence[tuple[int, ...]]) -> torch.Tensor:
        """Return the mask of legal actions, `end` first, bool (n, actions); UsageError for a place without any, or unknown.

        Raises:
            UsageError: nothing is legal at a position, or there is no such action.
        """
        mask = torch.zeros(len(legal), len(self.rows), dtype=torch.bool)
        for place, numbers in enumerate(legal):
            if not numbers or not 0 <= min(numbers) <= max(numbers) < len(self.rows):
                raise UsageError(
                    f"legal={numbers!r:.80}: give at least one action, each from 0 to {len(self.rows) - 1}"
                )
            mask[place, list(numbers)] = True
        return mask.to(self.weight.device)

    def score(
        self, states: torch.Tensor, language: LinearHead, targets: torch.Tensor, table: torch.Tensor
    ) -> TokenScores:
        """Return a choice's logprobs, hugely negative if illegal, entropies, 0 if not asked for, and vocabulary logprobs.

        Language logits are computed in language mode alone, and no mask is as wide as they are.
        """
        actions = _widen(self.expanded_logits(states), language.temperature)  # (n, actions - 1)
        actions = actions.masked_fill(~table[:, 1:], torch.finfo(actions.dtype).min)
        places = table[:, 0].nonzero().squeeze(-1)  # (language,)
        words = _widen(language.linear(states[places]), language.temperature)  # (language, V)
        sums = actions.logsumexp(-1)  # (n,)
        word_sums = words.logsumexp(-1)  # (language,)
        sums = sums.index_copy(0, places, torch.logaddexp(word_sums, sums[places]))
        beyond = targets >= self.vocabulary
        logits = actions.gather(-1, (targets - self.vocabulary).clamp(min=0).unsqueeze(-1)).squeeze(-1)
        logits = logits.masked_fill(~beyond, torch.finfo(logits.dtype).min)  # a token inside an environment
        token_logits = words.gather(-1, targets[places].clamp(max=self.vocabulary - 1).unsqueeze(-1)).squeeze(-1)
        logits = logits.index_copy(0, places, torch.where(beyond[places], logits[places], token_logits))
        alone = torch.where(beyond[places], 0.0, token_logits - word_sums)  # (language,)
        vocabulary = torch.zeros_like(sums).index_copy(0, places, alone)
        entropies = torch.zeros_like(sums)
        if language.with_entropy:
            with torch.set_grad_enabled(language.entropy_grad and torch.is_grad_enabled()):
                entropies = _entropies(actions, sums)
                entropies = entropies.index_add(0, places, _entropies(words, sums[places]))
        return TokenScores(logits - sums, entropies, vocabulary)

    def save(self, folder: Path) -> None:
        """Write the head into a folder, beside the files of the model itself, which loads as before."""
        from safetensors.torch import save_file

        save_file({"weight": self.weight.detach().contiguous().cpu(), "bias": self.bias.cpu()}, folder / _TENSORS)
        rows = [[row.action, row.token_id, row.start, list(row.description)] for row in self.rows]
        (folder / HEAD_FILE).write_text(json.dumps({"rows": rows}) + "\n", encoding="utf-8")


def _widen(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return logits in at least float32, divided by the temperature."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature


def _entropies(logits: torch.Tensor, sums: torch.Tensor) -> torch.Tensor:
    """Return the share of each row's entropy that some of its logits have, (n,)."""
    logprobs = logits - sums.unsqueeze(-1)
    return -(logprobs.exp() * logprobs).sum(-1)


def attach_head(model: torch.nn.Module, rows: Sequence[VocabularyRow]) -> ExpandedHead:
    """Give a model a trainable expanded head, in place of one that it has; return it; UsageError for unfit rows or models.

    A row starts as the language head's row of its description's first token.

    It is `model.expanded_head` from then on: parameters, state_dict, moves between devices and checkpoints have it, and
    the model's own `save_pretrained` leaves it out. To train the head alone, call `model.requires_grad_(False)` before. With
    LoRA, attach it to the model that peft made, which would freeze it otherwise.

    Args:
        model: a causal language model of transformers, bare or with adapters of peft.
        rows: `env.expanded_vocabulary(...)`, whose first id is the width of the language head.

    Raises:
        UsageError: the rows are of another vocabulary, or logits are no plain product of states and rows.
    """
    language = _language_head(model)
    table = language.weight.detach()
    if len(rows) < 2 or rows[1].token_id != len(table):
        raise UsageError(f"expanded actions begin at id {len(table)}, the width of the model's language head")
    # Weights that train are at least float32, whatever the frozen ones are.
    dtype = torch.promote_types(table.dtype, torch.float32)
    weight = table[[row.start for row in rows[1:]]].to(dtype)
    return _register(model, ExpandedHead(rows, weight))


def _register(model: torch.nn.Module, head: ExpandedHead) -> ExpandedHead:
    """Attach an expanded head to the model as an attribute that `save_pretrained` leaves out, and return the head."""
    owner: Any = extract_model_from_parallel(model, keep_torch_compile=False)
    setattr(owner, _NAME, head)
    if hasattr(owner, "_keys_to_ignore_on_save"):
        owner._keys_to_ignore_on_save = {*(owner._keys_to_ignore_on_save or ()), *_KEYS}
    return head


def _language_head(model: torch.nn.Module) -> torch.nn.Linear:
    """Return the language head; UsageError where it has a bias, or more than it stands between decoder and logits.

    Raises:
        UsageError: it does, or its head has a bias, which rows beside it would lack.
    """
    bare = bare_model(model)
    language: Any = bare.get_output_embeddings()
    if language is None or getattr(language, "bias", None) is not None:
        raise UsageError(f"{type(bare).__name__} has no language head without a bias: no expanded head extends it")
    check_head(bare)
    head: torch.nn.Linear = language
    return head


def load_head(model: torch.nn.Module, folder: Path) -> ExpandedHead:
    """Attach the expanded head that `save` wrote and return it; UsageError where there is none, or it is another model's.

    Raises:
        UsageError: there is none, or it is of another model.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        table = json.loads((folder / HEAD_FILE).read_text(encoding="utf-8"))["rows"]
        rows = [VocabularyRow(action, token, start, tuple(description)) for action, token, start, description in table]
        tensors = load_file(folder / _TENSORS)
        weight = tensors["weight"]
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise UsageError(f"{folder} holds no expanded head: {error}") from error
    language = _language_head(model)
    head = ExpandedHead(rows, weight.to(language.weight.device))
    head.bias.copy_(tensors.get("bias", torch.zeros(len(weight))))
    if (head.vocabulary, weight.shape[1]) != tuple(language.weight.shape):
        raise UsageError(f"{folder}: the expanded head is of another model, with {head.vocabulary} tokens")
    return _register(model, head)
