"""The catalogue's table lists published question sets, problem sets and corpora, with licence, origin and size.

A row states only what is known; `None` is "not known here".
"""

from dataclasses import dataclass
from typing import Literal

from agent_envs.datasets.seeded import SPLITS

_HUB = "RUC-NLPIR/FlashRAG_datasets"
# The revision at which the hub's listing was seen with the corrected MuSiQue; PopQA was uploaded anew after it, and for
# HotpotQA no listing was seen, so these two follow the branch.
_PINNED = "75bdaa3721499234214733eeb7d3da3dd2405250"
_GSM8K_FILES = (
    "https://raw.githubusercontent.com/openai/grade-school-math/"
    "3101c7d5072418e28b9008a6636bde82a006892c/grade_school_math/data/"
)
_MATH_SPLITS = (  # stored beside the repository, where a pointer in it gives the sha256
    "https://media.githubusercontent.com/media/openai/prm800k/00811d6de065642a6967b9017d4cee59550c0ef4/prm800k/math_splits/"
)
_NQ_OPEN_DEV = (
    "https://raw.githubusercontent.com/google-research-datasets/natural-questions/"
    "a7d6452c0905c7772e9fbbb9a20b5fcab07c668f/nq_open/NQ-open.dev.jsonl"
)


@dataclass(frozen=True, slots=True)
class Published:
    """One published file.

    Attributes:
        split: the split that it holds; empty for a corpus.
        path: its path in the hub's repository, or its file name under `url`.
        rows: how many rows it is said to have; None where that is not known here.
        repo: the hub's data set repository; empty for a file at `url`.
        revision: commit or branch of the repository.
        url: address of a file that is not taken from the hub.
        sha256: its digest; None where it is not known here.
        max_bytes: a download beyond this is refused.
        format: a key of `readers.FORMATS`.
    """

    split: str
    path: str
    rows: int | None = None
    repo: str = _HUB
    revision: str = _PINNED
    url: str = ""
    sha256: str | None = None
    max_bytes: int = 2_000_000_000
    format: str = "flashrag"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A question-answering data set; `domain` tells the sets that Search-R1 and VEG train on ("in") from the others."""

    name: str
    title: str
    version: str
    licence: str
    citation: str
    domain: Literal["in", "out"]
    files: tuple[Published, ...]
    sample: str

    @property
    def splits(self) -> tuple[str, ...]:
        """The published splits."""
        return tuple(split for split in SPLITS if any(file.split == split for file in self.files))


@dataclass(frozen=True, slots=True)
class ProblemSet:
    """A set of problems for reasoning with tools, in files of its own kind.

    Attributes:
        files: none where its authors ask that it is not passed on; then `terms` says where a user gets a copy.
        domain: what the problems are about.
        origin: where they are published; empty where the files say so.
        terms: what to do to get it.
    """

    name: str
    title: str
    licence: str
    citation: str
    files: tuple[Published, ...] = ()
    domain: str = "maths"
    origin: str = ""
    terms: str = ""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Several data sets read as one; the ids carry the data set's name."""

    name: str
    title: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CorpusRow:
    """A corpus of passages; `file` is None where it comes with the data folder and is not downloaded."""

    name: str
    title: str
    licence: str
    citation: str
    passages: int
    file: Published | None = None


