"""Decode passes that a CUDA graph could hold: fixed shapes and addresses, nothing asked of the CPU, the same samples."""

import random
from dataclasses import replace

import numpy
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from agent_envs.base.errors import UsageError
from tests.trainers.engines.test_hf import (
    MODELS,
    PLAIN,
    TOKEN_BYTES,
    next_turn,
    qwen2,
    ragged,
    tokens,
    worst_difference,
)
from trainers.contracts import Prefix, Sampling
from trainers.engines.graphs import CapturedPasses
from trainers.engines.hf import HFEngine
from trainers.engines.slots import Passes, Seats
from trainers.settings import SamplingSettings

FILTERED = Sampling(0.7, top_k=20, top_p=0.9)
# What asks the device for a number, has a shape that depends on numbers, or brings numbers from the CPU.
REFUSED = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "is_nonzero", "lift_fresh", "equal.default")
REFUSED += ("bincount", "repeat_interleave.Tensor", "allclose")
# What reads a tensor without an operation where that is on the CPU already.
READS = {torch.Tensor.cpu, torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__}


class Reads(TorchFunctionMode):
    """Refuses what brings a tensor to the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        moves = function is torch.Tensor.to and "cpu" in tree_leaves((args[1:], kwargs))
        if function in READS or moves:
            raise AssertionError(f"{function} in a pass: no graph can hold it")
        return function(*args, **(kwargs or {}))


class Capture(TorchDispatchMode):
    """Refuses what a CUDA graph cannot hold, and notes each operation with the shapes that it gives."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        masks = [each for each in tree_leaves(args[1:]) if isinstance(each, torch.Tensor) and each.dtype == torch.bool]
        if any(name in str(function) for name in REFUSED) or ("index" in str(function) and masks):
            raise AssertionError(f"{function} in a pass: no graph can hold it")
        with self:  # without gradients operations come whole, and what they ask for is inside
            result = function.decompose(*args, **(kwargs or {}))
        if result is not NotImplemented:
            return result
        result = function(*args, **(kwargs or {}))
        shapes = [tuple(each.shape) for each in tree_leaves(result) if isinstance(each, torch.Tensor)]
        self.operations.append((str(function), shapes))
        return result


class Recorder:
    """Stands for capture on a machine without a GPU: a replay runs the pass again, on the very memory it was recorded on."""

    def __init__(self):
        self.recordings = []

    def __call__(self, advance, pool):
        seats = advance.__closure__[[*advance.__code__.co_freevars].index("seats")].cell_contents
        result = advance().clone()  # as the run before capture
        addresses, count = memory(seats), seats.slots.count
        seen = []
        for _ in range(2):
            with Reads(), Capture() as capture:
                advance()
            seen.append(capture.operations)
        assert seen[0] == seen[1], "a pass is not the same twice"
        self.recordings.append(seen[0])

        def replay():
            assert (addresses, count) == (memory(seats), seats.slots.count), "a graph would read other memory"
            result.copy_(advance())

        return replay, result


def memory(seats):
    return [tensor.data_ptr() for tensor in (*seats.tensors, seats.slots.cache.states)]


def engine_of(kind, model, batch, **options):
    """An engine as it is on a CPU, as on a GPU without capture, or with passes that are captured."""
    engine = HFEngine(model, None, batch=batch, **options)
    if kind == "sized":
        engine._passes, engine._look_every = Passes(model, sized=True), 8
    if kind == "captured":
        engine._passes, engine._look_every = CapturedPasses(model, batch, Recorder()), 8
    return engine


KINDS = ("plain", "sized", "captured")


def gap(some, others):
    """How far logprobs of the same samples are apart, at most."""
    assert [(one.ids, one.finish) for one in some] == [(other.ids, other.finish) for other in others]
    one, other = (torch.tensor([value for row in rows for value in row.logprobs]) for rows in (some, others))
    return float((one - other).abs().max())


