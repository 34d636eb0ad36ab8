"""GSM8K: what is traceable, what is not, and that every rescaled problem is calculated right."""

import ast
import json
import random
import re
from fractions import Fraction
from pathlib import Path

import pytest

from agent_envs.base.errors import DataMissing, UsageError
from agent_envs.base.serialization import sha256_file
from agent_envs.datasets.calculation_trees import Chain, parse, render, values
from agent_envs.datasets.catalogue import PROBLEMS, download_path, find_problems, problem_splits, record_sha256
from agent_envs.datasets.gsm8k import load_gsm8k, rescale, traceable
from agent_envs.datasets.listing import data_paths, data_rows
from agent_envs.datasets.word_problems import RESULT_LIMIT
from tests.rows import each_row

NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|\d+")
QUESTION = "Ann has 40 cups. She buys 6 boxes of 15 cups each. How many cups has she got?"
SOLUTION = "6*15=<<6*15=90>>90\n40+90=<<40+90=130>>130\n#### 130"


def calculated(text: str) -> Fraction:
    """Calculate with Python's own parser."""

    def walk(node: ast.AST) -> Fraction:
        if isinstance(node, ast.Constant):
            return Fraction(node.value)
        assert isinstance(node, ast.BinOp)
        a, b = walk(node.left), walk(node.right)
        if isinstance(node.op, ast.Add):
            return a + b
        if isinstance(node.op, ast.Sub):
            return a - b
        return a * b if isinstance(node.op, ast.Mult) else a / b

    return walk(ast.parse(text, mode="eval").body)


def shape(text: str) -> str:
    return re.sub(r"\d+", "#", NUMBER.sub("#", text))


def test_a_row_that_is_traceable() -> None:
    chain = traceable({"question": QUESTION, "answer": SOLUTION}, "gsm8k-test-0")
    assert chain is not None
    assert (chain.numbers, chain.answer, chain.id) == ((40, 6, 15), 130, "gsm8k-test-0")
    assert [QUESTION[start:end] for start, end in chain.places] == ["40", "6", "15"]
    assert chain.trees == (("*", 1, 2), ("+", 0, 3))
    problem = rescale(chain, random.Random("a"))
    a, b, c = map(int, problem.numbers)
    assert problem.question == QUESTION.replace("40", str(a)).replace(" 6 ", f" {b} ").replace("15", str(c))
    assert problem.steps == (f"{b}*{c}", f"{a}+{b * c}")
    assert problem.answer == str(a + b * c) and problem.kind == "gsm8k"


def row(question: str, *steps: str, final: str = "") -> dict[str, object]:
    final = final or steps[-1].rpartition("=")[2]
    return {"question": question, "answer": "".join(f"<<{step}>>\n" for step in steps) + f"#### {final}"}


@each_row(
    "bad",
    [
        row("Ann has 40 cups and 15 pens.", "40+15=56"),
        row("Ann has 40 cups and 15 pens.", "40+15=55", final="54"),
        row("Ann has 40 cups and 15 pens.", "40+15=55", final="5,5"),
        row("Ann has 40 cups and 15 pens.", "40+15+3=58"),
        row("Ann has 40 cups, 15 pens and 9 caps.", "40+15=55"),
        row("Ann has 40 cups and 40 pens.", "40+40=80"),
        row("Ann has 40 cups and half of 2 pies.", "40*2=80"),
        row("Ann works 7 days a week for 40 dollars.", "40*7=280"),
        row("Ann has 40 cups, 20% of them red.", "40*20=800"),
        row("Ann has 40.5 cups and 3 pens.", "40*3=120"),
        row("At 4:30 Ann had 40 cups.", "4+30=34", "34+40=74"),
        row("In 1998 Ann had 40 cups.", "1998+40=2038"),
        row("On the 4th day Ann had 40 cups.", "4*40=160"),
        row("Ann has 40 to 50 cups; the maximum counts.", "40+50=90"),
        row("Of 55 things 40 are cups and 15 pens; each costs 3.", "40+15=55", "55*3=165"),
        row("Ann fills 3 bags with 2 cups each, 6 pens and 90 caps.", "3*2=6", "90/6=15", "15+6=21"),
        row("Ann has 15 cups and 40 pens.", "15-40=-25"),
        row("Ann has 15 cups and 40 pens.", "40/15=2.67"),
        row("Ann has 15 cups and 40 pens.", "__import__('os')=55"),
        {"question": "Ann has 40 cups and 15 pens.", "answer": "55"},
        {"question": None, "answer": "#### 55"},
        {},
    ],
)
def test_rows_that_are_left_out(bad: dict[str, object]) -> None:
    assert traceable(bad) is None


def test_an_unused_first_result_is_left_out() -> None:
    assert traceable(row("Ann has 40 cups and 15 pens.", "40-15=25", "40+15=55")) is None