_NQ = DataSet(
    "nq", "Natural Questions, open-domain form", "NQ-open", "CC BY-SA 3.0",
    "Kwiatkowski et al., Natural Questions, TACL 2019; Lee et al., ACL 2019", "in",
    (
        Published("train", "nq/train.jsonl", 79_168),
        Published("dev", "nq/dev.jsonl"),
        Published("test", "nq/test.jsonl", 3_610),
        Published("test", "NQ-open.dev.jsonl", 3_610, repo="", revision="", url=_NQ_OPEN_DEV, format="nq_open"),
    ),
    "nq",
)  # fmt: skip
_TRIVIAQA = DataSet(
    "triviaqa", "TriviaQA, unfiltered", "1.0", "Apache-2.0 (upstream terms)",
    "Joshi et al., TriviaQA, ACL 2017", "out",
    (
        Published("train", "triviaqa/train.jsonl"),
        Published("dev", "triviaqa/dev.jsonl"),
        Published("test", "triviaqa/test.jsonl", 11_313),
    ),
    "triviaqa",
)  # fmt: skip
_POPQA = DataSet(
    "popqa", "PopQA", "1.0", "MIT", "Mallen et al., When Not to Trust Language Models, ACL 2023", "out",
    (Published("test", "popqa/test.jsonl", 14_267, revision="main"),), "popqa",
)  # fmt: skip
_HOTPOTQA = DataSet(
    "hotpotqa", "HotpotQA", "1.1", "CC BY-SA 4.0", "Yang et al., HotpotQA, EMNLP 2018", "in",
    (
        Published("train", "hotpotqa/train.jsonl", 90_447, revision="main"),
        Published("dev", "hotpotqa/dev.jsonl", 7_405, revision="main"),
    ),
    "hotpotqa",
)  # fmt: skip
_2WIKI = DataSet(
    "2wiki", "2WikiMultihopQA", "1.0", "Apache-2.0", "Ho et al., 2WikiMultihopQA, COLING 2020", "out",
    (Published("train", "2wikimultihopqa/train.jsonl"), Published("dev", "2wikimultihopqa/dev.jsonl", 12_576)),
    "2wikimultihopqa",
)  # fmt: skip
_MUSIQUE = DataSet(
    "musique", "MuSiQue, answerable", "1.0", "CC BY 4.0", "Trivedi et al., MuSiQue, TACL 2022", "out",
    (Published("train", "musique/train.jsonl"), Published("dev", "musique/dev.jsonl", 2_417)),
    "musique",
)  # fmt: skip
_BAMBOOGLE = DataSet(
    "bamboogle", "Bamboogle", "1.0", "MIT", "Press et al., Measuring the Compositionality Gap, EMNLP Findings 2023",
    "out", (Published("test", "bamboogle/test.jsonl", 125),), "bamboogle",
)  # fmt: skip

_GSM8K = ProblemSet(
    "gsm8k", "GSM8K, grade-school word problems", "MIT",
    "Cobbe et al., Training Verifiers to Solve Math Word Problems, 2021",
    (
        Published("train", "train.jsonl", 7_473, repo="", revision="", url=_GSM8K_FILES + "train.jsonl",
                  sha256="17f347dc51477c50d4efb83959dbb7c56297aba886e5544ee2aaed3024813465", max_bytes=10_000_000),
        Published("test", "test.jsonl", 1_319, repo="", revision="", url=_GSM8K_FILES + "test.jsonl",
                  sha256="3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14", max_bytes=10_000_000),
    ),
)  # fmt: skip

