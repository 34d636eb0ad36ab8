"""A task of math_world is a calculation, a fact to look up, or a calculation with facts to look up, and is written here."""

import random
from dataclasses import dataclass

from agent_envs.datasets.seeded import in_split
from agent_envs.datasets.world import WorldStep
from agent_envs.datasets.world.questions import accepted_names
from agent_envs.datasets.world.relations import Relation
from agent_envs.envs.tool_reasoning.content import ToolReasoningScenario
from agent_envs.envs.tool_reasoning.math_world.almanac import (
    NUMBERS,
    LookupChain,
    NumberWorld,
    described,
    subject,
    wordings,
)
from agent_envs.envs.tool_reasoning.math_world.problem import (
    MOST_TRIES,
    Numbers,
    ProblemKind,
    assignments,
    draw,
    fitted,
    worded,
)

LETTERS = "PQR"
_MOST_CHAIN = 3  # look-ups for one fact; what needs more is the difference of two years
_GAPS = 0.3  # share of differences of two years, where a chain would do
_DRAWS_TO_FIT = 4  # facts that are tried for a place before one is cut down to fit


@dataclass(frozen=True, slots=True)
class ProblemDraft:
    """A task before it has a place: what is asked, the accepted answers, how to solve it, and how hard it is."""

    question: str
    answers: tuple[str, ...]
    scenario: ToolReasoningScenario
    kind: str
    steps: int


@dataclass(frozen=True, slots=True)
class _Fact:
    """A number to be looked up: how the question calls it, its value, the value in code, and the look-ups."""

    phrase: str
    value: int
    code: str
    chains: tuple[LookupChain, ...]


def calculation(rng: random.Random, kinds: tuple[ProblemKind, ...], level: int, split: str) -> ProblemDraft:
    """Draw a problem for code alone that belongs to the split; AssertionError after MOST_TRIES.

    Args:
        rng: the task's draws.
        kinds: the generators of the subject.
        level: 1 to 5.
        split: a problem belongs to one, by its content.
    """
    for _ in range(MOST_TRIES):
        kind = rng.choice(kinds)
        problem = draw(kind, rng, level, {})
        if problem is None:
            continue
        numbers, answer = problem
        if in_split(split, f"{kind.name} {sorted(numbers.items())}"):
            code = assignments(numbers, {}) + kind.code
            scenario = ToolReasoningScenario(code=code, answer=str(answer))
            return ProblemDraft(
                worded(kind, rng, numbers, {}), (str(answer),), scenario, kind.name, kind.steps(**numbers)
            )
    raise AssertionError(f"no problem of level {level} found in {MOST_TRIES} tries")


def calculation_with_facts(
    rng: random.Random, kinds: tuple[ProblemKind, ...], level: int, world: NumberWorld
) -> ProblemDraft:
    """Draw a problem some of whose numbers are facts, in `level` look-ups; AssertionError after too many tries."""
    for _ in range(MOST_TRIES):
        kind = rng.choice(kinds)
        draft = _with_facts(rng, kind, level, world)
        if draft is not None:
            return draft
    raise AssertionError(f"no problem of level {level} with facts found in {MOST_TRIES} tries")


def _with_facts(rng: random.Random, kind: ProblemKind, level: int, world: NumberWorld) -> ProblemDraft | None:
    """Draw a problem of a kind with facts as numbers; None where the world has none that fit or two steps are alike."""
    places = kind.open_names(level)
    count = rng.randint(1, min(len(places), level, len(LETTERS)))
    letters = dict(zip(rng.sample(places, count), LETTERS, strict=False))
    fixed: Numbers = {}
    facts: list[_Fact] = []
    lines, code = "", ""
    for (name, letter), lookups in zip(letters.items(), _parts(rng, level, len(letters)), strict=True):
        span = kind.spans[name][level - 1]
        fact = _fact(rng, world, lookups, span)
        if fact is None:
            return None
        facts.append(fact)
        fixed[name], pattern = fitted(fact.value, span)
        lines += f"{_introduction(rng, letter, fact.phrase, pattern)} "
        code += f"{letter} = {pattern.format(fact.code)}\n"
    steps = tuple(step for fact in facts for chain in fact.chains for step in chain.steps)
    problem = draw(kind, rng, level, fixed)
    if problem is None or len({(step.query, step.passage_id) for step in steps}) < len(steps):
        return None
    numbers, answer = problem
    code += assignments(numbers, letters) + kind.code
    question = lines + worded(kind, rng, numbers, letters)
    scenario = _scenario(steps, code, str(answer))
    return ProblemDraft(question, (str(answer),), scenario, kind.name, len(steps) + kind.steps(**numbers))


def _parts(rng: random.Random, total: int, count: int) -> list[int]:
    """Return a number as a sum of so many positive ones."""
    cuts = sorted(rng.sample(range(1, total), count - 1))
    return [high - low for low, high in zip([0, *cuts], [*cuts, total], strict=True)]


