"""Word problems with large numbers are generated, or are GSM8K's traceable items with new numbers."""

from bisect import bisect_right
from collections.abc import Mapping
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from math import gcd
from typing import Literal

from agent_envs.base.arguments import choice, whole_number
from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest
from agent_envs.core.trajectory import Task, TaskSource
from agent_envs.datasets.calculation_trees import Chain, rescale
from agent_envs.datasets.gsm8k import load_gsm8k
from agent_envs.datasets.seeded import SPLITS, SeededSource, in_split, stream
from agent_envs.datasets.word_problems import WordProblem, word_problem
from agent_envs.envs.expa.calculator.arithmetic import ArithmeticSource
from agent_envs.envs.expa.calculator.count import CountSource
from agent_envs.envs.expa.calculator.countdown import CountdownSource
from agent_envs.envs.expa.generated import TABLE_3, CalcData, Derivation, split_sizes

_GOLDEN_RATIO = 0.6180339887498949
KIND = "gsm8k_scaled"
TASKS = ("generated", "gsm8k")
MOST_TRIES = 20
RESCALINGS = 4  # of each GSM8K item, that a reset draws from


class CalcBenchSource:
    """A mixture with random access. A task keeps the id, the data and the question that it has in its own source.

    One block of a split holds each member's share exactly, and its first N tasks hold about the same shares for every N:
    index i stands at place (step * i) modulo the block's size, step near the golden section of the size and prime to it,
    and the members own runs of places. Larger indices go on with the next block, which holds the members' next tasks. A
    member that has no further task (a published data set) begins again.
    """

    name = "calcbench"
    splits = SPLITS

    def __init__(
        self,
        members: Mapping[str, TaskSource],
        sizes: Mapping[str, Mapping[str, int]] = TABLE_3,
    ) -> None:
        """Take the sources, each of another name, and how many tasks of each a block of a split holds, by the same names."""
        self._members = dict(members)
        self._sizes = {split: {name: sizes[split][name] for name in self._members} for split in SPLITS}

    @cached_property
    def digest(self) -> str:
        """What outside data the members rest on; "" if on none; cached."""
        digests = {name: source.digest for name, source in self._members.items() if source.digest}
        return digest(digests) if digests else ""

    def size(self, split: str) -> int:
        """Return the number of tasks of one block."""
        return sum(self._sizes[split].values())

    def get(self, split: str, key: int | str) -> Task:
        """Return a task by index >= 0 (beyond a member's end it goes round) or by its member's id; KeyError for others.

        Raises KeyError: an unknown split, a negative index, or an id that no member knows.
        """
        if split not in self._sizes:
            raise KeyError(split)
        if isinstance(key, str):
            return self._by_member_name(split, key)
        name, index = self.place(split, key)
        source = self._members[name]
        try:
            return source.get(split, index)
        except KeyError:
            return source.get(split, index % source.size(split))

    def place(self, split: str, index: int) -> tuple[str, int]:
        """Return the member that an index falls to, and the index within it; KeyError for an index below 0 or a bool."""
        if isinstance(index, bool) or index < 0:
            raise KeyError(index)
        sizes = self._sizes[split]
        ends = list(accumulate(sizes.values()))
        block, place = divmod(index, ends[-1])
        place = place * _step(ends[-1]) % ends[-1]
        member = bisect_right(ends, place)
        name = list(sizes)[member]
        return name, block * sizes[name] + place - (ends[member] - sizes[name])

    def _by_member_name(self, split: str, key: str) -> Task:
        """Return the task of an id from the member whose name, the longest first, begins it; KeyError where there is none."""
        # The longest name first: one member's name may begin another's.
        for source in sorted(self._members.values(), key=lambda source: -len(source.name)):
            if key.startswith(f"{source.name}-"):
                return source.get(split, key)
        raise KeyError(key)


@cache
def _step(total: int) -> int:
    """Return the whole number at or above a total's golden section without a common divisor with it, cached."""
    step = max(1, round(total * _GOLDEN_RATIO))
    while gcd(step, total) != 1:
        step += 1
    return step


