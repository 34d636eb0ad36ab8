"""The fact world: honest questions, solvable step by step and not in one look, the same in every process."""

import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import bm25s
import pytest

from agent_envs.base.serialization import digest
from agent_envs.datasets.world import World, WorldConfig, WorldQuestion, build_world, closed_vocabulary, get_world
from tests.fresh_process import printed

DEFAULT = WorldConfig()
TINY = WorldConfig(vocabulary="closed", short=True)
BLANKS = WorldConfig(unanswerable=0.25)
TINY_BLANKS = WorldConfig(vocabulary="closed", short=True, unanswerable=0.25)
CONFIGS = {"default": DEFAULT, "tiny": TINY, "blanks": BLANKS, "tiny blanks": TINY_BLANKS}
STOP = frozenset("a an and as at by for has have in is it its of on that the to was".split())


@cache
def worlds(config: WorldConfig, split: str = "test", count: int = 8) -> tuple[World, ...]:
    return tuple(build_world(config, split, index) for index in range(count))


def fingerprint(world: World) -> str:
    rows = [
        [q.text, q.answers, q.hops, q.kind, q.support, [[s.query, s.answer] for s in q.steps]] for q in world.questions
    ]
    return digest([world.corpus.digest, rows])


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP]


def searcher(world: World, with_titles: bool = True) -> Callable[[str], list[str]]:
    """Return a function from a query to the ids of the first three passages, by an independent BM25."""
    texts = [f"{passage.title if with_titles else ''} {passage.text}" for passage in world.corpus.passages]
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index([words(text) for text in texts], show_progress=False)

    def search(query: str) -> list[str]:
        scores = index.get_scores([word for word in words(query) if word in index.vocab_dict])
        rows = sorted(range(len(texts)), key=lambda row: -scores[row])
        return [world.corpus[row].id for row in rows[:3]]

    return search


def text_of(world: World, passage_id: str) -> str:
    return world.corpus[world.corpus.row(passage_id)].text


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_every_step_finds_its_passage_and_the_passage_its_answer(config: WorldConfig) -> None:
    for world in worlds(config):
        search = searcher(world)
        for question in world.questions:
            assert question.support == tuple(step.passage_id for step in question.steps)
            assert len(question.steps) == question.hops
            for step in question.steps:
                assert step.passage_id in search(step.query), (question, step)
                assert step.answer not in step.query
            stated = question.steps[:-1] if question.kind == "unanswerable" else question.steps
            assert all(step.answer in text_of(world, step.passage_id) for step in stated)


@pytest.mark.parametrize("config", [DEFAULT, TINY], ids=["default", "tiny"])
def test_steps_also_work_for_a_retriever_that_sees_no_titles(config: WorldConfig) -> None:
    for world in worlds(config):
        search = searcher(world, with_titles=False)
        assert all(step.passage_id in search(step.query) for question in world.questions for step in question.steps)


@pytest.mark.parametrize("config", [DEFAULT, TINY], ids=["default", "tiny"])
def test_one_retrieval_with_the_question_is_not_enough(config: WorldConfig) -> None:
    seen: dict[int, list[bool]] = {}
    for world in worlds(config):
        search = searcher(world)
        for question in world.questions:
            if question.kind == "bridge":
                texts = [text_of(world, passage_id).lower() for passage_id in search(question.text)]
                hit = any(answer.lower() in text for answer in question.answers for text in texts)
                seen.setdefault(question.hops, []).append(hit)
    shares = {hops: sum(hits) / len(hits) for hops, hits in seen.items()}
    assert shares[1] > 0.8  # a look-up is enough where one hop is needed
    assert shares[2] < 0.3 and shares[3] < 0.2 and shares[4] < 0.2, shares


def test_the_answer_of_a_chain_stands_in_no_earlier_passage_and_not_in_the_question() -> None:
    for world in worlds(DEFAULT):
        for question in world.questions:
            if question.kind == "bridge":
                assert question.steps[-1].answer == question.answers[0]
                assert not any(answer in question.text for answer in question.answers)
                assert not any(question.answers[0] in text_of(world, row) for row in question.support[:-1])


EARLY = ("first", "earlier", "older", "elder", "longer")
LATE = ("last", "later", "younger", "junior", "shorter", "recent")


def expected_comparison(question: WorldQuestion) -> str:
    """Work a comparison's answer out from its wording and its steps."""
    half = question.hops // 2
    left, right = question.steps[half - 1].answer, question.steps[-1].answer
    if question.answers[0] in ("yes", "no"):
        return "yes" if left == right else "no"
    gap = int(left) - int(right)
    if "many years" in question.text:
        return str(abs(gap))
    frame = question.text.split(",")[0].split()
    assert any(word in frame for word in EARLY) != any(word in frame for word in LATE), question.text
    takes_left = (gap < 0) == any(word in frame for word in EARLY)
    if question.hops == 4:
        return question.steps[0 if takes_left else 2].answer
    winner = question.steps[0 if takes_left else 1].query
    return question.answers[0] if winner.startswith(question.answers[0] + " ") else f"not {winner}"


def test_comparisons_follow_from_their_steps() -> None:
    answers: Counter[str] = Counter()
    for world in (*worlds(DEFAULT), *worlds(TINY)):
        for question in world.questions:
            if question.kind == "comparison":
                assert question.answers[0] == expected_comparison(question), question
                answers[question.answers[0]] += 1
    assert 0.4 < answers["yes"] / (answers["yes"] + answers["no"]) < 0.6


