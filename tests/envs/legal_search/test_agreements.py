"""Generated agreements: every answer is found again from the texts alone, and the questions are what the knobs say."""

import os
import re
import subprocess
import sys
from collections import Counter
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import encode_state
from agent_envs.envs.legal_search.agreement_parts import wordings
from agent_envs.envs.legal_search.agreements import KINDS, AgreementsConfig, get_agreements
from agent_envs.envs.legal_search.arguments import make_source
from agent_envs.envs.legal_search.dates import MONTHS
from agent_envs.envs.legal_search.env import LegalSearch
from agent_envs.envs.legal_search.heuristic import NaiveRAG
from agent_envs.rollout.episode_runner import run_episode
from agent_envs.rollout.policy import CompanionPolicy
from agent_envs.tools.retrieval.build import make_retriever
from tests.cli.conftest import ROOT

WORLDS = [get_agreements(AgreementsConfig(), "dev", index) for index in range(6)]
PLAIN = [
    get_agreements(AgreementsConfig(paraphrase=False, questions_per_world=40), "test", index) for index in range(2)
]
DAY = rf"(\d+) ({'|'.join(MONTHS)}) (\d{{4}})"


def pattern(text, **fixed):
    """The regular expression of a wording: {n} is the figure, every other blank is anything."""
    parts = re.split(r"\{(\w+)\}", text)
    found = [re.escape(parts[0])]
    for name, tail in zip(parts[1::2], parts[2::2], strict=True):
        found += [fixed.get(name, r"([\w,]+)" if name == "n" else ".+?"), re.escape(tail)]
    return "".join(found)


class Reader:
    """Reads one agreement as a person would, from its text alone."""

    def __init__(self, library, code):
        self.sections = list(library.below(code))
        self.parties = re.search(r"between (.+) \(the .+?\) and (.+) \(the", self.sections[0].text).groups()

    def figure(self, item):
        """The figure of an item as amended, and the numbers of what states it; None where nothing does."""
        for section in self.sections:
            for wording in wordings()["items"][item]["clause"]:
                found = re.fullmatch(pattern(wording, cap=r"\d+\.\d+"), section.text)
                if found:
                    return self.amended(section.number, found[1].replace(",", ""))
        return None

    def amended(self, number, figure):
        for section in self.sections:
            if section.level == "amendment" and f"clause {number} " in section.text:
                new = re.search(r"replaced by ([\d,]+)\.|read with ([\d,]+) in place", section.text)
                return (new[1] or new[2]).replace(",", "")
        return figure

    def defined(self, term):
        return next((section.text for section in self.sections if section.text.startswith(f"“{term}”")), None)

    def charge(self):
        text = self.defined("Annual Charge")
        if text is None:
            return None
        part = re.search(r"Part ([ABC]) of Schedule 1", text)[1]
        text = next(section.text for section in self.sections if section.level == "part" and section.number == part)
        return int(re.search(r"\$([\d,]+)", text)[1].replace(",", ""))

    def value(self, item):
        """What an item comes to; None where it cannot be told."""
        figure = self.figure(item)
        if figure is None or item == "seat":
            return figure
        if item == "default_interest":
            text = self.defined("Reference Rate")
            return None if text is None else int(figure) + int(re.search(r"(\d+) per cent", text)[1])
        if item in ("delay", "cap", "secrecy_cap"):
            base = self.value("cap") if item == "secrecy_cap" else self.charge()
            if base is None:
                return None
            return base * int(figure) // (1 if item == "cap" else 100)
        return int(figure)


def readers(world):
    roots = [section.id for section in world.library.sections.values() if not section.parent]
    return [Reader(world.library, root) for root in roots]


def asked_item(question):
    for item, row in wordings()["items"].items():
        if any(re.search(pattern(ask) + "$", question.text, re.IGNORECASE) for ask in row["ask"]):
            return item
    return next(item for item, text in wordings()["compare"].items() if question.text.endswith(f"{text}?"))


def found_again(world, question):
    """The answer from the texts; None where they do not tell."""
    item = asked_item(question)
    able = [reader for reader in readers(world) if all(party in question.text for party in reader.parties)]
    if "which of" in question.text:
        values = {reader.parties[0]: reader.value(item) for reader in able if f"{reader.parties[0]}" in question.text}
        assert len(values) == 2
        return None if None in values.values() else max(values, key=values.get)
    (reader,) = able
    if item == "termination":
        day, month, year = re.search(DAY, question.text).groups()
        posted = date(int(year), MONTHS.index(month) + 1, int(day))
        waits = [reader.value("post"), reader.value("termination")]
        return None if None in waits else (posted + timedelta(days=sum(waits))).isoformat()
    value = reader.value(item)
    return None if value is None else str(value)


