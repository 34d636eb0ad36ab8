"""HFEngine: what it says of its samples is what the model says without any cache, turn after turn."""

import itertools
import random
import string
from dataclasses import replace

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from agent_envs.base.errors import UsageError
from tests.examples import part
from trainers.contracts import Prefix, Sampling
from trainers.engines.hf import HFEngine

VOCABULARY = 261
SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
TOKEN_BYTES = 2 * 2 * 2 * 8 * 4  # keys and values of two layers, two heads of width 8, float32
PLAIN = Sampling()


def qwen2(**overrides):
    """A Qwen2 whose weights are large enough that context matters."""
    torch.manual_seed(0)
    sizes = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 512, "initializer_range": 0.15, **overrides}
    return Qwen2ForCausalLM(Qwen2Config(**sizes)).eval()


def llama():
    """A Llama with grouped heads and scaled rotary positions."""
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0}
    torch.manual_seed(1)
    sizes = {**SIZES, "num_key_value_heads": 1, "max_position_embeddings": 512, "initializer_range": 0.15}
    return LlamaForCausalLM(LlamaConfig(**sizes, rope_parameters=rope)).eval()


def gpt2():
    """A GPT-2: positions that are learnt, and as many key heads as query heads."""
    torch.manual_seed(2)
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=512)).eval()


def with_adapter():
    """A Qwen2 with LoRA adapters that do something."""
    import peft

    model = peft.get_peft_model(qwen2(), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "up_proj"]))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.2)
    return model.eval()


MODELS = {"qwen2": qwen2, "llama": llama, "gpt2": gpt2, "lora": with_adapter}


@pytest.fixture(params=sorted(MODELS))
def model(request):
    return MODELS[request.param]()


