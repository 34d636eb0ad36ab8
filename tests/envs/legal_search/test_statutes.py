"""Generated law: every answer follows from the texts that are named for it, can be found, and not in one look."""

import os
import re
import subprocess
import sys
from collections import Counter
from datetime import date
from functools import cache

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import digest
from agent_envs.envs.legal_search.dates import date_forms
from agent_envs.envs.legal_search.generated import WORLDS, GeneratedQuestion, GeneratedWorld
from agent_envs.envs.legal_search.questions import CELLS, KINDS
from agent_envs.envs.legal_search.statute_parts import jurisdiction, parts
from agent_envs.envs.legal_search.statutes import StatutesConfig, build_statutes, get_statutes
from agent_envs.envs.search_qa.env import information
from agent_envs.envs.search_qa.heuristic import guess
from agent_envs.grading.text_answers import exact_match, numeric_equal
from agent_envs.tools.retrieval.build import make_retriever
from tests.envs.legal_search.clerk import day_in, expected

DEFAULT = StatutesConfig()
PLAIN = StatutesConfig(paraphrase=0.0)
OTHER = StatutesConfig(paraphrase=1.0)


@cache
def laws(config: StatutesConfig, count: int = 15, split: str = "test") -> tuple[GeneratedWorld, ...]:
    return tuple(build_statutes(config, split, index) for index in range(count))


def cases(config: StatutesConfig) -> list[tuple[GeneratedWorld, GeneratedQuestion]]:
    return [(law, question) for law in laws(config) for question in law.questions]


def fingerprint(law: GeneratedWorld) -> str:
    rows = [[q.text, q.answers, q.kind, q.reads, q.support, q.citations, q.steps] for q in law.questions]
    return digest([law.library.digest, rows])


@pytest.mark.parametrize("config", [DEFAULT, PLAIN, OTHER], ids=["default", "plain", "other"])
def test_every_answer_follows_from_the_texts_it_rests_on(config: StatutesConfig) -> None:
    for law, question in cases(config):
        if question.kind != "unanswerable":
            answer = expected(law, question)
            compare = numeric_equal if question.metric == "numeric" else lambda one, gold: exact_match(one, [gold])
            assert any(compare(answer, gold) for gold in question.answers), (answer, question)


@pytest.mark.parametrize("config", [DEFAULT, PLAIN, OTHER], ids=["default", "plain", "other"])
def test_every_step_can_be_taken(config: StatutesConfig) -> None:
    """Its query finds the section, or a part of it, among five; or a section that was read names it."""
    for law, question in cases(config):
        bm25 = make_retriever("bm25", law.library.corpus)
        shown = ""
        for row, (query, section) in enumerate(question.steps):
            missing = question.kind == "unanswerable" and row == len(question.steps) - 1
            parts_of_it = {part.id for part in law.library.below(section)}
            if missing:
                assert query and not set(query.split()) & set(law.library.sections)
            elif query:
                assert parts_of_it & {hit.passage.id for hit in bm25.search(query, 5)}, (query, section)
                assert question.support[row] in parts_of_it
            else:
                assert f"§ {section}" in shown
                assert question.support[row] in parts_of_it
            shown += "\n".join(part.text for part in law.library.below(section))


def test_reads_and_kinds_are_spread_evenly() -> None:
    reads, kinds = Counter[int](), Counter[str]()
    for _, question in cases(DEFAULT):
        kinds[question.kind] += 1
        reads[question.reads] += question.kind != "unanswerable"
        assert question.reads == len({*question.steps}) or question.kind == "unanswerable"
    assert kinds["unanswerable"] == 30 and set(kinds) == {*KINDS, "unanswerable"}
    assert sum(reads.values()) == 270 and all(60 <= reads[number] <= 75 for number in (1, 2, 3, 4)), reads
    assert min(kinds.values()) >= 20, kinds


def test_a_removed_section_is_gone_and_only_then_a_question_has_no_answer() -> None:
    for law in laws(DEFAULT):
        assert len(law.removed) == 2
        kept = "\n".join(passage.text for passage in law.library.corpus.passages)
        for section in law.removed:
            assert section not in law.library.sections
        for question in law.questions:
            assert (question.kind == "unanswerable") == (not question.answers) == (not question.citations)
            assert not set(question.support) & set(law.removed)
        assert all(re.fullmatch(r"\d+:\d+-\d+", cited) for cited in re.findall(r"§ (\S*\d)", kept))


