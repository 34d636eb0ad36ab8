"""The facts of a fictional world are written as passages."""

import random
from collections import Counter

from agent_envs.base.documents import Passage
from agent_envs.datasets.world.facts import Entity, Facts
from agent_envs.datasets.world.relations import WORKS, Kind, Relation, kinds

CLOSINGS = ("Little else concerns {n}.", "Much about {n} is forgotten.", "Few other books mention {n}.")


class Teller:
    """Writes passages: one for each entity, or several short ones of one or two facts each."""

    def __init__(self, rng: random.Random, short: bool, paraphrase: bool) -> None:
        self._rng = rng
        self._short = short
        self._paraphrase = paraphrase

    def tell(self, facts: Facts) -> tuple[Passage, ...]:
        """Return all passages in random order, and note in every entity which of them states what."""
        entities = [entity for rows in facts.entities.values() for entity in rows]
        titles = Counter(entity.name for entity in entities if entity.kind in WORKS)
        drafts: list[tuple[Entity, str, tuple[Relation, ...]]] = []
        for entity in entities:
            kind = kinds()[entity.kind]
            if not self._short:
                drafts.append((entity, self._long_text(entity, kind), kind.relations))
                continue
            for part in range(kind.parts):
                relations = tuple(relation for relation in kind.relations if relation.part == part)
                drafts.append((entity, self._short_text(entity, kind, relations), relations))
        self._rng.shuffle(drafts)
        passages = []
        for row, (entity, text, relations) in enumerate(drafts):
            title = f"{entity.name} ({entity.kind})" if titles[entity.name] > 1 else entity.name
            passages.append(Passage(f"w-{row:04d}", title, text))
            entity.passages.update((relation.name, passages[-1].id) for relation in relations)
        return tuple(passages)

    def _pick(self, wordings: tuple[str, ...]) -> str:
        return wordings[int(self._rng.random() * len(wordings))] if self._paraphrase else wordings[0]

    def _stated(self, entity: Entity, relations: tuple[Relation, ...]) -> list[Relation]:
        stated = [row for row in relations if row.name in entity.facts and row.name != entity.hidden]
        if self._paraphrase:
            self._rng.shuffle(stated)
        return stated

    def _long_text(self, entity: Entity, kind: Kind) -> str:
        stated = self._stated(entity, kind.relations)
        subjects = (_short_name(entity), f"the {entity.noun}")
        sentences = [self._pick(kind.leads).format(n=entity.name, k=entity.noun)]
        for row, relation in enumerate(stated):
            value = _value_name(entity.facts[relation.name])
            sentences.append(_sentence(self._pick(relation.says).format(s=subjects[row % 2], v=value)))
        fillers = 2 if len(stated) < 3 else int(len(stated) < 6)
        sentences += self._rng.sample(kind.fillers, fillers) if self._paraphrase else kind.fillers[:fillers]
        if len(stated) < 3:
            sentences.append(self._close(entity))
        return " ".join(sentences)

    def _close(self, entity: Entity) -> str:
        """Return a sentence that names a subject of few facts once more, so that its name finds the passage."""
        return self._pick(CLOSINGS).format(n=entity.name)

    def _short_text(self, entity: Entity, kind: Kind, relations: tuple[Relation, ...]) -> str:
        stated = self._stated(entity, relations)
        if not stated:
            return f"{entity.name} is a {entity.noun}. {self._close(entity)}"
        subject = f"{entity.name}, a {entity.noun},"
        if len(stated) == 1:
            value = _value_name(entity.facts[stated[0].name])
            return f"{stated[0].says[0].format(s=subject, v=value)} {self._close(entity)}"
        subjects = (subject, _short_name(entity) if entity.kind in ("person", "city") else "it")
        sentences = []
        for name, relation in zip(subjects, stated, strict=True):
            sentences.append(_sentence(relation.says[0].format(s=name, v=_value_name(entity.facts[relation.name]))))
        return " ".join(sentences)


def _short_name(entity: Entity) -> str:
    return entity.name.split()[-1] if entity.kind == "person" else entity.name


def _value_name(value: Entity | int) -> str:
    return value.name if isinstance(value, Entity) else str(value)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