@pytest.fixture(scope="module")
def tokenizer():
    """Every byte a token, and two special tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>")
    made.add_tokens(["<pad>", "</tool>"], special_tokens=True)
    return made


def uncached(model, prefix, generated, temperature=1.0):
    """Logprobs and entropies of the new tokens from one plain forward pass."""
    ids = torch.tensor([prefix.ids + generated.ids])
    with torch.no_grad():
        logprobs = (model(ids, use_cache=False).logits[0].double() / temperature).log_softmax(-1)
    logprobs = logprobs[len(prefix.ids) - 1 : -1]
    new = torch.tensor(generated.ids, dtype=torch.long)
    return logprobs.gather(-1, new[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


def worst_difference(model, prefixes, results, temperature=1.0):
    worst = 0.0
    for prefix, generated in zip(prefixes, results, strict=True):
        assert len(generated.ids) == len(generated.logprobs) == len(generated.entropies)
        logprobs, entropies = uncached(model, prefix, generated, temperature)
        for expected, found in ((logprobs, generated.logprobs), (entropies, generated.entropies)):
            differences = (expected - torch.tensor(found, dtype=torch.float64)).abs()
            worst = max([worst, *differences.tolist()])
    return worst


def tokens(generator, low, high):
    return tuple(generator.randrange(200) for _ in range(generator.randint(low, high)))


def ragged(generator, count, session=True, longest=25):
    return [
        Prefix(tokens(generator, 1, 30), generator.randint(1, longest), seed=i, session=f"s{i}" if session else "")
        for i in range(count)
    ]


def next_turn(generator, prefixes, results, lowest=0):
    return [
        Prefix(
            prefix.ids + result.ids + tokens(generator, lowest, 20),
            generator.randint(1, 25),
            seed=prefix.seed + 1000,
            session=prefix.session,
        )
        for prefix, result in zip(prefixes, results, strict=True)
    ]


def test_logprobs_and_entropies_over_turns_are_those_without_a_cache(model):
    generator = random.Random("turns")
    engine = HFEngine(model, None, eos_ids=range(200, 205))
    prefixes = ragged(generator, 13)
    computed = sum(len(prefix.ids) for prefix in prefixes)
    for _ in range(4):
        results = engine.generate(prefixes, PLAIN)
        assert worst_difference(model, prefixes, results) < 1e-5
        assert {result.finish for result in results} == {"eos", "length"}
        assert engine.prefilled_tokens == computed
        following = next_turn(generator, prefixes, results)
        # The token drawn last has not been read by the model yet.
        computed += sum(
            len(after.ids) - len(before.ids) - len(result.ids) + 1
            for before, after, result in zip(prefixes, following, results, strict=True)
        )
        prefixes = following
    assert engine.cache_misses == 0


def test_an_eager_model_and_a_temperature():
    model = qwen2(attn_implementation="eager")
    assert model.config._attn_implementation == "eager"
    generator = random.Random("eager")
    engine = HFEngine(model, None)
    prefixes = ragged(generator, 6)
    for _ in range(2):
        results = engine.generate(prefixes, Sampling(temperature=0.6))
        assert worst_difference(model, prefixes, results, 0.6) < 1e-5
        prefixes = next_turn(generator, prefixes, results)


def test_slots_are_filled_again_and_no_token_changes():
    """200 prompts in 24 slots, forks of some a turn later: each draws what it draws in a batch that holds them all."""
    model, generator = qwen2(), random.Random("slots")
    engine, whole = (HFEngine(model, None, eos_ids=range(200, 204), batch=size) for size in (24, 256))
    rows = ragged(generator, 200, longest=70)
    for turn in range(2):
        results = engine.generate(rows, PLAIN)
        assert [result.ids for result in results] == [result.ids for result in whole.generate(rows, PLAIN)]
        assert worst_difference(model, rows, results) < 1e-5
        if not turn:  # where a batch lasts as long as its longest row
            lasts = [24 * max(len(result.ids) for result in results[at : at + 24]) for at in range(0, 200, 24)]
            assert engine.slot_passes < 0.55 * sum(lasts)
            for each, row in itertools.product((engine, whole), rows[::9]):
                each.fork(row.session, f"{row.session}/f")
        rows = next_turn(generator, rows, results)
        rows += [replace(row, session=f"{row.session}/f", seed=row.seed + 7) for row in rows[::9]]
    assert engine.cache_misses == 0


def test_rows_that_end_at_very_different_times(monkeypatch):
    """Slots are dropped and moved again and again, and buffers grow: none of it shows in what is drawn."""
    monkeypatch.setattr("trainers.engines.hf.ROOM", 3)
    model, generator = qwen2(), random.Random("early")
    limits = [1, 60, 2, 7, 33, 1, 5, 59, 3, 3, 20, 1]
    prefixes = [
        Prefix(tokens(generator, 1, 20), limit, seed=i, session=f"s{i}", allowed_ids=None if i % 3 else (3, 5, 8, i))
        for i, limit in enumerate(limits)
    ]
    engine = HFEngine(model, None, eos_ids=())
    results = engine.generate(prefixes, PLAIN)
    assert [len(result.ids) for result in results] == limits
    for i, result in enumerate(results):
        assert i % 3 or set(result.ids) <= {3, 5, 8, i}
    free = [(prefix, result) for i, (prefix, result) in enumerate(zip(prefixes, results, strict=True)) if i % 3]
    assert worst_difference(model, *zip(*free, strict=True)) < 1e-5
    following = [
        Prefix(p.ids + r.ids + (9,), 4, seed=1, session=p.session) for p, r in zip(prefixes, results, strict=True)
    ]
    assert worst_difference(model, following, engine.generate(following, PLAIN)) < 1e-5
    assert engine.cache_misses == 0


def test_equal_prefixes_are_computed_once(model):
    generator = random.Random("groups")
    groups = [tokens(generator, 5, 30) for _ in range(3)]
    prefixes = [Prefix(ids, 12, seed=i, session=f"s{i}") for i, ids in enumerate(groups * 4)]
    engine = HFEngine(model, None, eos_ids=())
    results = engine.generate(prefixes, PLAIN)
    assert engine.prefilled_tokens == sum(map(len, groups))
    assert worst_difference(model, prefixes, results) < 1e-5
    assert len({result.ids for result in results}) == 12
    following = next_turn(generator, prefixes, results)
    assert worst_difference(model, following, engine.generate(following, PLAIN)) < 1e-5


def test_long_and_short_prefixes_do_not_share_a_pass(monkeypatch):
    monkeypatch.setattr("trainers.engines.prefill._TOKENS_A_PASS", 150)
    model, generator = qwen2(), random.Random("passes")
    prefixes = [Prefix(tokens(generator, n, n), 5, seed=n, session=f"s{n}") for n in (3, 200, 90, 5, 64, 61, 60)]
    engine, widths = HFEngine(model, None), []
    hook = model.model.embed_tokens.register_forward_pre_hook(lambda _, args: widths.append(args[0].shape))
    results = engine.generate(prefixes, PLAIN)
    hook.remove()
    assert [tuple(width) for width in widths[:5]] == [(1, 200), (1, 90), (2, 64), (1, 60), (2, 5)]
    assert worst_difference(model, prefixes, results) < 1e-5
    following = next_turn(generator, prefixes, results)
    following[2] = Prefix(tokens(generator, 150, 150), 5, seed=1, session=following[2].session)
    assert worst_difference(model, following, engine.generate(following, PLAIN)) < 1e-5
    assert engine.cache_misses == 1


def test_a_prefix_goes_on_from_what_it_has_in_common_with_its_session():
    model = qwen2()
    engine = HFEngine(model, None, eos_ids=())
    first = Prefix((1, 2, 3, 4), 6, seed=1, session="a")
    result = engine.generate([first], PLAIN)[0]
    changed = Prefix((1, 2, 9, 4) + result.ids + (7,), 6, seed=2, session="a")
    again = engine.generate([changed], PLAIN)
    assert engine.prefilled_tokens == 4 + len(changed.ids) - 2
    assert worst_difference(model, [changed], again) < 1e-5
    shorter = Prefix(changed.ids[:5], 6, seed=2, session="a")
    assert worst_difference(model, [shorter], engine.generate([shorter], PLAIN)) < 1e-5
    assert (engine.prefilled_tokens, engine.cache_misses) == (4 + len(changed.ids) - 2 + 1, 0)
    other = Prefix((9, *shorter.ids), 6, seed=2, session="a")
    assert worst_difference(model, [other], engine.generate([other], PLAIN)) < 1e-5
    assert engine.cache_misses == 1 and engine._sessions.tokens == 6 + 5  # of what was replaced nothing is kept


def test_a_fork_reads_what_its_trunk_reads_later_and_both_write_behind_it():
    model, generator = qwen2(), random.Random("forks")
    engine = HFEngine(model, None, eos_ids=())
    first = Prefix(tokens(generator, 40, 40), 6, seed=1, session="trunk")
    result = engine.generate([first], PLAIN)[0]
    names = [f"trunk/{number}" for number in range(5)]
    for name in names:
        engine.fork("trunk", name)
    assert engine._sessions.tokens == len(first.ids) + len(result.ids) - 1  # nothing is kept twice
    turn = first.ids + result.ids + tokens(generator, 50, 50)
    trunk = Prefix(turn, 8, seed=2, session="trunk")
    said = engine.generate([trunk], PLAIN)[0]
    before = engine.prefilled_tokens
    forks = [Prefix(turn, 8, seed=10 + number, session=name) for number, name in enumerate(names)]
    results = engine.generate(forks, PLAIN)
    assert engine.prefilled_tokens - before == 1  # all of them together, of a context of 96 tokens
    assert worst_difference(model, forks, results) < 1e-5 and len({each.ids for each in results}) == 5
    everyone = next_turn(generator, [trunk, *forks], [said, *results], lowest=1)
    assert worst_difference(model, everyone, engine.generate(everyone, PLAIN)) < 1e-5
    assert engine.cache_misses == 0


def test_a_fork_of_a_trunk_that_went_another_way_keeps_its_own():
    model, generator = qwen2(), random.Random("ways")
    engine = HFEngine(model, None, eos_ids=())
    first = Prefix(tokens(generator, 30, 30), 6, seed=1, session="trunk")
    result = engine.generate([first], PLAIN)[0]
    engine.fork("trunk", "fork")
    engine.fork("fork", "of a fork")
    engine.generate([Prefix((7, 7, 7), 4, session="trunk")], PLAIN)  # its context was replaced
    before = engine.prefilled_tokens
    going = Prefix(first.ids + result.ids + (9,), 6, seed=3, session="fork")
    assert worst_difference(model, [going], engine.generate([going], PLAIN)) < 1e-5
    assert engine.prefilled_tokens - before == 2
    nested = Prefix(first.ids + result.ids + (8,), 6, seed=3, session="of a fork")
    assert worst_difference(model, [nested], engine.generate([nested], PLAIN)) < 1e-5
    assert engine.prefilled_tokens - before == 4


def test_rows_that_begin_alike_compute_their_beginning_once(model):
    generator = random.Random("beginnings")
    system, other = tokens(generator, 60, 60), tokens(generator, 40, 40)
    system, other = (201, *system), (202, *other)  # these two have nothing in common
    contexts = [system + (210 + number % 7, number) + tokens(generator, 1, 20) for number in range(32)]
    contexts += [other + (number,) + tokens(generator, 5, 9) for number in range(6)]
    contexts += [contexts[0], other, (203, 1, 2), (204,)]
    prefixes = [Prefix(ids, 7, seed=i, session=f"s{i}" if i % 2 else "") for i, ids in enumerate(contexts)]
    generator.shuffle(prefixes)
    engine = HFEngine(model, None, eos_ids=())
    results = engine.generate(prefixes, PLAIN)
    alone = sum(len(ids) - 61 for ids in contexts[:32]) + sum(len(ids) - 41 for ids in contexts[32:38]) + 1 + 3 + 1
    assert engine.prefilled_tokens == 61 + 41 + alone
    assert worst_difference(model, prefixes, results) < 1e-5
    following = next_turn(generator, prefixes, results)
    assert worst_difference(model, following, engine.generate(following, PLAIN)) < 1e-5
    assert engine.cache_misses == 0


def test_of_contexts_that_are_replaced_again_and_again_nothing_piles_up():
    """As under `Memory`: 128 turns of four rows that have a system prompt in common, with forks now and then."""
    generator = random.Random("memory")
    engine, system = HFEngine(qwen2(), None, eos_ids=()), tokens(generator, 30, 30)
    kept = []
    for turn in range(128):
        rows = [Prefix(system + tokens(generator, 9, 9), 3, seed=turn, session=f"s{row}") for row in range(4)]
        engine.generate(rows, PLAIN)
        if turn % 16 == 0:
            engine.fork("s0", "fork")  # of the same name: the newest
        kept.append(engine._sessions.tokens)
    assert set(kept) == {4 * 41, 5 * 41} and kept[-1] == 5 * 41


@pytest.mark.parametrize("seed", range(part(6, 2)))
def test_any_rows_give_what_they_give_alone(seed):
    """Trees of contexts, some kept, some forked, in batches of any size: nothing shows but float rounding."""
    model, generator = qwen2(), random.Random(f"trees {seed}")
    engine = HFEngine(model, None, eos_ids=range(200, 205), batch=generator.choice([3, 8, 64]))
    stems = [tokens(generator, 1, 60) for _ in range(3)]
    rows = []
    for number in range(14):
        ids = generator.choice(stems)[: generator.randint(1, 60)] + tokens(generator, 0, 30)
        rows.append(Prefix(ids, generator.randint(1, 20), seed=number, session=generator.choice(["", f"s{number}"])))
    for turn in range(4):
        results = engine.generate(rows, PLAIN)
        assert worst_difference(model, rows, results) < 1e-5
        following = next_turn(generator, rows, results)
        for place, row in enumerate(following):
            if generator.random() < 0.3:  # a context that was replaced, or cut, or another's
                ids = generator.choice(following).ids
                following[place] = Prefix(
                    ids[: generator.randint(1, len(ids))] or (1,), 5, seed=99, session=row.session
                )
            elif row.session and generator.random() < 0.3:
                engine.fork(row.session, f"{row.session}/{turn}")
                following.append(Prefix(row.ids, 5, seed=turn, session=f"{row.session}/{turn}"))
        rows = [row for row in following if len(row.ids) < 480]


def test_the_least_recently_used_sessions_go_first():
    model = qwen2()
    engine = HFEngine(model, None, eos_ids=(), cache_gb=30.5 * TOKEN_BYTES / 1e9)
    prefixes = {name: Prefix((i, 2, 3), 8, seed=i, session=name) for i, name in enumerate("abcd")}
    results = {}
    for name in "abc":  # each leaves 10 tokens
        results[name] = engine.generate([prefixes[name]], PLAIN)[0]
    assert engine._sessions.tokens == 30
    for name in "ad":
        ids = prefixes[name].ids + (results[name].ids if name in results else ())
        engine.generate([Prefix(ids, 8, seed=9, session=name)], PLAIN)
    assert engine._sessions.tokens <= 30
    before = engine.prefilled_tokens
    gone = Prefix(prefixes["b"].ids + results["b"].ids, 3, session="b")
    assert worst_difference(model, [gone], engine.generate([gone], PLAIN)) < 1e-5
    assert engine.prefilled_tokens - before == len(gone.ids)


def test_sessions_may_take_a_share_of_what_is_free(monkeypatch):
    free = 40 * TOKEN_BYTES
    engine = HFEngine(qwen2(), None, eos_ids=(), cache_gb=0, cache_share=0.5)
    monkeypatch.setattr("trainers.engines.hf.free_memory", lambda device: free - engine._sessions.bytes)
    for name in ("a", "b", "c", ""):  # each leaves 10 tokens, and the last, which has no name, none
        engine.generate([Prefix((1, 2, 3), 8, session=name)], PLAIN)
    assert engine._sessions.tokens == 20


def test_two_rows_may_go_on_from_one_session():
    model = qwen2()
    engine = HFEngine(model, None, eos_ids=())
    result = engine.generate([Prefix((1, 2, 3), 6, session="a")], PLAIN)[0]
    fork = [Prefix((1, 2, 3) + result.ids + (token,), 6, seed=token, session="a") for token in (4, 5)]
    assert worst_difference(model, fork, engine.generate(fork, PLAIN)) < 1e-5
    assert engine.prefilled_tokens == 3 + 2 * 2


def test_new_weights_need_forget():
    model = qwen2()
    engine = HFEngine(model, None, eos_ids=())
    first = Prefix((1, 2, 3, 4, 5, 6), 8, seed=1, session="a")
    result = engine.generate([first], PLAIN)[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    following = Prefix(first.ids + result.ids + (7,), 8, seed=2, session="a")
    stale = engine.generate([following], PLAIN)
    assert worst_difference(model, [following], stale) > 1e-3
    engine.forget()
    assert engine._sessions.tokens == 0
    assert worst_difference(model, [following], engine.generate([following], PLAIN)) < 1e-5


def test_the_end_token_ends_a_row_and_stays():
    model = qwen2()
    prefix = Prefix((1, 2, 3), 200, seed=4)
    free = HFEngine(model, None, eos_ids=()).generate([prefix], PLAIN)[0]
    end = free.ids[17]
    at = free.ids.index(end)
    result = HFEngine(model, None, eos_ids=[end]).generate([prefix], PLAIN)[0]
    assert (result.ids, result.finish) == (free.ids[: at + 1], "eos")
    assert (len(free.ids), free.finish) == (200, "length")


def test_end_tokens_are_those_of_the_model_and_of_the_tokenizer(tokenizer):
    model = qwen2()
    model.generation_config.eos_token_id = [3, 4]
    assert HFEngine(model, tokenizer).eos_ids == {3, 4, tokenizer.eos_token_id}
    assert HFEngine(model, tokenizer, eos_ids=(9,)).eos_ids == {9}
    model.generation_config.eos_token_id = None
    assert HFEngine(model, None).eos_ids == frozenset()


def forced(tokenizer, text, stop, then=" and more", turn_text=None):
    """Generate from a model that can only write this text; return what it wrote."""
    ids = tokenizer.encode(text + then, add_special_tokens=False)

    class Writer(Qwen2ForCausalLM):
        def forward(self, input_ids, position_ids, **kwargs):
            output = super().forward(input_ids=input_ids, position_ids=position_ids, **kwargs)
            following = torch.tensor([*ids, 0, 0])[position_ids[:, -1:]]
            output.logits = torch.full_like(output.logits, -1e4).scatter_(-1, following[..., None], 0.0)
            return output

    writer = Writer(Qwen2Config(**SIZES, num_key_value_heads=2)).eval()
    prefix = Prefix((0,), len(ids), stop=stop, turn_text=turn_text)
    return HFEngine(writer, tokenizer, eos_ids=()).generate([prefix], PLAIN)[0]


@pytest.mark.parametrize(
    "text, stop",
    [
        ("so <answer> 4 </answer>", ("</answer>",)),
        ("> >> a </search>", ("</answer>", "</search>")),
        ("Thought: x\nObservation:", ("Observation:", "zzz")),
        ("done </tool>", ("</tool>",)),  # one special token
        ("</ans </answ</answer>", ("</answer>",)),
        ("un café", ("afé",)),  # its last character is of two tokens
        ("日本語。", ("語。",)),
        ("a  ", ("  ",)),
    ],
)
def test_a_row_ends_with_the_token_that_completes_a_stop_text(tokenizer, text, stop):
    result = forced(tokenizer, text, stop)
    assert tokenizer.decode(result.ids, skip_special_tokens=False) == text
    assert result.finish == "stop"


@pytest.mark.parametrize(
    "turn_text, text, finish",
    [
        ("", "<think> a </search> b </think> c </search>", "stop"),
        ("<think> so", " a </search> b </think> c </search>", "stop"),
        ("", "<think> a </search> b and more", "length"),
        ("", "<think> a </think> b </search>", "stop"),
        (None, "<think> a </search>", "stop"),  # an environment that counts thoughts
    ],
)
def test_a_stop_text_inside_an_open_thought_ends_nothing(tokenizer, turn_text, text, finish):
    then = "" if finish == "length" else " and more"
    result = forced(tokenizer, text, ("</search>",), then, turn_text)
    assert (tokenizer.decode(result.ids, skip_special_tokens=False), result.finish) == (text, finish)


def test_a_token_may_run_past_the_stop_text():
    vocabulary = {"<unk>": 0, "x": 1, "a</s": 2, "top>tail": 3, "t": 4, "a": 5}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    inner.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(tokenizer_object=inner)
    engine = HFEngine(qwen2(vocab_size=6), made, eos_ids=())
    seen = set()
    prefixes = [Prefix((1,), 30, seed=seed, stop=("</stop>",)) for seed in range(40)]
    for result in engine.generate(prefixes, PLAIN):
        ended = [i for i in range(1, len(result.ids)) if result.ids[i - 1 : i + 1] == (2, 3)]
        assert ended == ([len(result.ids) - 1] if result.finish == "stop" else [])
        seen.add(result.finish)
    assert seen == {"stop", "length"}


def test_stop_texts_are_of_their_row(tokenizer):
    engine = HFEngine(qwen2(), tokenizer, eos_ids=())
    free = Prefix((1, 2, 3), 120, seed=5)
    ids = engine.generate([free], PLAIN)[0].ids
    letter = next(tokenizer.decode([i]) for i in ids[20:] if tokenizer.decode([i]).isalpha())
    stopped, other = engine.generate([Prefix((1, 2, 3), 120, stop=(letter,), seed=5), free], PLAIN)
    assert other.ids == ids
    assert stopped.finish == "stop"
    assert stopped.ids == ids[: len(stopped.ids)]
    assert letter not in tokenizer.decode(stopped.ids[:-1])
    assert letter in tokenizer.decode(stopped.ids)


def test_stop_texts_stay_with_their_row_when_slots_move(tokenizer):
    engine = HFEngine(qwen2(), tokenizer, eos_ids=())
    stops = [tuple(random.Random(i).sample(string.ascii_letters, 8)) for i in range(26)]
    stops[1] = ("it never says so much",)  # a long row, to its end
    prefixes = [Prefix((i, 2, 3), 1 if i % 3 == 0 else 200, stop=stop, seed=i) for i, stop in enumerate(stops)]
    together = engine.generate(prefixes, PLAIN)
    for prefix, result in zip(prefixes, together, strict=True):
        assert engine.generate([prefix], PLAIN)[0].ids == result.ids
    assert {result.finish for result in together} == {"stop", "length"}


def test_stop_texts_that_cannot_be_looked_for_are_refused(tokenizer):
    with pytest.raises(UsageError, match="empty"):
        HFEngine(qwen2(), tokenizer).generate([Prefix((1,), 3, stop=("",))], PLAIN)
    with pytest.raises(UsageError, match="tokenizer"):
        HFEngine(qwen2(), None).generate([Prefix((1,), 3, stop=("x",))], PLAIN)


def test_no_more_tokens_than_the_model_has_positions(model):
    longest = model.config.max_position_embeddings
    engine = HFEngine(model, None, eos_ids=())
    prefixes = [Prefix((1,) * n, 9, seed=n) for n in (longest, longest - 4, 3)]
    results = engine.generate(prefixes, PLAIN)
    assert [len(result.ids) for result in results] == [0, 4, 9]
    assert results[1].finish == "length"
    # A row that ended stays in the batch for a while, and must not be asked for positions that there are none of.
    many = [Prefix((1,) * 3, 9, seed=n) for n in range(20)]
    assert len(engine.generate([*many, prefixes[1]], PLAIN)[-1].ids) == 4
    with pytest.raises(UsageError, match=f"{longest + 1} tokens.*max_position_embeddings is {longest}"):
        engine.generate([Prefix((1,) * (longest + 1), 9)], PLAIN)


@pytest.mark.filterwarnings("error:.*past_key_values")
def test_the_cache_has_the_name_that_the_model_knows(model):
    assert len(HFEngine(model, None).generate([Prefix((1, 2, 3), 4)], PLAIN)[0].ids) == 4


def test_nothing_to_do():
    engine = HFEngine(qwen2(), None)
    assert engine.generate([], PLAIN) == []
    empty = engine.generate([Prefix((1, 2), 0, session="a")], PLAIN)[0]
    assert (empty.ids, empty.logprobs, empty.entropies, empty.finish) == ((), (), (), "length")
    assert engine.prefilled_tokens == 0
    with pytest.raises(UsageError, match="no tokens"):
        engine.generate([Prefix((), 3)], PLAIN)
    with pytest.raises(UsageError, match="batch=0"):
        HFEngine(qwen2(), None, batch=0)


def test_dropout_and_gradient_checkpointing_are_off_while_it_generates():
    model = qwen2(attention_dropout=0.5)
    prefixes = ragged(random.Random("modes"), 4)
    expected = HFEngine(model, None).generate(prefixes, PLAIN)
    model.train()
    model.gradient_checkpointing_enable()
    model.model.layers[1].eval()
    assert HFEngine(model, None).generate(prefixes, PLAIN) == expected
    assert [module.training for module in (model, model.model.layers[0], model.model.layers[1])] == [True, True, False]
    model(torch.tensor([[1, 2, 3]]), labels=torch.tensor([[1, 2, 3]])).loss.backward()
    assert model.lm_head.weight.grad.abs().sum() > 0


def test_training_mode_comes_back_after_an_error():
    model = qwen2().train()
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="not finite"):
        HFEngine(model, None).generate([Prefix((1, 2), 5)], PLAIN)
    assert model.training


def test_half_precision():
    model, generator = qwen2().to(torch.bfloat16), random.Random("half")
    engine = HFEngine(model, None)
    prefixes = ragged(generator, 5)
    for _ in range(2):
        results = engine.generate(prefixes, PLAIN)
        assert worst_difference(model, prefixes, results) < 0.1
        prefixes = next_turn(generator, prefixes, results)


class AttentionTypes(TorchDispatchMode):
    """The types that attention computes with, and the largest tensor whose type was changed, behind autocast."""

    def __init__(self):
        super().__init__()
        self.types, self.cast = set(), 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "scaled_dot_product" in str(function):
            masks = [(kwargs or {}).get("attn_mask")]
            self.types.add(tuple({each.dtype for each in (*args, *masks) if isinstance(each, torch.Tensor)}))
        if "_to_copy" in str(function):
            self.cast = max(self.cast, args[0].numel())
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("lengths", [(90, 90, 90), (90, 80, 30)], ids=["whole", "ragged"])
def test_the_cache_has_the_type_of_mixed_precision(lengths):
    """Weights that train are float32, and so are their keys; kept so, attention would cast the whole cache for every token."""
    model, generator = qwen2(), random.Random("mixed")
    engine = HFEngine(model, None, eos_ids=())
    prefixes = [Prefix(tokens(generator, n, n), 8, seed=n + at, session=f"s{at}") for at, n in enumerate(lengths)]
    with torch.autocast("cpu", torch.bfloat16):
        results = engine.generate(prefixes, PLAIN)
        assert {cache.states.dtype for cache in engine._sessions._caches.values()} == {torch.bfloat16}
        with AttentionTypes() as seen:
            again = engine.generate(next_turn(generator, prefixes, results), PLAIN)
    assert seen.types == {(torch.bfloat16,)}
    heads, width = 2, 8
    assert seen.cast < len(prefixes) * heads * width * 90, "the keys of a whole cache were cast"
    assert worst_difference(model, prefixes, results) < 0.1 and len(again) == 3


def test_models_whose_cache_it_cannot_keep_are_refused():
    sliding = MistralForCausalLM(MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=8))
    with pytest.raises(UsageError, match="mistral has cache layers of type DynamicSlidingWindowLayer"):
        HFEngine(sliding, None)
    dynamic = qwen2(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0})
    with pytest.raises(UsageError, match='rope_type="dynamic"'):
        HFEngine(dynamic, None)
    other = qwen2()
    other.config._attn_implementation = "flex_attention"
    with pytest.raises(UsageError, match='attn_implementation="flex_attention"'):
        HFEngine(other, None)


def test_learnt_prompts_are_refused():
    import peft

    model = peft.get_peft_model(qwen2(), peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3))
    with pytest.raises(UsageError, match="learnt prompts"):
        HFEngine(model, None)
