"""`Asker` draws questions about a fictional world: chains of relations, comparisons, and facts that no passage states."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from agent_envs.base.documents import Passage
from agent_envs.datasets.world.facts import Entity, Facts
from agent_envs.datasets.world.relations import WORKS, Relation, kinds, leading_to

_WORD = re.compile(r"\w+")
_STOP = frozenset("a an and as at by for has have in is it its of on that the to was".split())
_K1, _B = 1.5, 0.75
_DEPTH = 3
_NEAR = 1e-6


class Lookup:
    """Says whether a query finds a passage among the first three (BM25 in Lucene's form, over title and text).

    So only questions are kept whose every look-up can succeed.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        """Index the passages' words for BM25; scores of a word are computed at first use."""
        self._places: dict[str, list[int]] = {}
        lengths = []
        for row, passage in enumerate(passages):
            words = [word for word in _WORD.findall(f"{passage.title} {passage.text}".lower()) if word not in _STOP]
            lengths.append(len(words))
            for word in words:
                if word in self._places:
                    self._places[word].append(row)
                else:
                    self._places[word] = [row]
        mean = sum(lengths) / len(lengths)
        self._norms = np.array([_K1 * (1 - _B + _B * length / mean) for length in lengths])  # (passages,)
        self._rows = {passage.id: row for row, passage in enumerate(passages)}
        self._scores: dict[str, NDArray[np.float64]] = {}
        self._ranks_high: dict[tuple[str, str], bool] = {}

    def finds(self, query: str, passage_id: str) -> bool:
        """Return whether the passage is surely among the first three for a query, cached; a tie counts against it."""
        key = (query, passage_id)
        if key not in self._ranks_high:
            words = [word for word in _WORD.findall(query.lower()) if word in self._places]
            scores = np.add.reduce([self._word(word) for word in words])  # (passages,)
            least = scores[self._rows[passage_id]] - _NEAR
            self._ranks_high[key] = int(np.count_nonzero(scores >= least)) <= _DEPTH
        return self._ranks_high[key]

    def _word(self, word: str) -> NDArray[np.float64]:
        """Return one query word's part in every passage's BM25 score, cached."""
        if word not in self._scores:
            counts = np.bincount(self._places[word], minlength=len(self._norms))  # (passages,)
            holders = int(np.count_nonzero(counts))
            idf = log(1 + (len(counts) - holders + 0.5) / (holders + 0.5))
            self._scores[word] = idf * counts / (counts + self._norms)
        return self._scores[word]


UNKNOWN = ("unanswerable", "unknown")
MOST_GAP = 60
_TRIES = 200


@dataclass(frozen=True, slots=True)
class WorldStep:
    """One hop of an honest solution: what to search for, the passage to find and what it says."""

    query: str
    passage_id: str
    answer: str


@dataclass(frozen=True, slots=True)
class WorldQuestion:
    """A question about a world.

    Attributes:
        answers: every right form of the answer, the plainest first.
        hops: how many passages an honest solution looks up.
        kind: "bridge", "comparison" or "unanswerable".
        support: ids of those passages in the order of the hops.
        steps: the honest solution. The last answer is "unanswerable" where the fact is stated nowhere.
        hidden: the value of the fact that no passage states; "" for an answerable question.
    """

    text: str
    answers: tuple[str, ...]
    hops: int
    kind: str
    support: tuple[str, ...]
    steps: tuple[WorldStep, ...]
    hidden: str = ""


Path = tuple[tuple[Entity, Relation], ...]
Side = tuple[Path, str, Entity]


class Asker:
    """Draws questions of a world, all different, each with one right answer."""

    def __init__(self, rng: random.Random, facts: Facts, passages: Sequence[Passage], paraphrase: bool) -> None:
        """Set up the generator of questions over the facts and the passages that state them."""
        self._rng = rng
        self._facts = facts
        self._texts = {passage.id: passage.text for passage in passages}
        self._lookup = Lookup(passages)
        self._paraphrase = paraphrase
        self._entities = [entity for rows in facts.entities.values() for entity in rows]
        self._everything = "\n".join(passage.text for passage in passages)
        self._compared = [(kind.name, relation) for kind in kinds().values() for relation in kind.compared]
        self._keys: set[object] = set()
        self._wants_yes = True

    def ask(self, cells: Sequence[tuple[str, int]], count: int) -> list[WorldQuestion]:
        """Return up to `count` questions spread evenly over (kind, hops) cells; fewer where the world holds no more."""
        makers: dict[str, Callable[[int], WorldQuestion | None]] = {
            "bridge": lambda hops: self._draw_bridge(hops, hidden=False),
            "unanswerable": lambda hops: self._draw_bridge(hops, hidden=True),
            "comparison": self._draw_comparison,
        }
        questions: list[WorldQuestion] = []
        live = list(cells)
        while live and len(questions) < count:
            for kind, hops in tuple(live[: count - len(questions)]):
                drafts = (makers[kind](hops) for _ in range(_TRIES))
                question = next((draft for draft in drafts if draft is not None), None)
                if question is None:
                    live.remove((kind, hops))
                else:
                    questions.append(question)
        return questions

    def _word(self, wordings: tuple[str, ...]) -> str:
        """Return the first wording; in paraphrases, one of the others by chance."""
        if not self._paraphrase:
            return wordings[0]
        return wordings[1 + int(self._rng.random() * (len(wordings) - 1))]

    def _is_new(self, key: object) -> bool:
        """Note a question's key: True if it is new, False if there was one with it before."""
        if key in self._keys:
            return False
        self._keys.add(key)
        return True

    def _is_found(self, steps: tuple[WorldStep, ...]) -> bool:
        """Return whether the search finds the passage of each step by the step's query."""
        return all(self._lookup.finds(step.query, step.passage_id) for step in steps)

    def _walk(self, hops: int, hidden: bool) -> Path | None:
        """Return a random chain of facts, the last one hidden exactly if `hidden`; None where the walk draws another."""
        rng = self._rng
        entity = self._entities[int(rng.random() * len(self._entities))]
        path: list[tuple[Entity, Relation]] = []
        for hop in range(1, hops + 1):
            kind = kinds()[entity.kind]
            relations = kind.relations if hop == hops else kind.chained
            relation = relations[int(rng.random() * len(relations))]
            if hidden and hop == hops and entity.hidden:
                relation = next(row for row in relations if row.name == entity.hidden)
            is_hidden = relation.name == entity.hidden
            if is_hidden != (hidden and hop == hops) or relation.name not in entity.facts:
                return None
            path.append((entity, relation))
            value = entity.facts[relation.name]
            if hop < hops:
                assert isinstance(value, Entity)
                entity = value
        return tuple(path)

    def _draw_bridge(self, hops: int, hidden: bool) -> WorldQuestion | None:
        """Draw a bridge question, unanswerable if `hidden`; None if undrawable, repeated, answered early or not found."""
        path = self._walk(hops, hidden)
        if path is None or _repeats(path):
            return None
        last, relation = path[-1]
        text = self._word(relation.asks).format(x=self._describe(path[:-1], path[0][0]))
        steps = _steps(path)
        answer = steps[-1].answer
        early = {step.passage_id for step in steps[:-1]}
        if answer in text or any(answer in self._texts[passage_id] for passage_id in early):
            return None
        if (hidden and answer in self._everything) or not self._is_found(steps):
            return None
        if not self._is_new((path[0][0], *(row.name for _, row in path))):
            return None
        support = tuple(step.passage_id for step in steps)
        if hidden:
            steps = (*steps[:-1], WorldStep(steps[-1].query, steps[-1].passage_id, UNKNOWN[0]))
            return WorldQuestion(text, UNKNOWN, hops, "unanswerable", support, steps, answer)
        return WorldQuestion(text, accepted_names(last.facts[relation.name]), hops, "bridge", support, steps)

    def _describe(self, path: Path, start: Entity) -> str:
        """Return the noun phrase that leads from a start along a path of relations: the start's name where there is none."""
        phrase = f"the {start.kind} {start.name}" if start.kind in WORKS else start.name
        for _, relation in path:
            phrase = self._word(relation.nouns).format(x=phrase)
        return phrase

    def _side(self, kind: str, relation: Relation, hops: int) -> Side | None:
        """Draw a side of a comparison: path, description, entity; None where a fact is lacking, hidden or repeated."""
        rng = self._rng
        if hops == 1:
            entity = rng.choice(self._facts.entities[kind])
            path: Path = ((entity, relation),)
        else:
            into = leading_to(kind)
            if not into:
                return None
            source, link = rng.choice(into)
            start = rng.choice(self._facts.entities[source])
            target = start.facts.get(link.name)
            if not isinstance(target, Entity) or start.hidden == link.name:
                return None
            entity, path = target, ((start, link), (target, relation))
        if relation.name not in entity.facts or relation.name == entity.hidden or _repeats(path):
            return None
        return path, self._describe(path[:-1], path[0][0]), entity

    def _draw_comparison(self, hops: int) -> WorldQuestion | None:
        """Draw a question that compares two entities; None where it is undecided, repeated or a step cannot be found."""
        kind, relation = self._rng.choice(self._compared)
        one, other = (self._side(kind, relation, hops // 2) for _ in "ab")
        if one is None or other is None or one[2] is other[2] or one[0][0][0] is other[0][0][0]:
            return None
        verdict = self._judge(relation, one[2], other[2])
        if verdict is None:
            return None
        wording, answers = verdict
        text = wording.format(a=one[1], b=other[1])
        steps = _steps(one[0]) + _steps(other[0])
        if (hops == 4 and answers[0] in text) or not self._is_found(steps):
            return None
        if not self._is_new((relation.name, frozenset((one[0][0], other[0][0])))):
            return None
        if answers[0] in ("yes", "no"):
            self._wants_yes = not self._wants_yes
        return WorldQuestion(text, answers, hops, "comparison", tuple(step.passage_id for step in steps), steps)

    def _judge(self, relation: Relation, one: Entity, other: Entity) -> tuple[str, tuple[str, ...]] | None:
        """Return a comparison's wording and answers; None for a tie, equal names, or the yes/no that is not due."""
        left, right = one.facts[relation.name], other.facts[relation.name]
        if isinstance(left, Entity) or isinstance(right, Entity):
            if (left is right) != self._wants_yes:
                return None
            return self._word(relation.same), ("yes" if left is right else "no",)
        gap = abs(left - right)
        if gap == 0 or one.name == other.name:
            return None
        if gap <= MOST_GAP and self._rng.random() < 0.3:
            return self._word(relation.gap), (str(gap),)
        is_first = self._rng.random() < 0.5
        winner = one if (left < right) == is_first else other
        return self._word(relation.first if is_first else relation.last), accepted_names(winner)


def _repeats(path: Path) -> bool:
    """Return whether a chain meets an entity or relation twice, or an entity's name contains the value's."""
    entities = [entity for entity, _ in path]
    names = {relation.name for _, relation in path}
    if len(names) < len(path) or len({id(entity) for entity in entities}) < len(path):
        return True
    values = [entity.facts[relation.name] for entity, relation in path]
    return any(
        isinstance(value, Entity) and value.name in entity.name for entity, value in zip(entities, values, strict=True)
    )


def _steps(path: Path) -> tuple[WorldStep, ...]:
    """Convert a path to its searches: query, passage id and answer of each hop."""
    steps = []
    for entity, relation in path:
        name = entity.name if entity.kind in ("person", "company") else f"{entity.name} {entity.kind}"
        value = entity.facts[relation.name]
        answer = value.name if isinstance(value, Entity) else str(value)
        steps.append(WorldStep(f"{name} {relation.query}", entity.passages[relation.name], answer))
    return tuple(steps)


def accepted_names(value: Entity | int) -> tuple[str, ...]:
    """Return the texts that name an answer: a number or a name; of a work, three, two of them with its kind."""
    if isinstance(value, int):
        return (str(value),)
    if value.kind in WORKS:
        return (value.name, f"{value.name} ({value.kind})", f"the {value.kind} {value.name}")
    return (value.name,)
