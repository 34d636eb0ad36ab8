"""Some data is listed beside the catalogue and never fetched: law, contracts, and the official files of tau2-bench.

Their families read them; here stands what they are, where they come from, and where they are looked for.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from agent_envs.base.caches import cache_dir
from agent_envs.base.errors import DataMissing

_TAU2 = "a2c024725189473d2d7cea3a5cfdbcc67478e41f"


@dataclass(frozen=True, slots=True)
class ManualSource:
    """Data that a user puts in its place.

    Attributes:
        published: what there is of it.
        origin: where it was published.
        terms: how to have it here.
        place: below the folder that AGENT_ENVS_DATA names; empty where it is a file that an argument names.
        cached: the same below the cache; empty where it is not looked for there.
    """

    name: str
    title: str
    domain: str
    published: str
    licence: str
    origin: str
    terms: str
    place: str = ""
    cached: str = ""


MANUAL_SOURCES = {
    row.name: row
    for row in (
        ManualSource(
            "dc_code", "D.C. Code: titles 8, 16, 28, 29, 32, 34, 42, with questions by templates", "law",
            "3,867 sections, dev 552", "public domain (an edict of government; its repository has no licence file)",
            "github.com/DCCouncil/dc-law-xml at f3b6cbeb, July 2021",
            "it comes with the data folder; any code of law as a file of nodes does as well (docs/data.md)",
            place="legal/dc_code_nodes.jsonl",
        ),
        ManualSource(
            "contracts", "real agreements and policies, without questions", "law",
            "164 documents", "CC0-1.0, CC BY 4.0 and CC BY-SA 4.0, told in every row",
            "github.com/github/site-policy, CommonPaper/CSA, LexPredict/lexpredict-contraxsuite-samples",
            "it comes with the data folder; any folder of texts does as well",
            place="legal/contracts_nodes.jsonl",
        ),
        ManualSource(
            "cuad", "CUAD: lawyers' marks in 510 commercial contracts", "law",
            "one JSON file, read by its path", "CC BY 4.0", "github.com/TheAtticusProject/cuad",
            "take CUADv1.json from data.zip of github.com/TheAtticusProject/cuad, and give LegalSearch its path as tasks",
        ),
        ManualSource(
            "legalbench-rag", "LegalBench-RAG: marks in NDAs, mergers, contracts and privacy policies", "law",
            "a JSON file for each of 4 sets, read by its path", "those of its sources, ContractNLI, CUAD, MAUD and PrivacyQA",
            "github.com/zeroentropy-ai/legalbenchrag",
            "follow the link to its data in github.com/zeroentropy-ai/legalbenchrag, leave corpus/ beside benchmarks/, and "
            "give LegalSearch the path of a file of benchmarks/ as tasks",
        ),
        ManualSource(
            "tau2", "tau2-bench: official retail, airline and telecom", "users",
            "base tasks: retail 114, airline 50, telecom 114", "MIT", "github.com/sierra-research/tau2-bench",
            f"put the folder data/ of github.com/sierra-research/tau2-bench at commit {_TAU2} "
            "into the folder tau2/official of the one that AGENT_ENVS_DATA names",
            place="tau2/official/data/tau2", cached=f"tau2/{_TAU2}/data/tau2",
        ),
    )
}  # fmt: skip


def find_manual_source(name: str) -> Path:
    """Return the path of a row of `MANUAL_SOURCES`, in AGENT_ENVS_DATA or the cache; DataMissing says how to have it.

    Raises:
        DataMissing: nowhere; the message says how to have it.
    """
    row = MANUAL_SOURCES[name]
    folder = os.environ.get("AGENT_ENVS_DATA")
    places = [Path(folder).expanduser() / row.place] if folder and row.place else []
    places += [cache_dir() / row.cached] if row.cached else []
    for path in places:
        if path.exists():
            return path
    looked = f" (looked at {', '.join(map(str, places))})" if places else ""
    raise DataMissing(f"{name} is not here{looked}: {row.terms}")
