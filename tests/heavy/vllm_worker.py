"""Runs inside .venv-vllm: one process with three engines, which prints what it measured as lines of JSON.

`python -m tests.heavy.vllm_worker FOLDER`; tests/heavy/test_vllm.py reads the lines and judges them.
"""

import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from agent_envs.base.errors import UsageError
from trainers.contracts import Prefix, Sampling
from trainers.engines.hf import HFEngine
from trainers.engines.vllm import StaleWeights, VLLMEngine
from trainers.tiny.models import byte_tokenizer, word_tokenizer

SAMPLINGS = {
    "plain": Sampling(),
    "cool": Sampling(temperature=0.7),
    "top_k": Sampling(temperature=0.7, top_k=5),
    "top_p": Sampling(temperature=1.3, top_p=0.6),
    "greedy": Sampling(temperature=0.0),
}
STOPS = ("ab", "ba", "ac", "aaa", "bb", "cbc", "ccc")


def report(name, **values):
    print(json.dumps({"name": name, **values}), flush=True)


def saved(folder, tokenizer, tied=False):
    """Save a tiny model with random weights, whose distributions are neither even nor sharp, and return it."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,  # vLLM's attention for CPUs takes heads of 32 and wider
        num_key_value_heads=1,
        max_position_embeddings=4096,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.normal_(std=0.25 if "layers" in name else 0.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def prefixes_of(vocabulary, count=6, length=20, **options):
    generator = random.Random(f"prefixes {vocabulary} {count} {length}")
    rows = [tuple(generator.randrange(3, vocabulary) for _ in range(length + place)) for place in range(count)]
    return [Prefix(ids, 12, seed=place, **options) for place, ids in enumerate(rows)]


def distribution(model, ids, drawn, sampling, allowed=None):
    """Return the distributions that these tokens were drawn from, (tokens, vocabulary), by another way than the engines'."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*ids, *drawn]])).logits[0, len(ids) - 1 : -1].double()
    probs = (logits / (sampling.temperature or 1.0)).softmax(-1)
    for row in probs:
        if allowed is not None:
            row[[token for token in range(len(row)) if token not in allowed]] = 0.0
            row /= row.sum()
        order = sorted(range(len(row)), key=lambda token: -row[token].item())
        if sampling.top_k and sampling.temperature:
            row[order[sampling.top_k :]] = 0.0
            row /= row.sum()
        if sampling.top_p < 1 and sampling.temperature:
            before = row[order].cumsum(0) - row[order]
            row[[token for token, mass in zip(order, before, strict=True) if mass >= sampling.top_p]] = 0.0
            row /= row.sum()
    return probs


def compared(model, engine, prefixes, sampling):
    """Return how far logprobs are from the model's, the range of (exact - estimated) entropies, and the tokens."""
    gap, shortfalls, exact, found = 0.0, [], [], engine.generate(prefixes, sampling)
    for prefix, generated in zip(prefixes, found, strict=True):
        probs = distribution(model, prefix.ids, generated.ids, sampling, prefix.allowed_ids)
        expected = probs.gather(-1, torch.tensor(generated.ids)[:, None])[:, 0].log()
        gap = max(gap, (expected - torch.tensor(generated.logprobs)).abs().max().item())
        entropies = torch.special.entr(probs).sum(-1)
        exact += entropies.tolist()
        shortfalls += (entropies - torch.tensor(generated.entropies)).tolist()
    return {
        "gap": gap,
        "shortfall": [min(shortfalls), max(shortfalls)],
        "entropy": sum(exact) / len(exact),
        "ids": [generated.ids for generated in found],
        "finish": [generated.finish for generated in found],
    }