@pytest.mark.parametrize("sampling", [PLAIN, FILTERED, Sampling(0.0)], ids=["plain", "filtered", "greedy"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_pass_could_be_captured(name, sampling):
    """Two passes in a row do the same to the same shapes, and neither asks the CPU for anything."""
    engine, rows = engine_of("captured", MODELS[name](), 8, eos_ids=()), ragged(random.Random("capture"), 5)
    engine.generate([replace(rows[0], allowed_ids=(3, 5, 8)), *rows[1:]], sampling)
    operations = engine._passes._recorder.recordings[0]
    assert "aten.index_copy_.default" in {name for name, _ in operations}


ASKS = {
    "item": lambda x: x.sum().item(), "bool": lambda x: bool(x.any()), "int": lambda x: int(x[0]),
    "float": lambda x: float(x.max()), "comparison": lambda x: [0] if x.max() > 0 else [1],
    "format": lambda x: f"{x.max():.1f}", "list": lambda x: x.tolist(), "cpu": lambda x: x.cpu(),
    "to the CPU": lambda x: x.to("cpu"), "numpy": lambda x: x.numpy(), "array": numpy.asarray,
    "mask": lambda x: x[x > 0], "set by mask": lambda x: x.index_put((x > 0,), 2 * x),
    "selected": lambda x: x.masked_select(x > 0), "nonzero": torch.nonzero, "where": lambda x: torch.where(x > 0),
    "list of places": lambda x: x[[0, 0]], "end of a slice": lambda x: x[: x[0].long()],
    "place": lambda x: [1, 2, 3][x[0].long()], "range": lambda x: torch.arange(x.max()),
    "size": lambda x: torch.zeros(x[0].long()), "equal": lambda x: torch.equal(x, x),
    "close": lambda x: torch.allclose(x, x), "repeated": lambda x: x.repeat_interleave(x.long()),
    "counts": lambda x: x.long().bincount(), "unique": torch.unique,
    "from the CPU": lambda x: x + torch.tensor(1.0), "from a list": lambda x: x + torch.as_tensor([1.0]),
}  # fmt: skip


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_what_could_not_be_captured_is_refused(ask, inference):
    """The engine decodes in inference mode, where an operation comes whole."""
    with torch.inference_mode(inference):
        numbers = torch.ones(3)
        ask(numbers)
        with pytest.raises(AssertionError, match="no graph can hold it"), Reads(), Capture():
            ask(numbers)


@pytest.mark.parametrize("name", ["item", "int", "list", "cpu", "numpy", "end of a slice", "where"])
def test_a_pass_that_asks_the_cpu_is_refused(name, monkeypatch):
    def advance(seats, *of):
        ASKS[name](seats.tensors[4][0])
        return usual(seats, *of)

    usual = Seats.advance
    monkeypatch.setattr(Seats, "advance", advance)
    with pytest.raises(AssertionError, match="no graph can hold it"):
        engine_of("captured", qwen2(), 2, eos_ids=()).generate([Prefix((1, 2), 4, seed=0)], PLAIN)


@pytest.mark.parametrize("kind", KINDS)
def test_four_turns_with_forks_over_two_slots_are_those_of_one_row_at_a_time(kind):
    model, generator = qwen2(), random.Random("two slots")
    engine, alone = engine_of(kind, model, 2, eos_ids=range(200, 204)), HFEngine(model, None, eos_ids=range(200, 204))
    rows = ragged(generator, 7)
    for turn in range(4):
        results = engine.generate(rows, PLAIN)
        singly = [alone.generate([row], PLAIN)[0] for row in rows]
        assert gap(results, singly) < 1e-5
        forks = [replace(row, session=f"{row.session}/{turn}", seed=row.seed + 7) for row in rows[::3]]
        for row, fork in zip(rows[::3], forks, strict=True):
            engine.fork(row.session, fork.session)
            alone.fork(row.session, fork.session)
        rows = next_turn(generator, [*rows, *forks], [*results, *results[::3]])
    assert engine.cache_misses == alone.cache_misses == 0


@pytest.mark.parametrize("kind", ["sized", "captured"])
@pytest.mark.parametrize("batch", [24, 256])
def test_fixed_sizes_change_no_sample(kind, batch):
    model = qwen2(max_position_embeddings=700)
    generator = random.Random("sizes")
    rows = ragged(generator, 200, longest=70)
    rows[3], rows[7] = replace(rows[3], ids=tokens(generator, 505, 505)), replace(rows[7], allowed_ids=(1, 2, 3))
    engine, plain = (
        engine_of(kind, model, batch, eos_ids=range(200, 204)),
        HFEngine(model, None, eos_ids=range(200, 204)),
    )
    for sampling in (PLAIN, FILTERED):
        results, expected = engine.generate(rows, sampling), plain.generate(rows, sampling)
        assert gap(results, expected) < 1e-5
    assert engine.cache_misses == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [0, 11], ids=["first slot", "last slot"])
def test_a_row_that_ended_ahead_of_the_others_writes_into_no_other(kind, place, monkeypatch):
    """Its slot is neither refilled nor dropped, and it comes to the end of the room that the others have."""
    monkeypatch.setattr("trainers.engines.hf.ROOM", 8)
    model, generator = qwen2(), random.Random("ahead")
    engine, alone = engine_of(kind, model, 16, eos_ids=(5,)), HFEngine(model, None, eos_ids=(5,))
    rows = [Prefix(tokens(generator, 20, 20), 30, seed=i, allowed_ids=tuple(range(10, 90))) for i in range(11)]
    longest = Prefix(tokens(generator, 260, 260), 30, seed=99, session="longest", allowed_ids=(5,))
    if place:  # slots are in the order of the tokens that need a pass
        engine.generate([replace(longest, max_new_tokens=1)], PLAIN)
    results = engine.generate([*rows, longest], PLAIN)
    assert [len(result.ids) for result in results] == [30] * 11 + [1]
    assert gap(results, [alone.generate([row], PLAIN)[0] for row in [*rows, longest]]) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_two_runs_are_equal_to_the_bit(kind):
    rows = ragged(random.Random("twice"), 60)
    once, again = (engine_of(kind, qwen2(), 16).generate(rows, PLAIN) for _ in range(2))
    assert once == again


def test_graphs_are_kept_from_call_to_call_and_go_with_what_they_were_captured_on():
    model = qwen2()
    engine, plain = engine_of("captured", model, 8, eos_ids=()), HFEngine(model, None, eos_ids=())
    passes, rows = engine._passes, ragged(random.Random("kept"), 8, session=False)
    expected = plain.generate(rows, PLAIN)
    captures = [gap(engine.generate(rows, PLAIN), expected) < 1e-5 and passes.captures for _ in range(2)]
    assert 0 < captures[0] == captures[1] <= 4  # 8 slots, 4, 2 and 1, of 256 columns
    assert passes._seats.slots.cache.states.nbytes == 8 * 256 * TOKEN_BYTES  # as docs/training.md reckons it
    with torch.no_grad():
        model.lm_head.weight.mul_(0.5)  # in its place, as an optimiser does
    changed = plain.generate(rows, PLAIN)
    assert changed != expected
    assert gap(engine.generate(rows, PLAIN), changed) < 1e-5
    assert passes.captures == captures[1]
    model.lm_head.weight.data = model.lm_head.weight.data.clone()
    engine.generate(rows, PLAIN)
    assert passes.captures == 2 * captures[1]
    longer = [
        Prefix((1,) * 500, 12, seed=1),
        Prefix((2,), 40, seed=2),
    ]  # 512 columns and no more: the slots are made anew
    assert gap(engine.generate(longer, PLAIN), plain.generate(longer, PLAIN)) < 1e-5
    assert passes.captures > 2 * captures[1]


def test_graphs_stay_while_limits_allowed_tokens_and_lengths_go_up_and_down():
    model, generator = qwen2(), random.Random("churn")
    engine, plain = engine_of("captured", model, 8, eos_ids=()), HFEngine(model, None, eos_ids=())
    captures = []
    for length, limit, allowed in [
        (20, 32, None),
        (20, 9, None),
        (250, 32, (1, 2, 3)),
        (20, 4, None),
        (20, 17, (5, 6)),
    ]:
        rows = [Prefix(tokens(generator, length, length), limit, seed=i, allowed_ids=allowed) for i in range(8)]
        assert gap(engine.generate(rows, PLAIN), plain.generate(rows, PLAIN)) < 1e-5
        captures.append(engine._passes.captures)
    assert captures[0] == captures[1] < captures[2] == captures[3] == captures[4]
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    rows = [replace(row, allowed_ids=None) for row in rows]
    assert gap(engine.generate(rows, PLAIN), plain.generate(rows, PLAIN)) < 1e-5
    assert len(engine._passes._seats.tensors) == 6, "the next row with allowed tokens would throw graphs away"


def test_another_type_of_keys_and_another_precision_have_graphs_of_their_own():
    model, rows = qwen2(), ragged(random.Random("types"), 4, session=False)
    engine = engine_of("captured", model, 4, eos_ids=())
    for mixed in (True, False, True):
        before = engine._passes.captures
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            results = engine.generate(rows, PLAIN)
        assert worst_difference(model, rows, results) < (0.1 if mixed else 1e-5)
        assert engine._passes.captures > before
    engine = engine_of("captured", qwen2().to(torch.bfloat16), 4, eos_ids=())  # whose keys have the same type in both
    captures = []
    for mixed in (True, False, True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            engine.generate(rows, PLAIN)
        captures.append(engine._passes.captures)
    assert captures[0] < captures[1] == captures[2] == captures[3]


def test_a_pool_of_memory_goes_with_its_graphs():
    """Torch refuses a pool whose graphs are all gone."""
    model, pools = qwen2(), []
    engine = engine_of("captured", model, 4, eos_ids=())
    inner, rows = engine._passes._recorder, ragged(random.Random("pool"), 4, session=False)
    engine._passes._recorder = lambda advance, pool: pools.append(pool) or inner(advance, pool)
    engine.generate(rows, PLAIN)
    engine._passes._pool = "of these graphs"  # a CPU has none
    engine.generate(rows, FILTERED)
    model.lm_head.weight.data = model.lm_head.weight.data.clone()
    engine.generate(rows, PLAIN)
    half = len(pools) // 3
    assert pools == [None] * half + ["of these graphs"] * half + [None] * half


def test_a_capture_computes_in_mixed_precision_with_the_weights_of_each_pass():
    """What autocast keeps of weights is gone after the call; a graph that reads it would read freed memory."""
    model, kept = qwen2(), set()
    engine = engine_of("captured", model, 4, eos_ids=())
    inner, rows = engine._passes._recorder, ragged(random.Random("mixed"), 4, session=False)
    engine._passes._recorder = lambda *of: kept.add(torch.is_autocast_cache_enabled()) or inner(*of)
    with torch.autocast("cpu", torch.bfloat16):
        results = engine.generate(rows, PLAIN)
        assert kept == {False} and torch.is_autocast_cache_enabled()
    assert worst_difference(model, rows, results) < 0.1


def test_graphs_without_a_gpu_are_refused_in_one_line():
    with pytest.raises(
        UsageError, match=r"^sampling\.graphs: CUDA graphs need a GPU, and the model is on the CPU[^\n]*$"
    ):
        HFEngine(qwen2(), None, graphs=True)
    with pytest.raises(UsageError, match="vLLM captures graphs of its own"):
        SamplingSettings(engine="vllm", graphs=True)
