"""Keys and values of a batch are written in place into one preallocated tensor.

A row's token at position p is written to column p, so that the attention mask follows from positions alone, and what the
model reads is a view. A model in training is put into evaluation mode for a while, and its last MLP is computed only where it
is read.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch.nn import functional
from transformers import PretrainedConfig
from transformers.cache_utils import Cache, DynamicCache

from agent_envs.base.errors import UsageError

_ATTENTION = ("sdpa", "eager")
# With these the keys of early tokens change as the sequence grows: kept ones would be of another angle.
_MOVING_ROPE = ("dynamic", "longrope")


def check_cacheable(config: PretrainedConfig) -> None:
    """Raise UsageError for layers without full attention, attention code but sdpa and eager, or a RoPE that moves."""
    kinds = {type(layer).__name__ for layer in DynamicCache(config=config).layers} - {"DynamicLayer"}
    if kinds:
        raise UsageError(
            f"HFEngine keeps full attention only; {config.model_type} has cache layers of type "
            f"{', '.join(sorted(kinds))} (sliding windows, recurrent states or shared layers): use VLLMEngine"
        )
    implementation = config._attn_implementation
    if implementation not in _ATTENTION:
        raise UsageError(f'attn_implementation="{implementation}": load the model with "sdpa" or "eager" for HFEngine')
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if rope.get("rope_type") in _MOVING_ROPE:
        raise UsageError(f'rope_type="{rope["rope_type"]}" turns earlier tokens as a sequence grows: use VLLMEngine')


def run_cached(model: Any, cache: "SlotCache", **inputs: Any) -> Any:
    """Run a transformers model, or its decoder, on a cache, under the name that its version has for it."""
    bare = getattr(model, "get_base_model", lambda: model)()  # inside peft
    return model(**{_cache_argument(type(bare)): cache}, use_cache=True, **inputs)


@lru_cache
def _cache_argument(kind: type) -> str:
    """Return the name of a model's argument for its cache: transformers 5.24 renamed it."""
    forwards = [inspect.signature(base.forward).parameters for base in kind.__mro__ if "forward" in vars(base)]
    return "cache" if any("cache" in names for names in forwards) else "past_key_values"


def compute_type(device: torch.device, dtype: torch.dtype) -> torch.dtype:
    """Return the type that attention computes in: that of mixed precision where it is on, else `dtype`."""
    # Rotary embedding makes float32 keys under mixed precision: kept so, attention would cast all of them for every token.
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else dtype


