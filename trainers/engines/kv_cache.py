"""Keys and values of a batch are written in place into one preallocated tensor, and sessions keep theirs between calls.

All rows write to the same columns at a time, whatever their lengths: a row has holes where others are longer, and the
attention mask hides them. So a step's write is one slice, and what the model reads is a view. A model in training is put into
evaluation mode for a while, and its last MLP is computed only where it is read.
"""

import inspect
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from transformers import PretrainedConfig
from transformers.cache_utils import Cache, DynamicCache

from agent_envs.base.errors import UsageError
from trainers.contracts import common_beginning

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
    """The keys and values of every layer, as one tensor.

    Attributes:
        states: keys (even) and values (odd) of each layer, (2 * layers, rows, heads, columns, dim); None before the
            first write.
    """

    def __init__(self, layers: int, columns: int, states: torch.Tensor | None = None) -> None:
        """Set the number of columns, allocated at the first write, or take over states that are there."""
        super().__init__(layers=[])
        self.states = states
        self._depth = layers
        self._columns = columns
        self._start = self._stop = 0
        self._write_views: tuple[torch.Tensor, ...] = ()
        self._read_views: tuple[torch.Tensor, ...] = ()

    def aim(self, start: int, stop: int) -> None:
        """Set the columns that the next forward pass writes; it then attends to all columns before `stop`."""
        self._start, self._stop = start, stop
        if self.states is not None:
            self._write_views = self.states[:, :, :, start:stop].unbind(0)
            self._read_views = self.states[:, :, :, :stop].unbind(0)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write a layer's new keys and values, and return views of all of them."""
        if self.states is None:
            self._allocate(key_states, value_states)
        at = 2 * layer_idx
        self._write_views[at].copy_(key_states)
        self._write_views[at + 1].copy_(value_states)
        return self._read_views[at], self._read_views[at + 1]

    def _allocate(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Allocate one tensor for keys and values of all layers, shaped like the first; UsageError if the two shapes differ."""
        rows, heads, _, dim = keys.shape
        if keys.shape != values.shape:
            raise UsageError(f"keys {tuple(keys.shape)} and values {tuple(values.shape)} differ: use VLLMEngine")
        dtype = compute_type(keys.device, keys.dtype)
        self.states = keys.new_empty(2 * self._depth, rows, heads, self._columns, dim, dtype=dtype)
        self.aim(self._start, self._stop)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of columns before the ones that are written now."""
        return self._start

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


class SessionStore:
    """Cached conversations by name; the least recently used go first once they take more than `limit` bytes.

    A fork reads what its trunk has kept, then and later: where the trunk has read on in the same context, so has the fork.
    """

    def __init__(self, limit: float) -> None:
        """Set up an empty store that holds at most `limit` bytes."""
        self.limit = limit
        self.bytes = 0
        self._caches: OrderedDict[str, CachedTokens] = OrderedDict()
        self._trunks: dict[str, str] = {}  # of forks
        self._waiting: dict[str, list[str]] = {}  # forks that have nothing of their own yet, by their trunks

    def longest(self, name: str, ids: tuple[int, ...]) -> tuple[CachedTokens | None, int]:
        """Return the cache that shares most first tokens with `ids`, of a name or its trunk, and how many; None, 0 if none."""
        best, length = None, 0
        for each in (name, self._trunks.get(name, name)):
            cache = self._caches.get(each)
            if cache is not None and (alike := common_beginning(cache.ids, ids)) > length:
                best, length = cache, alike
                self._caches.move_to_end(each)
        return best, length

    def fork(self, name: str, new: str) -> None:
        """Share a session's cache with a new name; it is kept only once while the trunk goes on in that context."""
        trunk = name if name in self._caches else self._trunks.get(name, name)
        self._trunks[new] = trunk
        self._waiting.setdefault(trunk, []).append(new)

    @property
    def tokens(self) -> int:
        """The number of tokens that are cached."""
        return sum(len(cache.ids) for cache in self._caches.values())

    def __contains__(self, name: str) -> bool:
        """Return whether a conversation is cached."""
        return name in self._caches

    def put(self, name: str, cache: CachedTokens) -> None:
        """Replace the cache of a name; forks keep a context that is left, and the oldest caches go beyond the limit."""
        old = self._caches.get(name)
        if old is not None and common_beginning(old.ids, cache.ids) < len(old.ids):
            for fork in self._waiting.pop(name, ()):
                if fork not in self._caches:
                    self.put(fork, old)
        self.drop(name)
        self._caches[name] = cache
        self.bytes += cache.states.nbytes
        while self.bytes > self.limit:
            self.drop(next(iter(self._caches)))

    def drop(self, name: str) -> None:
        """Remove the cache of a name."""
        cache = self._caches.pop(name, None)
        self.bytes -= cache.states.nbytes if cache else 0

    def clear(self) -> None:
        """Remove all caches, and what is known of forks."""
        self._caches.clear()
        self._trunks.clear()
        self._waiting.clear()
        self.bytes = 0


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
