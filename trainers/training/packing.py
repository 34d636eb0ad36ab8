"""Packing computes every token of a micro-batch once: rows that begin alike share their beginning, padding is left out.

What a causal model makes of a token depends on the tokens up to it. So rows that begin with the same tokens (a prompt, and
what a group of episodes has in common after it) have the same states there, and one copy serves them all; gradients that
reach it from several rows add up. The model gets the distinct tokens as one row, each with its position; all of it but
attention acts on tokens one by one. Attention lays keys and values out again, in rows as they were; where most of a row is
another's, on a CPU, it attends from the row's own tokens alone.

The last layer is read where a trained token is predicted, and nowhere else: there alone it attends, and has its
feed-forward part computed.
"""

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import AttentionInterface

from agent_envs.base.errors import UsageError
from trainers.engines.kv_cache import check_cacheable, evaluating, last_mlp, only_at

NAME = "agent_envs_packed"
LAID_OUT = (
    0.2  # of the memory of a token: queries, keys, values and attention, which are laid out in rows (0.07 to 0.17)
)
# Arguments of attention that change what is attended to, or how.
_MASK_ENTRIES = 2**26  # at most, of the mask of rows that attend from their own tokens
_UNKNOWN = ("sliding_window", "softcap", "s_aux", "position_bias")

# Models, and by their attention what stands against packing.
_OBSTACLES: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Packing:
    """The places of padded rows' tokens among the distinct ones.

    Attributes:
        ids: of the distinct tokens.
        positions: of each in its rows.
        places: which distinct token each token is; 0 in the padding.
        homes: where each distinct token is found first, among all rows * tokens.
        whole: rows whose every token attends.
        partly: rows of which the tokens `own` attend alone; none of either where nothing is its own.
        own: their own tokens, filled up.
        mask: what these attend to.
        attention_places: where each distinct token's attention is: in `whole` * tokens, or behind these in `partly` * widest.
        read: the distinct tokens that predict a trained one.
        queries: which tokens of a row are these, filled up with 0; None where the last layer attends from all.
        filled: which entries of `queries` count, row after row in the order of `read`.
    """

    ids: torch.Tensor  # (1, distinct)
    positions: torch.Tensor  # (1, distinct)
    places: torch.Tensor  # (rows, tokens)
    homes: torch.Tensor  # (distinct,)
    whole: torch.Tensor  # (whole,)
    partly: torch.Tensor  # (partly,)
    own: torch.Tensor  # (partly, widest)
    mask: torch.Tensor  # (partly, widest, tokens)
    attention_places: torch.Tensor  # (distinct,)
    read: torch.Tensor  # (read,)
    queries: torch.Tensor | None  # (rows, widest)
    filled: torch.Tensor  # (rows, widest)


def pack(ids: torch.Tensor, attention: torch.Tensor, trained: torch.Tensor) -> Packing:
    """Find the distinct tokens of rows padded on the right (rows, tokens): a beginning that rows share is there once."""
    rows, lengths = ids.cpu().numpy(), attention.sum(dim=1).tolist()
    places = np.zeros(rows.shape, np.int64)
    homes: list[np.ndarray[Any, Any]] = []
    spans: list[tuple[int, int, int]] = []  # the row, and which of its tokens are its own
    count, before = 0, -1
    # In this order the longest beginning that a row shares with any earlier one it shares with the one before it.
    for row in sorted(range(len(rows)), key=lambda row: rows[row, : lengths[row]].tobytes()):
        shared = _shared_length(rows[before], rows[row], min(lengths[before], lengths[row])) if before >= 0 else 0
        fresh = lengths[row] - shared
        places[row, :shared] = places[before, :shared]
        places[row, shared : lengths[row]] = np.arange(count, count + fresh)
        homes.append(row * rows.shape[1] + np.arange(shared, lengths[row]))
        spans.append((row, shared, lengths[row]))
        count, before = count + fresh, row
    home = torch.from_numpy(np.concatenate(homes)).to(ids.device)
    place = torch.from_numpy(places).to(ids.device)
    read, queries, filled = _read(place, home, trained)
    positions = home.remainder(ids.shape[1]).unsqueeze(0)
    own = _split_rows([span for span in spans if span[2] > span[1]], rows.shape[1], ids.device)
    return Packing(ids.flatten()[home].unsqueeze(0), positions, place, home, *own, read, queries, filled)