class SlotCache(Cache):
    """The keys and values of every layer, as one tensor: what a row has at its position p lies in column p of its slot.

    Attributes:
        depth: layers of the model.
        states: keys (even) and values (odd) of each layer, (2 * layers, slots, heads, columns, dim); None before the first
            write. They are numbers everywhere: a NaN that is masked would survive its weight of 0.
    """

    def __init__(self, layers: int, slots: int, columns: int) -> None:
        """Set the size, allocated at the first write: rows, and tokens of each."""
        super().__init__(layers=[])
        self.states: torch.Tensor | None = None
        self.depth = layers
        self._slots, self._width = slots, columns
        self._rows, self._columns, self._stop = slice(0), torch.empty(0), 0
        self._index: torch.Tensor | None = None

    @property
    def columns(self) -> int:
        """The tokens that a row has room for."""
        return self._width

    def aim(self, rows: slice, columns: torch.Tensor, stop: int) -> None:
        """Set what the next pass writes, its slots and a column for each token (rows, tokens); it reads those before `stop`.

        A column beyond the last is the last: a row that ended may run ahead of those that room is made for, and must not
        write into the next head or slot.
        """
        self._rows, self._stop, self._index = rows, stop, None
        self._columns = columns.clamp(max=self._width - 1)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write a layer's new keys and values, and return views of all that its rows read; UsageError for unlike shapes."""
        if key_states.shape != value_states.shape:
            shapes = f"keys {tuple(key_states.shape)} and values {tuple(value_states.shape)}"
            raise UsageError(f"{shapes} differ: use VLLMEngine")
        states = self._at_hand(key_states, compute_type(key_states.device, key_states.dtype))
        if self._index is None:
            self._index = self._places(states)
        views = []
        for at, new in ((2 * layer_idx, key_states), (2 * layer_idx + 1, value_states)):
            flat = states[at].view(-1, states.shape[4])
            flat.index_copy_(0, self._index, new.reshape(-1, states.shape[4]).to(states.dtype))
            views.append(states[at, self._rows, :, : self._stop])
        return views[0], views[1]

    def _places(self, states: torch.Tensor) -> torch.Tensor:
        """Return the places of the new tokens among all slots * heads * columns, (rows * heads * tokens,)."""
        _, slots, heads, columns, _ = states.shape
        first = torch.arange(0, slots * heads * columns, columns, device=states.device).view(slots, heads, 1)
        return (first[self._rows] + self._columns.unsqueeze(1)).flatten()

    def _at_hand(self, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """Return the tensor, allocated for heads and width of (rows, heads, tokens, dim) where there is none yet."""
        if self.states is None:
            heads, dim = like.shape[1], like.shape[3]
            self.states = like.new_zeros(2 * self.depth, self._slots, heads, self._width, dim, dtype=dtype)
        return self.states

    def load(self, slot: int, states: torch.Tensor) -> None:
        """Copy the keys and values of a row's first tokens, (2 * layers, heads, tokens, dim), into a slot."""
        self._at_hand(states, states.dtype)[:, slot, :, : states.shape[2]] = states

    def copy_of(self, slot: int, tokens: int) -> torch.Tensor:
        """Return a copy of what a slot has of its first tokens, (2 * layers, heads, tokens, dim)."""
        assert self.states is not None
        return self.states[:, slot, :, :tokens].clone(memory_format=torch.contiguous_format)

    def take(self, other: "SlotCache", places: Sequence[int], slots: Sequence[int], tokens: int) -> None:
        """Copy the first tokens of rows, at these places of a cache, of this one too, into slots."""
        assert other.states is not None
        states = self._at_hand(other.states[0], other.states.dtype)
        sources, targets = (torch.tensor(numbers, device=states.device) for numbers in (places, slots))
        states[:, targets, :, :tokens] = other.states[:, sources, :, :tokens]

    def resize(self, slots: int, columns: int) -> None:
        """Leave out slots behind the first so many, and give each room for so many tokens."""
        assert self.states is not None
        old, self._slots, self._width = self.states[:, :slots], slots, columns
        self.states = functional.pad(old, (0, 0, 0, columns - old.shape[3]))

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of columns before the ones that are written now."""
        return self._stop - self._columns.shape[1]

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return the number of columns that the model sees, and the first of them."""
        return self._stop, 0


@dataclass(frozen=True, slots=True)
class CachedTokens:
    """The cached keys and values of a conversation.

    Attributes:
        ids: the tokens whose keys and values are here: all but the one drawn last.
        states: (2 * layers, heads, tokens, dim).
    """

    ids: tuple[int, ...]
    states: torch.Tensor


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
    mlp = getattr(stacks[0][-1], "mlp", None) if len(stacks) == 1 else None
    return mlp if isinstance(mlp, torch.nn.Module) else None


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
        """Gather a module's input at the places alone; unchanged where it is not called as feed-forward parts are (a hook)."""
        if len(inputs) != 1 or inputs[0].ndim != 3:  # not called as feed-forward parts are: it works on all
            return inputs
        shapes.append(inputs[0].shape)
        return (inputs[0].flatten(0, 1).index_select(0, places).unsqueeze(0),)

    def widen(module: torch.nn.Module, inputs: object, output: Any) -> Any:
        """Put the outputs at the packed places back into the full shape, with zeros elsewhere (a forward hook)."""
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
