"""Local servers and their surprises: each is met, told in words, and none becomes a wrong number."""

import json

import pytest

from agent_envs.base.jsonl_log import read_journal
from agent_envs.evaluation.report.report import report_on, result_notes
from agent_envs.evaluation.runs.evaluate import evaluate, resume
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import Suite
from leaderboard.verify import How, verify
from tests.servers import FaultServer
from tests.services.chat.local import LocalServer

SMALL = {"world": {"passages": 60, "questions_per_world": 2}}
REFUSALS = {
    "llama.cpp": '{"error":{"code":400,"message":"request (%(prompt)d tokens) exceeds the available context size (%(context)d '
    'tokens), try increasing it","n_ctx":%(context)d,"n_prompt_tokens":%(prompt)d,"type":"exceed_context_size_error"}}',
    "vllm": '{"object":"error","message":"This model\'s maximum context length is %(context)d tokens. However, you requested '
    '9999 tokens (%(prompt)d in the messages, 64 in the completion). Please reduce the length of the messages."}',
    "sglang": '{"message":"The input (%(prompt)d tokens) is longer than the model\'s context length (%(context)d tokens)."}',
    "openai": '{"error":{"message":"This model\'s maximum context length is %(context)d tokens. However, your messages '
    'resulted in %(prompt)d tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}',
}


@pytest.fixture
def play(tmp_path):
    """A function that plays tasks of SearchQA, or a suite, with a model behind a server, and returns run and result."""

    def played(handler, suite=None, **options):
        with FaultServer(handler) as server:
            settings = Settings(f"openai:m@{server.url}", options)
            suite = suite or adhoc_suite(Choice("SearchQA", SMALL, limit=4))
            result = evaluate(suite, settings, folder=tmp_path / "run")
        return open_run(tmp_path / "run"), result

    return played


def test_replies_that_are_cut_are_counted_and_named_in_place_of_the_format(play):
    run, result = play(LocalServer("<think>I have to", finish="length"), max_tokens=64)
    turns = [turn for row in run.rows() for turn in row.result.trajectory.turns]
    assert {turn.finish_reason for turn in turns} == {"length"} and len(turns) == 24
    [note] = result_notes(result)
    assert note.endswith(
        "24 of 24 replies were cut at max_tokens=64; 24 of them thought until the end without an answer"
    )
    assert result.to_json()["metrics"]["cut_replies"]["played"]["mean"] == 6.0
    assert note in report_on(run).notes


def test_a_format_that_is_wrong_is_still_told_where_few_replies_are_cut(play):
    replies = iter(["length", *["stop"] * 23])
    server = LocalServer("prose")
    server.say = lambda body: (setattr(server, "finish", next(replies)), "prose")[1]
    _, result = play(server)
    cut, form = result_notes(result)
    assert cut.endswith("1 of 24 replies were cut at max_tokens=1024") and "tells about the format" in form


def test_a_server_that_only_thinks_is_told_so(play):
    _, result = play(LocalServer(None, finish="length", reasoning_content="Let me see, the"), max_tokens=9)
    assert "24 of them thought until the end" in result_notes(result)[0]


def test_a_journal_without_finish_reasons_is_as_it_was(play):
    run, _ = play(LocalServer(finish=None))
    assert b"finish_reason" not in (run.folder / "journal.jsonl").read_bytes()
    assert "cut_replies" not in json.dumps(run.numbers()[0].metrics)


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_full_context_ends_an_episode_by_the_agents_limit(play, kind, tmp_path):
    server = LocalServer("<search>who</search>", context=150, refusal=REFUSALS[kind])
    run, result = play(server)
    assert result.complete and result.summaries[0].faults == 0
    assert result.summaries[0].outcomes == {"context full": 4} and result.summaries[0].success.value == 0
    [note] = result_notes(result)
    longest = max(map(server.size, server.bodies))
    assert (
        f"4 of 4 episodes ended because the context was full and count 0 (prompt {longest} tokens, context 150)" in note
    )
    assert "raise the server's context or use Memory" in note
    last = [row.result.trajectory.last for row in run.rows()]
    assert all(turn.truncated and turn.action == "" for turn in last)
    calls = len(server.bodies)
    assert resume(run.folder).complete and len(server.bodies) == calls  # nothing is left to ask


def test_a_first_prompt_that_does_not_fit_is_an_episode_too_and_steps_again(tmp_path):
    server = LocalServer(context=9, refusal=REFUSALS["llama.cpp"])
    suite = Suite(**{**dict(adhoc_suite(Choice("SearchQA", SMALL, limit=2))), "id": "full", "scored": True})
    with FaultServer(server) as http:
        result = evaluate(suite, Settings(f"openai:m@{http.url}"), folder=tmp_path / "run")
    assert result.summaries[0].outcomes == {"context full": 2} and result.summaries[0].mean_turns == 1
    pack_run(tmp_path / "run", tmp_path / "packed")
    verdict = verify(tmp_path / "packed", How(suite, jobs=0))
    assert verdict.verdict == "accepted" and verdict.score.value == 0


def test_tokens_that_nobody_counts_are_null_and_not_nothing(play):
    run, result = play(LocalServer(counts=False))
    rows = read_journal(run.folder / "journal.jsonl")
    assert [row["usage"] for row in rows if "usage" in row] == [
        {"calls": 1, "uncounted": 1, "input": None, "output": None}
    ] * 4
    assert result.summaries[0].usage == {"calls": 4, "uncounted": 4} and result.cost_usd is None
    assert [note for note in result_notes(result) if "count" in note] == [
        f"{result.summaries[0].entry}: 4 replies came without a count of their tokens: tokens and cost are not known"
    ]
    assert all("input" not in row.usage for row in run.numbers())