def _fact(rng: random.Random, world: NumberWorld, lookups: int, span: tuple[int, int]) -> _Fact | None:
    """Return a fact of so many look-ups, its value in the span if a few draws find one, else any; None where all fail."""
    fact = None
    for _ in range(_DRAWS_TO_FIT):
        gap = lookups > _MOST_CHAIN or (lookups > 1 and rng.random() < _GAPS)
        candidate = _gap(rng, world, lookups) if gap else _figure(rng, world, lookups)
        fact = candidate or fact
        if candidate is not None and span[0] <= candidate.value <= span[1]:
            return candidate
    return fact


def _figure(rng: random.Random, world: NumberWorld, lookups: int) -> _Fact | None:
    """Draw a chain of look-ups that ends in a number, as a fact; None where the draw finds none."""
    chain = world.chain(rng, lookups, lambda kind, relation: relation.value in NUMBERS)
    if chain is None or not isinstance(chain.value, int):
        return None
    return _Fact(described(rng, chain.path), chain.value, str(chain.value), (chain,))


def _gap(rng: random.Random, world: NumberWorld, lookups: int) -> _Fact | None:
    """Draw the difference of two years as a fact; None where a chain fails or the years are equal."""
    one, other = (
        world.chain(rng, hops, lambda kind, relation: relation.value == "year")
        for hops in (lookups // 2, lookups - lookups // 2)
    )
    if one is None or other is None or not isinstance(one.value, int) or not isinstance(other.value, int):
        return None
    if one.value == other.value:
        return None
    phrases = {"one": described(rng, one.path), "other": described(rng, other.path)}
    phrase = rng.choice(wordings()["letters"]["gap"]).format(**phrases)
    return _Fact(phrase, abs(one.value - other.value), f"abs({one.value} - {other.value})", (one, other))


def _introduction(rng: random.Random, letter: str, phrase: str, pattern: str) -> str:
    """Return the sentence that says a letter is a fact, a sum with it, or a remainder of it, by the pattern."""
    low, span = [*pattern.split()[::4], "", ""][:2]
    table = wordings()["letters"]["whole" if low == "{}" else "rest" if span else "sum"]
    return str(rng.choice(table).format(letter=letter, phrase=phrase, low=low, span=span))


def search(rng: random.Random, level: int, world: NumberWorld) -> ProblemDraft:
    """Draw a question of `level` look-ups, a comparison from 4 on; AssertionError after too many tries."""
    for _ in range(MOST_TRIES):
        draft = _chain_question(rng, level, world) if level <= _MOST_CHAIN else _comparison(rng, level, world)
        if draft is not None:
            return draft
    raise AssertionError(f"no question of {level} look-ups found in {MOST_TRIES} tries")


def _chain_question(rng: random.Random, lookups: int, world: NumberWorld) -> ProblemDraft | None:
    """Draw a question for the end of a chain of look-ups; None where there is none, or its answer is given away."""
    chain = world.chain(rng, lookups, lambda kind, relation: True)
    if chain is None or world.is_given_away(chain):
        return None
    question = rng.choice(chain.path[-1][1].asks).format(x=subject(rng, chain.path))
    answer = chain.steps[-1].answer
    if answer in question:
        return None
    return ProblemDraft(question, accepted_names(chain.value), _scenario(chain.steps, "", answer), "chain", lookups)


def _comparison(rng: random.Random, lookups: int, world: NumberWorld) -> ProblemDraft | None:
    """Draw a question which of two described entities has more or less; None if one fails, is named, or they tie."""
    first_relation: list[tuple[str, Relation]] = []

    def same(kind: str, relation: Relation) -> bool:
        """Return whether a kind's relation is a number and, once one was drawn, the same as that."""
        return relation.value in NUMBERS and (not first_relation or (kind, relation) == first_relation[0])

    sides = []
    for hops in (lookups // 2, lookups - lookups // 2):
        side = world.chain(rng, hops, same)
        if side is None:
            return None
        first_relation.append((side.path[-1][0].kind, side.path[-1][1]))
        sides.append(side)
    (one, relation), (other, _) = sides[0].path[-1], sides[1].path[-1]
    left, right = sides[0].value, sides[1].value
    assert isinstance(left, int) and isinstance(right, int)
    if left == right or one is other or sides[0].path[0][0] is sides[1].path[0][0]:
        return None
    smaller = rng.random() < 0.5
    winner = one if (left < right) == smaller else other
    a, b = (subject(rng, side.path) for side in sides)
    question = rng.choice(relation.first if smaller else relation.last).format(a=a, b=b)
    steps = sides[0].steps + sides[1].steps
    if one.name in question or other.name in question or len({step.query for step in steps}) < len(steps):
        return None
    return ProblemDraft(question, accepted_names(winner), _scenario(steps, "", winner.name), "comparison", lookups)


def _scenario(steps: tuple[WorldStep, ...], code: str, answer: str) -> ToolReasoningScenario:
    """Return a task's hidden part: the queries, passages and answers of its steps, the program and the answer."""
    return ToolReasoningScenario(
        queries=tuple(step.query for step in steps),
        support=tuple(step.passage_id for step in steps),
        found=tuple(step.answer for step in steps),
        code=code,
        answer=answer,
    )
