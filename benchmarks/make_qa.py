"""A chat model makes a legal benchmark from a corpus, as the paper made its own; LegalSearch reads it as `tasks=FILE`.

    python -m benchmarks.make_qa CORPUS --model openai:MODEL@URL --out questions.jsonl [-n N] [--max-cost USD] [--json]

Sections are drawn, a model asks a question that needs them, a model answers it blindly from them, a judge compares; sections
that the answer does not need are struck out, and questions that say the same as an earlier one are dropped. Every attempt goes
to a journal and every call to a recording, both beside the result, so that a stopped or killed run goes on with the same
command and pays for nothing twice.
"""

import os
import random
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_envs.base.caches import write_atomically
from agent_envs.base.documents import Retriever
from agent_envs.base.errors import AgentEnvsError, BudgetSpent, EnvFault, UsageError
from agent_envs.base.jsonl_log import Journal, read_journal
from agent_envs.base.serialization import canonical_json
from agent_envs.base.terminal import print_result, print_table, show, stage_lines
from agent_envs.cli.options import two_interrupts
from agent_envs.envs.legal_search.library import Library
from agent_envs.envs.legal_search.published import FORMAT, LIBRARIES, load_library
from agent_envs.grading.text_answers import parse_number, without_thousands
from agent_envs.services.chat import ChatModel, chat_port, make_chat_model
from agent_envs.services.chat.prices import load_prices
from agent_envs.services.judges import ModelJudge
from agent_envs.services.recording import Recording
from agent_envs.tools.retrieval.build import make_retriever
from benchmarks.qa_candidates import FAULT, PASSED, Candidate, Examiner, Picker, limited_chats, prompts_digest, same

_NUMBER = re.compile(r"\d+(?:,\d+)*(?:\.\d+)?")
_ALONE = re.compile(r"(?<![\w/:.§-])(\d+(?:,\d+)*(?:\.\d+)?)(?![\w/:-])")
_PHRASE_WORDS = 3  # an answer of more words is compared by token F1
ATTEMPTS_EACH = 5  # candidates for one question that is wanted, before it is given up
MOST_FAULTS_IN_A_ROW = 3
_ROUNDS = 10  # how often one section may be a base
_NEAREST = 8  # sections that an unanswerable question is tried on

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class QAConfig:
    """The settings of a generated benchmark.

    Attributes:
        count: how many questions.
        reads: how many sections a question is asked from: one of these at random, so that a repeated one is likelier.
        unanswerable: share of the questions whose section is taken out of the library, 0 to 0.5.
        seed: of the order of sections.
        concurrency: attempts at a time.
    """

    count: int = 2_300
    reads: tuple[int, ...] = (1, 1, 2, 3, 4)
    unanswerable: float = 0.1
    seed: int = 0
    concurrency: int = 4

    def __post_init__(self) -> None:
        """Check the values; a UsageError names what is wrong."""
        if self.count < 1 or self.concurrency < 1:
            raise UsageError(f"make-qa: count={self.count}, concurrency={self.concurrency}; give 1 or more")
        if not self.reads or any(number not in (1, 2, 3, 4) for number in self.reads):
            raise UsageError(f"make-qa: reads={self.reads!r}; give numbers from 1 to 4")
        if not 0 <= self.unanswerable <= 0.5:
            raise UsageError(f"make-qa: unanswerable={self.unanswerable}; give a number from 0 to 0.5")


@dataclass(frozen=True)
class QAReport:
    """The report on a generated benchmark: its file, numbers of questions by split and in all, attempts and usage."""

    path: str
    questions: int
    unanswerable: int
    splits: dict[str, int]
    attempts: int
    fates: dict[str, int]
    usage: dict[str, int] = field(default_factory=dict)