def test_what_is_cited_is_there_unless_it_was_removed() -> None:
    for law in laws(DEFAULT):
        for passage in law.library.corpus.passages:
            for cited in re.findall(r"§ (\d+:\d+-\d+)", passage.text):
                assert cited in law.library.sections or cited in law.removed


def naive_success(config: StatutesConfig, retriever: str = "bm25") -> float:
    right = 0
    for law, question in cases(config):
        hits = make_retriever(retriever, law.library.corpus).search(question.text, 5)
        answer = guess(question.text, information(hits, "search_r1", 20_000))
        right += exact_match(answer, question.answers) or any(numeric_equal(answer, gold) for gold in question.answers)
    return right / len(cases(config))


def test_one_retrieval_is_not_enough() -> None:
    assert naive_success(DEFAULT) <= 0.40
    assert naive_success(DEFAULT) < naive_success(PLAIN) <= 0.40


def test_one_retrieval_does_not_even_bring_all_that_must_be_read() -> None:
    complete: dict[int, list[bool]] = {}
    for law, question in cases(DEFAULT):
        hits = make_retriever("bm25", law.library.corpus).search(question.text, 5)
        found = {row.id for hit in hits for row in law.library.path(hit.passage.id)}
        sections = {section.partition(":(")[0] for section in question.support}
        complete.setdefault(question.reads, []).append(bool(question.answers) and sections <= found)
    shares = {reads: sum(rows) / len(rows) for reads, rows in complete.items()}
    assert shares[1] < 0.6 and max(shares[2], shares[3], shares[4]) < 0.15, shares
    assert sum(map(sum, complete.values())) / sum(map(len, complete.values())) <= 0.40


SHARED = frozenset("a an before by for in is it may of that the to who with without".split())


def test_questions_in_other_words_share_none_with_the_rule_they_ask_for() -> None:
    for kind in parts().rules:
        law = set(re.findall(r"[a-z]+", " ".join((kind.heading, *kind.says)).lower()))
        for text in (*kind.asks, kind.noun, kind.breach, kind.event, kind.act):
            shared = (set(re.findall(r"[a-z]+", text.lower())) & law) - SHARED
            assert not shared, (kind.key, text, shared)
    for activity in parts().activities:
        law = set(re.findall(r"[a-z]+", f"{activity.noun} {activity.heading} {activity.unit}".lower()))
        asked = set(re.findall(r"[a-z]+", f"{activity.who} {activity.has}".lower().replace("{n}", "")))
        assert not (asked & law) - SHARED, (activity.noun, asked & law)
        assert asked & set(activity.means.split()), activity.noun  # the definition says what the trade is


