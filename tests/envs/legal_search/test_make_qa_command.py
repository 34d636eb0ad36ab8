"""`python -m benchmarks.make_qa` where it goes wrong: servers that hang, files that cannot be written."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from agent_envs.base.errors import UsageError
from agent_envs.envs.legal_search.published import FORMAT, legal_source, load_library
from benchmarks.make_qa import QAConfig, make_qa
from benchmarks.qa_candidates import flaw
from tests.cli.conftest import ROOT
from tests.envs.legal_search.quizmaster import Quiz, model, said, write_nodes
from tests.services.chat.faulty import FaultyServer
from tests.services.chat.wire import OpenAIWire, Said


@pytest.fixture
def corpus(tmp_path):
    return write_nodes(tmp_path / "nodes.jsonl")


def begun(corpus, out, url, *more):
    command = [sys.executable, "-m", "benchmarks.make_qa", str(corpus), "--model", f"openai:quiz@{url}",
               "--out", str(out), *more]  # fmt: skip
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "no_proxy": "127.0.0.1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_the_second_interrupt_leaves_at_once_while_a_server_hangs(corpus, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        process = begun(corpus, tmp_path / "qa.jsonl", f"http://127.0.0.1:{server.getsockname()[1]}", "-n", "3")
        held = [server.accept()[0]]  # an attempt is under way, and is never answered
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "stopping: running attempts finish first; Ctrl-C again leaves at once\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        process.stderr.close()
        held[0].close()


@pytest.mark.parametrize("place", ["folder.jsonl", "file/qa.jsonl", "link.jsonl", "journal.jsonl"])
def test_a_file_that_cannot_be_written_is_told_before_anything_is_asked(corpus, tmp_path, place):
    for name in ("folder.jsonl", "link", "journal.candidates.jsonl"):
        (tmp_path / name).mkdir()
    (tmp_path / "link.jsonl").symlink_to("link")
    (tmp_path / "file").write_text("")
    quiz = Quiz()
    with pytest.raises(UsageError, match="is a folder|cannot be written"):
        make_qa(str(corpus), model(quiz), tmp_path / place, QAConfig(count=3))
    assert quiz.calls == 0


def test_a_benchmark_behind_a_linked_folder_finds_its_library(corpus, tmp_path):
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "near").symlink_to("far/away")
    (tmp_path / "far" / "laws").symlink_to("..")
    for library in (corpus, tmp_path / "far" / "laws" / corpus.name):
        out = tmp_path / "near" / "qa.jsonl"
        made = make_qa(str(library), model(), out, QAConfig(count=3, unanswerable=0.0))
        for path in (out, tmp_path / "far" / "away" / "qa.jsonl"):
            source = legal_source(str(path))
            assert sum(source.size(split) for split in source.splits) == made.questions == 3


def test_question_files_whose_libraries_lead_in_a_circle_are_refused(tmp_path):
    for name, library in (("a", "a.jsonl"), ("b", "c.jsonl"), ("c", "./b.jsonl")):
        head = {"format": FORMAT, "library": library, "digest": "0", "removed": []}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(head) + "\n")
    for read in (legal_source, load_library):
        for name in "abc":
            with pytest.raises(UsageError, match=rf"{name}\.jsonl: the file that it names as its library leads back"):
                read(str(tmp_path / f"{name}.jsonl"))


def test_a_question_file_may_be_the_library_of_another(corpus, tmp_path):
    config = QAConfig(count=3, unanswerable=0.0)
    make_qa(str(corpus), model(), tmp_path / "one.jsonl", config)
    assert make_qa(str(tmp_path / "one.jsonl"), model(), tmp_path / "two.jsonl", config).questions == 3
    assert load_library(str(tmp_path / "two.jsonl")).digest == load_library(str(corpus)).digest


def test_questions_and_answers_have_a_most_of_characters():
    assert flaw("Who is it" + "x" * 2_000, "Ann", ()) == "the question is too long"
    assert flaw("Who is it?", "A" * 401, ()) == "no short answer"
    assert flaw("Who is it?" + "x" * 1_990, "A" * 400, ()) == ""


def test_it_is_told_where_too_few_unanswerable_questions_could_be_made(corpus, tmp_path):
    quiz = Quiz()

    def script(body):
        prompt = body["messages"][-1]["content"]
        if "CANDIDATE:" in prompt:
            return Said(text="YES")  # any answer will do, with the section or without it
        return Said(text=quiz.ask(prompt) if "exam questions" in prompt else said(answer="5 days"))

    with FaultyServer(OpenAIWire(script)) as server:
        process = begun(corpus, tmp_path / "qa.jsonl", server.url, "-n", "5", "--unanswerable", "0.4")
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "note: 0 of 2 unanswerable questions could be made" in " ".join(told.split())