def make_qa(
    corpus: str,
    model: ChatModel,
    out: Path,
    config: QAConfig | None = None,
    *,
    judge: ChatModel | None = None,
    progress: Progress | None = None,
) -> QAReport:
    """Write a benchmark that `tasks=FILE` reads, or go on writing it.

    Args:
        corpus: a library's name or path; see `published`.
        model: who asks.
        out: the file; its name ends in .jsonl. `NAME.candidates.jsonl` and `NAME.calls.jsonl` come to lie beside it.
        config: how many questions, and of which kind.
        judge: who answers and judges; the asking model where it is None.
        progress: called with a stage and the fraction of it.

    Raises:
        DataMissing, UsageError: the corpus is not there or has nothing to ask from; the file beside was begun otherwise; or
            there can be no such file, which is told before anything is asked.
        EnvFault: the service failed again and again; what was made is kept, and the same command goes on.
        BudgetSpent: a model's limit is reached; likewise.
    """
    config = config or QAConfig()
    _check_place(out)
    library = load_library(corpus)
    picker = Picker(library, config.seed, config.reads)
    if not picker.bases:
        raise UsageError(f"make-qa: {corpus} has no section with text enough to ask about")
    head = {
        "format": FORMAT,
        "library": corpus if corpus in LIBRARIES else _path_from(out, corpus),
        "digest": library.digest,
        "model": model.name,
        "judge": (judge or model).name,
    }
    journal_head = {**head, "seed": config.seed, "reads": list(config.reads), "prompts": prompts_digest()}
    with Recording(recording_beside(out), "record") as recording:
        port = chat_port(model, recording=recording)
        checker = chat_port(judge or model, recording=recording)
        examiner = Examiner(port, checker, ModelJudge(judge or model, recording=recording))
        maker = _Maker(library, picker, examiner, config, progress or _ignore_progress)
        candidates = maker.collect(out.with_suffix(".candidates.jsonl"), journal_head)
        removed = maker.removable(candidates)
    rows = benchmark_rows(library, picker.splits, candidates, removed)
    lines = [canonical_json({**head, "removed": sorted(removed)}), *map(canonical_json, rows)]
    write_atomically(out, lambda file: file.write(("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")))
    return maker.report(out, rows)


def _check_place(out: Path) -> None:
    """Check that a file may be written here, before anything is asked."""
    if out.suffix.lower() != ".jsonl":
        raise UsageError(f"make-qa: {out} must end in .jsonl")
    if out.is_dir():
        raise UsageError(f"make-qa: {out} is a folder; name a file")


def _path_from(out: Path, corpus: str) -> str:
    """Return the path to a corpus from a file's folder; without links, behind which `..` leads elsewhere."""
    return os.path.relpath(Path(corpus).expanduser().resolve(), out.parent.resolve())


def recording_beside(out: Path) -> Path:
    """Return the file that records the calls for a benchmark."""
    return out.with_suffix(".calls.jsonl")


def _ignore_progress(stage: str, fraction: float) -> None:
    """Report no progress."""


