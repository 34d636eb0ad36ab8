"""Decode passes are captured as CUDA graphs, one for each number of slots and of columns, and launched as a whole.

A graph reads and writes the memory that it was captured on. So rows are copied into slots that are kept between calls, and
weights that have moved, another type of keys, or slots that had to grow, cost new graphs. Slots never shrink.
"""

from collections.abc import Callable, Hashable
from itertools import chain
from typing import Any

import torch

from agent_envs.base.errors import UsageError
from trainers.contracts import Sampling
from trainers.engines.kv_cache import SlotCache
from trainers.engines.slots import Passes, Seats, Slots, columns_read, power_of_two

Replay = tuple[Callable[[], Any], torch.Tensor]  # what runs a captured pass, and where its result then is


def record(advance: Callable[[], torch.Tensor], pool: Any) -> Replay:
    """Capture a pass, which is run once before, on a stream of its own, so that libraries are set up."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        advance()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        result = advance()
    return graph.replay, result


class CapturedPasses(Passes):
    """Passes as CUDA graphs, captured at their first use.

    Attributes:
        captures: graphs captured so far.
    """

    def __init__(self, model: Any, batch: int, recorder: Callable[..., Replay] = record) -> None:
        """Take the model, the most rows of a pass, and what captures one."""
        super().__init__(model, sized=True)
        if model.device.type == "cpu" and recorder is record:
            raise UsageError("sampling.graphs: CUDA graphs need a GPU, and the model is on the CPU; leave it out")
        self._batch, self._recorder = batch, recorder
        self._seats: Seats | None = None
        self._sizes = (0, 0, 0)
        self._graphs: dict[Hashable, Replay] = {}
        self._ground: tuple[Hashable, ...] = ()
        self._pool: Any = None
        self.captures = 0

    def home(self, seats: Seats, longest: int) -> Seats:
        """Copy rows into the slots that graphs know, which grow where they are too small, and return these."""
        states = seats.slots.cache.states
        assert states is not None
        weights = chain(self.model.parameters(), self.model.buffers())
        ground = (states.dtype, *(weight.data_ptr() for weight in weights))
        # Columns, uniforms of a row, and tensors, of which allowed tokens are the last: the most that any call had.
        own = (columns_read(longest, True), seats.tensors[4].shape[1], len(seats.tensors))
        sizes = tuple(map(max, own, self._sizes))
        if self._seats is None or (ground, sizes) != (self._ground, self._sizes):
            self._graphs.clear()
            self._pool = None  # torch takes no pool again whose graphs are gone
            self._ground, self._sizes = ground, sizes
            self._seats = self._empty(seats)
        self._seats.slots.count = power_of_two(len(seats.rows))
        self._seats.take(seats, range(len(seats.rows)), range(len(seats.rows)))
        return self._seats

    def _empty(self, like: Seats) -> Seats:
        """Return slots for as many rows as any pass has, as nobody has them."""
        slots, (columns, steps, _) = power_of_two(self._batch), self._sizes
        allowed = like.tensors[5:] or (self._seats.tensors[5:] if self._seats else [])
        table = like.tensors[4].new_zeros(1, steps)
        tensors = [each.new_zeros(slots, *each.shape[1:]) for each in (*like.tensors[:4], table, *allowed)]
        room = SlotCache(like.slots.cache.depth, slots, columns)
        return Seats([like.rows[0]] * slots, Slots(room, slots, columns, True), tensors)

    def run(self, seats: Seats, sampling: Sampling, stop: int) -> torch.Tensor:
        """Run one, and capture it before if there was none of its size."""
        device = self.model.device.type
        precision = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device)
        size = (seats.slots.count, stop, sampling, precision)
        if size not in self._graphs:
            self._graphs[size] = self._capture(seats, sampling, stop)
        replay, result = self._graphs[size]
        replay()
        return result.clone()

    def _capture(self, seats: Seats, sampling: Sampling, stop: int) -> Replay:
        """Capture a pass, and leave the rows where they were."""
        device = self.model.device.type
        if self._pool is None and device == "cuda":
            self._pool = torch.cuda.graph_pool_handle()
        before = [tensor.clone() for tensor in seats.tensors[:2]]
        # Weights that mixed precision keeps from call to call would be gone when the graph reads them.
        precision = torch.autocast(device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device), False)
        with precision:
            replay = self._recorder(lambda: seats.advance(self.model, sampling, stop), self._pool)
        for tensor, old in zip(seats.tensors[:2], before, strict=True):
            tensor.copy_(old)
        self.captures += 1
        return replay
