"""math_world as a source: honest tasks, exact shares, disjoint splits, the same in every process."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.base.serialization import decode_state, encode_state, sha256_text
from agent_envs.core.trajectory import Task
from agent_envs.datasets.world.names import name_words
from agent_envs.envs.tool_reasoning.content import ToolReasoningData, ToolReasoningScenario, labels_of
from agent_envs.envs.tool_reasoning.math_world import KINDS, SIZES, MathWorldSource
from tests.fresh_process import printed
from tests.needs import needs
from tests.rows import each_row

RUN_ALL = """
import contextlib, io, json, sys
printed = []
for code in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    printed.append(out.getvalue().strip())
print(json.dumps(printed))
"""
ALLOWED_MODULES = {"math", "itertools", "functools", "collections", "datetime", "re"}
FINGERPRINT = """
from agent_envs.base.serialization import sha256_text
from agent_envs.envs.tool_reasoning.math_world import MathWorldSource
source = MathWorldSource()
print(sha256_text(" ".join(source.get(split, i).digest for split in source.splits for i in range(0, 200, 32))))
"""


WORLDS_TRIED = {"train": 4, "dev": 16, "test": 8}  # of the 32 that the tasks of a split are spread over


@cache
def tasks(split: str = "train") -> tuple[Task, ...]:
    """Tasks of few worlds, which take their time to build: 500 of train, 128 of dev, 256 of test."""
    source = MathWorldSource()
    return tuple(source.get(split, i) for i in range(source.size(split)) if i % 32 < WORLDS_TRIED[split])


@cache
def cycle() -> tuple[Task, ...]:
    return tuple(MathWorldSource().get("train", index) for index in range(125, 250))


def data(task: Task) -> ToolReasoningData:
    found: ToolReasoningData = task.data
    return found


def scenario(task: Task) -> ToolReasoningScenario:
    found: ToolReasoningScenario = task.hidden
    return found


def with_needs(*needs: str, split: str = "train") -> list[Task]:
    return [task for task in tasks(split) if data(task).needs in needs]


def test_code_run_in_a_process_of_its_own_prints_the_answer() -> None:
    asked = with_needs("python", "both")
    command = [sys.executable, "-I", "-c", RUN_ALL]
    codes = json.dumps([scenario(task).code for task in asked])
    done = subprocess.run(command, input=codes, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [task.gold[0] for task in asked]
    assert all(scenario(task).answer == task.gold[0] for task in asked)


@needs("[sandbox]")
def test_code_run_in_the_default_sandbox_prints_the_answer() -> None:
    from agent_envs.tools import sandbox

    with sandbox.open_sandbox() as first:
        for task in with_needs("python", "both")[:150]:
            with first.fork() as session:
                result = session.run(scenario(task).code)
            assert (result.status, result.stdout.strip()) == ("ok", task.gold[0]), (data(task), result)


def test_code_stays_in_the_subset_of_every_sandbox() -> None:
    forbidden = (ast.ClassDef, ast.Yield, ast.YieldFrom, ast.Delete, ast.Await, ast.Global)
    for task in with_needs("python", "both"):
        tree = ast.parse(scenario(task).code)
        assert not any(isinstance(node, forbidden) for node in ast.walk(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert node.module in ALLOWED_MODULES and "*" not in {name.name for name in node.names}
            assert not isinstance(node, ast.Import)


def test_only_what_needs_code_has_code_and_only_what_needs_a_search_has_queries() -> None:
    for task in tasks():
        needs, hidden = data(task).needs, scenario(task)
        assert bool(hidden.code) == (needs != "search")
        assert len(hidden.queries) == len(hidden.support) == len(hidden.found)
        assert len(hidden.queries) == (0 if needs == "python" else int(data(task).level))


def test_facts_of_a_calculation_stand_in_its_code_and_not_in_its_question() -> None:
    for task in with_needs("both"):
        hidden = scenario(task)
        letters = [line for line in hidden.code.splitlines() if re.match(r"[PQR] = ", line)]
        used = set(re.findall(r"\d+", " ".join(letters)))
        figures = [found for found in hidden.found if found.isdigit()]
        assert figures and set(figures) <= used
        # A number of four digits or more does not come up by chance.
        assert not any(len(figure) > 4 and figure in task.question for figure in figures)


def test_letters_of_a_question_are_explained_and_used() -> None:
    for task in with_needs("both"):
        letters = re.findall(r"^([PQR]) = ", scenario(task).code, flags=re.MULTILINE)
        assert letters == list("PQR")[: len(letters)] and letters
        assert all(len(re.findall(rf"(?<![A-Za-z]){letter}(?![A-Za-z])", task.question)) >= 2 for letter in letters)


def test_shares_are_exact_in_every_125_tasks() -> None:
    rows = [data(task) for task in cycle()]
    assert Counter(row.needs for row in rows) == {"python": 50, "both": 50, "search": 25}
    assert Counter(row.subject for row in rows) == {name: 20 for name in KINDS} | {"facts": 25}
    assert Counter(row.level for row in rows) == dict.fromkeys("12345", 25)
    cells = Counter((row.needs, row.subject, row.level) for row in rows)
    assert set(cells.values()) == {2, 5} and len(cells) == 55


def test_levels_get_harder_in_every_subject() -> None:
    for kind in ("python", "both"):
        for subject in KINDS:
            rows = [data(task) for split in SIZES for task in tasks(split) if data(task).subject == subject]
            steps = {level: [row.steps for row in rows if (row.needs, row.level) == (kind, level)] for level in "12345"}
            means = [sum(found) / len(found) for found in steps.values()]
            assert means[0] < means[2] < means[4] and means[1] < means[3], (kind, subject, means)
    assert {(data(task).level, data(task).steps) for task in with_needs("search")} == {(str(n), n) for n in range(1, 6)}


def test_splits_share_no_question_and_no_calculation() -> None:
    questions = [{task.question for task in tasks(split)} for split in SIZES]
    codes = [{scenario(task).code for task in with_needs("python", "both", split=split)} for split in SIZES]
    for rows in (questions, codes):
        assert not rows[0] & rows[1] and not rows[0] & rows[2] and not rows[1] & rows[2]
    assert all(len(found) >= 0.98 * len(tasks(split)) for found, split in zip(questions, SIZES, strict=True))


def test_names_of_one_splits_worlds_are_no_others() -> None:
    names = []
    for split in SIZES:
        queries = " ".join(
            query for task in with_needs("both", "search", split=split) for query in scenario(task).queries
        )
        names.append(set(re.findall(r"\b[A-Z]\w+", queries)) - {word.capitalize() for word in name_words()})
    assert all(len(found) > 200 for found in names)
    assert len(names[0] & names[1]) + len(names[0] & names[2]) + len(names[1] & names[2]) <= 5  # short ones, by chance


def test_questions_are_worded_in_many_ways() -> None:
    for kinds in KINDS.values():
        for kind in kinds:
            texts = [re.split(r"[{}]", wording)[0] or wording.split("{")[-1] for wording in kind.wordings]
            found = {
                number
                for split in SIZES
                for task in tasks(split)
                if data(task).kind == kind.name
                for number, text in enumerate(texts)
                if text in task.question
            }
            assert len(found) >= 2, kind.name
    starts = Counter(" ".join(task.question.split()[:2]) for task in with_needs("both"))
    assert len(starts) >= 12


def test_ids_and_indices_name_the_same_tasks() -> None:
    source = MathWorldSource()
    for index in (0, 7, 124, 3_999, 4_000, 1_000_000):
        task = source.get("train", index)
        assert task.id == f"math_world-train-{index}" and source.get("train", task.id) is task
        assert decode_state(encode_state(task.hidden)) == task.hidden
    assert source.get("test", 3).id == "math_world-test-3"
    assert [source.size(split) for split in source.splits] == [4_000, 250, 1_000]


@each_row(
    "key",
    ["math_world-test-0", "math_world-train-", "math_world-train-00", "math_world-train--1", "math_world-train-1.0",
     "math_world-train-٣", "math_world-train-" + "9" * 30, "", "x" * 100_000, -1, True, 10**30, 10**5_000],
)  # fmt: skip
def test_other_keys_are_key_errors(key: int | str) -> None:
    with pytest.raises(KeyError):
        MathWorldSource().get("train", key)


def test_an_unknown_split_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        MathWorldSource().get("valid", 0)


def test_worlds_change_with_the_index_and_are_clusters() -> None:
    source = MathWorldSource()
    assert [data(source.get("test", index)).world for index in (0, 31, 32, 999, 1_000, 1_033)] == [0, 31, 0, 7, 40, 41]
    for task in cycle()[:40]:
        world = f"math_world-train-world-{data(task).world}"
        assert task.cluster == (task.id if data(task).needs == "python" else world)
        corpus = source.corpus(task)
        assert corpus is not None and data(task).searched == corpus.digest


def test_a_choice_counts_through_what_it_keeps_and_keeps_the_ids() -> None:
    both = MathWorldSource(needs=["both"], levels=[3, "5"])
    assert [both.size(split) for split in both.splits] == [640, 40, 160]
    found = [both.get("train", index) for index in range(25)]
    assert all(data(task).needs == "both" and data(task).level in ("3", "5") for task in found)
    assert len({task.id for task in found}) == 25
    assert found[7] is both.get("train", found[7].id) is MathWorldSource().get("train", found[7].id)
    numbers = [int(task.id.rpartition("-")[2]) for task in found]
    assert numbers == sorted(numbers) and numbers[20] == numbers[0] + 125
    with pytest.raises(KeyError):
        both.get("train", "math_world-train-0")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"needs": ["tools"]}, "give a list of some of: python, search, both"),
        ({"needs": "both"}, "needs='both' is not possible"),
        ({"levels": [6]}, "give a list of some of: 1, 2, 3, 4, 5"),
    ],
)
def test_choices_that_are_not_possible_say_what_is(arguments: dict[str, list[str]], complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        MathWorldSource(**arguments)


def test_labels_name_the_strata() -> None:
    assert labels_of(MathWorldSource().get("train", 1)) == {
        "tasks": "math_world", "subject": "number theory", "level": "2", "needs": "both",
    }  # fmt: skip


def test_tasks_are_the_same_in_other_processes() -> None:
    source = MathWorldSource()
    rows = [source.get(split, index).digest for split in source.splits for index in range(0, 200, 32)]
    assert printed(FINGERPRINT).strip() == sha256_text(" ".join(rows))


def test_tasks_are_those_that_results_were_measured_on() -> None:
    texts = "\n".join(f"{task.question}\t{task.gold}" for split in SIZES for task in tasks(split))
    assert sha256_text(texts)[:16] == "255454e5d05e0cfd"