class _Maker:
    """Collects candidates in the order of their places, whatever order they are made in."""

    def __init__(
        self, library: Library, picker: Picker, examiner: Examiner, config: QAConfig, progress: Progress
    ) -> None:
        """Set up the counts of attempts by their end, and of tokens."""
        self._library, self._picker, self._examiner = library, picker, examiner
        self._config, self._progress = config, progress
        self.fates: Counter[str] = Counter()
        self.usage: Counter[str] = Counter()
        self._candidates: list[Candidate] = []

    def collect(self, path: Path, journal_head: dict[str, Any]) -> list[Candidate]:
        """Return the candidates that are kept, those of an earlier run first.

        Raises:
            UsageError: the journal was begun with another configuration.
            EnvFault: several attempts in a row met a service that fails.
        """
        earlier = list(read_journal(path))
        if earlier and earlier[0] != journal_head:
            other = sorted(name for name in journal_head if journal_head[name] != earlier[0].get(name))
            raise UsageError(f"{path} was begun with another {', '.join(other)}; name another --out, or remove it")
        places = 0
        for row in earlier[1:]:
            self._take(Candidate(**{**row, "sections": tuple(row["sections"])}))
            places += 1
        with Journal(path) as journal:
            if not earlier:
                journal.append(journal_head)
            waiting: list[Candidate] = []
            for candidate in self._attempts(places):
                waiting.append(candidate)
                if candidate.fate == FAULT:
                    if len(waiting) == MOST_FAULTS_IN_A_ROW:
                        raise EnvFault(f"make-qa: {candidate.question}; the same command goes on from here")
                    continue
                for row in waiting:
                    entry = self._take(row)
                    journal.append({**asdict(entry), "sections": list(entry.sections)})
                waiting.clear()
        return self._candidates

    def _attempts(self, place: int) -> Iterator[Candidate]:
        """Yield candidates from a place on until enough are kept or the tries are used up."""
        most = min(ATTEMPTS_EACH * self._config.count + 20, _ROUNDS * len(self._picker.bases))
        pending: deque[Any] = deque()
        with ThreadPoolExecutor(self._config.concurrency) as pool:
            try:
                while len(self._candidates) < self._config.count and (pending or place < most):
                    while place < most and len(pending) < self._config.concurrency:
                        pending.append(pool.submit(self._attempt, place))
                        place += 1
                    yield pending.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _attempt(self, place: int) -> Candidate:
        """Make the candidate of a place from its passages, with a seed of its own."""
        return self._examiner.attempt(place, self._picker.pick(place), f"make-qa/{self._config.seed}/{place}")

    def _take(self, candidate: Candidate) -> Candidate:
        """Count a candidate, and keep it unless it asks what was asked before or enough are kept."""
        if candidate.fate == PASSED:
            if any(same(candidate, other) for other in self._candidates):
                candidate = replace(candidate, fate="asked before")
            elif len(self._candidates) < self._config.count:
                self._candidates.append(candidate)
        self.fates[candidate.fate] += 1
        self.usage.update(candidate.usage)
        self._progress("questions", len(self._candidates) / self._config.count)
        return candidate

    def removable(self, candidates: list[Candidate]) -> list[str]:
        """Return sections to take out, so that a share of the questions has no answer any more in what is left.

        Raises:
            EnvFault: the service failed at several sections in a row; one at which it fails stays in.
        """
        target = int(self._config.unanswerable * len(candidates) + 0.5)
        removed: list[str] = []
        if not target:
            return removed
        retriever = make_retriever("bm25", self._library.corpus)
        lost: set[int] = set()
        faults = 0
        rng = random.Random(f"legal/make-qa/{self._config.seed}/removed")
        for candidate in rng.sample(candidates, len(candidates)):
            cut_ids = {section.id for top in (*removed, candidate.sections[0]) for section in self._library.below(top)}
            hit = [row for row in candidates if cut_ids & set(row.sections)]
            if len(hit) > target or candidate.place in lost:
                continue
            try:
                answered = any(self._answers_without(row, cut_ids, retriever) for row in hit if row.place not in lost)
            except EnvFault as fault:
                faults += 1
                if faults == MOST_FAULTS_IN_A_ROW:
                    raise EnvFault(f"make-qa: {fault.cause}; the same command goes on from here") from fault
                continue
            faults = 0
            if not answered:
                removed.append(candidate.sections[0])
                lost = {row.place for row in hit}
                self._progress("unanswerable questions", len(lost) / target)
            if len(lost) == target:
                break
        return removed

    def _answers_without(self, candidate: Candidate, cut_ids: set[str], retriever: Retriever) -> bool:
        """Return whether the sections nearest to a question answer it although its own are gone."""
        hits = retriever.search(candidate.question, _NEAREST + len(cut_ids & set(candidate.sections)))
        left = [self._library.read(hit.passage.id) for hit in hits if hit.passage.id not in cut_ids][:_NEAREST]
        return self._examiner.confirms(candidate, left, f"make-qa/{self._config.seed}/{candidate.place}/without")

    def report(self, out: Path, rows: list[dict[str, Any]]) -> QAReport:
        """Return the report on the benchmark."""
        return QAReport(
            path=str(out),
            questions=len(rows),
            unanswerable=sum(row["metric"] == "abstain" for row in rows),
            splits=dict(Counter(row["split"] for row in rows)),
            attempts=sum(self.fates.values()),
            fates=dict(self.fates.most_common()),
            usage=dict(self.usage),
        )