@each_row("text", ["", "(", "1+", "1++2", "-3", "2 3", "(1+2", "1)", "2**3", "1e5", "x", "1" * 300])
def test_no_arithmetic(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


@each_row("text", ["1-(2-3)", "8/(4/2)", "(1+2)*3", "1+2*3", "8/4/2", "1-2-3", "2*(3*4)", "(8-2)/(3-1)"])
def test_arithmetic_is_read_and_written(text: str) -> None:
    tree, operands = parse(text)
    assert values(tree, operands, []) == calculated(text)
    assert render(tree, [str(operand) for operand in operands]) == text


def check(chain: Chain, k: int, published: list[str]) -> bool:
    """Recalculate one rescaled problem; tell whether any number changed."""
    problem = rescale(chain, random.Random(f"{chain.id}-{k}"))
    found = [text.replace(",", "") for text in NUMBER.findall(problem.question)]
    assert found == list(problem.numbers)
    assert shape(problem.question) == shape(chain.question)
    numbers = [int(text) for text in found]
    assert max(numbers) <= max(10**6 - 1, *chain.numbers)
    ranks = sorted(range(len(numbers)), key=numbers.__getitem__)
    assert ranks == sorted(range(len(numbers)), key=chain.numbers.__getitem__)
    assert len(set(numbers)) == len(numbers)
    # The published annotations, with their numbers replaced, are the steps.
    assert [re.sub(r"[()\s]|\d+", "", step) for step in problem.steps] == published
    known = {*problem.numbers}
    used: set[str] = set()
    for step in problem.steps:
        operands = set(re.findall(r"\d+", step))
        assert operands <= known, (chain.id, step)
        used |= operands
        result = calculated(step)
        assert result.denominator == 1 and 0 < result < RESULT_LIMIT
        known.add(str(result))
    assert set(problem.numbers) <= used
    assert str(result) == problem.answer
    return tuple(numbers) != chain.numbers


@pytest.mark.data
@pytest.mark.parametrize(("split", "count"), [("train", 832), ("test", 142)])
def test_every_traceable_problem_is_rescaled_right(split: str, count: int) -> None:
    chains = load_gsm8k(split)
    assert chains is load_gsm8k(split)
    assert len(chains) == count == len({chain.id for chain in chains})
    rows = [json.loads(line) for line in find_problems("gsm8k", split).read_text().splitlines()]
    changed = 0
    for chain in chains:
        source = rows[int(chain.id.rpartition("-")[2])]
        assert chain.question == source["question"]
        assert chain.answer == int(source["answer"].rpartition("####")[2].replace(",", ""))
        published = [
            re.sub(r"[()\s]|[\d.]+", "", text.rpartition("=")[0]) for text in re.findall(r"<<(.*?)>>", source["answer"])
        ]
        operands = [Fraction(number) for number in chain.numbers]
        for tree in chain.trees:
            operands.append(values(tree, operands, []))
        assert operands[-1] == chain.answer
        changed += sum(check(chain, k, published) for k in range(3))
    assert changed > 0.99 * 3 * count


@pytest.mark.data
def test_rescalings_differ_and_repeat() -> None:
    chain = load_gsm8k("test")[0]
    problems = [rescale(chain, random.Random(f"k{k}")) for k in range(20)]
    assert len(set(problems)) > 15
    assert problems[3] == rescale(chain, random.Random("k3"))
    assert all(len(number) <= 3 for k in range(20) for number in rescale(chain, random.Random(k), digits=3).numbers)


@pytest.mark.data
def test_where_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = find_problems("gsm8k", "test")
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    assert find_problems("gsm8k", "test") == source and problem_splits("gsm8k") == ("train", "test")
    assert data_paths("gsm8k", "")[1] == source
    listed = {row["name"]: row for row in data_rows()}["gsm8k"]
    assert (listed["published"], listed["here"], listed["licence"]) == ("train 7,473, test 1,319",) * 2 + ("MIT",)
    cached = download_path("gsm8k", PROBLEMS["gsm8k"].files[1])
    cached.parent.mkdir(parents=True)
    cached.write_bytes(source.read_bytes())
    record_sha256(cached, sha256_file(cached))
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path / "empty"))
    assert find_problems("gsm8k", "test") == cached and problem_splits("gsm8k") == ("test",)
    assert len(load_gsm8k("test")) == 142


def test_what_is_missing_or_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AGENT_ENVS_DATA", str(tmp_path))
    with pytest.raises(DataMissing, match=r"Get it: agent-envs data get gsm8k --split train$"):
        load_gsm8k("train")
    with pytest.raises(DataMissing, match="agent-envs data get gsm8k --split test"):
        data_paths("gsm8k", "")
    with pytest.raises(UsageError, match="gsm8k has no split 'dev'; published: train, test"):
        load_gsm8k("dev")
    with pytest.raises(UsageError, match="problem set 'gsm9k' is unknown; known: gsm8k"):
        find_problems("gsm9k", "test")
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k" / "test.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="is not the published file: sha256"):
        load_gsm8k("test")