class ScaledSource(SeededSource[Task]):
    """Generated word problems; the splits share no question."""

    def __init__(self, digits: int = 6, min_steps: int = 2, max_steps: int = 6) -> None:
        """Take the most digits of a number, 2 to 9, and the range of steps, within 1 to 8."""
        self.digits = whole_number(KIND, "digits", digits, 2, 9)
        least = whole_number(KIND, "min_steps", min_steps, 1, 8)
        self.steps = (least, whole_number(KIND, "max_steps", max_steps, least, 8))
        super().__init__(KIND, split_sizes(KIND))

    def build(self, split: str, index: int) -> Task:
        """Return an index's task, alike each time: problems are drawn until one belongs to the split."""
        rng = stream(KIND, split, index)
        problem = word_problem(rng, self.digits, self.steps)
        while not in_split(split, problem.question):
            problem = word_problem(rng, self.digits, self.steps)
        task_id = self.task_id(split, index)
        return _task(problem, task_id, split, task_id)


class RescaledSource(SeededSource[Task]):
    """GSM8K's traceable items with new numbers, `RESCALINGS` an item and more by index; its own train and test splits.

    Task i is the rescaling i // n of item i % n, for n traceable items; the rescalings of one item are one cluster.
    """

    def __init__(self, digits: int = 6) -> None:
        """Take the most digits of a number, 2 to 9, and find the files.

        Raises DataMissing: GSM8K is not on this machine; the message has the command that gets it.
        """
        self.digits = whole_number(KIND, "digits", digits, 2, 9)
        # Both splits: a task must not change its split with the files that are there.
        chains = {split: load_gsm8k(split) for split in ("train", "test")}
        self._chains = chains
        self.digest = _digest(tuple(chains.values()))
        super().__init__("gsm8k_rescaled", {split: RESCALINGS * len(rows) for split, rows in chains.items()})

    def build(self, split: str, index: int) -> Task:
        """Rescale an index's item to other numbers, alike each time; where some tries all leave them, they stay."""
        chains = self._chains[split]
        chain = chains[index % len(chains)]
        rng = stream("gsm8k", split, index)
        problem = rescale(chain, rng, self.digits)
        for _ in range(MOST_TRIES):  # what cannot grow much may come out as it was
            if problem.numbers != tuple(map(str, chain.numbers)):
                break
            problem = rescale(chain, rng, self.digits)
        return _task(problem, self.task_id(split, index), split, chain.id)


@lru_cache(maxsize=4)
def _digest(chains: tuple[tuple[Chain, ...], ...]) -> str:
    """Return the sha256 over the questions and chains that tasks are made of, cached."""
    return digest([[chain.id, chain.question, str(chain.trees)] for rows in chains for chain in rows])


def scaled_source(
    tasks: str = "generated", digits: int = 6, min_steps: int = 2, max_steps: int = 6
) -> SeededSource[Task]:
    """Return the source `generated` or `gsm8k`; UsageError for others or steps with gsm8k, DataMissing without its file.

    Raises:
        UsageError: an unknown name, or a number out of range.
        DataMissing: GSM8K is not on this machine.
    """
    if choice(KIND, "tasks", tasks, TASKS) == "gsm8k":
        if (min_steps, max_steps) != (2, 6):
            raise UsageError(f"{KIND}: min_steps and max_steps have no meaning with tasks='gsm8k'; leave them out")
        return RescaledSource(digits)
    return ScaledSource(digits, min_steps, max_steps)


def calc_bench_source(tasks: str = "generated", labels: Literal["tree", "released"] = "tree") -> CalcBenchSource:
    """Return Calc-Bench with word problems from `generated` or `gsm8k` (none in dev); labels by our tree or as released."""
    scaled = scaled_source(tasks)
    sizes = {split: dict(row) for split, row in TABLE_3.items()}
    for split in sizes.keys() - set(scaled.splits):
        sizes[split][KIND] = 0
    members = {
        "arithmetic": ArithmeticSource(labels=labels),
        "countdown": CountdownSource(),
        KIND: scaled,
        "count": CountSource(),
    }
    return CalcBenchSource(members, sizes)


def _task(problem: WordProblem, task_id: str, split: str, cluster: str) -> Task:
    """Return a word problem as a task; its steps and its answer are hidden in a Derivation."""
    return Task(
        id=task_id,
        split=split,
        question=problem.question,
        gold=(problem.answer,),
        cluster=cluster,
        data=CalcData(KIND, problem.numbers, wording=problem.kind, size=len(problem.steps)),
        hidden=Derivation(problem.steps, problem.answer),
    )
