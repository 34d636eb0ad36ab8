"""Local servers and their surprises: each is met, told in words, and none becomes a wrong number."""

import json
import re
import time

import pytest

from agent_envs.base.dialects import CUT_SHORT
from agent_envs.base.errors import UsageError
from agent_envs.base.jsonl_log import read_journal
from agent_envs.evaluation.html.view import write_view
from agent_envs.evaluation.report.report import report_on, result_notes
from agent_envs.evaluation.runs import live
from agent_envs.evaluation.runs.evaluate import evaluate, resume
from agent_envs.evaluation.runs.run_folder import Settings, open_run
from agent_envs.evaluation.submission.pack import pack_run
from agent_envs.evaluation.suites.plan import Choice, adhoc_suite
from agent_envs.evaluation.suites.suite import Suite
from agent_envs.evaluation.verification.verify import How, verify
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
    write_view(run.folder, run.folder / "view")
    pages = [path.read_text(encoding="utf-8") for path in (run.folder / "view").rglob("*.html")]
    assert sum(page.count("finish reason: length") for page in pages) == 24


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


def test_a_refusal_ends_an_episode_is_told_as_its_own_share_and_steps_again(tmp_path):
    """The first turn acts and the second is refused: two calls an episode, no fault, and nothing to ask again."""
    server = LocalServer("<search>who</search>")
    server.say = lambda body: (
        setattr(server, "finish", ("stop", "content_filter")[len(body["messages"]) > 2]),
        "<search>who</search>",
    )[1]
    suite = Suite(**{**dict(adhoc_suite(Choice("SearchQA", SMALL, limit=2))), "id": "refused", "scored": True})
    with FaultServer(server) as http:
        result = evaluate(suite, Settings(f"openai:m@{http.url}"), folder=tmp_path / "run")
        assert resume(tmp_path / "run").complete
    assert len(server.bodies) == 4 and result.summaries[0].faults == 0
    assert (
        result.summaries[0].outcomes == {"refused": 2}
        and result.to_json()["metrics"]["refused"]["played"]["mean"] == 1.0
    )
    assert any("2 of 2 episodes ended in a refusal by the model or a filter" in note for note in result_notes(result))
    last = [row.result.trajectory.last for row in open_run(tmp_path / "run").rows()]
    assert [(turn.action, turn.outcome, turn.truncated) for turn in last] == [("", "refused", True)] * 2
    pack_run(tmp_path / "run", tmp_path / "packed")
    verdict = verify(tmp_path / "packed", How(suite, jobs=0))
    assert verdict.verdict == "accepted" and verdict.score.value == 0


def test_a_cut_action_is_none_and_equal_ones_end_an_episode(tmp_path):
    server = LocalServer("<answer>The answer might", finish="length")
    suite = adhoc_suite(Choice("SearchQA", {**SMALL, "max_generations": 30}, limit=1))
    suite = Suite(**{**dict(suite), "id": "cut", "scored": True})
    with FaultServer(server) as http, pytest.warns(UserWarning, match="10 equal turns without an action in a row"):
        result = evaluate(suite, Settings(f"openai:m@{http.url}"), folder=tmp_path / "run")
    assert len(server.bodies) == 20 and result.summaries[0].outcomes == {"unreadable": 1}
    [row] = open_run(tmp_path / "run").rows()
    assert {turn.parsed.reason for turn in row.result.trajectory.turns} == {CUT_SHORT}
    pack_run(tmp_path / "run", tmp_path / "packed")
    assert verify(tmp_path / "packed", How(suite, jobs=0)).verdict == "accepted"


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


TAU2 = Choice("Tau2Retail", limit=1)


def answered(handler, choice=TAU2, agent="openai:m", **options):
    """Play with a server; return what was told, and the bodies of its calls."""
    lines = []
    with FaultServer(handler) as server:
        settings = Settings(f"{agent}@{server.url}", options)
        evaluate(adhoc_suite(choice), settings, tell=lines.append)
    return lines, handler.bodies


def roles(body):
    return [message["role"] for message in body["messages"]]