@pytest.mark.parametrize("world", [*WORLDS, *PLAIN], ids=lambda world: world.library.name)
def test_every_answer_is_found_again_from_the_texts(world):
    for question in world.questions:
        assert (found_again(world, question) in question.answers) == bool(question.answers), question.text
        assert question.answers or found_again(world, question) is None, question.text


def test_what_must_be_read_is_there_and_holds_the_answer_together():
    for world in WORLDS:
        for question in world.questions:
            sections = world.library.sections
            assert all(sections[place].text for place in question.support)
            assert set(question.citations) <= set(sections) and len(set(question.steps)) == len(question.support)
            assert [place for _, place in question.steps] == list(question.support)
            if question.answers:
                assert len(question.support) == question.reads <= 4 and question.citations
            else:
                assert len(question.support) < question.reads and question.citations == () == question.answers


def test_a_figure_that_was_replaced_is_no_proof():
    seen = 0
    for world in WORLDS:
        for question in world.questions:
            if question.kind == "amendment":
                clause, amendment = question.support
                assert question.citations == (amendment,)
                assert f"clause {world.library.read(clause).number} " in world.library.read(amendment).text
                assert question.answers[0] not in re.findall(r"\d+", world.library.read(clause).text.replace(",", ""))
                seen += 1
    assert seen > 3


def test_ids_hold_spaces_and_signs_and_nothing_that_ends_a_citation():
    names = list(WORLDS[0].library.sections)
    assert any(" § " in name for name in names) and any(", Part " in name for name in names)
    assert not any(set(name) & set(";]\n") for name in names)
    assert 230 < len(WORLDS[0].library.corpus) < 300


def test_all_kinds_and_reads_are_asked_and_the_standard_set_has_2300():
    source = make_source("agreements", None)
    assert {split: source.size(split) for split in source.splits} == {"train": 1700, "dev": 300, "test": 300}
    counts = Counter((question.kind, question.reads) for world in WORLDS for question in world.questions)
    assert {kind for kind, _ in counts} == {*KINDS, "unanswerable"} and {reads for _, reads in counts} == {1, 2, 3, 4}
    assert all(len(world.questions) == 20 for world in WORLDS)
    assert sum(not question.answers for world in WORLDS for question in world.questions) == 2 * len(WORLDS)


def test_index_and_id_name_the_same_task():
    source = make_source("agreements", None)

    @settings(max_examples=30, deadline=None)
    @given(st.sampled_from(source.splits), st.integers(0, 60))
    def holds(split, index):
        task = source.get(split, index)
        assert source.get(split, task.id) == task and task.split == split
        assert source.library(task).digest == task.data[-1]
        encode_state(task)

    holds()
    assert source.get("dev", 0).id == "agreements-dev-0-0" and source.get("dev", 15).id == "agreements-dev-0-1"
    assert source.get("dev", 301).id == "agreements-dev-16-0"
    bad = ["agreements-dev-0-20", "agreements-train-0-0", "agreements-dev-00-0", "agreements-dev-0-0 ", "dev-0-0", -1]
    for key in bad:
        with pytest.raises(KeyError):
            source.get("dev", key)


def test_splits_are_disjoint_and_questions_are_asked_once():
    source = make_source("agreements", None)
    texts = {split: [source.get(split, index).question for index in range(200)] for split in source.splits}
    assert len({text for rows in texts.values() for text in rows}) == 600


def test_worlds_do_not_depend_on_the_hash_seed():
    code = (
        "from agent_envs.envs.legal_search.arguments import make_source; s = make_source('agreements', None)\n"
        "print([s.get('train', index).digest for index in range(90)])"
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "LC_ALL": "C"},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1
    source = make_source("agreements", None)
    mine = [source.get("train", index).digest for index in range(90)]
    assert outputs == {f"{mine}\n".encode()}


