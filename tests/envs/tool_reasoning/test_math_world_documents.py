"""The documents of math_world: the fact world's own passages, sheets of figures, links, and searches that succeed."""

import re
from collections.abc import Callable
from functools import cache

import bm25s
import pytest

from agent_envs.core.trajectory import Task
from agent_envs.datasets.world import WorldConfig, get_world
from agent_envs.datasets.world.relations import kinds
from agent_envs.envs.tool_reasoning.content import ToolReasoningScenario
from agent_envs.envs.tool_reasoning.math_world import MathWorldSource, NumberWorld, number_world
from agent_envs.envs.tool_reasoning.math_world.almanac import wordings

STOP = frozenset("a an and as at by for has have in is it its of on that the to was".split())


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP]


@cache
def searcher(split: str, index: int) -> Callable[[str], list[str]]:
    """Return a function from a query to the ids of the first three passages, by an independent BM25."""
    passages = number_world(split, index).corpus.passages
    engine = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    engine.index([words(f"{passage.title} {passage.text}") for passage in passages], show_progress=False)

    def search(query: str) -> list[str]:
        scores = engine.get_scores([word for word in words(query) if word in engine.vocab_dict])
        rows = sorted(range(len(passages)), key=lambda row: -scores[row])
        return [passages[row].id for row in rows[:3]]

    return search


def asked(split: str) -> list[Task]:
    """The tasks of two worlds that need a search."""
    source = MathWorldSource()
    found = [source.get(split, index) for index in range(source.size(split)) if index % 32 in (3, 4)]
    return [task for task in found if task.data.needs != "python"]


def scenario(task: Task) -> ToolReasoningScenario:
    found: ToolReasoningScenario = task.hidden
    return found


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_query_finds_its_passage_and_the_passage_says_what_it_should(split: str) -> None:
    for task in asked(split):
        world = task.data.world
        texts = {passage.id: passage.text for passage in number_world(split, world).corpus.passages}
        hidden = scenario(task)
        for query, support, found in zip(hidden.queries, hidden.support, hidden.found, strict=True):
            assert support in searcher(split, world)(query), (query, support)
            assert re.search(rf"(?<!\w){re.escape(found)}(?!\w)", texts[support])
            assert found not in query


def test_every_query_asks_for_a_name_of_the_question_or_one_found_before() -> None:
    for task in asked("train"):
        known = task.question
        for query, found in zip(scenario(task).queries, scenario(task).found, strict=True):
            name = next(start for end in range(len(query), 0, -1) if (start := query[:end]) and start in known)
            assert len(name.split()) >= 1 and name[0].isupper() and len(name) >= 5, (query, known)
            known += f" {found}"


def _direction(question: str) -> str:
    rows = [row for rows in wordings()["figures"].values() for row in rows]
    pairs = [(way, text) for row in rows for way in ("first", "last") for text in row[way]]
    years = [relation for kind in kinds().values() for relation in kind.relations if relation.value == "year"]
    pairs += [(way, text) for relation in years for way in ("first", "last") for text in getattr(relation, way)]
    ways = {
        way
        for way, text in pairs
        if re.fullmatch(re.escape(text).replace(r"\{a\}", ".+").replace(r"\{b\}", ".+"), question)
    }
    assert len(ways) == 1, question
    return ways.pop()


def test_comparisons_are_won_by_the_side_that_the_question_asks_for() -> None:
    compared = [task for task in asked("train") if task.data.kind == "comparison"]
    assert len(compared) == 20
    for task in compared:
        hidden = scenario(task)
        sides = [place for place, found in enumerate(hidden.found) if found.isdigit()]
        assert len(sides) == 2 and sides[1] == len(hidden.found) - 1
        values = {int(hidden.found[place]): hidden.found[place - 1] for place in sides}
        assert len(values) == 2
        wanted = min(values) if _direction(task.question) == "first" else max(values)
        assert values[wanted] == hidden.answer == task.gold[0]
        assert not any(name in task.question for name in values.values())