def benchmark_rows(
    library: Library, splits: Mapping[str, str], candidates: Sequence[Candidate], removed: Sequence[str]
) -> list[dict[str, Any]]:
    """Return a row a question, in the order in which they were made.

    Args:
        library: what they were made from.
        splits: by section, its split.
        candidates: the questions.
        removed: ids that are taken out of the library.
    """
    cut_ids = {section.id for top in removed for section in library.below(top)}
    rows = []
    for candidate in candidates:
        answerable = not cut_ids & set(candidate.sections)
        answers, metric = _accepted_forms(candidate.answer) if answerable else ((), "abstain")
        first = library.read(candidate.sections[0])
        rows.append(
            {
                "id": f"qa-{candidate.place}",
                "split": splits[first.id],
                "kind": f"made-{len(candidate.sections)}",
                "question": candidate.question,
                "answers": list(answers),
                "metric": metric,
                "sections": [place for place in candidate.sections if place not in cut_ids],
                "cluster": first.parent or first.id,
            }
        )
    return rows


def _accepted_forms(answer: str) -> tuple[tuple[str, ...], str]:
    """Return the accepted forms of an answer, a bare number first, and how it is compared."""
    alone = [number for number in _ALONE.findall(answer) if parse_number(number) is not None]
    if len(alone) == 1 == len(_NUMBER.findall(answer)) and len(answer.split()) <= _PHRASE_WORDS:
        return tuple(dict.fromkeys((without_thousands(alone[0]), answer))), "numeric"
    return (answer,), "f1" if len(answer.split()) > _PHRASE_WORDS else "em"


def main(
    corpus: Annotated[
        str,
        typer.Argument(help="dc_code, contracts, a .jsonl file of nodes, a .json question file, a folder of texts."),
    ],
    model: Annotated[str, typer.Option(help="Who asks: openai:MODEL, openai:MODEL@URL or anthropic:MODEL.")],
    out: Annotated[Path, typer.Option(help="The file to write, .jsonl; journal and recording lie beside it.")],
    count: Annotated[int, typer.Option("-n", min=1, help="How many questions.")] = 2_300,
    judge: Annotated[str, typer.Option(help="Who answers and judges (default: the asking model).")] = "",
    unanswerable: Annotated[float, typer.Option(help="Share of questions whose section is taken out.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the order of sections.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Attempts at a time.")] = 4,
    max_cost: Annotated[float | None, typer.Option(help="US dollars: no call begins once they are spent.")] = None,
    prices: Annotated[Path | None, typer.Option(help="A table of prices of yours.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a legal benchmark from a corpus by a chat model; LegalSearch reads it as tasks=FILE.

    Stopped or killed, the same command goes on and pays for nothing twice; after --max-cost, which counts what was spent
    before, the same command with a larger one does. Exit code 3: stopped, fewer questions than wanted, or --max-cost is spent.
    """
    config = QAConfig(count=count, unanswerable=unanswerable, seed=seed, concurrency=concurrency)
    models: Sequence[ChatModel] = [make_chat_model(name) for name in (model, judge or model)]
    if max_cost is not None:
        models = limited_chats(models, max_cost, load_prices(prices), recording_beside(out))
    try:
        with two_interrupts("running attempts"):
            report = make_qa(corpus, models[0], out, config, judge=models[1], progress=stage_lines("make-qa"))
    except KeyboardInterrupt:
        show("stopped; the same command goes on from here", file=sys.stderr)
        raise typer.Exit(3) from None
    except BudgetSpent as end:
        show(f"--max-cost: {end}; the same command with a larger --max-cost goes on from here", file=sys.stderr)
        raise typer.Exit(3) from None

    def tell() -> None:
        """Print the questions by split and the attempts by their end, with a note if unanswerable ones are too few."""
        splits = ", ".join(f"{split} {number:,}" for split, number in report.splits.items())
        show(f"{report.path}: {report.questions:,} questions ({splits}; {report.unanswerable:,} unanswerable)")
        target = int(unanswerable * report.questions + 0.5)
        if report.unanswerable < target:
            left = f"{report.unanswerable:,} of {target:,} unanswerable questions could be made"
            show(
                f"note: {left}: what is left of the library answers the others, or the judge gave no verdict",
                file=sys.stderr,
            )
        print_table("Attempts", ["what came of it", "attempts"], [[name, f"{n:,}"] for name, n in report.fates.items()])

    print_result(asdict(report), as_json, tell)
    if report.questions < count:
        raise typer.Exit(3)


if __name__ == "__main__":
    try:
        typer.run(main)
    except AgentEnvsError as error:
        show(f"make-qa: {error}", file=sys.stderr)
        sys.exit(2)