def test_worlds_differ_and_are_the_same_in_every_process() -> None:
    prints = [fingerprint(law) for law in laws(DEFAULT, 3)]
    assert len({*prints, *(fingerprint(law) for law in laws(DEFAULT, 3, "dev"))}) == 6
    code = "from tests.envs.legal_search.test_statutes import *\nprint(*[fingerprint(law) for law in laws(DEFAULT, 3)])"
    for seed in ("0", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.split() == prints


def test_names_are_of_one_split_and_one_world() -> None:
    names = {split: [jurisdiction(split, index) for index in range(4000)] for split in WORLDS}
    assert len({name for rows in names.values() for name in rows}) == 3 * 4000


def test_date_forms_are_what_people_write() -> None:
    forms = date_forms(date(2021, 5, 21))
    for text in (
        "21 May 2021",
        "May 21, 2021",
        "2021-05-21",
        "Friday 21 May 2021",
        "Friday, May 21, 2021",
        "May 21st 2021",
    ):
        assert exact_match(text, forms), text
    assert not exact_match("22 May 2021", forms) and not exact_match("Thursday 21 May 2021", forms)


@pytest.mark.parametrize(("kind", "reads"), [(kind, reads) for reads, kinds in CELLS.items() for kind in kinds])
@pytest.mark.parametrize("unanswerable", [0.0, 1.0])
def test_the_smallest_law_holds_every_kind_of_question(kind: str, reads: int, unanswerable: float) -> None:
    config = StatutesConfig(chapters=3, rules_per_chapter=6, reads=(reads,), kinds=(kind,), unanswerable=unanswerable)
    for index in range(4):
        questions = build_statutes(config, "dev", index).questions
        assert questions and {question.reads for question in questions} == {reads}
        assert {question.kind for question in questions} == {"unanswerable" if unanswerable else kind}


def test_large_laws_and_many_questions() -> None:
    config = StatutesConfig(chapters=30, rules_per_chapter=17, questions_per_world=100)
    law = build_statutes(config, "train", 0)
    assert len(law.questions) == 100 == len({question.text for question in law.questions})
    assert len(law.library) > 1200
    assert get_statutes(config, "train", 0) is get_statutes(config, "train", 0)
    assert len(build_statutes(StatutesConfig(questions_per_world=100), "train", 0).questions) == 100


@pytest.mark.parametrize(
    "wrong",
    [{"chapters": 2}, {"chapters": 31}, {"chapters": True}, {"chapters": 5.0}, {"rules_per_chapter": 5},
     {"rules_per_chapter": 18}, {"reads": ()}, {"reads": (5,)}, {"reads": 2}, {"reads": (True,)}, {"kinds": "lookup"},
     {"kinds": ("riddle",)}, {"paraphrase": -0.1}, {"paraphrase": 2}, {"paraphrase": True}, {"unanswerable": "all"},
     {"unanswerable": float("nan")}, {"questions_per_world": 0}, {"questions_per_world": 101},
     {"reads": (1,), "kinds": ("deadline",)}, {"reads": (4,), "kinds": ("exception",)}],
)  # fmt: skip
def test_impossible_knobs_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="StatutesConfig"):
        StatutesConfig(**wrong)


def test_equal_knobs_are_equal_configurations() -> None:
    assert StatutesConfig(reads=[2, 1, 2], kinds=("deadline", "lookup")) == StatutesConfig(
        reads=(1, 2), kinds=["lookup", "deadline", "lookup"]
    )


@pytest.mark.parametrize(("split", "index"), [("training", 0), ("test", -1), ("test", True), ("test", "0")])
def test_unknown_worlds_are_refused(split: str, index: object) -> None:
    with pytest.raises(UsageError, match="build_statutes"):
        build_statutes(DEFAULT, split, index)


def test_no_heading_tells_what_a_removed_amendment_said() -> None:
    config = StatutesConfig(kinds=("amendment",), reads=(2,), unanswerable=1.0, questions_per_world=10)
    seen = 0
    for law in laws(config):
        for question in law.questions:
            act = law.library.read(question.steps[-1][1])
            assert act.heading.startswith("Act of ") and day_in(act.heading) < day_in(question.text)
            seen += 1
    assert seen >= 30


def test_texts_are_english_and_a_share_changes_by_points() -> None:
    texts = [passage.text for law in laws(DEFAULT) for passage in law.library.corpus.passages]
    assert not [text for text in texts if re.search(r",,|,\.|  |\b1 (?:days|hours|months|years)\b", text)]
    changed = [text for text in texts if re.search(r"share named in § \S+,? (?:is )?(?:increased|reduced)", text)]
    assert changed and all("percentage points" in text for text in changed)


def test_what_was_replaced_and_what_names_no_amount_is_no_right_citation() -> None:
    seen = Counter[str]()
    for law, question in cases(DEFAULT):
        texts = {section: law.library.read(section).text for section in question.support}
        if question.kind == "amendment":
            base, amendment = question.support[:2]
            replaced = day_in(question.text) >= day_in(texts[amendment])
            assert (base in question.citations) is not replaced and amendment in question.citations
            seen["replaced" if replaced else "kept"] += 1
        if question.kind == "reference" and question.reads > 2:
            assert question.support[0] not in question.citations
            seen["fine"] += 1
    assert min(seen["replaced"], seen["kept"], seen["fine"]) > 3
