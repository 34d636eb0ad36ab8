"""Benchmarks from a corpus by a chat model: scripted models, kills, damaged and foreign journals, the command line."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from agent_envs.base.errors import BudgetSpent, EnvFault, UsageError
from agent_envs.base.jsonl_log import read_journal
from agent_envs.base.serialization import encode_state
from agent_envs.envs.legal_search.library import Section
from agent_envs.envs.legal_search.published import legal_source, load_library
from agent_envs.services.chat import ChatReply, ScriptedChat
from agent_envs.services.chat.prices import PriceTable
from benchmarks.make_qa import QAConfig, benchmark_rows, make_qa, recording_beside
from benchmarks.qa_candidates import Candidate, Picker, flaw, limited_chats
from tests.cli.conftest import ROOT
from tests.envs.legal_search.quizmaster import FIGURE, SHOWN, TOPICS, Quiz, model, said, write_nodes
from tests.services.chat.faulty import FaultyServer
from tests.services.chat.wire import OpenAIWire, Said

SMALL = QAConfig(count=12, reads=(1, 1, 2), unanswerable=0.0, concurrency=2)


@pytest.fixture
def corpus(tmp_path):
    return write_nodes(tmp_path / "nodes.jsonl")


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_benchmark_is_made_and_read_as_tasks(corpus, tmp_path):
    out = tmp_path / "qa.jsonl"
    quiz = Quiz()
    made = make_qa(str(corpus), model(quiz), out, SMALL)
    assert made.questions == 12 and set(made.fates) <= {"kept", "asked before"}
    assert made.attempts <= quiz.kinds.count("ask") <= made.attempts + 1
    source = legal_source(str(out))
    tasks = [source.get(split, index) for split in source.splits for index in range(source.size(split))]
    assert len(tasks) == 12 and sum(made.splits.values()) == 12
    library = source.library(tasks[0])
    assert library.digest == load_library(str(corpus)).digest
    for task in tasks:
        scenario = task.hidden
        assert scenario.metric == "numeric" and task.gold == (task.gold[0], f"{task.gold[0]} days")
        figures = [int(FIGURE.search(library.read(name).text)[1]) for name in scenario.gold_sections]
        assert int(task.gold[0]) == sum(figures)
        assert task.data[-1] == library.digest and scenario.answer_sections == scenario.gold_sections
        assert source.get(task.split, task.id) == task
        encode_state(task)


def test_splits_share_no_section_and_reads_follow_what_is_cited(corpus, tmp_path):
    out = tmp_path / "qa.jsonl"
    make_qa(str(corpus), model(), out, QAConfig(count=20, reads=(1, 2), unanswerable=0.0))
    owners = {}
    for row in rows_of(out)[1:]:
        for section in row["sections"]:
            assert owners.setdefault(section, row["split"]) == row["split"]
    assert {len(row["sections"]) for row in rows_of(out)[1:]} == {1, 2}
    picker = Picker(load_library(str(corpus)), 0, (2,))
    pairs = [picker.pick(place) for place in range(25)]
    assert any(second.number in base.text for base, second in (pair for pair in pairs if len(pair) == 2))
    assert set(picker.splits.values()) == {"train", "dev", "test"}
    assert all(len({picker.splits[section.id] for section in pair}) == 1 for pair in pairs)


def test_the_result_does_not_depend_on_concurrency(corpus, tmp_path):
    texts = set()
    for concurrency in (1, 3, 8):
        out = tmp_path / f"{concurrency}" / "qa.jsonl"
        out.parent.mkdir()
        make_qa(str(corpus), model(), out, QAConfig(count=9, unanswerable=0.2, concurrency=concurrency))
        texts.add(out.read_bytes())
    assert len(texts) == 1


def test_bad_questions_are_dropped_and_their_fate_is_told(corpus, tmp_path):
    picker = Picker(load_library(str(corpus)), 0, (1,))
    bases = [picker.pick(place)[0] for place in range(8)]
    good = dict(answer="red", sections=[bases[0].id])
    oddities = {
        bases[0].id: said(question=None),
        bases[1].id: "I would rather not.",
        bases[2].id: said(question="What does this section say?", answer="x", sections=[bases[2].id]),
        bases[3].id: said(question="Who has 7 days?", answer="7 days", sections=[bases[3].id]),
        bases[4].id: said(question="What colour is it?", **good),
        bases[5].id: said(question=bases[5].text, answer="blue", sections=[bases[5].id]),
        bases[6].id: said(question="What colour has the town hall?", answer="blue", sections=[bases[6].id]),
        bases[7].id: said(question="How long?", answer=" ".join(["word"] * 30), sections=[bases[7].id]),
    }
    out = tmp_path / "qa.jsonl"
    made = make_qa(str(corpus), model(Quiz(oddities)), out, QAConfig(count=5, reads=(1,), unanswerable=0.0))
    assert made.questions == 5 and made.fates == {
        "kept": 5,
        "no question": 1,
        "unreadable": 1,
        "the question points at the text": 1,
        "the question holds the answer": 1,
        "sections that were not shown": 1,
        "the question quotes the text": 1,
        "not answered from its sections": 1,
        "no short answer": 1,
    }


def test_a_section_that_the_answer_does_not_need_is_no_gold(corpus, tmp_path):
    base, other = Picker(load_library(str(corpus)), 0, (2,)).pick(0)
    figure, topic = FIGURE.search(other.text)[1], other.heading.lower()
    told = said(
        question=f"How long is it in the {topic} matter?", answer=f"{figure} days", sections=[base.id, other.id]
    )
    out = tmp_path / "qa.jsonl"
    make_qa(str(corpus), model(Quiz({base.id: told})), out, QAConfig(count=2, reads=(2,), unanswerable=0.0))
    first, second = rows_of(out)[1:]
    assert first["sections"] == [other.id] and first["kind"] == "made-1" and len(second["sections"]) == 2


def test_the_judge_filters_and_may_be_another_model(corpus, tmp_path):
    class Contrary(Quiz):
        def check(self, prompt):
            return said(answer="999 days")

    asking, judging = Quiz(), Contrary()
    made = make_qa(
        str(corpus), model(asking), tmp_path / "qa.jsonl", QAConfig(count=3, reads=(1,)), judge=model(judging, "judge")
    )
    assert made.questions == 0 and set(made.fates) == {"answered otherwise"}
    assert set(asking.kinds) == {"ask"} and set(judging.kinds) == {"check", "judge"}


def test_questions_that_were_asked_before_are_dropped(corpus, tmp_path):
    class Forgetful(Quiz):
        def ask(self, prompt):
            answer = json.loads(super().ask(prompt).splitlines()[-1])
            return said(**{**answer, "question": "How many days does the rule on amber give?"})

        def check(self, prompt):
            return said(answer=f"{prompt.split(' days')[0].split()[-1]} days")

    made = make_qa(str(corpus), model(Forgetful()), tmp_path / "qa.jsonl", QAConfig(count=2, reads=(1,)))
    assert made.questions == 1 and made.fates["asked before"] == made.attempts - 1 > 10


def test_unanswerable_questions_have_lost_their_section_and_nothing_else_answers_them(corpus, tmp_path):
    out = tmp_path / "qa.jsonl"
    made = make_qa(str(corpus), model(), out, QAConfig(count=20, reads=(1, 2), unanswerable=0.25))
    head, *rows = rows_of(out)
    blanks = [row for row in rows if row["metric"] == "abstain"]
    assert len(blanks) == made.unanswerable == 5 and len(head["removed"]) >= 1
    source = legal_source(str(out))
    library = source.library(source.get(source.splits[0], 0))
    assert not set(head["removed"]) & set(library.sections)
    for row in blanks:
        task = source.get(row["split"], row["id"])
        asked = [topic for topic in TOPICS if topic in task.question]
        texts = [section.text for section in library.sections.values()]
        assert any(not any(f"keeps a {topic} " in text for text in texts) for topic in asked)
        assert task.gold == ("I don't know",) and task.hidden.answer_sections == () and row["answers"] == []
    answered = [row for row in rows if row["metric"] != "abstain"]
    assert all(set(row["sections"]) <= set(library.sections) for row in answered)


def test_what_another_section_answers_is_not_called_unanswerable(corpus, tmp_path):
    class Knowing(Quiz):
        """Answers from whatever it is shown, the section itself or another."""

        def check(self, prompt):
            place = TOPICS.index(next(topic for topic in TOPICS if topic in prompt.rpartition("QUESTION:")[2]))
            return said(answer=f"{100 + place} days")

    made = make_qa(
        str(corpus), model(Knowing()), tmp_path / "qa.jsonl", QAConfig(count=10, reads=(1,), unanswerable=0.4)
    )
    assert made.questions == 10 and made.unanswerable == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from benchmarks.make_qa import QAConfig, make_qa, recording_beside
from tests.envs.legal_search.quizmaster import Quiz, model

class Deadly(Quiz):
    def __call__(self, request):
        if self.calls == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(request)

make_qa(sys.argv[1], model(Deadly()), Path(sys.argv[2]), QAConfig(count=12, reads=(1, 1, 2), unanswerable=0.2, concurrency=2))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("calls", [0, 5, 17, 35])
def test_a_killed_run_goes_on_and_pays_for_nothing_twice(corpus, tmp_path, calls):
    config = QAConfig(count=12, reads=(1, 1, 2), unanswerable=0.2, concurrency=2)
    (tmp_path / "whole").mkdir()
    whole = Quiz()
    make_qa(str(corpus), model(whole), tmp_path / "whole" / "qa.jsonl", config)
    (tmp_path / "killed").mkdir()
    out = tmp_path / "killed" / "qa.jsonl"
    command = [sys.executable, "-c", KILLED, str(corpus), str(out), str(calls)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, check=False, capture_output=True)
    assert ran.returncode == -signal.SIGKILL, ran.stderr.decode()
    assert not out.exists()
    calls_file = out.with_suffix(".calls.jsonl")
    paid = len(list(read_journal(calls_file)))
    rest = Quiz()
    make_qa(str(corpus), model(rest), out, config)
    assert out.read_bytes() == (tmp_path / "whole" / "qa.jsonl").read_bytes()
    assert calls - 2 <= paid <= calls and rest.calls <= len(list(read_journal(calls_file))) - paid + 2
    again = Quiz()
    make_qa(str(corpus), model(again), out, config)
    assert again.calls == 0


def test_a_larger_benchmark_goes_on_from_a_smaller_one(corpus, tmp_path):
    out, quiz = tmp_path / "qa.jsonl", Quiz()
    make_qa(str(corpus), model(quiz), out, QAConfig(count=4, reads=(1,), unanswerable=0.0, concurrency=1))
    before = quiz.calls
    made = make_qa(str(corpus), model(quiz), out, QAConfig(count=9, reads=(1,), unanswerable=0.0, concurrency=1))
    assert made.questions == 9 and quiz.calls == before + 5 * 3


def test_another_configuration_is_refused(corpus, tmp_path):
    out = tmp_path / "qa.jsonl"
    make_qa(str(corpus), model(), out, SMALL)
    with pytest.raises(UsageError, match="begun with another judge, model"):
        make_qa(str(corpus), model(name="other"), out, SMALL)
    with pytest.raises(UsageError, match="begun with another seed"):
        make_qa(str(corpus), model(), out, QAConfig(count=12, reads=(1, 1, 2), seed=1))


def test_a_service_that_dies_stops_the_run_and_one_bad_call_does_not(corpus, tmp_path):
    quiz = Quiz()

    def dying(request):
        if quiz.calls >= 7:
            raise EnvFault("the service is out", retryable=False)
        return quiz(request)

    out = tmp_path / "qa.jsonl"
    with pytest.raises(EnvFault, match="the service is out.*goes on"):
        make_qa(str(corpus), ScriptedChat(dying), out, replace(SMALL, concurrency=1))
    assert not out.exists()
    fates = Counter(row["fate"] for row in list(read_journal(out.with_suffix(".candidates.jsonl")))[1:])
    assert set(fates) == {"kept"}
    assert make_qa(str(corpus), model(quiz), out, SMALL).questions == 12

    refused = Picker(load_library(str(corpus)), 0, (1,)).pick(1)[0].id

    def picky(request):
        if f"ID: {refused}\n" in request.messages[-1]["content"]:
            raise EnvFault("refused", retryable=False)
        return quiz(request)

    other = tmp_path / "other.jsonl"
    made = make_qa(str(corpus), ScriptedChat(picky), other, QAConfig(count=6, reads=(1,), unanswerable=0.0))
    assert made.questions == 6 and made.fates["fault"] == 1


def test_a_judge_that_is_healed_goes_on_where_it_gave_no_verdict(corpus, tmp_path):
    class Silent(Quiz):
        def judge(self, prompt):
            return "I cannot say."

    def silent(request):
        return "I cannot say." if len(request.messages) > 1 else Silent()(request)

    def healed(request):
        return "YES" if len(request.messages) > 1 else Quiz()(request)

    out = tmp_path / "qa.jsonl"
    for _ in range(2):
        with pytest.raises(EnvFault, match="no verdict in two replies; the same command goes on"):
            make_qa(str(corpus), ScriptedChat(silent), out, SMALL)
    assert make_qa(str(corpus), ScriptedChat(healed), out, SMALL).questions == 12


def test_a_section_at_which_the_service_fails_is_not_taken_out(corpus, tmp_path):
    config = QAConfig(count=10, reads=(1,), unanswerable=0.2)
    make_qa(str(corpus), model(), tmp_path / "plain.jsonl", config)
    first, second = rows_of(tmp_path / "plain.jsonl")[0]["removed"]

    def failing(names):
        topics = [load_library(str(corpus)).read(name).heading.lower() for name in names]

        def script(request):
            prompt = request.messages[-1]["content"]
            question = prompt.rpartition("QUESTION: ")[2]
            if len(SHOWN.findall(prompt)) > 4 and any(f" {topic} " in question for topic in topics):
                raise EnvFault("refused", retryable=False)
            return Quiz()(request)

        return ScriptedChat(script)

    out = tmp_path / "qa.jsonl"
    made = make_qa(str(corpus), failing([first]), out, config)
    assert (made.questions, made.unanswerable) == (10, 2)
    removed = rows_of(out)[0]["removed"]
    assert first not in removed and second in removed

    out, every = tmp_path / "dead.jsonl", [name for name, one in load_library(str(corpus)).sections.items() if one.text]
    with pytest.raises(EnvFault, match="refused.*the same command goes on from here"):
        make_qa(str(corpus), failing(every), out, config)
    assert not out.exists()
    assert make_qa(str(corpus), model(), out, config).unanswerable == 2


def test_where_the_judge_gives_no_verdict_a_section_is_not_taken_out(corpus, tmp_path):
    class Guessing(Quiz):
        """Answers without the section, and its judge cannot tell."""

        def check(self, prompt):
            answer = super().check(prompt)
            return said(answer="a guess") if "know" in answer else answer

        def judge(self, prompt):
            return "I cannot say." if "a guess" in prompt else super().judge(prompt)

    quiz = Guessing()

    def script(request):
        return "I cannot say." if len(request.messages) > 1 else quiz(request)

    config = QAConfig(count=10, reads=(1,), unanswerable=0.2)
    made = make_qa(str(corpus), ScriptedChat(script), tmp_path / "qa.jsonl", config)
    assert (made.questions, made.unanswerable) == (10, 0)


def test_a_benchmark_of_a_changed_corpus_is_refused(corpus, tmp_path):
    out = tmp_path / "qa.jsonl"
    make_qa(str(corpus), model(), out, SMALL)
    corpus.write_text(corpus.read_text(encoding="utf-8").replace("town", "city"), encoding="utf-8")
    with pytest.raises(UsageError, match="not the library"):
        legal_source(str(out))


@pytest.mark.parametrize(
    ("answer", "answers", "metric"),
    [
        ("30 days", ("30", "30 days"), "numeric"),
        ("$1,200", ("1200", "$1,200"), "numeric"),
        ("12%", ("12", "12%"), "numeric"),
        ("1,2", ("1,2",), "em"),
        ("5 March 2014", ("5 March 2014",), "em"),
        ("28-3904", ("28-3904",), "em"),
        ("form B2", ("form B2",), "em"),
        ("the Office of Human Rights", ("the Office of Human Rights",), "f1"),
    ],
)
def test_how_an_answer_is_compared(corpus, answer, answers, metric):
    library = load_library(str(corpus))
    section = next(section.id for section in library.sections.values() if section.text)
    (row,) = benchmark_rows(library, {section: "dev"}, [Candidate(3, "kept", "What?", answer, (section,))], [])
    assert (tuple(row["answers"]), row["metric"]) == (answers, metric)


def test_a_question_that_lifts_eight_words_is_flawed_and_seven_are_not():
    section = Section("s 1", "", (), "section", "1", "", "one two three four five six seven eight nine ten")
    assert flaw("does one two three four five six seven hold?", "so", [section]) == ""
    assert flaw("does one two three four five six seven eight hold?", "so", [section]) == "the question quotes the text"
    assert flaw("what is said under s 1?", "so", [section]) == "the question points at the text"
    assert flaw("what is said under s 12?", "so", [section]) == ""


@pytest.mark.parametrize(
    "wrong", [{"count": 0}, {"reads": ()}, {"reads": (5,)}, {"unanswerable": 0.9}, {"concurrency": 0}]
)
def test_bad_settings(wrong):
    with pytest.raises(UsageError, match="make-qa"):
        QAConfig(**wrong)


def test_a_corpus_without_text_and_a_file_of_another_ending(tmp_path, corpus):
    (tmp_path / "thin.jsonl").write_text('{"id": "a", "heading": "x", "text": "short"}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="no section with text enough"):
        make_qa(str(tmp_path / "thin.jsonl"), model(), tmp_path / "qa.jsonl", SMALL)
    with pytest.raises(UsageError, match=r"must end in \.jsonl"):
        make_qa(str(corpus), model(), tmp_path / "qa.txt", SMALL)


PRICES = {"schema": "agent-envs/prices@1", "date": "2026-01-01", "source": "a test",
          "models": {"quiz": {"input": 10.0, "output": 0.0}, "check": {"input": 100.0, "output": 0.0}}}  # fmt: skip


def counted(quiz, name="openai:quiz"):
    """A model whose replies count 1,000 tokens: a cent at the first price, ten at the second."""
    return ScriptedChat(lambda request: ChatReply(quiz(request), usage={"input": 1_000, "calls": 1}), name)


def test_a_limit_on_the_cost_holds_over_both_models_and_over_runs(corpus, tmp_path):
    out, quiz, single = tmp_path / "qa.jsonl", Quiz(), replace(SMALL, reads=(1,), concurrency=1)
    table = PriceTable.model_validate(PRICES)

    def limited(most):
        models = [counted(quiz), counted(quiz, "openai:check")]
        return limited_chats(models, most, table, recording_beside(out))

    def made(most):
        asks, checks = limited(most)
        return make_qa(str(corpus), asks, out, single, judge=checks)

    # A question costs a cent, and twenty for its answer and its judge: the third call of the second one comes too late.
    with pytest.raises(BudgetSpent, match="0.3200 of 0.3000 USD"):
        made(0.30)
    assert quiz.calls == 5 and not out.exists()
    with pytest.raises(BudgetSpent, match="0.3200 of 0.3000 USD"):  # spent before
        made(0.30)
    assert quiz.calls == 5
    with pytest.raises(BudgetSpent):
        made(0.50)
    assert quiz.calls == 8
    assert made(100.0).questions == 12
    with pytest.raises(BudgetSpent):  # all that the work took is counted
        limited(quiz.kinds.count("ask") * 0.01 + (quiz.calls - quiz.kinds.count("ask")) * 0.10 - 1e-9)[0].complete(None)
    plain = tmp_path / "plain.jsonl"
    make_qa(str(corpus), counted(Quiz()), plain, single, judge=counted(Quiz(), "openai:check"))
    assert rows_of(out) == rows_of(plain)


def test_a_limit_needs_prices_and_counted_tokens(corpus, tmp_path):
    table, recorded = PriceTable.model_validate(PRICES), tmp_path / "none.jsonl"
    with pytest.raises(UsageError, match="no price is known for agent 'openai:other'"):
        limited_chats([counted(Quiz()), counted(Quiz(), "openai:other")], 1.0, table, recorded)
    with pytest.raises(UsageError, match="--max-cost 0"):
        limited_chats([counted(Quiz())], 0, table, recorded)
    (silent,) = limited_chats([model(name="openai:quiz")], 1.0, table, recorded)
    with pytest.raises(UsageError, match="counts no tokens"):
        make_qa(str(corpus), silent, tmp_path / "qa.jsonl", SMALL)


def test_the_command(corpus, tmp_path):
    quiz = Quiz()

    class Sampled:
        def __init__(self, body):
            self.messages = body["messages"]

    wire = OpenAIWire(lambda body: Said(text=quiz(Sampled(body))))
    out = tmp_path / "qa.jsonl"
    with FaultyServer(wire) as server:
        command = [sys.executable, "-m", "benchmarks.make_qa", str(corpus), "--model",
                   f"openai:quiz@{server.url}", "--out", str(out), "-n", "5", "--json"]  # fmt: skip
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path}
        ran = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        made = json.loads(ran.stdout)
        assert made["questions"] == 5 and made["usage"]["calls"] >= 10
        # 100 tokens a reply are a tenth of a cent; of four at a time, three may be under way when the fourth spends the last.
        (tmp_path / "prices.json").write_text(json.dumps(PRICES), encoding="utf-8")
        asked = server.count
        for most, least, calls in ((0.0001, 0, 0), ((asked + 3) * 0.001, 3, 7)):
            dear = [*command[:-2], "400", "--prices", str(tmp_path / "prices.json"), "--max-cost", str(most)]
            ran = subprocess.run(dear, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
            assert ran.returncode == 3 and "larger --max-cost goes on" in ran.stderr and not ran.stdout
            assert least <= server.count - asked <= calls
        more = [*command[:-2], "400"]
        ran = subprocess.run(more, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    assert ran.returncode == 3 and " questions (" in ran.stdout and "asked before" in ran.stdout
    assert legal_source(str(out)).size("train") > 10