def test_chains_end_in_their_answer_and_do_not_give_it_away() -> None:
    chained = [task for task in asked("train") if task.data.kind == "chain"]
    assert len(chained) == 30
    for task in chained:
        texts = {passage.id: passage.text for passage in number_world("train", task.data.world).corpus.passages}
        hidden = scenario(task)
        assert hidden.found[-1] == hidden.answer == task.gold[0]
        assert hidden.answer not in task.question
        early = set(hidden.support[:-1])
        assert not any(hidden.answer in texts[passage] for passage in early)


@cache
def world() -> NumberWorld:
    return number_world("train", 5)


def test_the_first_passages_are_those_of_search_qa() -> None:
    passages = world().corpus.passages
    plain = get_world(WorldConfig(), "train", 5).corpus.passages
    assert passages[: len(plain)] == plain
    sheets = passages[len(plain) :]
    assert len(plain) == 300 and len(sheets) == 210
    assert [sheet.id for sheet in sheets[:2]] == ["f-0000", "f-0001"]
    assert all(sheet.title.endswith(": figures") and 20 <= len(sheet.text.split()) <= 70 for sheet in sheets)
    assert world().corpus.passages is passages and number_world("test", 5).corpus.passages != passages


def test_sheets_hold_the_figures_of_their_entity_within_bounds() -> None:
    table = wordings()["figures"]
    assert set(table) == set(kinds()) - {"person"}
    seen = {kind: 0 for kind in table}
    for passage in world().corpus.passages:
        if passage.id.startswith("f-"):
            numbers = [int(number) for number in re.findall(r"(?<!\w)\d+(?!\w)", passage.text)]
            fitting = [
                kind
                for kind, rows in table.items()
                if len(numbers) == len(rows)
                and all(any(row["low"] <= number <= row["high"] for row in rows) for number in numbers)
            ]
            assert fitting, passage.text
            seen[fitting[0]] += 1
    assert sum(seen.values()) == 210


def test_wordings_are_complete() -> None:
    table = wordings()
    for rows in table["figures"].values():
        for row in rows:
            assert all(len(set(row[name])) >= 2 for name in ("says", "nouns", "asks", "first", "last"))
            assert all("{s}" in text and "{v}" in text for text in row["says"])
            assert all("{x}" in text for text in (*row["nouns"], *row["asks"]))
            assert all("{a}" in text and "{b}" in text for text in (*row["first"], *row["last"]))
    for kind, years in table["years"].items():
        known = {relation.name for relation in kinds()[kind].relations if relation.value == "year"}
        assert set(years) == known
    assert set(table["letters"]) == {"whole", "sum", "rest", "gap"}


def test_links_lead_to_what_a_document_names_and_back_from_its_figures() -> None:
    titles = {passage.id: passage.title for passage in world().corpus.passages}
    linked = 0
    for passage in world().corpus.passages:
        found = world().links(passage.id)
        assert len({link.doc_id for link in found}) == len(found)
        for link in found:
            assert titles[link.doc_id] == link.title and link.doc_id != passage.id
            if passage.id.startswith("f-"):
                assert world().links(link.doc_id)[-1].doc_id == passage.id
            elif not link.doc_id.startswith("f-"):
                assert link.title.partition(" (")[0] in passage.text
        named = [link for link in found if not link.doc_id.startswith("f-")]
        places = [passage.text.find(link.title.partition(" (")[0]) for link in named]
        assert places == sorted(places)
        linked += len(found)
    assert linked > 1_200


def test_all_names_of_a_page_are_linked() -> None:
    """A page leads to every entity that it names, itself left out."""
    passages = [passage for passage in world().corpus.passages if passage.id.startswith("w-")]
    people = {
        passage.title: passage.id
        for passage in passages
        if len(passage.title.split()) == 2 and "(" not in passage.title
    }
    for passage in passages:
        found = {link.doc_id for link in world().links(passage.id)}
        for title, doc_id in people.items():
            if doc_id != passage.id and re.search(rf"(?<!\w){re.escape(title)}(?!\w)", passage.text):
                assert doc_id in found, (title, passage.text)


def test_an_unknown_document_is_a_key_error() -> None:
    source = MathWorldSource()
    task = source.get("train", 5)
    assert source.links(task, "w-0000") == world().links("w-0000")
    for doc_id in ("w-9999", "", "f-0210"):
        with pytest.raises(KeyError):
            source.links(task, doc_id)