@pytest.mark.parametrize("shown", [False, None])
def test_tools_that_a_template_leaves_out_or_a_server_refuses_are_written_as_text(shown):
    call = '<tool_call>\n{"name": "find_user_id_by_email", "arguments": {"email": "a@b.c"}}\n</tool_call>'
    lines, bodies = answered(LocalServer(call, shows_tools=shown))
    assert "server: tools do not reach its prompts, so they are written into the system message (tools=text)" in lines
    asked, played = bodies[:2], bodies[2:]
    assert [("tools" in body, body["max_tokens"]) for body in asked] == [(False, 1), (True, 1)] and len(played) > 1
    assert not any("tools" in body for body in played) and all(roles(body)[:2] == ["system", "user"] for body in played)
    assert all(body["messages"][0]["content"].count('"name":"find_user_id_by_email"') == 1 for body in played)
    assert call in played[1]["messages"][-2]["content"] and roles(played[1])[-1] == "user"  # and back as text


def test_tools_that_reach_the_prompt_stay_native():
    lines, bodies = answered(LocalServer("Hello."))
    assert all(body.get("tools") for body in bodies[1:]) and not any("tools" in line for line in lines)


def test_without_counts_nobody_can_tell_about_tools():
    lines, bodies = answered(LocalServer("Hello.", counts=False))
    assert bodies[-1]["tools"] and any("tools reach its prompts is not known" in line for line in lines)


@pytest.mark.parametrize("form", ["native", "text"])
def test_who_chooses_how_tools_are_sent_is_not_second_guessed(form):
    lines, bodies = answered(LocalServer("Hello.", shows_tools=form == "text"), tools=form)
    assert all(("tools" in body) is (form == "native") and body["max_tokens"] > 1 for body in bodies)
    assert not any("tools" in line for line in lines)


def test_only_environments_with_native_tools_have_the_question_asked():
    _, bodies = answered(LocalServer(shows_tools=False), Choice("SearchQA", SMALL, limit=1))
    assert len(bodies) == 1


@pytest.mark.parametrize(
    ("listing", "context", "line"),
    [
        ({"max_model_len": 4096}, 0, "server: a context of 4,096 tokens"),
        ({"context_window": 2048}, 0, "server: a context of 2,048 tokens"),
        (
            {"meta": {"n_ctx_train": 8192}},
            1024,
            "server: a context of 1,024 tokens",
        ),  # llama.cpp's slot, and not the model
        ({"meta": {"n_ctx_train": 8192}}, 0, "server: a context of 8,192 tokens"),
        (
            {"max_model_len": True, "context_length": 10**400, "context_window": 512},
            0,
            "server: a context of 512 tokens",
        ),
    ],
)
def test_the_context_is_told_where_a_server_does(listing, context, line):
    server = LocalServer(listing=listing, context=context, refusal=REFUSALS["llama.cpp"])
    assert line in answered(server, Choice("SearchQA", SMALL, limit=1))[0]


def test_a_model_that_the_server_has_not_is_one_line():
    with pytest.raises(UsageError, match="the server has no such model; it has other, another"):
        answered(LocalServer(models=("other", "another")))
    assert answered(LocalServer(models=("m:latest", "n")))[1]  # ollama's way to list it
    assert answered(LocalServer(models=("folder/m.gguf",), listing={"aliases": ["m"]}))[1]  # and llama.cpp's


def test_no_pilot_where_there_is_no_price(tmp_path):
    lines, suite = [], adhoc_suite(Choice("SearchQA", SMALL, limit=5))
    with FaultServer(LocalServer()) as http:
        evaluate(suite, Settings(f"openai:m@{http.url}"), folder=tmp_path / "run", tell=lines.append)
    assert not any("estimate" in line for line in lines)