def _split_rows(spans: Sequence[tuple[int, int, int]], width: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Split rows into those with causal attention over all tokens and those whose own tokens alone attend, by a mask.

    A mask costs twice what causal attention does, so that a row has to own less than half of the width. On a GPU it costs the
    fast kernel.
    """
    partly = [span for span in spans if device.type == "cpu" and 2 * (span[2] - span[1]) < width]
    widest = max((stop - start for _, start, stop in partly), default=0)
    if len(partly) * widest * width > _MASK_ENTRIES:
        partly, widest = [], 0
    whole = [row for row, *_ in spans if row not in {row for row, *_ in partly}]
    starts = {row: place * width for place, row in enumerate(whole)}
    starts |= {row: len(whole) * width + place * widest - start for place, (row, start, _) in enumerate(partly)}
    attention_places = np.concatenate([starts[row] + np.arange(start, stop) for row, start, stop in spans])
    own = torch.tensor([[min(start + step, stop - 1) for step in range(widest)] for _, start, stop in partly])
    own = own.view(len(partly), widest).long().to(device)
    mask = torch.arange(width, device=device) <= own.unsqueeze(-1)
    row_numbers = (torch.tensor(rows, dtype=torch.long, device=device) for rows in (whole, [row for row, *_ in partly]))
    return (*row_numbers, own, mask, torch.from_numpy(attention_places).to(device))


def _shared_length(one: "np.ndarray[Any, Any]", other: "np.ndarray[Any, Any]", length: int) -> int:
    """Return the length of the longest common prefix of two rows."""
    differ = np.flatnonzero(one[:length] != other[:length])
    return int(differ[0]) if len(differ) else length


def _read(
    places: torch.Tensor, homes: torch.Tensor, trained: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """Return the distinct tokens that predict trained ones, and their places in the rows; None where all places are cheaper."""
    is_read = torch.zeros(homes.shape[0], dtype=torch.bool, device=homes.device)
    is_read[places[:, :-1][trained[:, 1:]]] = True
    read_mask = torch.zeros(places.numel(), dtype=torch.bool, device=homes.device)
    read_mask[homes[is_read]] = True
    read_mask = read_mask.view(places.shape)  # (rows, tokens)
    counts = read_mask.sum(dim=1)  # (rows,)
    widest = int(counts.max())
    filled = torch.arange(widest, device=homes.device) < counts.unsqueeze(1)  # (rows, widest)
    if not 0 < 2 * widest < places.shape[1]:  # attention without a mask is then cheaper
        return places[read_mask], None, filled
    queries = torch.zeros(filled.shape, dtype=torch.long, device=homes.device)
    queries[filled] = read_mask.nonzero()[:, 1]
    return places[read_mask], queries, filled


def packed_states(bare: Any, decoder: Any, packing: Packing) -> torch.Tensor:
    """Return the decoder's states of the distinct tokens, (distinct, width); they are right where `packing.read` says.

    Ask `packable` first.
    """
    config = bare.config.get_text_config(decoder=True)
    mlp, left = last_mlp(decoder, config.num_hidden_layers), []

    @contextmanager
    def packing_now() -> Iterator[None]:
        """Switch the model to packed attention and a packed MLP for a while."""
        before = config._attn_implementation
        config._attn_implementation = NAME
        try:
            with only_at(mlp, packing.read):
                yield
        finally:
            config._attn_implementation = before

    with packing_now(), _layers_again(decoder, lambda: packing_now() if left else nullcontext()):
        output = decoder(input_ids=packing.ids, position_ids=packing.positions, packing=packing, use_cache=False)
    left.append(True)
    states: torch.Tensor = output.last_hidden_state
    return states.squeeze(0)


@contextmanager
def _layers_again(decoder: Any, around: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Put `around` about every run of a layer that gradient checkpointing will run again, in the backward pass as well."""
    layers = [module for module in decoder.modules() if getattr(module, "gradient_checkpointing", False)]
    functions = [layer._gradient_checkpointing_func for layer in layers]

    def checkpoint_layer(before: Callable[..., Any], layer: Callable[..., Any], *inputs: Any) -> Any:
        """Checkpoint a layer so that its recomputation in the backward pass runs inside `around()`, too."""

        def run(*values: Any) -> Any:
            """Run the layer inside `around()`."""
            with around():
                return layer(*values)

        return before(run, *inputs)

    try:
        for layer, before in zip(layers, functions, strict=True):
            layer._gradient_checkpointing_func = partial(checkpoint_layer, before)
        yield
    finally:
        for layer, before in zip(layers, functions, strict=True):
            layer._gradient_checkpointing_func = before


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    packing: Packing,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention over packed rows, (1, heads, distinct, dim); UsageError for an option that they do not have."""
    refused = [name for name in _UNKNOWN if options.get(name) is not None]
    if refused:
        raise UsageError(f"{type(module).__name__} attends with {refused[0]}, which packed rows do not have")
    settings = {name: options[name] for name in ("dropout", "scaling") if name in options}
    places, last = packing.places, module.layer_idx == module.config.num_hidden_layers - 1
    if packing.queries is None or not last:
        parts = []
        for rows, own, mask in ((packing.whole, None, None), (packing.partly, packing.own, packing.mask.unsqueeze(1))):
            if len(rows):
                here = places[rows]
                queries = _rows(query, here if own is None else here.gather(1, own))
                out = sdpa_attention_forward(module, queries, _rows(key, here), _rows(value, here), mask, **settings)[0]
                parts.append(out.flatten(0, 1))  # (rows * tokens, heads, dim)
        table = torch.cat(parts)
        return functional.embedding(packing.attention_places, table.flatten(1)).view(1, -1, *table.shape[1:]), None
    keys, values = _rows(key, places), _rows(value, places)
    queries = _rows(query, places.gather(1, packing.queries))  # (rows, heads, widest, dim)
    mask = torch.arange(places.shape[1], device=places.device) <= packing.queries.unsqueeze(-1)
    outputs, _ = sdpa_attention_forward(module, queries, keys, values, mask.unsqueeze(1), **settings)
    whole = outputs.new_zeros(packing.homes.shape[0], *outputs.shape[2:])  # (distinct, heads, dim)
    return whole.index_copy(0, packing.read, outputs[packing.filled]).unsqueeze(0), None


AttentionInterface.register(NAME, attend)


def _rows(states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Unpack (1, heads, distinct, dim) into (rows, heads, tokens, dim)."""
    table = states.squeeze(0).transpose(0, 1)  # (distinct, heads, dim)
    # The backward pass of an embedding adds whole rows up; that of an index adds number by number.
    return functional.embedding(places, table.flatten(1)).view(*places.shape, *table.shape[1:]).transpose(1, 2)


def packable(bare: Any, decoder: Any) -> bool:
    """Return whether packed rows give what padded ones do, tried once a model; a note on stderr says once why not.

    Where they do not, a line on standard error says once why the beginnings that rows share are computed for each row.
    """
    config = bare.config.get_text_config(decoder=True)
    attention = config._attn_implementation
    obstacles = _OBSTACLES.setdefault(bare, {})
    if attention not in obstacles:
        obstacles[attention] = _obstacle(bare, decoder, config)
        if obstacles[attention]:
            print(f"note: {type(bare).__name__}: rows are padded, and what they share is computed for each of them: "
                  f"{obstacles[attention]}", file=sys.stderr)  # fmt: skip
    return not obstacles[attention]


def _obstacle(bare: Any, decoder: Any, config: Any) -> str:
    """Return why packed rows cannot be had; "" where they can."""
    if config._attn_implementation != "sdpa":
        return f'packing needs attn_implementation="sdpa", not "{config._attn_implementation}"'
    if not getattr(bare, "_supports_attention_backend", False):
        return "transformers lets no other attention be put into it"
    try:
        check_cacheable(config)
        return "" if _is_exact(bare, decoder) else "packed rows were tried, and gave other states"
    except UsageError as error:
        return str(error)
    except TypeError:
        return "it hands attention no arguments of ours"


def _is_exact(bare: Any, decoder: Any) -> bool:
    """Check on three small rows that packed hidden states equal the model's own, up to rounding."""
    ids = torch.tensor([[1, 2, 3, 4, 5, 6], [1, 2, 3, 5, 4, 2], [1, 2, 0, 0, 0, 0]], device=bare.device)
    attention = torch.tensor([[1] * 6, [1] * 6, [1, 1, 0, 0, 0, 0]], device=bare.device)
    trained = torch.zeros_like(ids, dtype=torch.bool)
    trained[:2, 4:] = True
    close = True
    for mask in (trained, attention.bool()):
        packing = pack(ids, attention, mask)
        with torch.no_grad(), evaluating(bare), torch.autocast(bare.device.type, enabled=False):
            expected = decoder(input_ids=ids, use_cache=False).last_hidden_state.flatten(0, 1)[packing.homes]
            states = packed_states(bare, decoder, packing)
        gap = (states - expected)[packing.read].abs().max()
        close = close and bool(gap <= torch.finfo(expected.dtype).eps ** 0.5 * expected.abs().max())
    return close
