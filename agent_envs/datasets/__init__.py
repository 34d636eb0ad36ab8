"""Data sets give the environments tasks and documents: downloads and readers of published sets, and shared generators.

Modules, in reading order:
    catalogue: finds and loads question sets, problem sets and corpora by name; splits, `AGENT_ENVS_DATA`, recorded sha256.
    published: the table of published sets and corpora: licences, citations, URLs, sizes, sha256.
    manual_sources: data that is never downloaded: D.C. Code, contracts, CUAD, LegalBench-RAG, the official tau2-bench.
    download: `agent-envs data get`: Hugging Face hub, resumed transfers, retries, caps, hashes.
    listing: the rows of `agent-envs data list` and the files of `data path`.
    readers, safe_rows: `Question` from files in many formats (FlashRAG, NQ, HotpotQA, ...); bounded JSONL, CSV and TSV.
    reasoning_sets: readers of GSM8K, MATH, AIME, WebWalkerQA, GAIA, HLE, xBench-DeepSearch.
    corpora: `FileCorpus`, memory-mapped passages of a JSONL file.
    world/: generated fictional worlds: passages and multi-hop questions, with answers and oracle searches.
    seeded: `SeededSource`, the base of all sources that make their tasks from seeds; streams of draws, splits, ids.
    word_problems: generated arithmetic word problems; word_problem_wordings.json.
    gsm8k, calculation_trees: GSM8K problems traced to their numbers, as trees, and with larger numbers.
    number_words: numbers in English words, written and parsed.
"""

from agent_envs.datasets.seeded import SPLITS, SeededSource, SeededWorlds, in_split, stream

__all__ = ["SPLITS", "SeededSource", "SeededWorlds", "in_split", "stream"]