@pytest.mark.parametrize("continues", [True, "echo"])
def test_a_native_prefill_is_the_last_message_and_stands_in_the_reply_once(continues, tmp_path):
    suite = adhoc_suite(Choice("SearchQA", SMALL, limit=1, turn_limits=(0,)))
    server = LocalServer("Riga</answer>", continues=continues)
    with FaultServer(server) as http:
        evaluate(suite, Settings(f"openai:m@{http.url}", {"prefill": "native"}), folder=tmp_path / "run")
    [body] = server.bodies
    assert body["messages"][-1] == {"role": "assistant", "content": "<answer>"} and roles(body)[-2] == "user"
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert "Begin your reply" not in json.dumps(body)
    [row] = open_run(tmp_path / "run").rows()
    assert row.result.trajectory.last.action == "<answer>Riga</answer>"


def test_without_it_a_prefill_is_asked_for_in_words():
    _, [body] = answered(LocalServer("<answer>Riga</answer>"), Choice("SearchQA", SMALL, limit=1, turn_limits=(0,)))
    assert "Begin your reply with <answer>" in body["messages"][-1]["content"] and "continue_final_message" not in body


def test_a_run_without_an_end_in_sight_tells_that_it_lives(monkeypatch):
    monkeypatch.setattr(live, "FIRST_SECONDS", 0.2)

    def slowly(body):
        time.sleep(0.15)
        return "<search>who</search>"

    lines, _ = answered(LocalServer(slowly), Choice("SearchQA", SMALL, limit=1))
    signs = [line for line in lines if line.startswith("no episode has ended for")]
    assert 1 <= len(signs) <= 3
    calls, turns, tokens = map(int, re.search(r"so far (\d+) calls, (\d+) turns, (\d+) tokens", signs[-1]).groups())
    assert calls - 1 <= turns <= calls <= 6 and turns and tokens > 50 * turns


def test_the_first_replies_without_a_valid_action_are_shown_as_they_came():
    lines, _ = answered(
        LocalServer("The \x1b[31mend\nis 2. \u202e", finish="length"), Choice("SearchQA", SMALL, limit=2)
    )
    shown = [line for line in lines if line.startswith("reply without a valid action")]
    assert [line[:35] for line in shown] == [f"reply without a valid action, {n} of " for n in (1, 2, 3)]
    assert {line.partition(" shown ")[2] for line in shown} == {
        "(finish_reason length): The \\x1b[31mend\\nis 2. \\u202e"
    }
    lines, _ = answered(LocalServer("x" * 5_000), Choice("SearchQA", SMALL, limit=1))
    assert lines[-1].endswith(f"{'x' * 400} [5,000 characters in all]") and len(lines[-1]) < 600


def test_built_in_agents_are_not_shown_so():
    lines = []
    evaluate(adhoc_suite(Choice("SearchQA", SMALL, limit=2)), Settings("null"), tell=lines.append)
    assert lines == []


def test_calls_of_the_conversation_hold_no_null():
    """Chat templates raise at it."""
    script = iter(["", *["Hello."] * 50])
    call = {"id": "c", "type": "function", "function": {"name": "list_all_product_types", "arguments": "{}"}}
    server = LocalServer(None)
    server.say = lambda body: (
        server.message.update(tool_calls=[call] if "" == (text := next(script)) else None),
        text,
    )[1]
    _, bodies = answered(server, tools="native")
    said = [message for body in bodies for message in body["messages"] if message.get("tool_calls")]
    assert said and all(message["content"] == "" for message in said)


def test_a_pilot_is_watched_once(tmp_path, monkeypatch):
    """Its episodes are played before the rest and come again from the journal."""
    table = {"schema": "agent-envs/prices@1", "date": "2026-01-01", "source": "a test",
             "models": {"m": {"input": 1.0, "output": 1.0}}}  # fmt: skip
    (tmp_path / "prices.json").write_text(json.dumps(table))
    lines, suite = [], adhoc_suite(Choice("SearchQA", SMALL, limit=5))
    said = iter(["prose", *["<answer>x</answer>"] * 50])
    with FaultServer(LocalServer(lambda body: next(said))) as http:
        settings = Settings(f"openai:m@{http.url}", prices=str(tmp_path / "prices.json"))
        evaluate(suite, settings, folder=tmp_path / "run", tell=lines.append)
    assert sum("estimate from 3 episodes" in line for line in lines) == 1
    assert sum(line.startswith("reply without a valid action") for line in lines) == 1