def trained(model, vocabulary, step):
    """Take one real step of AdamW on random text."""
    generator = torch.Generator().manual_seed(step)
    batch = torch.randint(3, vocabulary, (4, 32), generator=generator)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3)
    model.train()
    model(input_ids=batch, labels=batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    model.eval()


def learning(name, engine, model, vocabulary):
    """Train, compare with the engine's old weights, sync, and compare again: twice, on prefixes that are long cached."""
    # Longer than two of vLLM's blocks on a CPU, so that a cache that survives the sync would be used.
    prefixes = prefixes_of(vocabulary, count=2, length=300)
    engine.generate(prefixes, Sampling())
    rounds = []
    for step in range(2):
        trained(model, vocabulary, step)
        before = compared(model, engine, prefixes, Sampling())["gap"]
        probe = engine.sync(model)
        rounds.append({"before": before, "probe": probe, "after": compared(model, engine, prefixes, Sampling())["gap"]})
    report(name, rounds=rounds, syncs=engine.syncs)


def refusal(call, *arguments):
    """Return the message of what a call raises, or the empty text."""
    try:
        call(*arguments)
    except (StaleWeights, UsageError) as refused:
        return f"{type(refused).__name__}: {refused}"
    return ""


def sampling_rows(engine, model, tokenizer, vocabulary):
    prefixes = prefixes_of(vocabulary)
    for name, sampling in SAMPLINGS.items():
        report(f"logprobs {name}", **compared(model, engine, prefixes, sampling))
    letters = tuple(tokenizer.encode("abc"))
    few = prefixes_of(vocabulary, allowed_ids=letters)
    report("allowed", letters=letters, **compared(model, engine, few, SAMPLINGS["cool"]))
    report("allowed greedy", letters=letters, **compared(model, engine, few, SAMPLINGS["greedy"]))
    together = [generated.ids for generated in engine.generate(prefixes, Sampling())]
    alone = [engine.generate([prefix], Sampling())[0].ids for prefix in reversed(prefixes)][::-1]
    same = [Prefix(prefixes[0].ids, 12, seed=seed) for seed in (7, 7, 8, 7 + 2**63)]
    twins = [generated.ids for generated in engine.generate(same, Sampling())]
    report("seeds", together=together, alone=alone, twins=twins)


def endings(engine, tokenizer, vocabulary):
    end = tokenizer.eos_token_id
    letters = tuple(tokenizer.encode("abc"))
    stopped = engine.generate(
        [Prefix((5, 6, 7), 64, stop=("zz", *STOPS), seed=seed, allowed_ids=letters) for seed in range(8)], Sampling()
    )
    report(
        "stop",
        stops=STOPS,
        texts=[tokenizer.decode(row.ids) for row in stopped],
        finish=[row.finish for row in stopped],
    )
    ended = engine.generate(
        [Prefix((5, 6, 7), 64, seed=seed, allowed_ids=(*letters, end)) for seed in range(8)], Sampling()
    )
    report("eos", end=end, ids=[row.ids for row in ended], finish=[row.finish for row in ended])
    limits = [1, 5, 0]
    cut = engine.generate([Prefix((5, 6, 7), limit, allowed_ids=letters) for limit in limits], Sampling())
    report("length", limits=limits, lengths=[len(row.ids) for row in cut], finish=[row.finish for row in cut])
    longest = engine.generate([Prefix(tuple(range(3, 203)) * 2 + (5,) * 100, 64, allowed_ids=letters)], Sampling())
    report("max_length", length=len(longest[0].ids), finish=longest[0].finish, nothing=engine.generate([], Sampling()))


def frequencies(engine, model):
    """How often each token is drawn, beside how often it should be."""
    ids, sampling, count = (9, 8, 7), Sampling(temperature=0.7, top_k=5), 1000
    drawn = [row.ids[0] for row in engine.generate([Prefix(ids, 1, seed=seed) for seed in range(count)], sampling)]
    probs = distribution(model, ids, (0,), sampling)[0]
    kept = probs.nonzero()[:, 0].tolist()
    report("frequencies", expected=probs[kept].tolist(), found=[drawn.count(token) / count for token in kept])


def caching(engine, vocabulary):
    first = prefixes_of(vocabulary, count=1, length=300)[0]
    engine.forget()
    counts = [engine.prefilled_tokens]
    said = engine.generate([first], Sampling())[0]
    counts.append(engine.prefilled_tokens)
    second = Prefix((*first.ids, *said.ids, 4, 5, 6), 12, seed=3)
    warm = engine.generate([second], Sampling())[0]
    counts.append(engine.prefilled_tokens)
    engine.forget()
    cold = engine.generate([second], Sampling())[0]
    counts.append(engine.prefilled_tokens)
    report("cache", lengths=[len(first.ids), len(second.ids)], counts=counts, warm=warm.ids, cold=cold.ids)


def disturbances(engine, before, threads):
    """Whether the process is as it was before the engine: its generators, and torch's setter of threads."""
    engine.generate(prefixes_of(100, count=2), Sampling())
    now = (random.random(), torch.rand(1).item())
    report("undisturbed", before=before, now=now, threads=torch.set_num_threads is threads)


def whole(folder):
    """All weights: the engine that most is asked of."""
    tokenizer = byte_tokenizer()
    vocabulary = len(tokenizer)
    model = saved(folder, tokenizer)
    threads = torch.set_num_threads
    python, generator = random.getstate(), torch.get_rng_state()
    before = (random.random(), torch.rand(1).item())
    random.setstate(python)
    torch.set_rng_state(generator)
    engine = VLLMEngine(folder, batch=16, max_length=512, sync_folder=folder)
    disturbances(engine, before, threads)
    sampling_rows(engine, model, tokenizer, vocabulary)
    endings(engine, tokenizer, vocabulary)
    frequencies(engine, model)
    caching(engine, vocabulary)
    greedy = [
        [row.ids for row in any_engine.generate(prefixes_of(vocabulary), Sampling(temperature=0.0))]
        for any_engine in (engine, HFEngine(model, tokenizer))
    ]
    report("greedy", vllm=greedy[0], hf=greedy[1], exact=[engine.exact_entropies])
    learning("sync", engine, model, vocabulary)
    kept = len(list(folder.glob("vllm-sync-*/*")))
    engine.close()
    refused = refusal(engine.generate, prefixes_of(vocabulary), Sampling())
    report("closed", refused=refused, kept=kept, left=len(list(folder.glob("vllm-sync-*"))))


def adapters(folder):
    """LoRA on a base of tied embeddings, with a tokenizer of words, whose tokens are longer than stop texts may be."""
    from peft import LoraConfig, get_peft_model

    words = [f"word{number}" for number in range(90)]
    tokenizer = word_tokenizer([" ".join(words) + " <search> </search>"])
    vocabulary = len(tokenizer)
    base = saved(folder, tokenizer, tied=True)
    modules = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    torch.manual_seed(0)
    model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=modules))
    engine = VLLMEngine(folder, batch=16, max_length=512, lora_rank=4, eos_ids=(tokenizer.eos_token_id,))
    unsynced = refusal(engine.generate, prefixes_of(vocabulary), Sampling())
    report("unsynced", refused=unsynced, first=engine.sync(model))
    learning("lora", engine, model, vocabulary)
    with model.disable_adapter():
        report("base", **compared(model, engine, prefixes_of(vocabulary), Sampling()))
    tag = tokenizer.encode("</search>")
    some = (*tag, *tokenizer.encode(" word1"), *tokenizer.encode(" word2"))
    row = Prefix(tuple(tokenizer.encode("word3")), 64, stop=("</sea",), allowed_ids=some)
    found = engine.generate([row], Sampling())[0]
    report("whole tokens", text=tokenizer.decode(found.ids), last=found.ids[-1], tag=tag, finish=found.finish)
    thinking, free = engine.generate([replace(row, turn_text="<think>"), replace(row, turn_text="")], Sampling())
    lengths = [len(one.ids) == len(one.logprobs) == len(one.entropies) for one in (thinking, free)]
    report("thought", finish=[thinking.finish, free.finish], lengths=lengths, count=len(thinking.ids), same=free == found)
    report("mixed up", message=refusal(engine.sync, base))
    engine.close()