@pytest.mark.parametrize("config", [DEFAULT, TINY], ids=["default", "tiny"])
def test_texts_are_distinct_and_a_lookup_has_one_answer(config: WorldConfig) -> None:
    for world in worlds(config):
        texts = [question.text for question in world.questions]
        assert len(set(texts)) == len(texts) == config.questions_per_world
        assert all(text.endswith("?") for text in texts)
        found: dict[str, tuple[str, str]] = {}
        for question in world.questions:
            for step in question.steps:
                value = (step.passage_id, step.answer)
                assert found.setdefault(step.query, value) == value
        cells = Counter((question.kind, question.hops) for question in world.questions)
        assert set(cells) == {
            ("bridge", 1),
            ("bridge", 2),
            ("bridge", 3),
            ("bridge", 4),
            ("comparison", 2),
            ("comparison", 4),
        }
        assert max(cells.values()) - min(cells.values()) <= 1


def test_passages_have_the_promised_length_and_start_with_their_name() -> None:
    for config, low, high in ((DEFAULT, 30, 80), (BLANKS, 30, 80), (TINY, 8, 20), (WorldConfig(short=True), 8, 20)):
        for world in worlds(config):
            assert len(world.corpus) == config.passages
            for row, passage in enumerate(world.corpus.passages):
                assert low <= len(passage.text.split()) <= high, passage.text
                assert passage.text.startswith(re.sub(r" \(\w+\)$", "", passage.title))
                assert passage.id == f"w-{row:04d}"


def test_distractors_share_names_as_much_as_asked() -> None:
    def shared(distractors: float) -> tuple[int, int]:
        titles = [
            p.title for world in worlds(WorldConfig(distractors=distractors), count=4) for p in world.corpus.passages
        ]
        stems = Counter(title.split()[0] for title in titles)
        return sum(title.endswith(")") for title in titles), sum(count - 1 for count in stems.values())

    none, full = shared(0.0), shared(1.0)
    assert none[0] == 0 and full[0] > 40
    assert full[1] > 1.5 * none[1]


def test_paraphrases_avoid_the_plain_wording() -> None:
    plain, free = WorldConfig(paraphrase=False), WorldConfig(paraphrase=True)

    def openings(config: WorldConfig) -> set[str]:
        rows = [question.text for world in worlds(config) for question in world.questions if question.hops == 1]
        return {" ".join(re.findall(r"\b[a-z]+\b", text)) for text in rows}

    assert 1.5 * len(openings(plain)) < len(openings(free))
    assert not openings(plain) & openings(free)


@pytest.mark.parametrize("config", [BLANKS, TINY_BLANKS], ids=["open", "closed"])
def test_unanswerable_questions_have_their_share_and_no_answer_anywhere(config: WorldConfig) -> None:
    for world in worlds(config):
        blank = [question for question in world.questions if question.kind == "unanswerable"]
        assert len(blank) == round(0.25 * config.questions_per_world)
        everything = "\n".join(f"{passage.title}\n{passage.text}" for passage in world.corpus.passages)
        for question in blank:
            assert question.answers == ("unanswerable", "unknown")
            assert question.steps[-1].answer == "unanswerable"
            assert question.hidden and question.hidden not in everything
        assert all(not question.hidden for question in world.questions if question.kind != "unanswerable")
        assert {question.hops for question in blank} == {1, 2, 3, 4}


def test_worlds_of_other_splits_and_indices_share_next_to_nothing() -> None:
    several = [build_world(DEFAULT, split, index) for split in ("train", "dev", "test") for index in range(3)]
    titles = [{passage.title for passage in world.corpus.passages} for world in several]
    questions = Counter(question.text for world in several for question in world.questions)
    assert max(questions.values()) == 1
    assert all(len(one & other) <= 3 for row, one in enumerate(titles) for other in titles[:row])
    assert len({world.corpus.digest for world in several}) == len({world.seed for world in several}) == len(several)


PROGRAM = """
from tests.datasets.test_world import CONFIGS, fingerprint
from agent_envs.datasets.world import build_world
print([fingerprint(build_world(config, "dev", 5)) for config in CONFIGS.values()])
"""


def test_the_same_world_in_every_process() -> None:
    here = [fingerprint(build_world(config, "dev", 5)) for config in CONFIGS.values()]
    assert printed(PROGRAM) == f"{here}\n"


def test_get_world_is_build_world_from_any_thread() -> None:
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda row: get_world(TINY, "train", row % 3), range(12)))
    assert [fingerprint(world) for world in built[:3]] == [
        fingerprint(build_world(TINY, "train", row)) for row in range(3)
    ]
    assert [world.seed for world in built] == [built[row % 3].seed for row in range(12)]
    assert get_world(TINY, "train", 0) is get_world(WorldConfig(vocabulary="closed", short=True), "train", 0)


def test_closed_worlds_speak_from_a_bounded_list() -> None:
    vocabulary = set(closed_vocabulary())
    assert len(vocabulary) == len(closed_vocabulary()) <= 1200
    variants = (
        TINY,
        TINY_BLANKS,
        WorldConfig(vocabulary="closed", passages=500, distractors=1.0),
        WorldConfig(vocabulary="closed", paraphrase=False),
    )
    for number in range(20):
        world = build_world(variants[number % 4], ("train", "dev", "test")[number % 3], number)
        texts = [part for passage in world.corpus.passages for part in (passage.title, passage.text)]
        texts += [part for question in world.questions for part in (question.text, *question.answers)]
        texts += [step.query for question in world.questions for step in question.steps]
        assert {word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())} <= vocabulary