@pytest.mark.parametrize(
    ("knobs", "kinds", "reads"),
    [
        ({"reads": (4,)}, {"cross_reference", "exception", "comparison", "deadline", "unanswerable"}, {4}),
        ({"kinds": ("deadline",)}, {"deadline", "unanswerable"}, {2, 3, 4}),
        (
            {"amendments": 0, "reads": [2, 1, 2]},
            {"lookup", "definition", "deadline", "comparison", "unanswerable"},
            {1, 2},
        ),
        ({"agreements": 2, "unanswerable": 0}, set(KINDS), {1, 2, 3, 4}),
        ({"unanswerable": 1}, {"unanswerable"}, {1, 2, 3, 4}),
    ],
)
def test_knobs(knobs, kinds, reads):
    config = AgreementsConfig(**knobs)
    questions = [question for index in range(4) for question in get_agreements(config, "dev", index).questions]
    assert {question.kind for question in questions} <= kinds and {question.reads for question in questions} <= reads
    assert len({question.text for question in questions}) == len(questions)


@pytest.mark.parametrize(
    "knobs",
    [
        {"agreements": 1},
        {"agreements": 13},
        {"amendments": True},
        {"reads": ()},
        {"reads": (5,)},
        {"kinds": "lookup"},
        {"kinds": ("riddle",)},
        {"unanswerable": 1.5},
        {"unanswerable": "no"},
        {"paraphrase": 0.5},
        {"questions_per_world": 0},
    ],
)
def test_bad_knobs_are_named(knobs):
    with pytest.raises(UsageError, match=f"AgreementsConfig: {next(iter(knobs))}="):
        AgreementsConfig(**knobs)


def test_kinds_and_reads_that_exclude_each_other():
    config = AgreementsConfig(kinds=("lookup",), reads=(4,))
    with pytest.raises(UsageError, match="no question of kinds"):
        get_agreements(config, "dev", 0)


def shares(world, count):
    """The share of questions for which BM25 finds all that must be read in five, and of the solver's steps."""
    source = make_source("agreements", world)
    whole, steps, engines = [], [], {}
    for index in range(count):
        task = source.get("dev", index)
        library = source.library(task)
        engine = engines.setdefault(library.digest, make_retriever("bm25", library.corpus))
        found = {hit.passage.id for hit in engine.search(task.question, 5)}
        whole += [set(task.hidden.gold_sections) <= found] if task.hidden.answerable else []
        for step in task.hidden.steps:
            steps.append(step.section in [hit.passage.id for hit in engine.search(step.query, 5)])
    return sum(whole) / len(whole), sum(steps) / len(steps)


def test_one_search_is_not_enough_and_paraphrase_is_why():
    whole, steps = shares(None, 300)
    assert whole <= 0.3 and steps == 1
    assert shares({"paraphrase": False}, 300)[0] > whole + 0.1


def test_the_solver_solves_all_and_naive_rag_few():
    env = LegalSearch(tasks="agreements", semantic="bm25")
    wins = Counter()
    for index in range(60):
        for name, policy in (("solver", CompanionPolicy("solver")), ("rag", NaiveRAG())):
            wins[name] += run_episode(env, policy, seed=0, task=index, split="dev").success
    assert wins["solver"] == 60 and wins["rag"] <= 24


def test_no_general_limit_answers_what_has_no_answer():
    """The limit of liability would cap a delay, or a leak, whose own clause was removed."""
    config = AgreementsConfig(unanswerable=1.0, kinds=("cross_reference", "exception"))
    worlds = [get_agreements(config, "dev", index) for index in range(12)]
    questions = [(world, question) for world in worlds for question in world.questions]
    assert len(questions) > 20
    for world, question in questions:
        (able,) = [reader for reader in readers(world) if all(party in question.text for party in reader.parties)]
        assert able.figure(asked_item(question)) is not None and able.defined("Annual Charge") is None


def test_texts_and_dates_are_sound_with_as_many_amendments_as_there_can_be():
    days = []
    for index in range(6):
        world = get_agreements(AgreementsConfig(amendments=12, questions_per_world=60), "dev", index)
        texts = [section.text for section in world.library.sections.values()]
        assert not [text for text in texts if re.search(r"\b1 (?:years|days|months|hours|percentage points)\b", text)]
        since = [row for text in texts if "clause" in text for row in re.findall(DAY, text)]
        posted = [re.search(DAY, question.text) for question in world.questions]
        days += [date(int(year), MONTHS.index(month) + 1, int(day)) for day, month, year in since]
        assert all(max(days) < date(int(row[3]), MONTHS.index(row[2]) + 1, int(row[1])) for row in posted if row)


def test_a_world_without_a_wanted_question_is_drawn_again():
    config = AgreementsConfig(agreements=2, amendments=12, kinds=("exception",), unanswerable=0)
    assert all(get_agreements(config, "dev", index).questions for index in range(12))