_MATH500 = ProblemSet(
    "math500", "MATH-500: 500 of MATH's test problems", "MIT",
    "Hendrycks et al., MATH, NeurIPS 2021; Lightman et al., Let's Verify Step by Step, 2023",
    (
        Published("test", "test.jsonl", 500, repo="", revision="", url=_MATH_SPLITS + "test.jsonl",
                  sha256="35dc41080a3680858b27fa7e0533d2d547825316fc5dafe5d316f4ccc5a06132", max_bytes=10_000_000),
    ),
)  # fmt: skip
_MATH = ProblemSet(
    "math", "MATH, competition problems (a copy on the hub with the original splits)", "MIT",
    "Hendrycks et al., Measuring Mathematical Problem Solving With the MATH Dataset, NeurIPS 2021",
    tuple(
        Published(split, f"data/{split}-00000-of-00001.parquet", rows, "MaziyarPanahi/MATH-lighteval",
                  "4d50b8c0d14913547f95b2e9d81028e77aef4e34", max_bytes=100_000_000)
        for split, rows in (("train", 7_500), ("test", 5_000))
    ),
)  # fmt: skip
_AIME24 = ProblemSet(
    "aime24", "AIME 2024, both papers", "the problems are the Mathematical Association of America's; no licence stated",
    "Mathematical Association of America, AIME I and II 2024; file of Hugging Face H4",
    (Published("test", "data/train-00000-of-00001.parquet", 30, "HuggingFaceH4/aime_2024", "main", max_bytes=10_000_000),),
)  # fmt: skip
_AIME25 = ProblemSet(
    "aime25", "AIME 2025, both papers", "the problems are the Mathematical Association of America's; no licence stated",
    "Mathematical Association of America, AIME I and II 2025; file of math-ai",
    (Published("test", "test.jsonl", 30, "math-ai/aime25", "main", max_bytes=10_000_000),),
)  # fmt: skip
_WEBWALKERQA = ProblemSet(
    "webwalkerqa", "WebWalkerQA", "Apache-2.0", "Wu et al., WebWalker: Benchmarking LLMs in Web Traversal, ACL 2025",
    (Published("test", "data/main-00000-of-00001.jsonl", 680, "callanwu/WebWalkerQA", "main", max_bytes=10_000_000),),
    "web",
)  # fmt: skip
_GAIA = ProblemSet(
    "gaia", "GAIA, questions without files", "gated: not to be passed on in readable form",
    "Mialon et al., GAIA: a Benchmark for General AI Assistants, ICLR 2024",
    domain="web", origin="hub gaia-benchmark/GAIA",
    terms="accept its authors' terms at the hub's gaia-benchmark/GAIA and take 2023/validation/metadata (.jsonl or .parquet)",
)  # fmt: skip
_HLE = ProblemSet(
    "hle", "Humanity's Last Exam, questions without images", "MIT; gated: not to be passed on in readable form",
    "Phan et al., Humanity's Last Exam, 2025",
    domain="mixed", origin="hub cais/hle",
    terms="accept its authors' terms at the hub's cais/hle and take the test split's .parquet",
)  # fmt: skip
_XBENCH = ProblemSet(
    "xbench", "xBench-DeepSearch", "MIT; published encoded, readable copies not to be put online",
    "Chen et al., xbench: Tracking Agents Productivity Scaling with Profession-Aligned Real-World Evaluations, 2025",
    domain="web", origin="github.com/xbench-ai/xbench-evals",
    terms="take data/DeepSearch.csv of github.com/xbench-ai/xbench-evals and decode it with its authors' own xbench_evals.py",
)  # fmt: skip

DATASETS = {row.name: row for row in (_NQ, _TRIVIAQA, _POPQA, _HOTPOTQA, _2WIKI, _MUSIQUE, _BAMBOOGLE)}
PROBLEMS = {row.name: row for row in (_GSM8K, _MATH500, _MATH, _AIME24, _AIME25, _WEBWALKERQA, _GAIA, _HLE, _XBENCH)}
MIXTURES = {"nq+hotpotqa": Mixture("nq+hotpotqa", "the training mixture of Search-R1 and VEG", ("nq", "hotpotqa"))}
CORPORA = {
    "sample": CorpusRow(
        "sample", "52k real passages around the sample's questions", "CC BY-SA 3.0 and 4.0",
        "Wikipedia contributors; sources in the data folder's README", 52_082,
    ),
    "wiki-18": CorpusRow(
        "wiki-18", "English Wikipedia of December 2018 in pieces of 100 words", "CC BY-SA 3.0",
        "Wikipedia contributors; Karpukhin et al., EMNLP 2020; file of Jin et al., Search-R1, 2025", 21_015_324,
        Published("", "wiki-18.jsonl.gz", 21_015_324, "PeterJinGo/wiki-18-corpus", "main", max_bytes=20_000_000_000),
    ),
}  # fmt: skip