def tied(folder):
    """All weights of a model with tied embeddings: what vLLM's build for CPUs cannot follow."""
    tokenizer = byte_tokenizer()
    model = saved(folder, tokenizer, tied=True)
    engine = VLLMEngine(folder, batch=16, max_length=512)
    trained(model, len(tokenizer), 0)
    message = refusal(engine.sync, model)
    report("tied", message=message, afterwards=refusal(engine.generate, prefixes_of(259), Sampling()))
    engine.close()


def episodes(folder):
    """Whole episodes through run_many, rebuilt from the record without drift."""
    from trainers.engine_policy import EnginePolicy
    from trainers.environments import environment_spec
    from trainers.sampling import plan_groups, play_groups
    from trainers.tokens import ChatTokenizer

    tokenizer = byte_tokenizer()
    saved(folder, tokenizer)
    engine = VLLMEngine(folder, batch=16)
    chat = ChatTokenizer(tokenizer, "chatml")
    policy = EnginePolicy(engine, chat, Sampling(), max_new_tokens=24, batch=8)
    plan = plan_groups(environment_spec("Sort", {}), "train", [0, 1], 3, "vllm")
    groups = play_groups(plan, policy)
    results = sum(len(group.results) for group in groups)
    kept = sum(sum(row.trained) for group in groups for rows in group.sequences for row in rows)
    drift = sum(group.drift for group in groups)
    report("episodes", results=results, drift=drift, sampled=policy.sampled_tokens, trained=kept)
    engine.close()


def main(folder):
    torch.set_num_threads(1)
    for play in (whole, adapters, tied, episodes):
        play(folder / play.__name__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
